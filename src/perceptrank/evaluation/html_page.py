"""HTML pages and tables with one look, which open from disk and load nothing from the network."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import NamedTuple

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
    """Format a table that scrolls horizontally if it is too wide; headings are aligned as the first row is."""
    aligned = [
        number(heading) if isinstance(heading, str) and isinstance(cell, Cell) and cell.is_number else heading
        for heading, cell in zip(headings, rows[0] if rows else headings, strict=True)
    ]
    head = "".join(_format_cell("th", cell) for cell in aligned)
    body = "".join(f"<tr>{''.join(_format_cell('td', cell) for cell in row)}</tr>" for row in rows)
    above = f'<p class="caption">{escape(caption)}</p>' if caption else ""
    return f'{above}<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _format_cell(tag: str, cell: str | Cell) -> str:
    if isinstance(cell, Cell):
        text = cell.html or escape(cell.text)
        names = " ".join(name for name, wanted in (("number", cell.is_number), ("best", cell.is_best)) if wanted)
    else:
        text, names = escape(cell), "name" if len(cell) < 40 else ""
    return f'<{tag} class="{names}">{text}</{tag}>' if names else f"<{tag}>{text}</{tag}>"


def number(text: str, *, is_best: bool = False) -> Cell:
    """Make a right-aligned cell."""
    return Cell(text, True, is_best)


def spread(values: Floats, best: float) -> Cell:
    """Format mean ± standard deviation over seeds; bold if the mean equals the best one to the digits shown."""
    mean = f"{values.mean():.3f}"
    deviation = f" ± {np.std(values, ddof=1):.3f}" if len(values) > 1 else ""
    return number(mean + deviation, is_best=mean == f"{best:.3f}")


# Says so where a table is wider than the page, and lets the keyboard scroll it.
_WIDE_TABLES = """<script>
for (const table of document.querySelectorAll(".wide")) {
  new ResizeObserver(() => {
    const scrolls = table.scrollWidth > table.clientWidth + 1;
    table.classList.toggle("scrolls", scrolls);
    if (scrolls) table.tabIndex = 0; else table.removeAttribute("tabindex");
  }).observe(table);
}
</script>
"""


class Section(NamedTuple):
    """A part of a page: the name that links have, its title, and its HTML."""

    name: str
    title: str
    html: str


def html_page(
    title: str, lead: str, before: str, sections: Sequence[Section], after: str = "", more_css: str = ""
) -> str:
    """Put a page together: a header with the lead, contents, what stands before the sections, these, and scripts."""
    contents = "".join(f'<li><a href="#{part.name}">{escape(part.title)}</a></li>' for part in sections)
    body = "".join(f'<section id="{part.name}"><h2>{escape(part.title)}</h2>{part.html}</section>' for part in sections)
    look = files("perceptrank.evaluation").joinpath("page.css").read_text(encoding="utf-8") + more_css
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{escape(title)}</title>\n<link rel="icon" href="data:,">\n'
        f"<style>\n{look}</style>\n</head>\n<body>\n<main>\n"
        f"<header><h1>{escape(title)}</h1>{lead}</header>\n"
        f'<nav aria-label="Contents"><ul>{contents}</ul></nav>\n{before}\n{body}\n</main>\n'
        f"{_WIDE_TABLES}{after}</body>\n</html>\n"
    )
