"""The reference shows what a class inherits where readers look for it, and each method once."""

import importlib
import inspect
from collections import Counter
from typing import Any

import griffe

_KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: griffe.ParameterKind.positional_only,
    inspect.Parameter.POSITIONAL_OR_KEYWORD: griffe.ParameterKind.positional_or_keyword,
    inspect.Parameter.KEYWORD_ONLY: griffe.ParameterKind.keyword_only,
    inspect.Parameter.VAR_POSITIONAL: griffe.ParameterKind.var_positional,
    inspect.Parameter.VAR_KEYWORD: griffe.ParameterKind.var_keyword,
}
_COMPLETED = {"Learner", "Surrogate", "Measure", "Transform"}


class Overrides(griffe.Extension):
    """Completes classes by what base classes say, and drops methods that say no more than a base class does."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Look at all classes, once everything is loaded."""
        classes = _classes(pkg)
        for kind in classes:
            if _COMPLETED & {kind.name, *(base.name for base in kind.mro())}:
                _add_constructor(kind)
        texts = Counter((name, _text(member)) for kind in classes for name, member in kind.members.items())
        for kind in classes:
            known = {name for base in kind.mro() for name, member in base.members.items() if member.has_docstring}
            for name in known & set(kind.members):
                text = _text(kind.members[name])
                if not text or texts[name, text] > 1:
                    kind.del_member(name)


def _add_constructor(kind: griffe.Class) -> None:
    """Add the constructor that the class has at run time, and the docstring, which is complete there."""
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
    if kind.docstring is not None:
        kind.docstring.value = inspect.cleandoc(runtime.__doc__)


def _text(member: griffe.Object | griffe.Alias) -> str:
    return "" if member.is_alias or member.docstring is None else member.docstring.value


def _spell(annotation: Any) -> str | None:
    if annotation is inspect.Parameter.empty:
        return None
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _classes(module: griffe.Module) -> list[griffe.Class]:
    classes = [kind for kind in module.classes.values() if not kind.is_alias]
    for inner in module.modules.values():
        if not inner.is_alias:
            classes += _classes(inner)
    return classes
