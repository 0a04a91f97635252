"""Features that several learners transform alike, transformed once while they take turns at the same queries."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from perceptrank.transforms.transform import Transform

_KEPT: ContextVar[list[tuple[Any, list[Transform], Any]] | None] = ContextVar("kept", default=None)


@contextmanager
def sharing() -> Iterator[None]:
    """Return a context in which what transforms make of an array is kept, and so are both: no one may change them."""
    token = _KEPT.set([])
    try:
        yield
    finally:
        _KEPT.reset(token)


def may_share(transforms: list[Transform]) -> bool:
    """Tell whether there are transforms, whose outputs depend on the features alone."""
    fixed = all(not leaf.learns and not leaf.wraps for transform in transforms for leaf in transform.leaves())
    return bool(transforms) and fixed and not transforms[0].accepts_any_columns


def share(transforms: list[Transform], X: Any, transform: Callable[[], Any]) -> Any:
    """Return what `transform` returns for these transforms of X, without calling it again for the same ones."""
    kept = _KEPT.get()
    if kept is None or not isinstance(X, np.ndarray) or not may_share(transforms):
        return transform()
    for before, others, outputs in kept:
        if before.__array_interface__ == X.__array_interface__ and others == transforms:
            return outputs
    outputs = transform()
    kept.append((X, transforms, outputs))
    return outputs
