"""Forgetting at the rate that a stream needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from perceptrank.kernels.arrays import FloatRows, Floats, Ints
from perceptrank.kernels.compiled import compiled
from perceptrank.learners.learner import Learner
from perceptrank.learners.learning import measure_of, takes_clicks
from perceptrank.learners.model import Model
from perceptrank.learners.saving import fresh
from perceptrank.learners.wrappers.fading import Fading
from perceptrank.learners.wrappers.tournament import Tournament
from perceptrank.learners.wrappers.wrapper import Wrapper, without_transforms
from perceptrank.measures import Measure, MeasureLike, parse
from perceptrank.stream.validation import ParameterError, as_number
from perceptrank.theory import theorems
from perceptrank.theory.theorem import NO_THEOREM, Theorem
from perceptrank.transforms.transform import TransformLike

HALF_LIVES = 30.0, 100.0


@compiled
def choose_leaders(lag: float, values: FloatRows, weights: Floats, sums: Floats, largest: Floats, chosen: Ints) -> None:
    """Write who leads before each query, and count what each member was worth in it.

    `sums` are behind that of the leader, which is 0, by at most `lag` times the largest weight so far. All but the
    first begin as far behind as they can be.
    """
    for q in range(len(weights)):
        leader = 0
        for i in range(1, len(sums)):
            leader = i if sums[i] > sums[leader] else leader
        chosen[q] = leader
        weight = weights[q]
        if largest[0] == 0.0:
            for i in range(1, len(sums)):
                sums[i] = -lag * weight
        largest[0] = weight if weight > largest[0] else largest[0]
        if weight > 0.0 and values[0, q] == values[0, q]:
            for i in range(len(sums)):
                sums[i] += weight * values[i, q]
            best = sums[0]
            for i in range(1, len(sums)):
                best = sums[i] if sums[i] > best else best
            for i in range(len(sums)):
                sums[i] = sums[i] - best if sums[i] - best > -lag * largest[0] else -lag * largest[0]


class Forgetting(Wrapper, Tournament):  # type: ignore[misc]
    """Follow a target that may move: a learner that forgets nothing beside others that forget, ranking with the leader.

    Copies of the learner learn every query: one as it is, and one for each half-life, with `Fading`. Each query is
    ranked by the leader, the one that is ahead in the measure. No copy is counted as further behind than `lag`, so that
    after a change a better one leads soon; those that forget begin that far behind, so that chance does not make them
    lead. There is nothing to tune.

    For every stream, however it is cut into K parts, the loss is at most N times that of the best of the N copies in
    each part, plus N (K - 1) lag + lag + N - 1 (`perceptrank.theory.drift.tracking`). With query weights, what is
    added is times the largest weight.

    Parameters
    ----------
    learner : learner
        Settings of the learner, one that takes sparse features (docs/learners/inputs.md). Transforms are those of the
        learner, once for all copies unless it has constraints or weights to start from.
    half_lives : list of float
        Weight moved after which a step counts half, for each copy that forgets.
    lag : float ≥ 1
        How far, in sums of the measure, a copy is counted as behind at most. Small ones follow changes sooner, large
        ones are fooled by chance less often.
    measure : str or Measure, optional
        The measure that copies are compared by; default that of the learner, or NDCG@10.

    References
    ----------
    For the idea of following the best of several that share: M. Herbster and M. K. Warmuth, "Tracking the Best Expert".

    Examples
    --------
    >>> import perceptrank as pr
    >>> stream = pr.drifting(3000, drift="abrupt", seed=1)
    >>> steady, moving = (ranker.learn(stream, "ndcg@10").mean("ndcg@10") for ranker in (
    ...     pr.ListwisePerceptron(), Forgetting(pr.ListwisePerceptron())))
    >>> moving > steady + 0.05
    True
    """

    algorithm = "forgetting"
    fixed = ("half_lives", "measure")
    cost = "N times that of its learner"
    strategy = "leader"
    learners = None
    seed = 0
    rate = None

    def __init__(
        self,
        learner: Learner,
        *,
        half_lives: Sequence[float] = HALF_LIVES,
        lag: float = 3.0,
        measure: MeasureLike | None = None,
    ) -> None:
        self.learner = learner
        self.half_lives = half_lives
        self.lag = lag
        self.measure = measure  # type: ignore[assignment]
        self.__post_init__()

    @property
    def theorem(self) -> Theorem:
        return NO_THEOREM if takes_clicks(self) else theorems.tracking()

    @property  # type: ignore[misc]
    def transforms(self) -> TransformLike:  # type: ignore[override]
        """The learner's transforms."""
        return self._copy.transforms

    def _shares_transforms(self) -> bool:
        """Tell whether transforms can be applied once for all copies: no setting is about features before them."""
        beginning = self._copy.model.beginning
        return not beginning.ranks and not beginning.constraints

    def _own_transform(self) -> TransformLike:
        return self._copy._own_transform() if self._shares_transforms() else None

    def _templates(self) -> list[Learner]:
        learner = without_transforms(self._copy) if self._shares_transforms() else fresh(self._copy)
        return [learner, *(Fading(learner, half_life=float(half_life)) for half_life in self.half_lives)]

    def compared_by(self) -> Measure:
        """Return the measure that copies are compared by."""
        return measure_of(self) if self.measure is None else parse(self.measure)

    def _check_parameters(self) -> None:
        half_lives = self.half_lives
        if isinstance(half_lives, str) or not isinstance(half_lives, Sequence) or not half_lives:
            raise ParameterError("half_lives", "must be a list of at least one number", half_lives)
        if not isinstance(self.learner, Learner):
            raise ParameterError("learner", "must be a learner", self.learner)
        for half_life in half_lives:
            try:
                Fading(self.learner, half_life=half_life)
            except ParameterError as error:
                if error.parameter != "half_life":
                    raise
                raise ParameterError("half_lives", error.rule, half_life) from None
        if not 1.0 <= as_number(self.lag) < np.inf:
            raise ParameterError("lag", "must be a number of at least 1", self.lag)
        super()._check_parameters()

    def as_document(self, model: Model | None = None) -> dict[str, Any]:
        document = super().as_document(model)
        document["parameters"]["half_lives"] = [float(half_life) for half_life in self.half_lives]
        return document

    def extra_state(self, n_features: int) -> dict[str, Floats]:
        return super().extra_state(n_features) | {"largest": np.zeros(1)}

    def _choose(self, state: Model, values: Floats, weights: Floats) -> Ints:
        chosen = np.empty(len(weights), np.int64)
        state.more["judged"][0] += np.count_nonzero(~np.isnan(values[0]) & (weights > 0.0))
        choose_leaders(float(self.lag), values, weights, state.more["sums"], state.more["largest"], chosen)
        return chosen
