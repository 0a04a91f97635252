"""How results are printed: a table for people, JSON for machines."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
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


def console() -> Console:
    """Where tables go: as wide as the terminal, or wide enough for all if it is none."""
    return Console() if sys.stdout.isatty() else Console(width=_WIDTH_OF_FILES)


def is_wide() -> bool:
    """Whether there is room for more than the most important columns."""
    return console().width >= _WIDE


def make_table(rows: Sequence[Row], title: str) -> Table:
    """Rows as a table whose numbers stand to the right."""
    table = Table(title=escape(title), title_justify="left", box=SIMPLE_HEAD)
    for heading, value in rows[0].items():
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        table.add_column(heading, justify="right" if is_number else "left", no_wrap=is_number or heading in _WHOLE)
    for row in rows:
        table.add_row(*(_shown(value) for value in row.values()))
    return table


def interval(low: float | None, high: float | None) -> str:
    """An interval in short."""
    low, high = plain(low), plain(high)
    return "-" if low is None or high is None else f"{low:.3f} to {high:.3f}"


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, float):
        return f"{value:.4f}"
    return f"{value:,}" if isinstance(value, int) else "-" if value is None else escape(str(value))


def plain(value: Any) -> Any:
    """A value for JSON, which knows no NaN."""
    return None if value != value else value  # noqa: PLR0124
