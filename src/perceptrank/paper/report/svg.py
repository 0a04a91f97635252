"""Small pieces of SVG; the page has their look."""

from html import escape


def text(x: float, y: float, words: str, kind: str, anchor: str = "start") -> str:
    """Place words."""
    placed = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text class="{kind}" x="{x:.4g}" y="{y:.4g}"{placed}>{escape(words)}</text>'


def drawing(width: int, height: int, label: str, parts: list[str]) -> str:
    """Put parts together; the label is for those who do not see them."""
    size = f'viewBox="0 0 {width} {height}"'
    return f'<svg class="drawn" {size} role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'
