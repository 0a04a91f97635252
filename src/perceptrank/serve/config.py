"""Configuration files of the service, in TOML; errors say in which line."""

import os
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from perceptrank.io.errors import FileFormatError
from perceptrank.serve.settings import Limits, Settings
from perceptrank.stream.validation import ParameterError

PREFIX = "PERCEPTRANK_SERVE_"
TABLES = ("settings", "limits")
Kind = TypeVar("Kind", Settings, Limits)


class ConfigError(ValueError):
    """A setting that does not exist, or a value that it cannot have."""


@dataclass(frozen=True)
class Config:
    """A configuration file; `values` has its settings by name, and the tables `settings` and `limits`."""

    path: Path
    text: str
    values: dict[str, Any]

    @classmethod
    def read(cls, path: Path | None) -> "Config":
        """Read a file; None stands for an empty one."""
        if path is None:
            return cls(Path(), "", {})
        content = path.read_bytes()
        try:
            text = content.decode("utf-8")
            return cls(path, text, tomllib.loads(text))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise FileFormatError(path, f" is not TOML: {error}") from None

    def options(self) -> dict[str, Any]:
        """Return the settings outside of the tables."""
        return {name: value for name, value in self.values.items() if name not in TABLES}

    def table(self, kind: type[Kind], **options: Any) -> Kind:
        """Return the settings of rankers, or the limits of requests; options that are not None override the file."""
        table = kind.__name__.lower()
        chosen = {name: value for name, value in options.items() if value is not None}
        values = self.values.get(table, {})
        if not isinstance(values, dict):
            raise self.error((table,), f"{table} must be a table, [{table}], got {values!r}")
        names = [field.name for field in fields(kind)]
        for name in values:
            if name not in names:
                raise self.unknown((table, name), names)
            if name in chosen:
                continue
            try:
                kind(**{name: values[name]})
            except ParameterError as error:
                raise self.error((table, name), str(error)) from None
        return kind(**(values | chosen))

    def unknown(self, keys: tuple[str, ...], names: Iterable[str]) -> ConfigError:
        """Return the error for a setting that does not exist, where others do."""
        return self.error(keys, no_such("setting", ".".join(keys), keys[-1], names))

    def error(self, keys: tuple[str, ...], problem: str) -> ConfigError:
        """Return an error that says where the setting is."""
        line = line_of(self.text, keys)
        return ConfigError(f"{self.path}{'' if line is None else f':{line}'}: {problem}")


def no_such(kind: str, shown: str, name: str, names: Iterable[str]) -> str:
    """Return the message for a name that does not exist, with the one that was perhaps meant."""
    known = sorted(names)
    near = get_close_matches(name, known, 1)
    advice = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
    return f"there is no {kind} {shown}; {advice}"


def check_environment(names: Iterable[str]) -> None:
    """Raise if the environment has a variable of ours that stands for none of these settings."""
    known = {PREFIX + name.upper() for name in names}
    for variable in sorted(os.environ):
        if variable.startswith(PREFIX) and variable not in known:
            raise ConfigError(f"environment: {no_such('variable', variable, variable, known)}")


def line_of(text: str, keys: tuple[str, ...]) -> int | None:
    r"""Return the line of a TOML text that sets a key, or begins its table; None if that is not found.

    Examples
    --------
    >>> line_of("port = 1\n[limits]\nburst = 2\n", ("limits", "burst"))
    3
    """
    table: tuple[str, ...] = ()
    table_line = None
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[+([^\[\]]+)\]", line):
            key = table = _parts(header[1])
        elif setting := re.match(r"\s*([^=#]+?)\s*=", line):
            key = table + _parts(setting[1])
        else:
            continue
        if key[: len(keys)] == keys:
            return number
        if key == keys[: len(key)]:
            table_line = number
    return table_line


def _parts(key: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in key.split("."))
