"""Text for terminals of some width: tables that line up, bars and curves."""

from typing import TYPE_CHECKING

import numpy as np

from perceptrank.io.names import one_line

if TYPE_CHECKING:
    from perceptrank.deploy.explanation.effects import Curve

GAP = "  "
LONGEST_NAME, _LEAST_NAME = 28, 8
_BAR, _LEAST_BAR = 16, 6
_SPARKS = "▁▂▃▄▅▆▇█"
_PARTS = " ▏▎▍▌▋▊▉█"  # eighths of a bar's last place


def table(heads: list[str], cells: list[list[str]], right: list[bool], width: int) -> list[str]:
    """Return lines of a table from its columns.

    If it is too wide, headings stand on several lines, names in the first column of text are clipped, and columns are
    left out from the right, in this order.
    """
    names, columns = right.index(False), [[one_line(cell) for cell in column] for column in cells]
    titles = [[head] for head in heads]
    if _whole(titles, columns) > width - _LEAST_BAR:
        titles = [head.split() or [""] for head in heads]
    least = min(_LEAST_NAME, max(map(width_of, columns[names]), default=0))
    while len(titles) > 2 and _whole(titles, columns) - max(0, _size(titles[names], columns[names]) - least) > width:
        titles, columns = titles[:-1], columns[:-1]
    sizes = [_size(title, column) for title, column in zip(titles, columns, strict=True)]
    others = sum(sizes) - sizes[names] + len(GAP) * (len(sizes) - 1)
    room = max(width - others - len(GAP) - _LEAST_BAR, LONGEST_NAME)  # long names may take the place of bars
    sizes[names] = min(sizes[names], room, max(least, width - others))
    height = max(map(len, titles))
    rows = [*zip(*([""] * (height - len(title)) + title for title in titles), strict=True), *zip(*columns, strict=True)]
    lines = []
    for row in rows:
        shapes = zip(row, sizes, right, strict=False)
        fitted = [pad(clip(cell, size), size, to_right=to_right) for cell, size, to_right in shapes]
        lines.append(GAP.join(fitted).rstrip())
    return lines


def _size(title: list[str], column: list[str]) -> int:
    return max(map(width_of, [*title, *column]))


def _whole(titles: list[list[str]], columns: list[list[str]]) -> int:
    return sum(_size(*pair) + len(GAP) for pair in zip(titles, columns, strict=True)) - len(GAP)


def add_bars(lines: list[str], shares: list[float], width: int) -> list[str]:
    """Draw a bar behind each of the last lines, if there is room."""
    room = min(_BAR, width - max(map(width_of, lines)) - len(GAP))
    if room < _LEAST_BAR:
        return lines
    return beside(lines, [""] * (len(lines) - len(shares)) + [bar(share, room) for share in shares])


def beside(lines: list[str], others: list[str]) -> list[str]:
    """Put text behind each line, where the longest ends."""
    widest = max(map(width_of, lines))
    return [f"{pad(line, widest)}{GAP}{other}".rstrip() for line, other in zip(lines, others, strict=True)]


def number(value: float | None) -> str:
    """Write a number in four digits."""
    return "" if value is None else f"{value + 0.0:.4g}"


def bar(share: float, length: int) -> str:
    """Draw a bar, in eighths of a character.

    Examples
    --------
    >>> bar(1.0, 3), bar(0.5, 3), bar(0.0, 3)
    ('███', '█▌', '')
    """
    eighths = round(8 * length * min(1.0, max(0.0, share)))
    return ("█" * (eighths // 8) + _PARTS[eighths % 8]).rstrip()


def spark(curve: "Curve") -> str:
    """Draw a curve as a line of characters."""
    values = curve.values
    if len(values) > 16:
        values = values[np.linspace(0, len(values) - 1, 16).round().astype(int)]
    low, high = float(values.min()), float(values.max())
    levels = np.zeros(len(values)) if high == low else (values - low) / (high - low)
    return "".join(_SPARKS[min(7, int(8 * level))] for level in levels)


def width_of(text: str) -> int:
    """Return how many places of a terminal some text takes: two for most Asian scripts."""
    from rich.cells import cell_len

    return cell_len(text)


def pad(text: str, size: int, *, to_right: bool = False) -> str:
    """Fill text up to so many places."""
    blank = " " * max(0, size - width_of(text))
    return blank + text if to_right else text + blank


def clip(text: str, size: int) -> str:
    """Cut text that takes more places than there are.

    Examples
    --------
    >>> clip("title_bm25", 6), clip("title", 6)
    ('title…', 'title')
    """
    from rich.cells import set_cell_size

    if width_of(text) <= size:
        return text
    return set_cell_size(text, max(0, size - 1)).rstrip() + "…"


def wrap(texts: list[str], width: int, *, hanging: bool = False) -> list[str]:
    """Break texts into lines between words; words that are too long are clipped."""
    lines = []
    for text in texts:
        line = ""
        for word in one_line(text).split():
            longer = f"{line} {word}" if line.strip() else line + word
            if line.strip() and width_of(longer) > width:
                lines.append(line)
                longer = ("  " if hanging else "") + word
            line = clip(longer, width)
        lines.append(line)
    return lines
