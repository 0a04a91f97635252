"""Errors about the content of files."""

from collections.abc import Iterable
from typing import Any

from perceptrank.stream.validation import AdvisingValueError, Part


class FormatError(AdvisingValueError):
    """Invalid content of a text file.

    The message is ``path:line:column: problem``.

    Attributes
    ----------
    path : str
        Path of the file, or ``<stream>`` for an open file without a name.
    line, column : int
        Position of the error, both counted from 1.
    problem : str
        Rule that is broken, and the text found.
    """

    def __init__(self, path: str, line: int, column: int, *problem: Part) -> None:
        super().__init__(f"{path}:{line}:{column}: ", *problem)
        self.path, self.line, self.column = path, line, column
        self.problem = "".join(str(part) for part in problem)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.line, self.column, *self.parts[1:])


def no_documents(files: Iterable[str]) -> ValueError:
    """Return the error for files without any document."""
    return ValueError(f"there are no documents in {', '.join(files)}")
