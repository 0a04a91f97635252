"""HTML pages with one look, which open from disk and load nothing from the network."""

from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import NamedTuple

# Says so where a table is wider than the page, and lets the keyboard scroll it.
_WIDE_TABLES = """<script>
for (const one of document.querySelectorAll(".wide")) {
  new ResizeObserver(() => {
    const scrolls = one.scrollWidth > one.clientWidth + 1;
    one.classList.toggle("scrolls", scrolls);
    if (scrolls) one.tabIndex = 0; else one.removeAttribute("tabindex");
  }).observe(one);
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
    contents = "".join(f'<li><a href="#{one.name}">{escape(one.title)}</a></li>' for one in sections)
    body = "".join(f'<section id="{one.name}"><h2>{escape(one.title)}</h2>{one.html}</section>' for one in sections)
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
