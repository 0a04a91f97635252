"""A bar for what takes longer than a second, shown on a terminal only."""

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from perceptrank.cli import first_use

_PATIENCE_SECONDS = 1.0


class ProgressBar:
    """Call it with what is done and what there is to do in all, 0 if unknown."""

    def __init__(self, title: str) -> None:
        first_use.prepare()
        self._title = title
        self._start = time.monotonic()
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def __call__(self, done: int, total: int) -> None:
        """Show how far it is, if it has taken long enough."""
        if self._progress is None:
            if not sys.stderr.isatty() or time.monotonic() - self._start < _PATIENCE_SECONDS:
                return
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.percentage:>3.0f}%"),
                TimeRemainingColumn(),
            )
            self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
            self._progress.start()
            self._task = self._progress.add_task(self._title, total=total or None)
        if self._task is not None:
            self._progress.update(self._task, completed=done)

    def __enter__(self) -> "ProgressBar":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()
