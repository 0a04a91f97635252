"""scikit-learn's estimator protocol, without importing scikit-learn before it asks."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable
from copy import deepcopy
from threading import RLock
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np
import numpy.typing as npt

from perceptrank.evaluation.trace import Trace
from perceptrank.kernels.arrays import Floats
from perceptrank.learners.learning import accepts_sparse, measure_of
from perceptrank.learners.model import Model
from perceptrank.measures import Measure, MeasureLike
from perceptrank.stream.blocks import Blocks, block_of_frame
from perceptrank.stream.columns import QID, RELEVANCE
from perceptrank.stream.frames import is_frame
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.validation import as_any_features, as_numbers, check_positive_whole

LARGEST_SINGLE_QUERY = 1000  # rows of `fit` that may be meant to be one
ROUTING = "sklearn.set_config(enable_metadata_routing=True)"
_NOTHING = object()
Kind = TypeVar("Kind", bound="Estimator")


def differ(value: Any, other: Any) -> bool:
    """Tell whether two settings differ; two arrays always do."""
    try:
        return value is not other and bool(value != other)
    except ValueError:
        return True


class Parameter:
    """A constructor argument: stored like any attribute, and checked when it is set on a finished object."""

    def __init__(self, name: str, default: Any) -> None:
        self.name, self.default = name, default

    def __set__(self, owner: Estimator, value: Any) -> None:
        if "_model" in owner.__dict__:
            owner.set_params(**{self.name: value})
        else:
            owner.__dict__[self.name] = value


class Estimator(ABC):
    """Parameters, fitting, scoring and the routing of `qid`, as scikit-learn defines them."""

    parameter_names: ClassVar[tuple[str, ...]] = ()
    reads_labels: ClassVar[bool]
    _lock: RLock

    if TYPE_CHECKING:  # what `Learner` has

        @property
        def model(self) -> Model: ...

        def adopt(self, model: Model) -> None: ...

        def learn(self, stream: Blocks, measures: Iterable[MeasureLike] | MeasureLike | None = None) -> Trace: ...

        def scores(self, stream: QueryStream) -> Floats: ...

        def _check_parameters(self) -> None: ...

        def _follow_parameters(self, before: dict[str, Any], changed: set[str]) -> None: ...

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments and their values.

        Parameters
        ----------
        deep : bool
            Return those of a nested learner as well; a parameter b of a nested learner a is named ``a__b``.
        """
        parameters = {name: getattr(self, name) for name in self.parameter_names}
        for outer, learner in [*parameters.items()] if deep else ():
            if isinstance(learner, Estimator):
                parameters |= {f"{outer}__{name}": value for name, value in learner.get_params().items()}
        return parameters

    def set_params(self, **parameters: Any) -> Self:
        """Set constructor arguments; if one is invalid, or cannot change once something was learned, none is changed.

        Parameters
        ----------
        **parameters : any
            Arguments by name; ``a__b`` is the parameter b of a nested learner a.
        """
        with self._lock:
            parameters = with_nested(self, parameters)
            unknown = [name for name in parameters if name not in self.parameter_names]
            if unknown:
                raise ValueError(
                    f"{type(self).__name__} has no parameter {', '.join(map(repr, unknown))}; "
                    f"it has {', '.join(self.parameter_names)}"
                )
            before = dict(self.__dict__)
            try:
                self.__dict__.update(parameters)
                self._check_parameters()
                self._follow_parameters(before, set(parameters))
            except BaseException:
                self.__dict__.update(before)
                raise
        return self

    def __repr__(self) -> str:
        defaults = {name: getattr(type(self), name).default for name in self.parameter_names}
        changed = {name: value for name, value in self.get_params(deep=False).items() if differ(value, defaults[name])}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in changed.items())})"

    def fit(
        self,
        X: npt.ArrayLike | QueryStream,
        y: npt.ArrayLike | None = None,
        *,
        qid: npt.ArrayLike | None = None,
        group: npt.ArrayLike | None = None,
        sample_weight: npt.ArrayLike | None = None,
        n_passes: int = 1,
        seed: int = 0,
    ) -> Self:
        """Forget everything, then learn from the data.

        Parameters
        ----------
        X : array of shape (documents, features), sparse matrix, data frame or QueryStream
            The documents; a QueryStream, or a data frame without `y`, holds grades and queries as well.
        y : array of shape (documents,), optional
            Grades.
        qid, group : array, optional
            Query of each document, or number of documents of each query. Without them, all documents are one query.
        sample_weight : array of shape (documents,), optional
            Weight of each document's query, the same for all documents of a query.
        n_passes : int
            Number of passes: the first in the given order of queries, each further one in a new random order.
        seed : int
            Seed of these orders.

        Raises
        ------
        ValueError
            If an argument is invalid, all weights are 0, or more than 1000 documents have neither `qid` nor `group`.
        """
        learned = type(self)(**self.get_params(deep=False))
        stream = as_stream(learned, X, y, qid, group, sample_weight)
        is_single = y is not None and qid is None and group is None and len(stream) == 1
        if is_single and (n := stream.n_documents) > LARGEST_SINGLE_QUERY:
            raise ValueError(
                f"without qid or group, all {n} rows would be the documents of one query: give qid, the query of each "
                f"row, or group=[{n}] if they are one. scikit-learn's searches and pipelines hand on qid after the "
                f"line {ROUTING}: fit(X, y, qid=qid, groups=qid)"
            )
        if stream.query_weights is not None and not stream.query_weights.any():
            raise ValueError("all weights are zero: there is no query to learn from")
        check_positive_whole("n_passes", n_passes)
        rng = np.random.default_rng(seed)
        learned.learn(stream, [])
        for _ in range(n_passes - 1):
            learned.learn(stream.shuffled(rng), [])
        self.adopt(learned.model)
        return self

    def partial_fit(
        self,
        X: npt.ArrayLike | QueryStream,
        y: npt.ArrayLike | None = None,
        *,
        qid: npt.ArrayLike | None = None,
        group: npt.ArrayLike | None = None,
        sample_weight: npt.ArrayLike | None = None,
    ) -> Self:
        """Learn from more data, as `learn` does, without a trace, and return the learner.

        The parameters are those of `fit`.
        """
        self.learn(as_stream(self, X, y, qid, group, sample_weight), measures=[])
        return self

    def score(
        self,
        X: npt.ArrayLike | QueryStream,
        y: npt.ArrayLike | None = None,
        *,
        qid: npt.ArrayLike | None = None,
        group: npt.ArrayLike | None = None,
        sample_weight: npt.ArrayLike | None = None,
    ) -> float:
        """Return the mean of the learner's measure over the queries of held-out data.

        The parameters are those of `fit`; of `qid` and `group`, one is needed, and `sample_weight` weights the mean.
        """
        if y is not None and qid is None and group is None and not isinstance(X, QueryStream):
            self.model.check_features(as_any_features(X).shape[1], None)
            raise ValueError(
                "score needs qid (the query of each row) or group (the number of rows of each query): a ranking is "
                f"measured query by query; scikit-learn's tools hand on qid after the line {ROUTING}"
            )
        stream = as_stream(self, X, y, qid, group, sample_weight)
        if len(stream) == 0:
            raise ValueError("the stream has no queries")
        learner: Any = self
        return mean_over_queries(measure_of(learner), self.scores(stream), stream)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags

        learner: Any = self
        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=True, positive_only=True),
            transformer_tags=None,
            classifier_tags=None,
            regressor_tags=None,
            input_tags=InputTags(sparse=accepts_sparse(learner, self.model), allow_nan=self.model.takes_missing),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_features_in_")

    def get_metadata_routing(self) -> Any:
        """Return the metadata that each method takes: `qid`, unless a `set_…_request` said otherwise."""
        from sklearn.utils.metadata_routing import MetadataRequest

        kept = getattr(self, "_metadata_request", None)
        if kept is not None:
            return deepcopy(kept)
        request = MetadataRequest(owner=type(self).__name__)
        for method in ("fit", "partial_fit", "predict", "score"):
            getattr(request, method).add_request(param="qid", alias=True)
            if method != "predict":
                getattr(request, method).add_request(param="sample_weight", alias=None)
        return request

    def set_fit_request(self, **metadata: bool | str | None) -> Self:
        """Choose the metadata that scikit-learn's routing passes to `fit`.

        Parameters
        ----------
        **metadata : bool, str, or None
            `qid` and `sample_weight` (`qid` alone for `predict`): True to receive it, a string to receive what has that
            name, False or None not to receive it.
        """
        return _request(self, "fit", metadata)

    def set_partial_fit_request(self, **metadata: bool | str | None) -> Self:
        """Choose the metadata for `partial_fit`; the parameters are those of `set_fit_request`."""
        return _request(self, "partial_fit", metadata)

    def set_predict_request(self, **metadata: bool | str | None) -> Self:
        """Choose the metadata for `predict`; the parameters are those of `set_fit_request`."""
        return _request(self, "predict", metadata)

    def set_score_request(self, **metadata: bool | str | None) -> Self:
        """Choose the metadata for `score`; the parameters are those of `set_fit_request`."""
        return _request(self, "score", metadata)


