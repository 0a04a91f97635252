"""Transforms by name, and as plain values in model files."""

import copy
from typing import Any

from perceptrank.stream.validation import ParameterError
from perceptrank.transforms.query_minmax import QueryMinMax
from perceptrank.transforms.query_zscore import QueryZScore
from perceptrank.transforms.running import RunningStandardizer
from perceptrank.transforms.scaling import Scaling, ScalingLike

SCALINGS: dict[str, type[Scaling]] = {kind.name: kind for kind in (QueryZScore, QueryMinMax, RunningStandardizer)}


def make_scalings(scaling: ScalingLike) -> list[Scaling]:
    """Return new copies of the transforms that a learner's `scaling` names or holds."""
    if scaling is None:
        return []
    if not isinstance(scaling, (str, Scaling, list, tuple)):
        raise ParameterError("scaling", "must be a name, a Scaling, or a list of these", scaling)
    parts = [scaling] if isinstance(scaling, (str, Scaling)) else scaling
    made = []
    for part in parts:
        if isinstance(part, Scaling):
            made.append(copy.deepcopy(part))
        elif isinstance(part, str) and part in SCALINGS:
            made.append(SCALINGS[part]())
        else:
            raise ParameterError("scaling", f"must be one of {', '.join(map(repr, SCALINGS))} or a Scaling", part)
    return made


def as_plain(scaling: Any) -> Any:
    """Return a learner's `scaling` as names and dictionaries, for a model file; `from_plain` reads it back."""
    if scaling is None or isinstance(scaling, str):
        return scaling
    if isinstance(scaling, Scaling):
        if SCALINGS.get(scaling.name) is not type(scaling):
            raise ValueError(f"a model with {scaling!r} cannot be saved: only scalings of perceptrank can")
        return {"name": scaling.name, **scaling.state()}
    return [as_plain(part) for part in scaling]


def from_plain(scaling: Any) -> Any:
    """Return the `scaling` that `as_plain` converted; raise if it is inconsistent."""
    if isinstance(scaling, list):
        return [from_plain(part) for part in scaling]
    if isinstance(scaling, dict):
        made = make_scalings(str(scaling["name"]))[0]
        made.restore(scaling)
        return made
    return scaling
