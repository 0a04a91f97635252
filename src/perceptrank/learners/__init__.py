"""The learners, one file each. `algorithms` finds them: a new file with a new name is all it takes."""

import importlib
import pkgutil
from functools import cache
from pathlib import Path
from typing import Any

from perceptrank.io import model_file
from perceptrank.learners.base import Learner

_DAMAGE = (
    AttributeError,
    IndexError,
    KeyError,
    MemoryError,
    OverflowError,
    RecursionError,
    TypeError,
    ValueError,
)


class UnknownAlgorithmError(ValueError):
    """There is no learner of that name."""


@cache
def _all_kinds() -> dict[str, type[Learner]]:
    found: dict[str, type[Learner]] = {}
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and issubclass(value, Learner) and hasattr(value, "algorithm"):
                found[value.algorithm] = value
    return dict(sorted(found.items()))


def algorithms() -> dict[str, type[Learner]]:
    """Name and class of every learner; each can be constructed without arguments.

    >>> list(algorithms())  # doctest: +NORMALIZE_WHITESPACE
    ['buffered-pairwise', 'category-ranking', 'committee', 'listnet', 'listwise', 'minimax', 'oap-bpm', 'opauc',
     'perceptron', 'prank', 'predtron', 'ranknet', 'slam', 'solar-1', 'solar-2', 'structured-ndcg', 'svm-map',
     'toppush', 'tournament', 'uneven-margins']
    """
    return {name: kind for name, kind in _all_kinds().items() if not kind.wraps}


def wrappers() -> dict[str, type[Learner]]:
    """Name and class of everything that is put around one learner.

    >>> list(wrappers())
    ['adagrad', 'bagging']
    """
    return {name: kind for name, kind in _all_kinds().items() if kind.wraps}


def from_document(document: dict[str, Any]) -> Learner:
    """The model of a dictionary that a learner's `as_document` made; raises if it does not hold together."""
    name = document.get("algorithm")
    kind = _all_kinds().get(name) if isinstance(name, str) else None
    if kind is None:
        raise UnknownAlgorithmError(f"a model of the unknown algorithm {name!r}")
    return kind.from_document(document)


def load(path: str | Path) -> Learner:
    """Read a model that `save` wrote; it goes on learning as if it had never stopped."""
    document = model_file.read_model(path)
    try:
        return from_document(document)
    except UnknownAlgorithmError as error:
        raise ValueError(f"{path} holds {error}") from None
    except _DAMAGE as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{path} is damaged: {reason}") from None
