"""Learners that take a query as a whole; they differ only in their rule."""

from abc import abstractmethod

import numpy as np

from perceptrank.kernels.arrays import Features, Floats, Ints
from perceptrank.kernels.list_pass import list_pass
from perceptrank.kernels.list_rules import ListRule
from perceptrank.learners.base import Learner
from perceptrank.learners.state import State
from perceptrank.measures.measure import discounts


def squared_diameter(diameter: float | None, radius: float | None) -> float:
    """D², or 4 R² for want of it."""
    if diameter is None and radius is None:
        raise ValueError("give diameter or radius, what is known of the stream")
    with np.errstate(over="ignore", under="ignore"):
        return float(np.float64(diameter) ** 2 if diameter is not None else 4 * np.float64(radius or 0.0) ** 2)


class ListLearner(Learner):
    """A learner whose rule turns one query's scores and grades into a coefficient per document."""

    _rule: ListRule

    @abstractmethod
    def _make_rule(self) -> ListRule:
        """The rule that the parameters stand for; raises if one is wrong."""

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._rule = self._make_rule()

    def _pass(
        self, state: State, X: Features, relevance: Floats, offsets: Ints, predicted: Floats, masses: Floats
    ) -> int:
        longest = len(relevance) if len(offsets) == 2 else int(np.diff(offsets).max())
        return list_pass(
            self._rule, X, relevance, offsets, discounts(longest), *state.core, state.squares, predicted, masses
        )
