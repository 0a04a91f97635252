"""Write the reference of the command line: all that `--help` says, of every command, as tables of a page."""

import inspect
import re
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

from typer.main import get_command

from perceptrank.cli.app import app

MARKER = "<!-- commands -->"
_WORDS = {int: "INTEGER", float: "NUMBER", str: "TEXT", Path: "PATH"}


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the marker of the page by the commands."""
    if MARKER not in markdown:
        return markdown
    group: Any = get_command(app)
    options = _table(group, [one for one in group.params if one.param_type_name == "option"])
    parts = ["## Options of all commands", "They stand before the command: `perceptrank --debug learn …`.", options]
    for name, command in group.commands.items():
        parts += [f"## {name}", *_command(name, command)]
    return markdown.replace(MARKER, "\n\n".join(parts))


def _command(name: str, command: Any) -> list[str]:
    paragraphs = [" ".join(one.split()) for one in inspect.cleandoc(command.help).split("\n\n")]
    examples = [one.partition(":")[2].strip() for one in paragraphs if re.match("Examples?:", one)]
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option"]
    usage = " ".join(["perceptrank", name, *map(_placeholder, arguments), *(["[OPTIONS]"] if options else [])])
    return [
        *(_escaped(one) for one in paragraphs if not re.match("Examples?:", one)),
        f"```text\n{usage}\n```",
        *(["**Arguments**", _table(command, arguments)] if arguments else []),
        *(["**Options**", _table(command, options)] if options else []),
        *(["**Example**", "```bash\n" + "\n".join(examples) + "\n```"] if examples else []),
    ]


def _placeholder(argument: Any) -> str:
    word = argument.name.upper() + ("…" if argument.nargs == -1 else "")
    return word if argument.required else f"[{word}]"


def _table(command: Any, parameters: list[Any]) -> str:
    rows = ["| Name | Value | Meaning | Default |", "|---|---|---|---|"]
    for one in parameters:
        if getattr(one, "hidden", False):
            continue
        is_option = one.param_type_name == "option"
        flags = [*one.opts, *one.secondary_opts] if is_option else [one.name.upper()]
        cells = [
            ", ".join(f"`{flag}`" for flag in flags),
            f"`{value}`" if (value := _value(command, one)) else "",
            _escaped(getattr(one, "help", None) or ""),
            _default(one),
        ]
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def _value(command: Any, parameter: Any) -> str:
    """Describe what is given to a parameter; nothing of one that is a switch."""
    known = inspect.signature(command.callback).parameters.get(parameter.name)
    if known is None:  # a switch of typer's own
        return ""
    kind, several = get_args(known.annotation)[0], False
    if get_origin(kind) is UnionType:
        (kind,) = (one for one in get_args(kind) if one is not NoneType)
    if get_origin(kind) is list:
        kind, several = get_args(kind)[0], True
    if kind is bool:
        return ""
    if parameter.metavar:
        word = parameter.metavar
    elif issubclass(kind, Enum):
        word = " or ".join(one.value for one in kind)
    else:
        word = _WORDS[kind]
    return f"{word} …" if several and "..." not in word else word


def _default(parameter: Any) -> str:
    value = parameter.default
    if parameter.required:
        return "*required*"
    if value is None or value is False or value == () or callable(value):
        return ""
    return f"`{value.value if isinstance(value, Enum) else value}`"


def _escaped(text: str) -> str:
    return re.sub(r"([|<*_\[\]])", r"\\\1", " ".join(text.split()))
