"""The learners, one file each. `algorithms` finds them: a new file with a new name is all it takes."""

import importlib
import pkgutil
from functools import cache
from pathlib import Path

from perceptrank import persist
from perceptrank.learners.base import Learner


@cache
def _found() -> dict[str, type[Learner]]:
    found: dict[str, type[Learner]] = {}
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and issubclass(value, Learner) and hasattr(value, "algorithm"):
                found[value.algorithm] = value
    return dict(sorted(found.items()))


def algorithms() -> dict[str, type[Learner]]:
    """Name and class of every learner; each can be constructed without arguments.

    >>> list(algorithms())  # doctest: +NORMALIZE_WHITESPACE
    ['category-ranking', 'listnet', 'listwise', 'minimax', 'perceptron', 'predtron', 'ranknet', 'slam', 'svm-map',
     'toppush', 'uneven-margins']
    """
    return dict(_found())


def load(path: str | Path) -> Learner:
    """Read a model that `save` wrote; it goes on learning as if it had never stopped."""
    document = persist.read_model(path)
    name = document.get("algorithm")
    kind = algorithms().get(name) if isinstance(name, str) else None
    if kind is None:
        raise ValueError(f"{path} holds a model of the unknown algorithm {name!r}")
    try:
        return kind.from_document(document)
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{path} is damaged: {reason}") from None
