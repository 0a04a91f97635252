"""Transforms by name, and as plain values in model files.

Those of this package stand in this folder; other packages name theirs as entry points of ``perceptrank.transforms``.
"""

import copy
import inspect
import json
from collections.abc import Iterable
from types import ModuleType
from typing import Any, TypeVar

from perceptrank.stream.registry import Registry, construct
from perceptrank.stream.validation import ParameterError
from perceptrank.transforms.transform import Transform, TransformLike, in_turn

AUTOMATIC = "query-zscore+query-normal"

Kind = TypeVar("Kind", bound=type[Transform])

_FOLDERS = ("perceptrank.transforms", "perceptrank.transforms.trees", "perceptrank.learners")  # the last by name only
REGISTRY = Registry(Transform, "transform", "name", *_FOLDERS)  # type: ignore[type-abstract]


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
    ['bins', 'clip', 'hash', 'hybrid', 'missing', 'query-minmax', 'query-normal', 'query-rank', 'query-zscore',
     'running', 'running-spread', 'signed-log', 'trees']
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


def make_transforms(transform: TransformLike) -> list[Transform]:
    """Return new copies of the transforms that a learner's `transform` names or holds, in their order.

    A name may be several joined by "+", and "auto" is "query-zscore+query-normal". Settings follow a name: what is
    after a colon, with commas between them. Those after one that makes sparse features are in their sparse form.

    Examples
    --------
    >>> make_transforms(["running", "clip:limit=2"]), make_transforms("auto")
    ([RunningStandardizer(), Clip(2)], [Join(QueryZScore(), QueryNormal())])
    """
    if transform is None:
        return []
    if not isinstance(transform, (str, Transform, list, tuple)):
        raise ParameterError("transforms", "must be a name, a Transform, or a list of these", transform)
    parts = [transform] if isinstance(transform, (str, Transform)) else transform
    check_names(parts)
    return in_turn([copy.deepcopy(part) if isinstance(part, Transform) else _parse(part) for part in parts])


def sparse_transforms(transform: TransformLike) -> list[Transform]:
    """Return new transforms for sparse features; raise `TypeError` if one has no sparse form. "auto" is "running".

    Examples
    --------
    >>> sparse_transforms("auto")
    [RunningSpread()]
    """
    if isinstance(transform, (list, tuple)):
        return [form for part in transform for form in sparse_transforms(part)]
    return [part.sparse_form() for part in make_transforms("running" if transform == "auto" else transform)]


def check_names(parts: Iterable[Any]) -> None:
    """Raise if some of these are neither transforms nor names of such; all of them are in the message."""
    unknown = [name for part in parts for name in _unknown(part)]
    if unknown:
        known = ", ".join(map(repr, ["auto", *named_transforms()]))
        value = unknown[0] if len(unknown) == 1 else unknown
        raise ParameterError("transforms", f"must be one of {known}, several joined by '+', or a Transform", value)


def _unknown(part: Any) -> list[Any]:
    if not isinstance(part, str):
        return [] if isinstance(part, Transform) else [part]
    return [name for name in part.split("+") if name != "auto" and _find_named(name.partition(":")[0]) is None]


def _find_named(name: str) -> type[Transform] | None:
    kind = REGISTRY.find(name)
    return None if kind is None or kind.wraps else kind


def _parse(text: str) -> Transform:
    from perceptrank.transforms.composition import Join

    names = [part for name in text.split("+") for part in (AUTOMATIC if name == "auto" else name).split("+")]
    return _parse_part(names[0]) if len(names) == 1 else Join(*names)


def _parse_part(text: str) -> Transform:
    """Make the transform of a name, which settings like "limit=2" may follow."""
    name, _, settings = text.partition(":")
    kind, values = _find_named(name), {}
    assert kind is not None  # names were checked
    known = list(inspect.signature(kind).parameters)
    for pair in settings.split(",") if settings else []:
        setting, equals, value = pair.partition("=")
        setting = setting.strip().replace("-", "_")
        if not equals or setting not in known:
            which = f"{name} has {', '.join(known)}" if known else f"{name} has no settings"
            raise ParameterError("transforms", f"must have settings like name:setting=value, and {which}", text)
        try:
            values[setting] = json.loads(value)
        except ValueError:
            values[setting] = value
    return kind(**values)


def as_plain(transform: Any) -> Any:
    """Return a learner's `transform` as names and dictionaries, for a model file; `from_plain` reads it back."""
    if transform is None or isinstance(transform, str):
        return transform
    if isinstance(transform, Transform):
        if REGISTRY.find(transform.name) is not type(transform):
            raise ValueError(
                f"a model with {transform!r} cannot be saved: register its class first, with "
                "perceptrank.transforms.register_transform"
            )
        return {"name": transform.name, **transform.state()}
    return [as_plain(part) for part in transform]


def from_plain(transform: Any) -> Any:
    """Return the `transform` that `as_plain` converted; raise if it is inconsistent."""
    if isinstance(transform, list):
        return [from_plain(part) for part in transform]
    if isinstance(transform, dict):
        name = transform["name"]
        kind = REGISTRY.find(name) if isinstance(name, str) else None
        if kind is None:
            raise ParameterError("transforms", "must be a known transform: register its class first", name)
        restored = kind.__new__(kind)
        restored.restore(transform)
        return restored
    return transform
