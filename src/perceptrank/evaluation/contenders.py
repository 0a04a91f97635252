"""Contenders of a comparison: learners, models that are fitted to all queries at once, and what only ranks."""

import inspect
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

import numpy as np

from perceptrank.evaluation.trace import Trace
from perceptrank.kernels.arrays import Floats
from perceptrank.measures import Measure, MeasureLike, parse_all
from perceptrank.stream.blocks import Blocks, as_blocks
from perceptrank.stream.frames import make_frame
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.sparse import SparseFeatures
from perceptrank.stream.validation import as_scores

FAILURES = (MemoryError, ArithmeticError, ValueError)


class Scorer(Protocol):
    """Scores the documents of a stream."""

    def scores(self, stream: QueryStream) -> Floats:
        """Return one score per document; larger is better."""


@runtime_checkable
class OnlineRanker(Protocol):
    """Learns from a stream, and records measures of each ranking before learning from it."""

    def learn(self, stream: Blocks, measures: Iterable[MeasureLike] | MeasureLike | None = None) -> Trace:
        """Rank each query, record the measures, then learn from its grades."""


class Foreign:
    """A function of a stream, or a model with `scores(stream)` or `predict(X)`, as a ranker."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.feature_names_in_ = tuple(map(str, getattr(model, "feature_names_in_", ())))
        self._was_fitted_here = False

    def scores(self, stream: QueryStream) -> Floats:
        """Return one score per document; raise `ValueError` for whatever goes wrong in the model."""
        names, known = stream.feature_names, self.feature_names_in_
        by_name = bool(names and known) and (self._was_fitted_here or set(known) <= set(names or ()))
        own = stream.select(known) if by_name else stream
        with _blaming(f"{type(self.model).__name__} cannot score"):
            if hasattr(self.model, "scores"):
                values = self.model.scores(own)
            elif hasattr(self.model, "predict"):
                values = self._predict(own, by_name=by_name)
            else:
                values = self.model(own)
            values = np.asarray(values)
        return one_per_document(values[:, 0] if values.shape[1:] == (1,) else values, stream)

    def _predict(self, stream: QueryStream, *, by_name: bool) -> Any:
        X = _matrix(stream)
        if by_name and not self._was_fitted_here and not stream.is_sparse:  # then it was fitted to a data frame
            X = make_frame({name: X[:, j] for j, name in enumerate(self.feature_names_in_)}, "pandas")
        if hasattr(self.model, "inplace_predict"):  # XGBoost's Booster, whose `predict` takes matrices of its own
            return self.model.inplace_predict(X)
        return self.model.predict(X, **_queries(self.model, "predict", stream))

    def _learn_names(self, stream: QueryStream) -> None:
        self.feature_names_in_, self._was_fitted_here = stream.feature_names or (), True


class Batch(Foreign):
    """A model that is fitted to all queries at once, so that no query is ranked before it was learned from."""

    def fit(self, stream: QueryStream) -> None:
        """Fit the model; raise `ValueError` for whatever goes wrong in it."""
        with _blaming(f"{type(self.model).__name__} cannot be fitted"):
            if _takes_stream(self.model.fit):
                self.model.fit(stream)
            else:
                self.model.fit(_matrix(stream), stream.relevance, **_queries(self.model, "fit", stream))
        self._learn_names(stream)


class QueryByQuery(Foreign):
    """A model that ranks one query after the other, and then learns from it if it can learn at all."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self._learn = getattr(model, "learn_one", getattr(model, "learn", None))
        self._n_queries = 0

    def learn(self, stream: Blocks, measures: Iterable[MeasureLike] | MeasureLike | None = None) -> Trace:
        """Rank each query, record the measures, then learn from its grades."""
        recorded = parse_all(measures or ())
        queries = (block[q : q + 1] for block in as_blocks(stream) for q in range(len(block)))
        return Trace.concatenate(self._round(query, recorded) for query in queries)

    def _round(self, query: QueryStream, measures: list[Measure]) -> Trace:
        scores, values = self.scores(query), {}
        for measure in measures:
            measure.check_grades(query.relevance)
            values[measure] = measure.per_query(scores, query.relevance, query.offsets, self._n_queries)
        self._n_queries += 1
        if self._learn is not None:
            if query.query_weights is not None and query.query_weights[0] != 1:
                raise ValueError(f"{type(self.model).__name__} takes no query weights: all must be 1")
            self._learn_names(query)
            with _blaming(f"{type(self.model).__name__} cannot learn"):
                if _takes_stream(self._learn):
                    self._learn(query)
                else:
                    self._learn(_matrix(query), query.relevance)
        return Trace(values, np.array([0.0 if self._learn is None else 1.0]), query.query_weights)


