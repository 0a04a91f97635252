"""The application: global options, and the commands, which are imported when they are called."""

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from perceptrank import __version__
from perceptrank.cli.options.files import check_files
from perceptrank.cli.options.shared import ungrouped
from perceptrank.cli.terminal.errors import reported
from perceptrank.cli.terminal.streams import complain, discard, finish, prepare

# In the order of the help; perceptrank.cli.NAME has a function of that name.
_PANELS = {
    "A shop's day": ("learn", "evaluate", "show", "export", "serve", "hybrid"),
    "Clicks and data": ("judge", "position-bias", "split", "convert", "datasets", "rank", "parity", "simulate"),
    "Research and set-up": ("reproduce", "compare", "algorithms", "bound", "adversary", "warm-up", "cite"),
}
_TYPES = {"str": "TEXT", "path": "PATH", "int": "NUMBER", "float": "NUMBER"}
_NAMES = {name: panel for panel, names in _PANELS.items() for name in names}


class Commands(Mapping[str, Any]):
    """The commands by name, each imported when it is looked up."""

    def __getitem__(self, name: str) -> Any:
        if name not in _NAMES:
            raise KeyError(name)
        return _load(name)

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES)

    def __len__(self) -> int:
        return len(_NAMES)


@cache
def _load(name: str) -> Any:
    function = name.replace("-", "_")
    command = getattr(import_module(f"perceptrank.cli.{function}"), function)
    # Options of the service can be set in the environment, too.
    settings = {"auto_envvar_prefix": "PERCEPTRANK_SERVE"} if name == "serve" else None
    single = typer.Typer(add_completion=False)
    callback = ungrouped(command)
    paragraphs = (" ".join(paragraph.split()) for paragraph in (command.__doc__ or "").split("\n\n"))
    single.command(name, cls=Command, help="\n\n".join(paragraphs), context_settings=settings)(callback)
    found: Any = typer.main.get_command(single)
    found.rich_help_panel = _NAMES[name]
    for parameter in found.params:
        panel = callback.panels.get(parameter.name)  # type: ignore[attr-defined]
        if panel and parameter.param_type_name == "option":
            parameter.rich_help_panel = panel
    return found


class Group(TyperGroup):
    """The application."""

    commands: Any

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = Commands()

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands."""
        return list(self.commands)

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
        options = {each.name: each for each in self.params if each.param_type_name == "option" and each.name}
        main_options = ctx.find_root().params
        with reported(options, debug=bool(main_options.get("debug"))):
            if "config" in ctx.params:
                from perceptrank.cli.serve import configure

                configure(ctx)
            check_files(getattr(self.callback, "roles", {}), ctx.params, main_options.get("plugin") or ())
            return super().invoke(ctx)


def _validate_only_what_needs_it(parameters: list[Any]) -> None:
    """Take text, defaults and options that are not given as they are.

    Newer versions of typer hand every value to Pydantic, and importing that takes a quarter as long as importing Numba.
    In the help, flags have no type, others are TEXT or NUMBER, and a list of choices has places to break it at.
    """
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.display_type_rich = lambda **_: None
        elif "display_type_rich" not in vars(parameter) and hasattr(parameter, "display_type_rich"):
            shown = parameter.display_type_rich
            parameter.display_type_rich = lambda shown=shown, **to: _plain_type(shown(**to) or "")
        descriptor = getattr(parameter, "type_descriptor", None)
        if descriptor is not None:
            parameter.process_value = _quick(parameter, descriptor.annotation)


def _plain_type(shown: str) -> str:
    """Return what the help calls a type, where typer calls it <list[float]>."""
    words = shown.strip("<>").removeprefix("list[").removesuffix("]").removesuffix(" range")
    return _TYPES.get(words, shown.replace("|", " | "))


def _quick(parameter: Any, kind: Any) -> Callable[[Any, Any], Any]:
    validated = parameter.process_value
    is_several = parameter.multiple if parameter.param_type_name == "option" else parameter.nargs == -1

    def process(ctx: Any, value: Any) -> Any:
        if value is None and not parameter.required:
            value = () if is_several else None
        elif not (isinstance(kind, type) and isinstance(value, kind)) and not (value and kind == list[str]):
            return validated(ctx, value)
        return value if parameter.callback is None else parameter.callback(ctx, parameter, value)

    return process


app = typer.Typer(cls=Group, no_args_is_help=True, help="Online learning to rank from a stream of judged queries.")


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        print(f"perceptrank {__version__}")
        raise typer.Exit


@app.callback()
def main(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    plugin: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE.py",
            envvar="PERCEPTRANK_PLUGINS",
            help="Python file that defines learners, for --algorithm; may be repeated.",
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Online learning to rank from a stream of judged queries."""
    if plugin:
        with reported({}, debug=debug):
            from perceptrank.learners.registry import load_file

            for path in plugin:
                load_file(path)
