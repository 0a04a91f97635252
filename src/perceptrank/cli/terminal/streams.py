"""Standard input and output: usable whatever the shell and the locale have made of them."""

import io
import os
import sys
from contextlib import suppress
from typing import IO, Any, cast

from perceptrank.io.names import one_line

_NAMES = ("stdin", "stdout", "stderr")
_FAILING = ("strict", "surrogateescape", "surrogatepass")
_closed: set[str] = set()


def prepare() -> None:
    """Put the null device in place of closed streams, write all that is printed, and replace what an encoding lacks.

    A descriptor that stays closed is given to the next file that is opened, which then receives what is printed.
    """
    for number, name in enumerate(_NAMES):
        if getattr(sys, name) is None:
            _closed.add(name)
            try:
                os.fstat(number)
            except OSError:
                os.dup2(os.open(os.devnull, os.O_RDWR), number)
            mode = "w" if number else "r"
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8", errors="replace"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        if isinstance(sys.stdout.buffer, io.RawIOBase):  # PYTHONUNBUFFERED: it may write less than it is given
            number, encoding, errors = sys.stdout.fileno(), sys.stdout.encoding, sys.stdout.errors
            sys.stdout = open(number, "w", 1, encoding=encoding, errors=errors, closefd=False)  # noqa: SIM115
        if sys.stdout.errors in _FAILING:
            sys.stdout.reconfigure(errors="replace")


def standard_input() -> IO[bytes]:
    """Return standard input; raise `ValueError` if it is closed."""
    if "stdin" in _closed:
        raise ValueError("standard input is closed, so '-' cannot be read")
    return sys.stdin.buffer


def standard_output() -> IO[bytes]:
    """Return standard output, for data; raise `ValueError` if it is closed."""
    if "stdout" in _closed:
        raise ValueError("standard output is closed: name a file to write")
    return cast(IO[bytes], _StandardOutput())


class _StandardOutput(io.BufferedIOBase):
    """Standard output, whose errors say that it is that."""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        try:
            return sys.stdout.buffer.write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OSError(error.errno, f"cannot write to standard output: {error.strerror}") from error


def say(message: str) -> None:
    """Print a line to standard output, without control characters of names."""
    print(one_line(message))


def complain(message: str) -> None:
    """Print a line to standard error, if that takes anything; the exit status tells of the error in any case."""
    with suppress(OSError):
        print(one_line(message), file=sys.stderr, flush=True)


def finish() -> None:
    """Write out what is printed; exit with status 1 if that fails, silently if nobody reads it."""
    try:
        sys.stdout.flush()
    except OSError as error:
        discard()
        if not isinstance(error, BrokenPipeError):
            complain(f"error: cannot write to standard output: {error.strerror}")
        raise SystemExit(1) from None


def discard() -> None:
    """Drop what is still to be written to standard output, which would fail once more when Python exits."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
