"""Files of models among the arguments of a command, and what they hold."""

import json
import os
from typing import TYPE_CHECKING, Any

import perceptrank as pr

if TYPE_CHECKING:
    from perceptrank.learners.learner import Learner

_HEAD = 2**12
_MARK = b'"perceptrank model"'


def split_models(first: str, others: list[str]) -> tuple[list[str], list[str]]:
    """Split the arguments after a model into further models, which come first, and files of judged queries."""
    n = next((k for k, path in enumerate(others) if not _is_model(path)), len(others))
    models, files = [first, *others[:n]], others[n:]
    if files and files[0].lower().endswith(".json") and not os.path.lexists(files[0]):
        raise FileNotFoundError(f"there is no file {files[0]}")  # it would have been a model
    if twice := sorted({path for path in models if models.count(path) > 1}):
        raise ValueError(f"{twice[0]} is given twice: every model must be another")
    if not files:
        raise ValueError(
            f"there are no queries to rank: {', '.join(models)} are models; name the files of queries after them"
        )
    return models, files


def _is_model(path: str) -> bool:
    """Tell whether a file holds a model, or weights: JSON, one object, and not lines of it."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        head = file.read(_HEAD).lstrip()
        if not head.startswith(b"{"):
            return False
        if _MARK in head:
            return True
        if not path.lower().endswith(".json"):
            return False
        file.seek(0)
        try:
            return isinstance(json.load(file), dict)
        except (ValueError, RecursionError):
            return False


def load_ranker(path: str) -> "Learner":
    """Load a model, or make a ranker of the weights that a file holds."""
    from perceptrank.io.weights_file import is_model, read_weights

    if is_model(path):
        return pr.load(path)
    weights: Any = read_weights(path)  # keys of a mapping are invariant, and these are names only
    return pr.FixedRanker(weights)
