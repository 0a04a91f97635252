"""Errors about the content of files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any


class FormatError(ValueError):
    """A file is invalid, damaged, or of another format.

    For text, the message is ``path:line:column: problem``.

    Attributes
    ----------
    path : str
        Path of the file, or ``<stream>`` for an open file without a name.
    line, column : int
        Position of the error, both counted from 1; 0 in a file that is not read by lines.
    problem : str
        Rule that is broken, and the text found.
    """

    def __init__(self, path: str, line: int, column: int, problem: str) -> None:
        shown = path.replace("\n", r"\n")  # errors are listed one per line
        super().__init__(f"{shown}:{line}:{column}: {problem}")
        self.path, self.line, self.column, self.problem = path, line, column, problem

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.line, self.column, self.problem)


class FileFormatError(FormatError):
    """Invalid content of a file that is not read by lines: part of a store, a Parquet file, a trace or a model.

    Examples
    --------
    >>> str(FileFormatError("m.json", " is not a model"))
    'm.json is not a model'
    """

    def __init__(self, path: str | os.PathLike[str], problem: str) -> None:
        ValueError.__init__(self, f"{os.fspath(path)}{problem}")
        self.path, self.line, self.column, self.problem = os.fspath(path), 0, 0, problem.lstrip(" ,:")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, str(self).removeprefix(self.path))


def no_documents(files: Iterable[str]) -> ValueError:
    """Return the error for files without any document."""
    return ValueError(f"there are no documents in {', '.join(files)}")
