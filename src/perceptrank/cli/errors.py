"""Errors and warnings as users of the command line see them: one message, in terms of options."""

import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand

if TYPE_CHECKING:
    from perceptrank.stream.validation import Name, Setting

_INTERRUPTED = 130
_FUNCTIONS = {"read_letor": "convert --group", "read_parquet": "convert --group"}


class Command(TyperCommand):
    """A command whose errors name its own options."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        options = {one.name: one for one in self.params if one.param_type_name == "option" and one.name}
        with reported(options, debug=bool(ctx.find_root().params.get("debug"))):
            return super().invoke(ctx)


@contextmanager
def reported(options: Mapping[str, Any], *, debug: bool) -> Iterator[None]:
    """Print errors that a user can do something about, and warnings, as one message without a traceback."""
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
        print(f"error: {describe(error, options)}", file=sys.stderr)
        raise typer.Exit(1) from None


def describe(error: BaseException, options: Mapping[str, Any]) -> str:
    """Return an error's message, with options in place of the parameters that it names."""
    from perceptrank.stream.validation import AdvisingError

    return error.spelled(_speller(options)) if isinstance(error, AdvisingError) else str(error)


def _speller(options: Mapping[str, Any]) -> Callable[["Name | Setting"], str]:
    from perceptrank.io.parquet import ColumnSetting
    from perceptrank.stream.validation import Setting

    def spell(part: "Name | Setting") -> str:
        if isinstance(part, ColumnSetting):
            return f"--column {part.parameter.removesuffix('s')}=…"
        name, value = (part.parameter, part.value) if isinstance(part, Setting) else (str(part), ...)
        option = options.get(name)
        if option is None:
            return _FUNCTIONS.get(name, str(part))
        if option.is_flag:
            flags = option.secondary_opts if value is False else option.opts
            return str(flags[0]) if flags else str(part)
        return str(option.opts[0]) if value is ... else f"{option.opts[0]} {value}"

    return spell


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f"warning: {message}", file=sys.stderr)