def as_contender(name: str, model: Any) -> OnlineRanker | Batch:
    """Return a model as one that learns from streams, or is fitted to one; raise if it cannot rank."""
    learn = getattr(model, "learn", None)
    if learn is not None and not isinstance(model, type) and "measures" in _parameters(learn):
        learner: OnlineRanker = model
        return learner
    as_scorer(name, model)
    learns = learn is not None or hasattr(model, "learn_one") or not hasattr(model, "fit")
    return QueryByQuery(model) if learns else Batch(model)


def as_scorer(name: str, model: Any) -> Scorer:
    """Return a model as one that scores streams; raise if it cannot."""
    is_class = isinstance(model, type)
    if is_class or not (hasattr(model, "scores") or hasattr(model, "predict") or callable(model)):
        kind = f"the class {model.__name__}" if is_class else type(model).__name__
        rule = "each must be a learner, a model with `scores(stream)` or `predict(X)`, or a function of a stream"
        raise TypeError(f"{rule}; got {kind} for {name!r}")
    scorer: Scorer = model if hasattr(model, "scores") else Foreign(model)
    return scorer


def one_per_document(values: Any, stream: QueryStream) -> Floats:
    """Return scores as an array; raise unless there is one for each document of a stream."""
    scores = as_scores(values)
    if len(scores) != stream.n_documents:
        raise ValueError(f"the ranker must score each of {stream.n_documents} documents, got {len(scores)} scores")
    return scores


def _matrix(stream: QueryStream) -> Any:
    """Return the features as other libraries take them."""
    if not isinstance(stream.X, SparseFeatures):
        return stream.X
    from scipy.sparse import csr_matrix

    return csr_matrix(stream.X.to_scipy())  # LightGBM takes no sparse array


def _queries(model: Any, method: str, stream: QueryStream) -> dict[str, Any]:
    """Return the arguments by which a method is told queries, and when fitting, query weights if there are any."""
    steps = getattr(model, "steps", None)  # of a pipeline, whose last one ranks
    taken = _parameters(getattr(steps[-1][1] if steps else model, method))
    sizes = np.diff(stream.offsets)
    numbers = np.repeat(np.arange(len(sizes)), sizes)
    known = {"qid": numbers, "group_id": numbers, "group": sizes}
    name = next((name for name in known if name in taken), "")
    given = {name: known[name]} if name else {}
    if method == "fit" and (weights := stream.query_weights) is not None:
        if "sample_weight" not in taken:
            raise ValueError("its `fit` takes no sample_weight, and the queries have weights")
        is_xgboost = type(model).__module__.startswith("xgboost")  # which has one per query, if it has queries
        given["sample_weight"] = weights if name and is_xgboost else np.repeat(weights, sizes)
    prefix = f"{steps[-1][0]}__" if steps and method == "fit" else ""
    return {prefix + name: values for name, values in given.items()}


def _takes_stream(function: Any) -> bool:
    """Tell if a function takes a stream, rather than features and grades."""
    names = list(_parameters(function))
    return len(names) == 1 or names[:1] == ["stream"]


def _parameters(function: Any) -> Iterable[str]:
    return inspect.signature(function).parameters


@contextmanager
def _blaming(what: str) -> Iterator[None]:
    """Turn errors of other libraries into those of a contender that fails."""
    try:
        yield
    except FAILURES:
        raise
    except Exception as error:
        raise ValueError(f"{what}: {type(error).__name__}: {error}") from error
