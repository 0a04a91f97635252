"""Classes by name: those of this package, of installed packages, and those that a user registers."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import pkgutil
import re
import warnings
from functools import cached_property
from types import ModuleType
from typing import Generic, TypeVar

Base = TypeVar("Base")


class Registry(Generic[Base]):
    """Subclasses of a base, by the name that one of their attributes holds.

    Those of this package stand in its folders; other packages name theirs as entry points of the first folder's name.
    """

    def __init__(self, base: type[Base], noun: str, attribute: str, *folders: str) -> None:
        self.base, self.noun, self.attribute, self.folders = base, noun, attribute, folders
        self.registered: dict[str, type[Base]] = {}
        self._found: dict[str, type[Base]] = {}  # of this package: looking for a file takes Python's lock of imports

    def check_name(self, kind: type) -> str:
        """Return the name of a class to register; raise unless it is a subclass of the base with a free name."""
        if not isinstance(kind, type) or not issubclass(kind, self.base):
            raise TypeError(f"a {self.noun} to register must be a subclass of {self.base.__name__}, got {kind!r}")
        name = getattr(kind, self.attribute, None)
        if not isinstance(name, str) or not re.fullmatch(r"[a-z][a-z0-9-]*", name):
            rule = "must be a name of lower-case letters, digits and hyphens"
            raise ValueError(f"{self.attribute} of {kind.__name__} {rule}, got {name!r}")
        known = self.builtin.get(name) or self.registered.get(name)
        places = [_place_of(known)] if known else [entry.value for entry in self._entries() if entry.name == name]
        if any(place != _place_of(kind) for place in places):
            owner = places[0].replace(":", ".")
            raise ValueError(f"{self.attribute} {name!r} of {kind.__name__} is taken by {owner}")
        return name

    def unregister(self, name: str) -> None:
        """Forget a class that was registered."""
        if name not in self.registered:
            raise ValueError(f"no {self.noun} of the name {name!r} was registered")
        del self.registered[name]

    def find(self, name: str) -> type[Base] | None:
        """Return the class of a name, None if there is none; a file of that name is looked at first."""
        if kind := self.registered.get(name) or self._found.get(name):
            return kind
        if re.fullmatch(r"[a-z0-9-]+", name):
            for folder in self.folders:
                module = f"{folder}.{name.replace('-', '_')}"
                if importlib.util.find_spec(module) is not None:
                    kind = self.defined_in(importlib.import_module(module)).get(name)
                    if kind is not None:
                        break
        kind = kind or self.builtin.get(name)
        if kind is None:
            return self.installed.get(name)
        self._found[name] = kind
        return kind

    def all(self) -> dict[str, type[Base]]:
        """Return all classes by name, in its order."""
        return dict(sorted({**self.installed, **self.registered, **self.builtin}.items()))

    def defined_in(self, module: ModuleType) -> dict[str, type[Base]]:
        """Return the classes with a name that a module, or a folder and what is in it, defines, by name."""
        kinds = [kind for kind in vars(module).values() if self._is_named(kind)]
        own = [kind for kind in kinds if f"{kind.__module__}.".startswith(f"{module.__name__}.")]
        return {getattr(kind, self.attribute): kind for kind in own}

    @cached_property
    def builtin(self) -> dict[str, type[Base]]:
        """Classes of this package."""
        path = importlib.import_module(self.folders[0]).__path__
        kinds: dict[str, type[Base]] = {}
        for module in pkgutil.walk_packages(path, f"{self.folders[0]}."):
            kinds |= self.defined_in(importlib.import_module(module.name))
        return kinds

    @cached_property
    def installed(self) -> dict[str, type[Base]]:
        """Classes of installed packages; one that cannot be loaded is skipped, with a warning."""
        kinds: dict[str, type[Base]] = {}
        for entry in self._entries():
            try:
                if entry.name in self.builtin or entry.name in kinds:
                    raise ValueError(f"the name {entry.name!r} is taken")
                kind = entry.load()
                if not self._is_named(kind):
                    raise TypeError(f"it is no {self.base.__name__} with a name")
                if (name := getattr(kind, self.attribute)) != entry.name:
                    raise ValueError(f"its {self.attribute} is {name!r}, its entry point is named {entry.name!r}")
                kinds[entry.name] = kind
            except Exception as error:
                warnings.warn(f"{self.noun} {entry.value} of an installed package is skipped: {error}", stacklevel=2)
        return kinds

    def _entries(self) -> importlib.metadata.EntryPoints:
        return importlib.metadata.entry_points(group=self.folders[0])

    def _is_named(self, kind: object) -> bool:
        return isinstance(kind, type) and issubclass(kind, self.base) and hasattr(kind, self.attribute)


def construct(kind: type[Base]) -> Base:
    """Construct an object without arguments; raise if that is not possible."""
    try:
        return kind()
    except Exception as error:
        reason = str(error) if isinstance(error, TypeError) else f"{type(error).__name__}: {error}"
        raise TypeError(f"{kind.__name__} must be constructible without arguments: {reason}") from error


def _place_of(kind: type) -> str:
    """Return where a class is defined, as an entry point has it; the same for a class that is loaded twice."""
    return f"{kind.__module__}:{kind.__qualname__}"
