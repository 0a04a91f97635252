"""Print results: a table for people, JSON for machines."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_WIDTH_OF_FILES = 200
_WIDE = 100

_WHOLE = ("name", "95% interval", "95% interval ")

Row = Mapping[str, Any]


def show(
    rows: Sequence[Row], *, title: str, as_json: bool, extra: Row | None = None, shown: Sequence[Row] | None = None
) -> None:
    """Print rows as JSON, with the extra facts; or as a table under a title, of `shown` if that is better to read."""
    if as_json:
        print(json.dumps({**(extra or {}), "rows": list(rows)}, indent=1, allow_nan=False))
    else:
        console().print(make_table(shown or rows, title))


def console() -> "Console":
    """Return the console for tables: as wide as the terminal, or wide enough for all if it is none."""
    from rich.console import Console

    return Console() if sys.stdout.isatty() else Console(width=_WIDTH_OF_FILES)


def is_wide() -> bool:
    """Tell if there is room for more than the most important columns."""
    return console().width >= _WIDE


def make_table(rows: Sequence[Row], title: str) -> "Table":
    """Lay out rows as a table whose numbers stand to the right."""
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(title), title_justify="left", box=SIMPLE_HEAD)
    for heading, value in rows[0].items():
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        table.add_column(heading, justify="right" if is_number else "left", no_wrap=is_number or heading in _WHOLE)
    for row in rows:
        table.add_row(*(escape(as_text(value)) for value in row.values()))
    return table


def interval(low: float | None, high: float | None) -> str:
    """Write an interval in short."""
    low, high = plain(low), plain(high)
    return "-" if low is None or high is None else f"{low:.3f} to {high:.3f}"


def as_text(value: Any, numbers: str = ".4f") -> str:
    """Write a value for people, floats in the given format.

    >>> as_text(1234), as_text(0.5), as_text(True), as_text(None), as_text(12345.6, ",.4g")
    ('1,234', '0.5000', 'yes', '-', '1.235e+04')
    """
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, float):
        return format(value, numbers)
    return f"{value:,}" if isinstance(value, int) else "-" if value is None else str(value)


def plain(value: Any) -> Any:
    """Return a value for JSON, which knows no NaN."""
    return None if value != value else value  # noqa: PLR0124