def mean_over_queries(measure: Measure, scores: Floats, stream: QueryStream) -> float:
    """Return the mean of a measure over the queries of a stream, by their weights, ranked by scores."""
    measure.check_grades(stream.relevance)
    values = measure.per_query(scores, stream.relevance, stream.offsets)
    return Trace({measure: values}, np.zeros(len(stream)), stream.query_weights).mean(measure)


def reads_labels(estimator: Estimator) -> bool:
    """Tell whether an estimator, or the one that it wraps, takes labels -1 and 1 as grades."""
    inner = estimator.model.inner
    return estimator.reads_labels if inner is None else reads_labels(inner)


def as_example(X: npt.ArrayLike, label: npt.ArrayLike) -> tuple[npt.ArrayLike, Floats]:
    """Convert one example and its label, or documents and their labels, to the documents and grades of a query."""
    is_single = not hasattr(X, "columns") and np.ndim(X) == 1
    return np.reshape(X, (1, -1)) if is_single else X, np.atleast_1d(_labels_as_grades(label))


def as_stream(
    estimator: Estimator,
    X: npt.ArrayLike | QueryStream,
    y: npt.ArrayLike | None,
    qid: npt.ArrayLike | None,
    group: npt.ArrayLike | None,
    sample_weight: npt.ArrayLike | None,
) -> QueryStream:
    """Return the arguments of `fit` as a stream; a data frame without grades beside it has a column of them."""
    if y is None and qid is None and group is None and is_frame(X) and {QID, RELEVANCE} <= set(X.columns):
        X = block_of_frame(X, estimator.model.feature_names or ())[0]
    if isinstance(X, QueryStream):
        if y is not None or qid is not None or group is not None or sample_weight is not None:
            raise ValueError("a QueryStream holds grades, queries and their weights already: give it alone")
        return X
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None: one grade per document"
        )
    if reads_labels(estimator):
        y = _labels_as_grades(y)
        shape = X.shape if hasattr(X, "shape") else np.asarray(X).shape
        if qid is None and group is None and y.size and y.shape == shape[:1]:
            group = np.ones(len(y), dtype=np.int64)
    weights = None if sample_weight is None else as_numbers("sample_weight", sample_weight)
    if weights is not None and weights.shape != (n := np.asarray(y).shape[:1]):
        raise ValueError(f"sample_weight must have one number per document, shape {n}, got {weights.shape}")
    return QueryStream.from_arrays(X, y, qid=qid, group=group, query_weights=weights, missing="keep")


