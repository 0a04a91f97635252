"""Transforms by name, and as plain values in model files."""

import copy
import inspect
import json
from collections.abc import Iterable
from typing import Any

from perceptrank.stream.validation import ParameterError
from perceptrank.transforms.bins import Bins
from perceptrank.transforms.clip import Clip
from perceptrank.transforms.composition import Chain, Join
from perceptrank.transforms.hashing import Hash
from perceptrank.transforms.missing import Missing
from perceptrank.transforms.query_minmax import QueryMinMax
from perceptrank.transforms.query_normal import QueryNormal
from perceptrank.transforms.query_rank import QueryRank
from perceptrank.transforms.query_zscore import QueryZScore
from perceptrank.transforms.random.fastfood import Fastfood
from perceptrank.transforms.random.random_fourier import RandomFourier
from perceptrank.transforms.random.random_relu import RandomRelu
from perceptrank.transforms.running import RunningStandardizer
from perceptrank.transforms.running_spread import RunningSpread
from perceptrank.transforms.signed_log import SignedLog
from perceptrank.transforms.transform import Transform, TransformLike, in_turn

_KINDS: tuple[type[Transform], ...] = (
    RunningStandardizer,
    RunningSpread,
    QueryZScore,
    QueryMinMax,
    QueryRank,
    QueryNormal,
    Clip,
    SignedLog,
    Missing,
    Bins,
    Hash,
    RandomFourier,
    Fastfood,
    RandomRelu,
)
TRANSFORMS: dict[str, type[Transform]] = {kind.name: kind for kind in _KINDS}
AUTOMATIC = "query-zscore+query-normal"


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
    return in_turn([copy.deepcopy(part) if isinstance(part, Transform) else _named(part) for part in parts])


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
        known = ", ".join(map(repr, ["auto", *TRANSFORMS]))
        found = unknown[0] if len(unknown) == 1 else unknown
        raise ParameterError("transforms", f"must be one of {known}, several joined by '+', or a Transform", found)


def _unknown(part: Any) -> list[Any]:
    if not isinstance(part, str):
        return [] if isinstance(part, Transform) else [part]
    return [one for one in part.split("+") if one != "auto" and one.partition(":")[0] not in TRANSFORMS]


def _named(text: str) -> Transform:
    names = [one for name in text.split("+") for one in (AUTOMATIC if name == "auto" else name).split("+")]
    return _with_settings(names[0]) if len(names) == 1 else Join(*names)


def _with_settings(text: str) -> Transform:
    """Make the transform of a name, which settings like "limit=2" may follow."""
    name, _, settings = text.partition(":")
    kind, given = TRANSFORMS[name], {}
    known = list(inspect.signature(kind).parameters)
    for pair in settings.split(",") if settings else []:
        setting, equals, value = pair.partition("=")
        setting = setting.strip().replace("-", "_")
        if not equals or setting not in known:
            which = f"{name} has {', '.join(known)}" if known else f"{name} has no settings"
            raise ParameterError("transforms", f"must have settings like name:setting=value, and {which}", text)
        try:
            given[setting] = json.loads(value)
        except ValueError:
            given[setting] = value
    return kind(**given)


def as_plain(transform: Any) -> Any:
    """Return a learner's `transform` as names and dictionaries, for a model file; `from_plain` reads it back."""
    if transform is None or isinstance(transform, str):
        return transform
    if isinstance(transform, Transform):
        if _kind(transform.name) is not type(transform):
            raise ValueError(f"a model with {transform!r} cannot be saved: only transforms of perceptrank can")
        return {"name": transform.name, **transform.state()}
    return [as_plain(part) for part in transform]


def from_plain(transform: Any) -> Any:
    """Return the `transform` that `as_plain` converted; raise if it is inconsistent."""
    if isinstance(transform, list):
        return [from_plain(part) for part in transform]
    if isinstance(transform, dict):
        kind = _kind(transform["name"])
        if kind is None:
            raise ParameterError("transforms", "must be a transform of perceptrank", transform["name"])
        made = kind.__new__(kind)
        made.restore(transform)
        return made
    return transform


def _kind(name: str) -> type[Transform] | None:
    return {Chain.name: Chain, Join.name: Join}.get(name) or TRANSFORMS.get(name)
