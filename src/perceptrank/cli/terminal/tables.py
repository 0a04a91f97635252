"""Results on a terminal: a table for people, JSON for machines, and progress until they are there."""

import json
import math
import sys
import textwrap
import time
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TextIO

from perceptrank.cli.terminal.streams import complain
from perceptrank.io.names import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID
    from rich.table import Table

_WIDTH_OF_FILES = 200
_WIDE = 100
_PATIENCE_SECONDS = 1.0  # before progress is shown
_LINE_SECONDS = 10.0  # between two lines of a log
_NARROWEST = 24  # of a column of text that is still read with ease
_BESIDE = 3  # what a table needs beside the text of a column
_WHOLE = ("name", "95% interval", "95% interval ")

Row = Mapping[str, Any]


def show(
    rows: Sequence[Row], *, title: str, as_json: bool, extra: Row | None = None, shown: Sequence[Row] | None = None
) -> None:
    """Print rows as JSON, with the extra facts; or as a table under a title, of `shown` if that is better to read."""
    if as_json:
        print_json({**(extra or {}), "rows": list(rows)})
    else:
        print_rows(shown or rows, title)


def print_rows(rows: Sequence[Row], title: str) -> None:
    """Print rows as a table; where it has no room, row by row."""
    out = console()
    if fits(rows):
        out.print(make_table(rows, title))
    else:
        print(*_records(rows, title, out.width), sep="\n")


def print_text(text: str) -> None:
    """Print sentences: on a terminal with whole words on a line, elsewhere as they are."""
    console().print(text, highlight=False, soft_wrap=not sys.stdout.isatty())


def print_json(value: Any, file: TextIO | None = None) -> None:
    """Print a value as JSON; numbers that JSON does not know, NaN and infinity, are null."""
    print(json.dumps(_finite(value), indent=1, allow_nan=False), file=file)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def console(*, stderr: bool = False) -> "Console":
    """Return a console that takes text as it is: as wide as the terminal, or wide enough for tables if it is none.

    What users name their files is neither markup nor the code of an emoji.
    """
    from rich.console import Console

    width = None if stderr or sys.stdout.isatty() else _WIDTH_OF_FILES
    return Console(stderr=stderr, width=width, markup=False, emoji=False)


def is_wide() -> bool:
    """Tell if there is room for more than the most important columns."""
    return console().width >= _WIDE


def make_table(rows: Sequence[Row], title: str) -> "Table":
    """Lay out rows as a table whose numbers stand to the right."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=printable(title), title_justify="left", box=SIMPLE_HEAD)
    for heading, value in rows[0].items():
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        table.add_column(heading, justify="right" if is_number else "left", no_wrap=is_number or heading in _WHOLE)
    for row in rows:
        table.add_row(*(printable(as_text(value)) for value in row.values()))
    return table


def fits(rows: Sequence[Row]) -> bool:
    """Tell if a table of these rows has room for its numbers and names, and for its text in columns worth the name."""
    from rich.cells import cell_len

    needed = 1
    for heading in rows[0]:
        values = [row.get(heading) for row in rows]
        widest = max(cell_len(as_text(value)) for value in values)
        is_text = any(isinstance(value, str) for value in values) and heading not in _WHOLE
        words = heading.split() if is_text else [heading]
        needed += max([*map(cell_len, words), min(widest, _NARROWEST) if is_text else widest]) + _BESIDE
    return needed <= console().width


def _records(rows: Sequence[Row], title: str, width: int) -> list[str]:
    """Lay out rows one below the other: the first value, then the others with their headings, as many as a line has.

    Examples
    --------
    >>> _records([{"name": "a", "mean": 0.5, "n": 3, "what it does": "Nothing at all."}], "Learners", 40)
    ['Learners', '', 'a', '  mean: 0.5000; n: 3', '  what it does: Nothing at all.', '']
    """
    from rich.cells import cell_len

    lines = [printable(title), ""]
    for row in rows:
        (_, first), *others = row.items()
        lines.append(printable(as_text(first)))
        texts = [(heading.strip(), as_text(value)) for heading, value in others]
        fields = [printable(f"{heading}: {text}") for heading, text in texts if text not in ("", "-")]
        line = ""
        for field in fields:
            joined = f"{line}; {field}" if line else f"  {field}"
            if line and cell_len(joined) > width:
                lines += _wrapped(line, width)
                joined = f"  {field}"
            line = joined
        lines += [*(_wrapped(line, width) if line else []), ""]
    return lines


def _wrapped(line: str, width: int) -> list[str]:
    return textwrap.wrap(line, max(width, 20), subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


def interval(low: float | None, high: float | None) -> str:
    """Write an interval in short."""
    low, high = plain(low), plain(high)
    return "-" if low is None or high is None else f"{low:.3f} to {high:.3f}"


def as_text(value: Any, numbers: str = ".4f") -> str:
    """Write a value for people, floats in the given format.

    Examples
    --------
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


@cache
def announce_compiling() -> None:
    """From now on, say so, once, when a kernel has to be compiled."""
    from perceptrank.kernels.compiled import on_compile

    if not sys.stderr.isatty():
        return

    @cache
    def say() -> None:
        print("compiling kernels for the first use…", file=sys.stderr)

    on_compile(lambda _: say())


class ProgressBar:
    """A bar for what takes longer than a second: call it with what is done and what there is to do, 0 if unknown.

    Where standard error is no terminal, it writes a line every ten seconds instead.
    """

    def __init__(self, title: str) -> None:
        announce_compiling()
        self._title = title
        self._start = self._said = time.monotonic()
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def __call__(self, done: int, total: int) -> None:
        """Show how far it is, if it has taken long enough."""
        if self._progress is None:
            now = time.monotonic()
            if not sys.stderr.isatty():
                if now - self._said >= _LINE_SECONDS:
                    self._said = now
                    complain(f"{self._title}: {100 * done // total} %" if total else f"{self._title} …")
                return
            if now - self._start < _PATIENCE_SECONDS:
                return
            self._progress = _make_progress()
            self._progress.start()
            self._task = self._progress.add_task(self._title, total=None)
        if self._task is not None:
            self._progress.update(self._task, completed=done, total=total or None)

    def __enter__(self) -> "ProgressBar":
        return self

    def __exit__(self, *error: object) -> None:
        if self._progress is not None:
            self._progress.stop()


def _make_progress() -> "Progress":
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    title, share = TextColumn("{task.description}", markup=False), TextColumn("{task.percentage:>3.0f}%")
    columns = title, BarColumn(), share, TimeRemainingColumn()
    return Progress(*columns, console=console(stderr=True), transient=True)
