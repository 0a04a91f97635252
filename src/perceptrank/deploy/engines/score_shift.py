"""A number that is added to every score, so that scores are not negative."""

import math
import os
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from perceptrank.deploy.additive import Additive
from perceptrank.deploy.engines.trees import MOST_VALUES, FloatTrees, Values, name_some
from perceptrank.deploy.folding import Folded, fold_function
from perceptrank.deploy.ranking_function import RankingFunction
from perceptrank.io.sources import format_of, open_sources
from perceptrank.kernels.arrays import Floats
from perceptrank.stream.blocks import as_blocks
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.sparse import AnyFeatures

SHIFT_FEATURE = "perceptrank_shift"
_ULP = float(np.finfo(np.float32).eps)
_BY_FEATURE = (
    f"as the weight of the feature {SHIFT_FEATURE!r}, which must be 1 for all documents (part=features has it)"
)
_IN_LEAVES = "in the leaves of the first tree"


class Shift(NamedTuple):
    """A number that is added to every score, and a sentence of what that is good for."""

    value: float = 0.0
    promise: str = ""


NO_SHIFT = Shift()


def as_shift(value: float, how: str = _BY_FEATURE) -> Shift:
    """Return the shift of a number."""
    rounded = float(np.float32(value))
    return (
        Shift(rounded, _promise(rounded, f"documents that scored {-rounded:g} or more", how)) if rounded else NO_SHIFT
    )


def make_shift(
    shift: Any, target: str, model: Any, function: RankingFunction, dropped: float, *, standardised: bool
) -> Shift:
    """Return a shift that makes scores 0 or more: of all documents without negative features, of a file, or a stream.

    The engine leaves `dropped` out of every score; if it subtracts means, it rounds numbers of their size.
    """
    folded = fold_function(function)
    weights = folded.weights[folded.places]
    offsets = np.abs(folded.offsets[folded.places]) if standardised else np.zeros(len(weights))
    if isinstance(shift, str) and shift == "auto":
        falling = [name for name, weight, _ in folded.terms() if weight < 0.0]
        if falling:
            raise ValueError(
                f"shift of the target {target}: no shift suffices for all documents, because {name_some(falling)} "
                f"{'have' if len(falling) > 1 else 'has'} a negative weight and no upper bound; give a number, or a "
                "file whose documents should score at least 0"
            )
        size = float(weights @ offsets)
        return _enough(folded.constant - dropped, size, len(weights), "documents without negative features")
    least, size, documents = math.inf, 0.0, 0
    for X, scores in _score(shift, target, model, function):
        least = min(least, float(np.min(scores)) - dropped)
        size = max(size, float(((np.abs(folded.columns(X)) + offsets) @ np.abs(weights)).max()))
        documents += len(scores)
    return _enough(least, size, len(weights), _documents_of(shift, documents))


def make_tree_shift(shift: Any, target: str, model: Any, function: RankingFunction, trees: FloatTrees) -> Shift:
    """Return a shift that makes scores 0 or more, of a model as trees: of all documents, of a file, or a stream."""
    if isinstance(shift, Shift):
        return as_shift(shift.value, _IN_LEAVES)
    n_trees = trees.forest.n_trees
    if isinstance(shift, str) and shift == "auto":
        lows, _ = trees.forest.ranges()
        return _enough(math.fsum(lows), trees.size, n_trees, "all documents", _IN_LEAVES)
    least, documents = math.inf, 0
    for _, scores in _score(shift, target, model, function):
        least, documents = min(least, float(np.min(scores)) - trees.dropped), documents + len(scores)
    return _enough(least, trees.size, n_trees, _documents_of(shift, documents), _IN_LEAVES)


def _score(shift: Any, target: str, model: Any, function: RankingFunction) -> Iterator[tuple[AnyFeatures, Floats]]:
    """Yield features and the model's scores of the documents of a file or a stream, in double precision."""
    for part in _parts(shift, f"shift of the target {target} must be a number, 'auto',", function):
        yield part.X, model.scores(part)


def _parts(source: Any, rule: str, function: RankingFunction) -> Iterator[QueryStream]:
    if isinstance(source, (str, os.PathLike)):
        try:
            letor: dict[str, Any] = {"n_features": len(function.names)} if format_of(source) == "letor" else {}
        except FileNotFoundError as error:
            raise FileNotFoundError(f"{rule} a file or a stream: {error}") from None
        source = open_sources([source], **letor)
    if not isinstance(source, (QueryStream, Iterable)) or isinstance(source, bytes):
        raise ValueError(f"{rule} a file or a stream, got {source!r}")
    for block in as_blocks(source, required=True):
        for part in block.blocks():
            yield function.aligned(part)


def find_values(source: Any, target: str, function: RankingFunction, model: Folded | Additive) -> Values | None:
    """Return all values that features with a weight have in a file or a stream, as float32 has them."""
    if source is None or isinstance(source, Values):
        return source
    if isinstance(model, Additive) or model.forest is None:
        raise ValueError(f"values of the target {target} are for models with weights and trees, got {model.kind}")
    values: dict[int, Floats] = dict.fromkeys(np.flatnonzero(model.weights).tolist(), np.empty(0))
    documents = 0
    for part in _parts(source, f"values of the target {target} must be", function):
        documents += part.n_documents
        columns = dict(zip(model.places.tolist(), model.columns(part.X).astype(np.float32).T, strict=True))
        for place, before in values.items():
            own = np.unique(np.concatenate([before, columns[place]]))
            values[place] = own[: MOST_VALUES + 1]
    promise = (
        f"weights are trees with a leaf for each value that a feature has in {_documents_of(source, documents)}: a "
        "document with another value scores as one with the next larger value does"
    )
    return Values(values, promise)


def _documents_of(shift: Any, n: int) -> str:
    return f"the {n:,} documents of {os.fspath(shift) if isinstance(shift, (str, os.PathLike)) else 'the stream'}"


def _enough(least: float, size: float, n: int, what: str, how: str = _BY_FEATURE) -> Shift:
    """Return a shift for a least score; what is rounded in float32 has a size."""
    error = 4 * _ULP * (n + 1)
    if least - error * size >= 0.0:
        return Shift(0.0, f"no shift is needed: {what} score 0 or more")
    value = (error * size - least) / (1 - error)  # the shift is rounded, too
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    rounded = np.float32(math.ceil(value / step) * step)
    if rounded < value:
        rounded = np.nextafter(rounded, np.float32(np.inf))
    if not np.isfinite(rounded):
        raise ValueError(f"float32 cannot hold a shift of {value:g}: scale the features")
    return Shift(float(rounded), _promise(float(rounded), what, how))


def _promise(value: float, what: str, how: str = _BY_FEATURE) -> str:
    others = "" if what == "all documents" else ", others may not"
    return f"{value:g} is added to every score, {how}: {what} score 0 or more{others}"
