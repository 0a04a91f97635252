"""Policies for invalid lines."""

import warnings
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Literal, TypeAlias

from perceptrank.io.errors import FormatError
from perceptrank.stream.validation import ParameterError

OnError: TypeAlias = Literal["raise", "skip"] | Callable[[FormatError], object]

_MAX_SHOWN = 5


class ErrorPolicy:
    """Raises, skips or reports invalid lines, as `on_error` says.

    Parameters
    ----------
    on_error : "raise", "skip", or callable
        A callable is called with each `FormatError`.
    """

    def __init__(self, on_error: OnError) -> None:
        if on_error not in ("raise", "skip") and not callable(on_error):
            raise ParameterError("on_error", "must be 'raise', 'skip' or a callable", on_error)
        self._on_error = on_error
        self._count = 0
        self._shown: list[str] = []
        self.skips = on_error != "raise"

    def add(self, problems: Iterable[FormatError], count: int) -> None:
        """Raise the first of `count` errors, pass all on, or count them; no more are made than are looked at."""
        if self._on_error == "raise":
            for problem in problems:
                raise problem
        elif callable(self._on_error):
            for problem in problems:
                self._on_error(problem)
        else:
            self._count += count
            self._shown += [str(problem) for problem in islice(problems, _MAX_SHOWN - len(self._shown))]

    def add_one(self, problem: FormatError) -> None:
        """Raise an error, pass it on, or count it."""
        self.add([problem], 1)

    def warn_if_skipped(self) -> None:
        """Warn about skipped lines, if there are any."""
        if self._count:
            more = f"\n… and {self._count - _MAX_SHOWN} more" if self._count > _MAX_SHOWN else ""
            shown = "\n".join(self._shown)
            warnings.warn(f"skipped {self._count} invalid lines or files:\n{shown}{more}", stacklevel=3)
