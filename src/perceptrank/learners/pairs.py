"""Learners that look at the pairs of a query's documents; they differ only in their rule."""

from abc import abstractmethod
from typing import Any

from perceptrank.kernels.arrays import Features, Floats, Ints
from perceptrank.kernels.pair_rules import PairRule
from perceptrank.kernels.pairs_pass import pairs_pass
from perceptrank.learners.base import Learner
from perceptrank.learners.state import State
from perceptrank.measures.measure import MeasureLike
from perceptrank.stream.validation import check_positive
from perceptrank.theory.surrogates import parse_learnable


class PairLearner(Learner):
    """A learner whose rule turns the pairs of one query into a coefficient per document."""

    learning_rate: float

    _rule: PairRule

    @abstractmethod
    def _make_rule(self) -> PairRule:
        """The rule that the parameters stand for; raises if one is wrong."""

    def _pair_rule(self, kind: int, measure: MeasureLike = "ndcg", **options: Any) -> PairRule:
        """A rule of this kind for a measure, with the learner's own rate."""
        parsed = parse_learnable(measure)
        return PairRule(
            kind,
            measure=parsed.kernel_code,
            cutoff=parsed.cutoff or 0,
            averaging=bool(self.average),
            learning_rate=check_positive("learning_rate", self.learning_rate),
            **options,
        )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._rule = self._make_rule()

    def _pass(
        self, state: State, X: Features, relevance: Floats, offsets: Ints, predicted: Floats, masses: Floats
    ) -> int:
        return pairs_pass(self._rule, X, relevance, offsets, *state.core, state.squares, predicted, masses)
