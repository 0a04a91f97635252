"""scikit-learn's estimator protocol, without importing scikit-learn before it asks."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import AbstractContextManager
from copy import deepcopy
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from perceptrank.evaluation.trace import Trace
from perceptrank.kernels.arrays import Floats
from perceptrank.measures import Measure, MeasureLike
from perceptrank.stream.blocks import Blocks
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.validation import as_features

_NOTHING = object()


def differ(one: Any, other: Any) -> bool:
    """Tell whether two settings differ; arrays, which are none, do."""
    try:
        return bool(one != other)
    except ValueError:
        return True


class Parameter:
    """A constructor argument: stored like any attribute, and checked when it is set on a finished object."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __set__(self, owner: "Estimator", value: Any) -> None:
        if owner._is_finished():
            owner.set_params(**{self.name: value})
        else:
            owner.__dict__[self.name] = value


class Estimator(ABC):
    """Parameters that can be read, set and cloned; `fit`, `partial_fit` and `score`; routing of `qid`."""

    parameter_names: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.parameter_names = tuple(inspect.signature(cls).parameters)
        for name in cls.parameter_names:
            setattr(cls, name, Parameter(name))

    @abstractmethod
    def learn(self, stream: Blocks, measures: Iterable[MeasureLike] | MeasureLike | None = None) -> Trace:
        """Rank each query, record the measures, then learn from its grades."""

    @abstractmethod
    def scores(self, stream: QueryStream) -> Floats:
        """Return one score per document of a stream; the larger, the better."""

    @abstractmethod
    def _start(self) -> None:
        """Forget everything that was learned."""

    @abstractmethod
    def _all_or_nothing(self) -> AbstractContextManager[None]:
        """Restore everything if an error is raised."""

    @abstractmethod
    def _own_measure(self) -> Measure:
        """Return the measure that is recorded and scored by unless told otherwise."""

    @abstractmethod
    def _check_features(self, n_features: int, names: tuple[str, ...] | None) -> None:
        """Raise if features do not match those that were learned."""

    @abstractmethod
    def _is_finished(self) -> bool:
        """Tell whether the constructor has run to its end."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments and their values; if `deep`, those of a learner among them as well, as a__b."""
        parameters = {name: getattr(self, name) for name in self.parameter_names}
        nested = {name: value for name, value in parameters.items() if deep and isinstance(value, Estimator)}
        for outer, value in nested.items():
            parameters |= {f"{outer}__{name}": one for name, one in value.get_params().items()}
        return parameters

    def set_params(self, **parameters: Any) -> Self:
        """Change constructor arguments; if one is wrong, none is changed."""
        parameters = self._with_nested(parameters)
        unknown = [name for name in parameters if name not in self.parameter_names]
        if unknown:
            raise ValueError(
                f"{type(self).__name__} has no parameter {', '.join(map(repr, unknown))}; "
                f"it has {', '.join(self.parameter_names)}"
            )
        self._check_change(parameters)
        before = {name: getattr(self, name) for name in parameters}
        try:
            self.__dict__.update(parameters)
            self._check_parameters()
        except BaseException:
            self.__dict__.update(before)
            raise
        self._parameters_changed(parameters)
        return self

    def _with_nested(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Arguments of learners among the arguments, a__b, as new learners, which differ from the old ones in those."""
        own = {name: value for name, value in parameters.items() if "__" not in name}
        for name, value in parameters.items():
            outer, separator, inner = name.partition("__")
            if not separator:
                continue
            one = own.get(outer, getattr(self, outer, None))
            if not inner or not isinstance(one, Estimator):
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}")
            if differ(one.get_params().get(inner, _NOTHING), value):
                own[outer] = type(one)(**one.get_params(deep=False)).set_params(**{inner: value})
        return own

    def _check_change(self, parameters: dict[str, Any]) -> None:
        """Hook: raise if these parameters cannot be changed any more."""

    def _parameters_changed(self, parameters: dict[str, Any]) -> None:
        """Hook: these parameters were set, and are right."""

    def _check_parameters(self) -> None:
        """Raise if a parameter is wrong."""

    def __repr__(self) -> str:
        defaults = {name: one.default for name, one in inspect.signature(type(self)).parameters.items()}
        changed = {name: value for name, value in self.get_params(deep=False).items() if value != defaults[name]}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in changed.items())})"

    def fit(
        self,
        X: npt.ArrayLike | QueryStream,
        y: npt.ArrayLike | None = None,
        *,
        qid: npt.ArrayLike | None = None,
        group: npt.ArrayLike | None = None,
        n_passes: int = 1,
        seed: int = 0,
    ) -> Self:
        """Forget everything, then go over the data `n_passes` times.

        The first pass takes the queries in the given order, each further one in an order shuffled anew with `seed`.
        Without qid and group, all rows are one query. X may be a QueryStream, which holds all of this.
        """
        stream = self._as_stream(X, y, qid, group)
        if not isinstance(n_passes, (int, np.integer)) or n_passes < 1:
            raise ValueError(f"n_passes must be a whole number of at least 1, got {n_passes!r}")
        rng = np.random.default_rng(seed)
        with self._all_or_nothing():
            self._start()
            self.learn(stream)
            for _ in range(n_passes - 1):
                self.learn(stream.shuffled(rng))
        return self

    def partial_fit(
        self,
        X: npt.ArrayLike | QueryStream,
        y: npt.ArrayLike | None = None,
        *,
        qid: npt.ArrayLike | None = None,
        group: npt.ArrayLike | None = None,
    ) -> Self:
        """Learn from more data; the same as `learn`, without a trace."""
        self.learn(self._as_stream(X, y, qid, group), measures=[])
        return self

    def score(
        self,
        X: npt.ArrayLike | QueryStream,
        y: npt.ArrayLike | None = None,
        *,
        qid: npt.ArrayLike | None = None,
        group: npt.ArrayLike | None = None,
    ) -> float:
        """Mean of the learner's measure over the queries of held-out data."""
        if not isinstance(X, QueryStream) and qid is None and group is None:
            self._check_features(as_features(X).shape[1], None)
            raise ValueError(
                "score needs qid (the query of each row) or group (the number of rows of each query): "
                "a ranking is measured query by query"
            )
        stream = self._as_stream(X, y, qid, group)
        if len(stream) == 0:
            raise ValueError("the stream has no queries")
        measure = self._own_measure()
        measure.check_grades(stream.relevance)
        return Trace(
            {measure: measure.per_query(self.scores(stream), stream.relevance, stream.offsets)},
            np.zeros(len(stream)),
        ).mean(measure)

    def _as_stream(
        self,
        X: npt.ArrayLike | QueryStream,
        y: npt.ArrayLike | None,
        qid: npt.ArrayLike | None,
        group: npt.ArrayLike | None,
    ) -> QueryStream:
        if isinstance(X, QueryStream):
            if y is not None or qid is not None or group is not None:
                raise ValueError("a QueryStream holds grades and queries already: give it alone")
            return X
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None: one grade per document"
            )
        return QueryStream.from_arrays(X, y, qid=qid, group=group)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=True, positive_only=True),
            transformer_tags=None,
            classifier_tags=None,
            regressor_tags=None,
            input_tags=InputTags(),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_features_in_")

    def get_metadata_routing(self) -> Any:
        """Which metadata each method takes: `qid`, unless a `set_…_request` said otherwise."""
        from sklearn.utils.metadata_routing import MetadataRequest

        kept = getattr(self, "_metadata_request", None)
        if kept is not None:
            return deepcopy(kept)
        request = MetadataRequest(owner=type(self).__name__)
        for method in ("fit", "partial_fit", "predict", "score"):
            getattr(request, method).add_request(param="qid", alias=True)
        request.score.add_request(param="sample_weight", alias=None)  # pipelines always offer it
        return request

    def set_fit_request(self, *, qid: bool | str | None) -> Self:
        """Say whether, or under which name, `fit` is given `qid` by scikit-learn's metadata routing."""
        return self._request("fit", qid)

    def set_partial_fit_request(self, *, qid: bool | str | None) -> Self:
        """Say whether, or under which name, `partial_fit` is given `qid` by scikit-learn's metadata routing."""
        return self._request("partial_fit", qid)

    def set_predict_request(self, *, qid: bool | str | None) -> Self:
        """Say whether, or under which name, `predict` is given `qid` by scikit-learn's metadata routing."""
        return self._request("predict", qid)

    def set_score_request(self, *, qid: bool | str | None) -> Self:
        """Say whether, or under which name, `score` is given `qid` by scikit-learn's metadata routing."""
        return self._request("score", qid)

    def _request(self, method: str, alias: bool | str | None) -> Self:
        request = self.get_metadata_routing()
        getattr(request, method).add_request(param="qid", alias=alias)
        self._metadata_request = request
        return self
