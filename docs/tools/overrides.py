"""The reference shows what a class inherits where readers look for it, and each method once."""

import importlib
import inspect
import re
from typing import Any

import griffe

_KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: griffe.ParameterKind.positional_only,
    inspect.Parameter.POSITIONAL_OR_KEYWORD: griffe.ParameterKind.positional_or_keyword,
    inspect.Parameter.KEYWORD_ONLY: griffe.ParameterKind.keyword_only,
    inspect.Parameter.VAR_POSITIONAL: griffe.ParameterKind.var_positional,
    inspect.Parameter.VAR_KEYWORD: griffe.ParameterKind.var_keyword,
}
_PARAMETERS = re.compile(r"^Parameters\n-{10}\n(.*?)(?=\n\n\w[^\n]*\n-{3,}\n|\Z)", re.M | re.S)


class Overrides(griffe.Extension):
    """Completes learners and surrogates by what base classes say, and drops methods that a base class documents."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Look at all classes, once everything is loaded."""
        classes = _classes(pkg)
        for kind in classes:
            if {"Learner", "Surrogate"} & {kind.name, *(base.name for base in kind.mro())}:
                _add_constructor(kind)
        for kind in classes:
            known = {name for base in kind.mro() for name, member in base.members.items() if member.has_docstring}
            for name in known & set(kind.members):
                text = kind.members[name].docstring
                if text is None or "Parameters\n---" not in text.value:
                    kind.del_member(name)


def _add_constructor(kind: griffe.Class) -> None:
    """Add the constructor that the class has at run time, and the parameters that its base classes document."""
    runtime = getattr(importlib.import_module(kind.module.path), kind.name)
    signature = inspect.signature(runtime)
    if "__init__" not in kind.members:
        parameters = [
            griffe.Parameter(
                parameter.name,
                annotation=_spell(parameter.annotation),
                kind=_KINDS[parameter.kind],
                default=None if parameter.default is parameter.empty else repr(parameter.default),
            )
            for parameter in signature.parameters.values()
        ]
        constructor = griffe.Function("__init__", parameters=griffe.Parameters(*parameters))
        kind.set_member("__init__", constructor)
    if kind.docstring is None:
        return
    own = _entries(kind.docstring.value)
    inherited: dict[str, str] = {}
    for base in reversed(runtime.__mro__[1:]):
        inherited |= _entries(inspect.cleandoc(base.__doc__ or ""))
    missing = {inherited[name]: None for name in signature.parameters if name not in own and name in inherited}
    if missing:
        kind.docstring.value = _with_entries(kind.docstring.value, list(missing))


def _spell(annotation: Any) -> str | None:
    if annotation is inspect.Parameter.empty:
        return None
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _entries(docstring: str) -> dict[str, str]:
    """Return the entries of the section of parameters, by each name that they document."""
    section = _PARAMETERS.search(docstring)
    entries = re.split(r"\n(?=\S)", section[1]) if section else []
    return {name.strip("* "): entry for entry in entries for name in entry.partition(" : ")[0].split(",")}


def _with_entries(docstring: str, entries: list[str]) -> str:
    section = _PARAMETERS.search(docstring)
    if section:
        return "\n".join([docstring[: section.end()], *entries]) + docstring[section.end() :]
    first = re.search(r"^\w[^\n]*\n-{3,}$", docstring, re.M)
    place = first.start() if first else len(docstring)
    added = "\n".join(["Parameters", "-" * 10, *entries])
    return f"{docstring[:place].rstrip()}\n\n{added}\n\n{docstring[place:]}"


def _classes(module: griffe.Module) -> list[griffe.Class]:
    classes = [kind for kind in module.classes.values() if not kind.is_alias]
    for inner in module.modules.values():
        if not inner.is_alias:
            classes += _classes(inner)
    return classes