def _labels_as_grades(labels: npt.ArrayLike) -> Floats:
    """Convert labels -1 and 1 to grades 0 and 1; other grades are unchanged."""
    values = as_numbers("labels", labels).astype(np.float64)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    return np.where(values == -1.0, 0.0, values)


def with_nested(estimator: Estimator, parameters: dict[str, Any]) -> dict[str, Any]:
    """Replace arguments a__b of a nested learner a by a copy of it with these arguments."""
    own = {name: value for name, value in parameters.items() if "__" not in name}
    for name, value in parameters.items():
        outer, separator, inner = name.partition("__")
        if not separator:
            continue
        nested = own.get(outer, getattr(estimator, outer, None))
        if not inner or not isinstance(nested, Estimator):
            raise ValueError(f"{type(estimator).__name__} has no parameter {name!r}")
        if differ(nested.get_params().get(inner, _NOTHING), value):
            own[outer] = type(nested)(**nested.get_params(deep=False)).set_params(**{inner: value})
    return own


def _request(estimator: Kind, method: str, metadata: dict[str, bool | str | None]) -> Kind:
    known = ("qid",) if method == "predict" else ("qid", "sample_weight")
    request = estimator.get_metadata_routing()
    for name, alias in metadata.items():
        if name not in known:
            raise TypeError(f"set_{method}_request takes {' and '.join(known)}, got {name}")
        getattr(request, method).add_request(param=name, alias=alias)
    estimator.__dict__["_metadata_request"] = request
    return estimator
