"""The base of learners that rank by a function of their own, such as a neural network in plain NumPy."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY
from typing import Any, ClassVar

import numpy as np

from perceptrank.kernels.arrays import Features, Floats, Ints
from perceptrank.learners.learner import Learner
from perceptrank.learners.model import Model
from perceptrank.learners.rounds import count_round
from perceptrank.stream.sparse import AnyFeatures
from perceptrank.stream.validation import are_finite, as_numbers, bad_feature, read_only
from perceptrank.transforms.transform import TransformLike


class FunctionModel(Model):
    """The model of a `FunctionLearner`: named arrays, and the function that ranks by them."""

    function: Callable[[Mapping[str, Any], Features], Floats]

    @property
    def is_linear(self) -> bool:
        return False

    @property
    def coefficients(self) -> Floats:
        """Unavailable: the function has arrays, not a weight for each feature."""
        raise AttributeError(f"a {self.kind} has no weights of features: it ranks by a function of its arrays_")

    @property
    def arrays(self) -> dict[str, Any]:
        """The arrays that were learned, read-only."""
        return {name: read_only(values) for name, values in self.more.items()}

    def linear_scores(self, X: AnyFeatures, names: tuple[str, ...] | None = None, *, current: bool = False) -> Floats:
        if not are_finite(X):
            raise bad_feature(X, 0, names)
        if not self.has_begun:
            return np.zeros(X.shape[0])
        scores = self.scored(X)
        if not np.isfinite(scores).all():
            raise ValueError(
                f"function of {self.kind} must return finite numbers, got {scores[~np.isfinite(scores)][0]}"
            )
        return scores

    def scored(self, X: Any) -> Floats:
        """Return what the function returns; raise unless that is a number for each document."""
        returned = self.function(self.arrays, read_only(X))
        scores = as_numbers(f"what function of {self.kind} returns", returned).astype(np.float64)
        if scores.shape != (len(X),):
            raise ValueError(f"function of {self.kind} must return {len(X)} scores, got shape {scores.shape}")
        return scores


class FunctionLearner(Learner):
    """A learner that ranks by a function of named arrays, which it changes query by query.

    A subclass has an `algorithm` name, and says what the arrays are in the beginning (`start`), how documents are
    scored by them (`function`, a static method), and what a query changes (`update`); see docs/learners/your-own.md.
    Such a model is not exported to engines, nor mixed over shards.

    Examples
    --------
    >>> class Nearest(FunctionLearner):
    ...     algorithm = "nearest-to-best"
    ...     def start(self, n_features):
    ...         return {"centre": np.zeros(n_features)}
    ...     @staticmethod
    ...     def function(arrays, X):
    ...         return -np.square(X - arrays["centre"]).sum(axis=1)
    ...     def update(self, arrays, scores, X, relevance):
    ...         return {"centre": 0.9 * arrays["centre"] + 0.1 * X[np.argmax(relevance)]}
    >>> ranker = Nearest(transforms=None)
    >>> ranker.learn_one([[2.0, 0.0], [0.0, 1.0]], [1, 0]), ranker.arrays_
    (True, {'centre': array([0.2, 0. ])})
    """

    model_class = FunctionModel
    average: ClassVar[bool] = False  # type: ignore[misc]
    cost: ClassVar[str] = "that of its function"
    without_query_weights: ClassVar[str] = "its update has no query weights"

    _: KW_ONLY
    transforms: TransformLike = "auto"

    @abstractmethod
    def start(self, n_features: int) -> Mapping[str, Any]:
        """Return the arrays before anything was learned, by name.

        Parameters
        ----------
        n_features : int
            Number of features, after the transforms.
        """

    @staticmethod
    @abstractmethod
    def function(arrays: Mapping[str, Any], X: Features) -> Floats:
        """Return the scores of documents.

        Parameters
        ----------
        arrays : mapping from names to arrays
            What was learned, read-only.
        X : array of shape (documents, features)
            Features, after the transforms.
        """

    @abstractmethod
    def update(
        self, arrays: Mapping[str, Any], scores: Floats, X: Features, relevance: Floats
    ) -> Mapping[str, Any] | None:
        """Return the arrays that a query changes, by name, or None if it changes none; arguments are read-only.

        Parameters
        ----------
        arrays : mapping from names to arrays
            What was learned so far.
        scores : array of shape (documents,)
            Scores that the query was ranked by.
        X : array of shape (documents, features)
            Features, after the transforms.
        relevance : array of shape (documents,)
            Grades, finite and not negative.
        """

    def check(self) -> None:
        """Raise if a parameter of the subclass is invalid."""

    @property
    def arrays_(self) -> dict[str, Any]:
        """The arrays that were learned, by name, read-only; `AttributeError` before learning."""
        model: Any = self._model.require_learned()
        return model.arrays

    def extra_state(self, n_features: int) -> dict[str, Floats]:
        return {name: np.array(values, dtype=np.float64) for name, values in self.start(n_features).items()}

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self.check()

    def _configured(self, model: Model | None = None) -> Model:
        configured: Any = super()._configured(model)
        configured.function = type(self).function
        return configured

    def _pass(
        self, state: Any, X: Features, relevance: Floats, offsets: Ints, predicted: Floats, masses: Floats
    ) -> int:
        for q in range(len(offsets) - 1):
            rows = slice(offsets[q], offsets[q + 1])
            documents, grades = read_only(X[rows]), read_only(relevance[rows])
            if not ((grades >= 0) & (grades < np.inf)).all() or not are_finite(documents):
                return q
            predicted[rows] = state.scored(documents)
            if not np.isfinite(predicted[rows]).all():
                return q
            if masses[q] == 0.0:
                continue
            changed = self.update(state.arrays, read_only(predicted[rows].copy()), documents, grades)
            for name, values in (changed or {}).items():
                state.more[name][...] = self._checked(name, values, state.more)
            masses[q] = 1.0 if changed else 0.0
            if not count_round(masses[q], state.core, 1.0):
                return q
        return len(offsets) - 1

    def _checked(self, name: str, values: Any, arrays: Mapping[str, Any]) -> Floats:
        """Return an array that `update` returned; raise unless it can replace that of its name."""
        kind = f"{name!r} that update of {type(self).__name__} returns"
        if name not in arrays:
            raise ValueError(f"{kind} must be one of {', '.join(arrays)}, which `start` named")
        numbers = np.asarray(as_numbers(kind, values), dtype=np.float64)
        if numbers.shape != arrays[name].shape or not np.isfinite(numbers).all():
            raise ValueError(f"{kind} must be finite numbers of shape {arrays[name].shape}, got shape {numbers.shape}")
        return numbers
