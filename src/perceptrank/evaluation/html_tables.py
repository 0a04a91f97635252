"""HTML tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from perceptrank.kernels.arrays import Floats


@dataclass(frozen=True)
class Cell:
    """Text of a table cell, or what stands there as HTML, and its style."""

    text: str
    is_number: bool = False
    is_best: bool = False
    html: str = ""


def table(headings: Sequence[str | Cell], rows: Sequence[Sequence[str | Cell]], caption: str = "") -> str:
    """Format a table that scrolls horizontally if it is too wide."""
    head = "".join(f"<th{_classes(one)}>{_text(one)}</th>" for one in headings)
    body = "".join("<tr>" + "".join(f"<td{_classes(one)}>{_text(one)}</td>" for one in row) + "</tr>" for row in rows)
    above = f'<p class="caption">{escape(caption)}</p>' if caption else ""
    return f'{above}<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _text(cell: str | Cell) -> str:
    if isinstance(cell, Cell):
        return cell.html or escape(cell.text)
    return escape(cell)


def _classes(cell: str | Cell) -> str:
    if not isinstance(cell, Cell):
        return ' class="name"' if len(cell) < 40 else ""
    names = [name for name, wanted in (("number", cell.is_number), ("best", cell.is_best)) if wanted]
    return f' class="{" ".join(names)}"' if names else ""


def number(text: str, *, is_best: bool = False) -> Cell:
    """Make a right-aligned cell."""
    return Cell(text, True, is_best)


def spread(values: Floats, best: float, digits: int = 3) -> Cell:
    """Format mean ± standard deviation over seeds; bold if the mean equals the best one to the digits shown."""
    mean = f"{values.mean():.{digits}f}"
    deviation = f" ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else ""
    return number(mean + deviation, is_best=mean == f"{best:.{digits}f}")
