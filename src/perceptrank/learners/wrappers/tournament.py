"""Online model selection: several learners at once, ranking with the best so far."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY
from itertools import product
from typing import Any, Self

import numpy as np

from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.learners.clicks.lists import agree
from perceptrank.learners.learner import Learner
from perceptrank.learners.learning import takes_clicks
from perceptrank.learners.listwise.perceptron import ListwisePerceptron
from perceptrank.learners.model import LinearPart, Model
from perceptrank.learners.ridge import OnlineRidge
from perceptrank.learners.saving import fresh
from perceptrank.learners.wrappers.sum import Sum
from perceptrank.learners.wrappers.wrapper import Ensemble, check_learners
from perceptrank.measures import AP, Measure, MeasureLike, parse
from perceptrank.stream.sparse import AnyFeatures
from perceptrank.stream.validation import ParameterError, check_choice, check_positive, check_seed
from perceptrank.theory import theorems
from perceptrank.theory.theorem import NO_THEOREM, Theorem
from perceptrank.transforms.transform import Transform, TransformLike

STRATEGIES = ("leader", "hedge")


class TournamentModel(Model):
    """The model of a tournament, with its members; it chooses the one that ranks."""

    never_negative = ("judged", "largest")

    strategy: str
    rate: float | None
    seed: int

    def choices(self, sums: Floats, n_judged: Floats, rounds: Ints) -> Ints:
        """Choose the learner that ranks in each round, given the sums before it (learners x rounds)."""
        if self.strategy == "leader":
            return np.argmax(sums, axis=0)
        n = len(sums)
        rates = np.sqrt(8 * np.log(n) / (n_judged + 1)) if self.rate is None else float(self.rate)
        exponents = rates * (sums - sums.max(axis=0))
        chances = np.cumsum(np.exp(exponents), axis=0)
        draws = np.array([np.random.default_rng([self.seed, number]).random() for number in rounds])
        return np.minimum((chances < draws * chances[-1]).sum(axis=0), n - 1)

    def check_weights(self, weights: Floats) -> None:
        """Raise if query weights are too large for the strategy."""
        if self.strategy == "hedge" and (weights > 1.0).any():
            raise ValueError(
                "query_weights must be at most 1 for strategy='hedge', which needs losses from 0 to 1, got "
                f"{weights.max()}; divide all by the largest"
            )

    @property
    def leader(self) -> Learner:
        """The learner that ranks the next query."""
        sums, judged = np.zeros(len(self.members)), np.zeros(1)
        if self.has_begun:
            sums, judged = self.more["sums"], self.more["judged"]
        return self.members[int(self.choices(sums[:, None], judged, np.array([self.queries]))[0])]

    @property
    def coefficients(self) -> Floats:
        """The leader's weights, of features after the transforms of the tournament and its own."""
        return self.leader.model.coefficients

    @property
    def all_transforms(self) -> list[Transform]:
        """The tournament's transforms, then those of the leader."""
        return self.transforms + self.leader.model.all_transforms

    @property
    def parts(self) -> list[LinearPart]:
        leader = self.leader
        return [
            LinearPart(part.name or leader.name, [(self, self.transforms), *part.steps], part.weights)
            for part in leader.model.parts
        ]

    @property
    def has_transforms(self) -> bool:
        return bool(self.transforms) or self.leader.model.has_transforms

    def block_scores(self, X: AnyFeatures, offsets: Ints, names: tuple[str, ...] | None) -> Floats:
        X = self.transformed(self.transforms, X, offsets, names)
        return self.leader.model.block_scores(X, offsets, names)


