"""The kinds of commands that the application is made of."""

import sys
from collections.abc import Callable
from typing import Any

from typer.core import TyperCommand, TyperGroup

from perceptrank.cli.configuration import configure
from perceptrank.cli.options.files import check_files
from perceptrank.cli.terminal.errors import reported
from perceptrank.cli.terminal.streams import complain, discard, finish, prepare


class Group(TyperGroup):
    """The application."""

    def main(self, *args: Any, **settings: Any) -> Any:
        """Run the application with standard streams that can be used, and exit."""
        prepare()
        try:
            return super().main(*args, **settings)
        except OSError as error:  # of printing help; commands report their errors themselves
            if "--debug" in sys.argv:
                raise
            discard()
            complain(f"error: cannot write to standard output: {error.strerror}")
            raise SystemExit(1) from None
        finally:
            finish()

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments before the command."""
        _validate_only_what_needs_it(self.get_params(ctx))
        return super().parse_args(ctx, args)


class Command(TyperCommand):
    """A command whose errors name its own options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command's arguments."""
        _validate_only_what_needs_it(self.get_params(ctx))
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        options = {one.name: one for one in self.params if one.param_type_name == "option" and one.name}
        given = ctx.find_root().params
        with reported(options, debug=bool(given.get("debug"))):
            configure(ctx)
            check_files(getattr(self.callback, "roles", {}), ctx.params, given.get("plugin") or ())
            return super().invoke(ctx)


def _validate_only_what_needs_it(parameters: list[Any]) -> None:
    """Take text, defaults and options that are not given as they are.

    Newer versions of typer hand every value to Pydantic, and importing that takes a quarter as long as importing Numba.
    """
    for one in parameters:
        descriptor = getattr(one, "type_descriptor", None)
        if descriptor is not None:
            one.process_value = _quick(one, descriptor.annotation)


def _quick(parameter: Any, kind: Any) -> Callable[[Any, Any], Any]:
    validated = parameter.process_value
    is_several = parameter.multiple if parameter.param_type_name == "option" else parameter.nargs == -1

    def process(ctx: Any, value: Any) -> Any:
        if value is None and not parameter.required:
            found: Any = () if is_several else None
        elif (isinstance(kind, type) and isinstance(value, kind)) or (value and kind == list[str]):
            found = value
        else:
            return validated(ctx, value)
        return found if parameter.callback is None else parameter.callback(ctx, parameter, found)

    return process
