"""Short HTML for notebooks: a card with a heading, lines of text and a table that may have bars.

All text is escaped; styles are inline and inherit colours, so that cards suit light and dark pages.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TypeAlias

from perceptrank.io.names import printable

RISING, FALLING, OTHER = "#0072B2", "#D55E00", "#8a8a8a"  # of Okabe and Ito's palette, as plots are
SIGN_COLORS = {"+": RISING, "-": FALLING, "±": OTHER}
_WIDTH = 120  # of the longest bar, in pixels
_LEFT, _RIGHT = (f"padding:1px 8px;text-align:{side};border:0;background:none" for side in ("left", "right"))


@dataclass(frozen=True)
class Bar:
    """A bar of a length from 0 to 1, in a colour."""

    length: float
    color: str = OTHER


CardCell: TypeAlias = str | float | Bar | None


def card(
    title: str,
    lines: Sequence[str],
    headings: Sequence[str] = (),
    rows: Sequence[Sequence[CardCell]] = (),
    below: Sequence[str] = (),
) -> str:
    """Return a card: a heading, lines, a table with columns of numbers to the right, and lines below it.

    >>> "&lt;b&gt;" in card("<b>", [], ["name", ""], [["<i>", Bar(0.5)]])
    True
    """
    head = "".join(
        f'<th style="{_RIGHT if any(_is_right(row[k]) for row in rows) else _LEFT};opacity:.75">{_safe(heading)}</th>'
        for k, heading in enumerate(headings)
    )
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    table = f'<table style="border:0;margin:.4em 0"><tr>{head}</tr>{body}</table>' if rows else ""
    style = (
        "display:inline-block;border:1px solid rgba(128,128,128,.4);border-radius:6px;padding:.5em .8em;max-width:60em"
    )
    heading = f'<div style="font-weight:600">{_safe(title)}</div>'
    return f'<div style="{style}">{heading}{_paragraphs(lines)}{table}{_paragraphs(below)}</div>'


def _paragraphs(lines: Sequence[str]) -> str:
    return "".join(f'<div style="opacity:.75">{_safe(line)}</div>' for line in lines)


def _is_right(cell: CardCell) -> bool:
    return isinstance(cell, float) or (isinstance(cell, str) and cell.endswith(" %"))


def _safe(text: str) -> str:
    return escape(printable(text))


def _cell(cell: CardCell) -> str:
    if isinstance(cell, Bar):
        width = round(_WIDTH * min(1.0, cell.length)) if cell.length > 0 else 0  # nor for NaN
        html = f'<div style="height:.7em;width:{width}px;background:{cell.color};border-radius:2px"></div>'
    else:
        html = "" if cell is None else _safe(cell if isinstance(cell, str) else f"{cell + 0.0:.4g}")
    return f'<td style="{_RIGHT if _is_right(cell) else _LEFT}">{html}</td>'
