"""Errors and warnings as users of the command line see them: one message, in terms of options."""

import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from perceptrank.stream.validation import Name, Setting

_INTERRUPTED = 130
_options: ContextVar[Mapping[str, Any]] = ContextVar("options of the running command", default={})  # noqa: B039
_FUNCTIONS = {"read_letor": "convert --group", "read_parquet": "convert --group"}


@contextmanager
def reported(options: Mapping[str, Any], *, debug: bool) -> Iterator[None]:
    """Print errors that a user can do something about, and warnings, as one message in terms of the given options."""
    token = _options.set(options)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = _show_warning
            yield
    except BrokenPipeError:  # whoever reads our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(_INTERRUPTED) from None
    except (ValueError, TypeError, OSError, ImportError, MemoryError) as error:
        if debug:
            raise
        print(f"error: {describe(error)}", file=sys.stderr)
        raise typer.Exit(1) from None
    finally:
        _options.reset(token)


def describe(error: BaseException) -> str:
    """Return an error's message, with options of the running command in place of the parameters that it names."""
    from perceptrank.stream.validation import AdvisingError

    return error.spelled(_spell) if isinstance(error, AdvisingError) else str(error)


def _spell(part: "Name | Setting") -> str:
    from perceptrank.io.parquet_columns import ColumnSetting
    from perceptrank.stream.validation import Setting

    if isinstance(part, ColumnSetting):
        return f"--column {part.parameter.removesuffix('s')}=…"
    name, value = (part.parameter, part.value) if isinstance(part, Setting) else (str(part), ...)
    option = _options.get().get(name)
    if option is None:
        return _FUNCTIONS.get(name, str(part))
    if option.is_flag:
        flags = option.secondary_opts if value is False else option.opts
        return str(flags[0]) if flags else str(part)
    return str(option.opts[0]) if value is ... else f"{option.opts[0]} {value}"


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f"warning: {message}", file=sys.stderr)
