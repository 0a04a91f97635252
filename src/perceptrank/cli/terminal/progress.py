"""Progress of a command, shown on a terminal only."""

import sys
import time
from functools import cache
from typing import TYPE_CHECKING

from perceptrank.cli.terminal.tables import console

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_PATIENCE_SECONDS = 1.0


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
    """A bar for what takes longer than a second: call it with what is done and what there is to do, 0 if unknown."""

    def __init__(self, title: str) -> None:
        announce_compiling()
        self._title = title
        self._start = time.monotonic()
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def __call__(self, done: int, total: int) -> None:
        """Show how far it is, if it has taken long enough."""
        if self._progress is None:
            if not sys.stderr.isatty() or time.monotonic() - self._start < _PATIENCE_SECONDS:
                return
            self._progress = _make_progress()
            self._progress.start()
            self._task = self._progress.add_task(self._title, total=total or None)
        if self._task is not None:
            self._progress.update(self._task, completed=done)

    def __enter__(self) -> "ProgressBar":
        return self

    def __exit__(self, *error: object) -> None:
        if self._progress is not None:
            self._progress.stop()


def _make_progress() -> "Progress":
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=console(stderr=True), transient=True)