class Tournament(Ensemble):
    """Run several learners on the stream at once, and rank each query with the best one so far.

    All learners rank and learn every query. The best has the largest sum of a measure over all queries so far, the
    first in case of ties (`strategy="leader"`): the loss is at most N times that of the best of N learners, plus N - 1,
    for every stream (`perceptrank.theory.bounds.leader`). With `"hedge"` the learner to rank with is drawn by
    exponential weights, with the rate √(8 ln N / t) in round t: the expected loss after T queries is at most that of
    the best of N learners plus √(2 T ln N) + √(ln N / 8), for every stream. With a fixed `rate` it is at most
    (rate L* + ln N) / (1 - exp(-rate)), L* being the best learner's loss, which does not grow once that learner has
    stopped losing (`perceptrank.theory.bounds.hedge`).

    Learners that learn from clicks are compared by the preferences that clicks suggest: over all pairs of a list, the
    sum of the difference of clicks, weighted against position bias, with the sign of the difference of scores. There is
    no bound then. With query weights, sums and losses are weighted: plus N - 1 times the largest weight, for the
    leader; "hedge" takes weights up to 1, which leave its bound as it is.

    Parameters
    ----------
    learners : list of learners, optional
        Settings of the learners, not their state. By default a listwise perceptron, which learns AP if `measure` is AP
        and NDCG otherwise, ridge regression, and the sum of both. `Tournament.over` makes a list of all combinations of
        settings.
    measure : str or Measure
        The measure that learners are compared by.
    strategy : either "leader" or "hedge"
        Rank with the best learner, or with a random one by exponential weights.
    transforms : str, Transform or list of them, optional
        Transforms that features go through first, shared by all learners, before their own; of the default learners,
        which have none, "auto".
    seed : int
        Seed of the draws of "hedge".
    rate : float > 0, optional
        A fixed rate of "hedge": the larger, the more it prefers whoever is ahead.

    References
    ----------
    For "hedge": N. Cesa-Bianchi and G. Lugosi, "Prediction, Learning, and Games", Theorem 2.3.

    Examples
    --------
    >>> import perceptrank as pr
    >>> ranker = Tournament.over(pr.SlamPerceptron, learning_rate=[0.01, 0.1, 1.0])
    >>> trace = ranker.learn(pr.separable(200).stream)
    >>> ranker.leader
    SlamPerceptron(learning_rate=1.0)
    """

    algorithm = "tournament"
    model_class = TournamentModel
    fixed = ("learners", "measure")
    cost = "that of its learners"

    learners: Sequence[Learner] | None = None
    _: KW_ONLY
    measure: MeasureLike = "ndcg@10"
    strategy: str = "leader"
    transforms: TransformLike = None
    seed: int = 0
    rate: float | None = None

    @property
    def theorem(self) -> Theorem:
        if takes_clicks(self):  # whose values are not from 0 to 1
            return NO_THEOREM
        return theorems.hedge(self.rate) if self.strategy == "hedge" else theorems.leader()

    @classmethod
    def over(cls, kind: type[Learner], *, tournament: dict[str, Any] | None = None, **settings: Iterable[Any]) -> Self:
        """Construct a tournament of learners of one class with all combinations of some settings.

        Parameters
        ----------
        kind : subclass of Learner
        tournament : dict, optional
            Settings of the tournament itself.
        **settings : list
            Values of each setting of the learners.

        Examples
        --------
        >>> len(Tournament.over(ListwisePerceptron, relative_margin=[0, 1], measure=["ndcg", "ap"]).learners)
        4
        """
        for name, values in settings.items():
            if isinstance(values, str) or not isinstance(values, Iterable):
                raise TypeError(f"{name} must be a list of values, got {values!r}")
        names, choices = list(settings), [list(values) for values in settings.values()]
        return cls([kind(**dict(zip(names, chosen, strict=True))) for chosen in product(*choices)], **tournament or {})

    def _templates(self) -> list[Learner]:
        if self.learners is not None:
            return list(self.learners)
        learned = "ap" if isinstance(parse(self.measure), AP) else "ndcg"
        listwise, ridge = ListwisePerceptron(learned, transforms=None), OnlineRidge()
        return [listwise, ridge, Sum([listwise, ridge])]

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self.compared_by()
        check_choice("strategy", self.strategy, STRATEGIES)
        check_seed(self.seed)
        if self.rate is not None:
            check_positive("rate", self.rate)
        if self.learners is not None:
            check_learners(self.learners, refused=Tournament)
            if self.strategy == "hedge" and any(map(takes_clicks, self.learners)):
                raise ParameterError("strategy", "must be 'leader' for learners that learn from clicks", self.strategy)

    def compared_by(self) -> Measure:
        """Return the measure that learners are compared by."""
        return parse(self.measure)

    def _make_members(self) -> list[Learner]:
        return [fresh(learner) for learner in self._templates()]

    def _configured(self, model: Model | None = None) -> Model:
        model = super()._configured(model)
        assert isinstance(model, TournamentModel)
        model.strategy, model.rate, model.seed = self.strategy, self.rate, self.seed
        return model

    @property
    def leader(self) -> Learner:
        """The learner that ranks the next query."""
        model: Any = self._model
        return model.leader

    # Learning

    def extra_state(self, n_features: int) -> dict[str, Floats]:
        return {"sums": np.zeros(len(self._model.members)), "judged": np.zeros(1)}

    def _pass(
        self, state: Model, X: AnyFeatures, relevance: Floats, offsets: Ints, predicted: Floats, masses: Floats
    ) -> int:
        """Let every member learn the block, then choose the one that ranked each query."""
        n, first, members = len(offsets) - 1, state.queries, state.members
        judge = self.compared_by()
        if relevance.ndim == 1:
            judge.check_grades(relevance)
        weights = masses.copy()
        scores, moved = np.empty((len(members), len(relevance))), np.tile(masses, (len(members), 1))
        done = self._learn_in_members(state, X, relevance, offsets, scores, moved)
        if done < n:
            return done
        values = np.empty((len(members), n))
        for place, found in enumerate(scores):
            if relevance.ndim == 1:
                values[place] = judge.per_query(found, relevance, offsets, first)
            else:
                agree(found, relevance, offsets, values[place])
        chosen = self._choose(state, values, weights)
        predicted[:] = scores[np.repeat(chosen, np.diff(offsets)), np.arange(len(relevance))]
        masses[:] = moved[chosen, np.arange(n)]
        return n

    def _choose(self, state: Model, values: Floats, weights: Floats) -> Ints:
        """Return the member that ranked each query, given what all were worth (members x queries); count these."""
        assert isinstance(state, TournamentModel)
        counted = ~np.isnan(values[0]) & (weights > 0.0)
        counts = state.more["judged"][0] + np.cumsum(np.concatenate([[0], counted]))
        sums = np.cumsum(np.column_stack([state.more["sums"], weights * np.nan_to_num(values)]), axis=1)
        chosen = state.choices(sums[:, :-1], counts[:-1], np.arange(state.queries, state.queries + len(weights)))
        state.more["sums"][:], state.more["judged"][0] = sums[:, -1], counts[-1]
        return chosen

    # The learned state

    @property
    def weights(self) -> Floats:
        self._model.require_learned()
        return self.leader.weights

    @property
    def n_rounds(self) -> int:
        """Number of queries."""
        return self._model.queries

    @property
    def n_updates(self) -> int:
        """Number of rounds with an update of the learner that ranks the next query."""
        return self.leader.n_updates
