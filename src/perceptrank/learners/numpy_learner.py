"""The base of learners whose rule is written in plain NumPy."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import KW_ONLY
from typing import Any, ClassVar

import numpy as np

from perceptrank.kernels.arrays import Features, Floats, Ints
from perceptrank.kernels.scoring import score_rows, squared_norm
from perceptrank.learners.learner import Learner
from perceptrank.learners.model import Model
from perceptrank.learners.rounds import adapt as adapt_step
from perceptrank.learners.rounds import count_round
from perceptrank.learners.tally import LARGEST_REACH, LARGEST_SQUARED_NORM, SQUARED_REACH, SQUARED_STEPS
from perceptrank.stream.validation import as_numbers, check_choice, check_positive, read_only
from perceptrank.transforms.transform import TransformLike


class NumpyLearner(Learner):
    """A learner whose rule is a method: the scores and grades of one query to a coefficient per document, or a step.

    A subclass has an `algorithm` name and `update`; see docs/learners/your-own.md. Its parameters are declared as those
    of a dataclass; a method `check` raises if one is invalid. A constructor of its own stores its arguments under their
    names and ends in `self.__post_init__()`; parameters that it does not take keep their defaults.

    Attributes
    ----------
    returns : either "coefficients" or "step"
        What `update` returns: a coefficient per document, or a step per feature.
    accepts_query_weights : bool
        True, unless a subclass says otherwise: steps are multiplied by the weights of their queries.

    Examples
    --------
    >>> class PassiveAggressive(NumpyLearner):
    ...     algorithm = "listwise-pa"
    ...     returns = "step"
    ...     def update(self, scores, X, relevance):
    ...         best, worst = np.argmax(relevance), np.argmin(relevance)
    ...         x = X[best].astype(float) - X[worst]
    ...         loss = max(0.0, 1.0 - (scores[best] - scores[worst]))
    ...         return loss / (x @ x) * x if relevance[best] > relevance[worst] and x.any() else None
    >>> ranker = PassiveAggressive()
    >>> ranker.learn_one([[2.0, 0.0], [0.0, 0.0]], [1, 0])
    True
    >>> ranker.weights
    array([0.5, 0. ])
    """

    cost: ClassVar[str] = "that of its rule"
    returns: ClassVar[str] = "coefficients"
    accepts_query_weights: ClassVar[bool] = True

    learning_rate: float = 1.0
    _: KW_ONLY
    average: bool = False
    transforms: TransformLike = None

    @abstractmethod
    def update(self, scores: Floats, X: Features, relevance: Floats) -> Floats | None:
        """Return what one query teaches; the arrays are read-only.

        Parameters
        ----------
        scores : array of shape (documents,)
            Scores by the current weights.
        X : array of shape (documents, features)
            Features, float32 or float64, scaled if the learner scales.
        relevance : array of shape (documents,)
            Grades, finite and not negative, float64.

        Returns
        -------
        array of shape (documents,) or (features,), or None
            As `returns` says, coefficients of documents, for weights += learning_rate * coefficients @ X, or a step,
            for weights += learning_rate * step; None for no update.
        """

    def check(self) -> None:
        """Raise if a parameter of the subclass is invalid."""

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_positive("learning_rate", self.learning_rate)
        self.check()

    def _pass(
        self, state: Model, X: Features, relevance: Floats, offsets: Ints, predicted: Floats, masses: Floats
    ) -> int:
        weights, _, tally, squares = state.core
        for q in range(len(offsets) - 1):
            rows = slice(offsets[q], offsets[q + 1])
            documents, grades = X[rows], relevance[rows]
            if not ((grades >= 0) & (grades < np.inf)).all():
                return q
            scores = np.empty(len(documents))
            finite = score_rows(documents, 0, len(documents), weights, scores)
            finite &= score_rows(documents, 0, len(documents), state.coefficients, predicted[rows])
            if not finite:
                return q
            weight, mass = float(masses[q]), 0.0
            if weight == 0.0:
                continue
            taught = self.update(read_only(scores), read_only(documents), read_only(grades))
            step = None if taught is None else weight * self._as_step(taught, documents)
            if step is not None and step.any():
                mass = 1.0
                length = float(squared_norm(step))
                if not length <= LARGEST_SQUARED_NORM:
                    return q
                reach = (adapt_step(step, squares) if len(squares) else length) / weight
                tally[SQUARED_REACH] += weight * reach
                tally[SQUARED_STEPS] += length
                tally[LARGEST_REACH] = max(tally[LARGEST_REACH], reach)
                weights += float(self.learning_rate) * step
            masses[q] = weight * mass
            if not count_round(mass, state.core, weight):
                return q
        return len(offsets) - 1

    def _as_step(self, returned: Any, documents: Features) -> Floats:
        check_choice("returns", self.returns, ("coefficients", "step"))
        taught = as_numbers(f"what update of {type(self).__name__} returns", returned).astype(np.float64)
        per_document = self.returns == "coefficients"
        length = len(documents) if per_document else documents.shape[1]
        if taught.shape != (length,):
            what = f"a coefficient for each of {length} documents" if per_document else f"a step of {length} features"
            raise ValueError(f"update of {type(self).__name__} must return {what}, got shape {taught.shape}")
        if not np.isfinite(taught).all():
            worst = taught[~np.isfinite(taught)][0]
            raise ValueError(f"update of {type(self).__name__} must return finite numbers, got {worst}")
        return taught @ documents.astype(np.float64) if per_document else taught
