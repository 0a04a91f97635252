"""Transforms by name: those of this package, of installed packages, and those that a user registers.

A transform of this package is found by standing in this folder. Other packages name theirs as entry points of the
group ``perceptrank.transforms``, under the name of the transform; `register_transform` takes a class from anywhere.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import inspect
import pkgutil
import re
import warnings
from functools import cache
from types import ModuleType
from typing import TypeVar

import perceptrank.transforms
from perceptrank.transforms.transform import Transform

ENTRY_POINTS = "perceptrank.transforms"
Kind = TypeVar("Kind", bound=type[Transform])

_PACKAGES = ("perceptrank.transforms", "perceptrank.transforms.random")
_registered: dict[str, type[Transform]] = {}


def register_transform(kind: Kind) -> Kind:
    """Make a transform known by its `name` to learners, model files and the command line; also a class decorator.

    Parameters
    ----------
    kind : subclass of Transform
        It has a `name` that no other transform has, in lower-case letters, digits and hyphens, and can be constructed
        without arguments. A model file holds its `state`, and it is restored by `restore`.

    Returns
    -------
    subclass of Transform
        `kind`.

    Raises
    ------
    TypeError
        If `kind` is no transform, or cannot be constructed.
    ValueError
        If its `name` is no such name, or is taken.

    Examples
    --------
    >>> import perceptrank as pr
    >>> from perceptrank.transforms import register_transform, unregister_transform
    >>> @register_transform
    ... class Halves(pr.Transform):
    ...     name = "halves"
    ...     def apply(self, X, offsets):
    ...         return X / 2
    >>> pr.ListwisePerceptron(transforms="halves").learn_one([[4.0, 0.0], [0.0, 2.0]], [0, 1])
    True
    >>> unregister_transform("halves")
    """
    if not isinstance(kind, type) or not issubclass(kind, Transform):
        raise TypeError(f"a transform to register must be a subclass of Transform, got {kind!r}")
    name = getattr(kind, "name", None)
    if not isinstance(name, str) or not re.fullmatch(r"[a-z][a-z0-9-]*", name) or name == "auto":
        raise ValueError(
            f"name of {kind.__name__} must be of lower-case letters, digits and hyphens, and not 'auto', got {name!r}"
        )
    taken = find_transform(name)
    if taken is not None and (taken.__module__, taken.__qualname__) != (kind.__module__, kind.__qualname__):
        raise ValueError(f"name {name!r} of {kind.__name__} is taken by {taken.__module__}.{taken.__qualname__}")
    try:
        kind().settings()
    except Exception as error:
        reason = str(error) if isinstance(error, TypeError) else f"{type(error).__name__}: {error}"
        raise TypeError(f"{kind.__name__} must be constructible without arguments: {reason}") from error
    _registered[name] = kind
    return kind


def unregister_transform(name: str) -> None:
    """Forget a transform that was registered.

    Parameters
    ----------
    name : str
        Its `name`.

    Raises
    ------
    ValueError
        If no transform of that name was registered.

    Examples
    --------
    >>> unregister_transform("nothing")
    Traceback (most recent call last):
        ...
    ValueError: no transform of the name 'nothing' was registered
    """
    if name not in _registered:
        raise ValueError(f"no transform of the name {name!r} was registered")
    del _registered[name]


def named_transforms() -> dict[str, type[Transform]]:
    """Return name and class of every transform that can be given by name.

    Examples
    --------
    >>> list(named_transforms())  # doctest: +NORMALIZE_WHITESPACE
    ['bins', 'clip', 'fastfood', 'hash', 'missing', 'query-minmax', 'query-normal', 'query-rank', 'query-zscore',
     'random-fourier', 'random-relu', 'running', 'running-spread', 'signed-log']
    """
    kinds = {**_installed(), **_registered, **_builtin()}
    return {name: kinds[name] for name in sorted(kinds) if not kinds[name].wraps}


def find_transform(name: str) -> type[Transform] | None:
    """Return the class of a name, None if there is none; a file of that name is looked at first."""
    if name in _registered:
        return _registered[name]
    if re.fullmatch(r"[a-z0-9-]+", name):
        for package in _PACKAGES:
            module = f"{package}.{name.replace('-', '_')}"
            if importlib.util.find_spec(module) is not None:
                return _kinds_in(importlib.import_module(module)).get(name)
    return _builtin().get(name) or _installed().get(name)


def register_module(module: ModuleType) -> list[type[Transform]]:
    """Register the transforms that a module defines, and return them; or raise and register none."""
    before = dict(_registered)
    try:
        return [register_transform(kind) for kind in _kinds_in(module).values()]
    except Exception:
        _registered.clear()
        _registered.update(before)
        raise


def _kinds_in(module: ModuleType) -> dict[str, type[Transform]]:
    """Return the transforms that a module defines, by name."""
    classes = [value for value in vars(module).values() if isinstance(value, type) and issubclass(value, Transform)]
    own = [kind for kind in classes if kind.__module__ == module.__name__ and not inspect.isabstract(kind)]
    return {kind.name: kind for kind in own if hasattr(kind, "name")}


@cache
def _builtin() -> dict[str, type[Transform]]:
    kinds: dict[str, type[Transform]] = {}
    for module in pkgutil.walk_packages(perceptrank.transforms.__path__, "perceptrank.transforms."):
        kinds |= _kinds_in(importlib.import_module(module.name))
    return kinds


@cache
def _installed() -> dict[str, type[Transform]]:
    """Transforms of installed packages; one that cannot be loaded is skipped, with a warning."""
    kinds: dict[str, type[Transform]] = {}
    for entry in importlib.metadata.entry_points(group=ENTRY_POINTS):
        try:
            if entry.name in _builtin() or entry.name in kinds:
                raise ValueError(f"the name {entry.name!r} is taken")
            kind = entry.load()
            if not (isinstance(kind, type) and issubclass(kind, Transform) and hasattr(kind, "name")):
                raise TypeError("it is no Transform with a name")
            if kind.name != entry.name:
                raise ValueError(f"its name is {kind.name!r}, its entry point is named {entry.name!r}")
            kinds[entry.name] = kind
        except Exception as error:
            warnings.warn(f"transform {entry.value} of an installed package is skipped: {error}", stacklevel=2)
    return kinds
