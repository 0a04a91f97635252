"""Transforms by name: those of this package, of installed packages, and those that a user registers.

A transform of this package is found by standing in this folder. Other packages name theirs as entry points of the
group ``perceptrank.transforms``, under the name of the transform; `register_transform` takes a class from anywhere.
"""

from types import ModuleType
from typing import TypeVar

from perceptrank.stream.registry import Registry, construct
from perceptrank.transforms.transform import Transform

Kind = TypeVar("Kind", bound=type[Transform])

REGISTRY = Registry(Transform, "transform", "name", "perceptrank.transforms", "perceptrank.transforms.random")  # type: ignore[type-abstract]


def register_transform(kind: Kind) -> Kind:
    """Make a transform known by its `name` to learners, model files and the command line; also a class decorator.

    Parameters
    ----------
    kind : subclass of Transform
        It has a `name` that no other transform has, in lower-case letters, digits and hyphens, and can be constructed
        without arguments. A model file holds its `state`, and it is restored by `restore`.

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
    name = REGISTRY.check_name(kind)
    if name == "auto":
        raise ValueError(f"name of {kind.__name__} must not be 'auto', which stands for a choice of transforms")
    construct(kind).settings()
    REGISTRY.registered[name] = kind
    return kind


def unregister_transform(name: str) -> None:
    """Forget a transform that was registered.

    Parameters
    ----------
    name : str

    Examples
    --------
    >>> unregister_transform("nothing")
    Traceback (most recent call last):
        ...
    ValueError: no transform of the name 'nothing' was registered
    """
    REGISTRY.unregister(name)


def named_transforms() -> dict[str, type[Transform]]:
    """Return name and class of every transform that can be given by name.

    Examples
    --------
    >>> list(named_transforms())  # doctest: +NORMALIZE_WHITESPACE
    ['bins', 'clip', 'fastfood', 'hash', 'missing', 'query-minmax', 'query-normal', 'query-rank', 'query-zscore',
     'random-fourier', 'random-relu', 'running', 'running-spread', 'signed-log']
    """
    return {name: kind for name, kind in REGISTRY.all().items() if not kind.wraps}


def register_module(module: ModuleType) -> list[type[Transform]]:
    """Register the transforms that a module defines, and return them; or raise and register none."""
    before = dict(REGISTRY.registered)
    try:
        return [register_transform(kind) for kind in REGISTRY.defined_in(module).values()]
    except Exception:
        REGISTRY.registered = before
        raise
