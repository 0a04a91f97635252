"""Policies for invalid lines."""

import warnings
from collections.abc import Callable
from typing import Literal, TypeAlias

from perceptrank.io.errors import FormatError
from perceptrank.stream.validation import ParameterError

OnError: TypeAlias = Literal["raise", "skip"] | Callable[[FormatError], object]

_MAX_SHOWN = 5


class ErrorPolicy:
    """Raises, skips or reports invalid lines, as `on_error` says.

    Parameters
    ----------
    on_error : {"raise", "skip"} or callable
        A callable is called with each `FormatError`.
    """

    def __init__(self, on_error: OnError) -> None:
        if on_error not in ("raise", "skip") and not callable(on_error):
            raise ParameterError("on_error", "must be 'raise', 'skip' or a callable", on_error)
        self._on_error = on_error
        self._count = 0
        self._shown: list[str] = []
        self.skips = on_error != "raise"

    def add(self, *problems: FormatError) -> None:
        """Raise the first error, pass all on, or count them."""
        for problem in problems:
            if self._on_error == "raise":
                raise problem
            if callable(self._on_error):
                self._on_error(problem)
                continue
            self._count += 1
            if self._count <= _MAX_SHOWN:
                self._shown.append(str(problem))

    def warn_if_skipped(self) -> None:
        """Warn about skipped lines, if there are any."""
        if self._count:
            more = f"\n… and {self._count - _MAX_SHOWN} more" if self._count > _MAX_SHOWN else ""
            shown = "\n".join(self._shown)
            warnings.warn(f"skipped {self._count} invalid lines or files:\n{shown}{more}", stacklevel=3)
