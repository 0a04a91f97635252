"""Several learners at once, ranking with the one that has done best."""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any, Self

import numpy as np

from perceptrank.kernels.arrays import Features, Floats, Ints
from perceptrank.learners.learner import Learner
from perceptrank.learners.listwise.perceptron import ListwisePerceptron
from perceptrank.learners.state import State
from perceptrank.learners.wrappers.wrapper import Ensemble, fresh
from perceptrank.measures import AP, MeasureLike, parse
from perceptrank.stream.validation import check_choice, check_seed
from perceptrank.theory.theorem import Theorem
from perceptrank.transforms.scaling import Scaling, ScalingLike

STRATEGIES = ("leader", "hedge")
_SCALINGS = (None, "query-zscore", "running")


class Tournament(Ensemble):
    """Run several learners on the stream at once, and rank each query with the one that has done best so far.

    All of them rank and learn from every query. Best is who has the largest sum of a measure over all queries so far,
    the first among equals (`strategy="leader"`). With `"hedge"` the one to rank with is drawn, with chances that fall
    exponentially with what each has lost: then the expected loss after T queries is at most that of the best of N
    learners plus sqrt(2 T ln N) + sqrt(ln N / 8), whatever the stream (`perceptrank.theory.bounds.hedge`).

    It is what to use if there is a setting that one would have to guess, such as a learning rate, or how to scale
    features.

    Parameters
    ----------
    learners : list of learners, optional
        Settings, not what they have learned: each takes part with a fresh copy. By default three listwise perceptrons,
        which learn AP if `measure` is that and NDCG otherwise: on features as they are, z-scored query by query, and
        standardised as they come. `Tournament.over` makes a list out of all combinations of settings.
    measure : str or Measure
        What they are judged by.
    strategy : "leader" or "hedge"
    scaling : None, "query-zscore", "query-minmax", "running", a Scaling, or several of them
        What features go through first, once for all learners, before the scaling that each may have of its own.
    seed : int
        Of the draws of "hedge".

    Reference, for "hedge": N. Cesa-Bianchi and G. Lugosi, "Prediction, Learning, and Games", Theorem 2.3.

    >>> import perceptrank as pr
    >>> ranker = Tournament.over(pr.SlamPerceptron, learning_rate=[0.01, 0.1, 1.0])
    >>> trace = ranker.learn(pr.separable(200).stream)
    >>> ranker.leader
    SlamPerceptron(learning_rate=1.0)
    """

    algorithm = "tournament"
    fixed = ("learners", "measure")
    cost = "that of its learners"
    theorem = Theorem(
        "hedge: expected loss ≤ the best's + √(2 T ln N) + √(ln N / 8)", assumption="none; expectation over the draws"
    )

    def __init__(
        self,
        learners: Sequence[Learner] | None = None,
        *,
        measure: MeasureLike = "ndcg@10",
        strategy: str = "leader",
        scaling: ScalingLike = None,
        seed: int = 0,
    ) -> None:
        self.learners = learners
        self.measure = measure
        self.strategy = strategy
        self.scaling = scaling
        self.seed = seed
        self._start()

    @classmethod
    def over(
        cls,
        kind: type[Learner],
        *,
        tournament: dict[str, Any] | None = None,
        **settings: Iterable[Any],
    ) -> Self:
        """A tournament of learners of one kind with all combinations of some settings, each given as a list.

        `tournament` has settings of the tournament itself, as a dict.

        >>> len(Tournament.over(ListwisePerceptron, relative_margin=[0, 1], measure=["ndcg", "ap"]).learners)
        4
        """
        for name, values in settings.items():
            if isinstance(values, str) or not isinstance(values, Iterable):
                raise TypeError(f"{name} must be a list of values, got {values!r}")
        names, choices = list(settings), [list(values) for values in settings.values()]
        return cls([kind(**dict(zip(names, chosen, strict=True))) for chosen in product(*choices)], **tournament or {})

    def _templates(self) -> list[Learner]:
        if self.learners is None:
            learned = "ap" if isinstance(parse(self.measure), AP) else "ndcg"
            return [ListwisePerceptron(learned, scaling=scaling) for scaling in _SCALINGS]
        return list(self.learners)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        parse(self.measure)
        check_choice("strategy", self.strategy, STRATEGIES)
        check_seed(self.seed)
        if self.learners is not None and not isinstance(self.learners, Sequence):
            raise ValueError(f"learners must be a list of learners, got {self.learners!r}")
        templates = self._templates()
        if not templates:
            raise ValueError("learners must be at least one learner, got none")
        for one in templates:
            if not isinstance(one, Learner) or isinstance(one, Tournament):
                raise ValueError(f"learners must be learners, and no tournaments, got {one!r}")

    def _make_members(self) -> list[Learner]:
        return [fresh(one) for one in self._templates()]

    def _parameters_changed(self, parameters: dict[str, Any]) -> None:
        super()._parameters_changed(parameters)
        if not self._has_learned():
            self._members = self._make_members()

    def _learner_documents(self) -> dict[str, Any]:
        return {} if self.learners is None else {"learners": [fresh(one).as_document() for one in self._members]}

    def _room(self, n_features: int) -> int:
        return sum(one._room(n_features) for one in self._members)

    # Who ranks

    def _choices(self, sums: Floats, n_judged: Floats, rounds: Ints) -> Ints:
        """For each round, given the learners' sums before it, who is to rank: learners x rounds to rounds."""
        if self.strategy == "leader":
            leaders: Ints = np.argmax(sums, axis=0)
            return leaders
        n = len(sums)
        rates = np.sqrt(8 * np.log(n) / np.maximum(n_judged, 1))
        exponents = rates * (sums - sums.max(axis=0))
        chances = np.cumsum(np.exp(exponents), axis=0)
        draws = np.array([np.random.default_rng([self.seed, number]).random() for number in rounds])
        drawn: Ints = np.minimum((chances < draws * chances[-1]).sum(axis=0), n - 1)
        return drawn

    @property
    def leader(self) -> Learner:
        """The learner that ranks the next query."""
        if self._state is None:
            sums, judged = np.zeros(len(self._members)), np.zeros(1)
        else:
            sums, judged = self._state.more["sums"], self._state.more["judged"]
        return self._members[int(self._choices(sums[:, None], judged, np.array([self._n_queries]))[0])]

    # Learning

    def extra_state(self, n_features: int) -> dict[str, Floats]:
        """Return the arrays that it carries beside weights and counts, as they are in the beginning."""
        return {"sums": np.zeros(len(self._members)), "judged": np.zeros(1)}

    def _pass(
        self, state: State, X: Features, relevance: Floats, offsets: Ints, predicted: Floats, masses: Floats
    ) -> int:
        """All members go over the block; then it is known who had done best before each query."""
        n, first = len(offsets) - 1, self._n_queries
        judge = parse(self.measure)
        judge.check_grades(relevance)
        scores, moved = np.empty((len(self._members), len(relevance))), np.empty((len(self._members), n))
        values = np.empty((len(self._members), n))
        for place, member in enumerate(self._members):
            own = member._learn_scaling(X, offsets)
            done = member._pass(member._ensure_state(X.shape[1]), own, relevance, offsets, scores[place], moved[place])
            if done < n:
                return done
            member._n_queries += n
            values[place] = judge.per_query(scores[place], relevance, offsets, first)
        counts = state.more["judged"][0] + np.cumsum(np.concatenate([[0], ~np.isnan(values[0])]))
        sums = np.cumsum(np.column_stack([state.more["sums"], np.nan_to_num(values)]), axis=1)
        chosen = self._choices(sums[:, :-1], counts[:-1], np.arange(first, first + n))
        state.more["sums"][:], state.more["judged"][0] = sums[:, -1], counts[-1]
        predicted[:] = scores[np.repeat(chosen, np.diff(offsets)), np.arange(len(relevance))]
        masses[:] = moved[chosen, np.arange(n)]
        return n

    # What was learned

    def _learned(self) -> State:
        super()._learned()
        return self.leader._learned()

    @property
    def coef_(self) -> Floats:
        """The weights that `predict` uses, on features as `scalings_` makes them: the leader's."""
        self._learned()
        return self.leader.coef_

    @property
    def scalings_(self) -> list[Scaling]:
        """The transforms that features go through: the tournament's own, then those of the leader.

        Freezing one of the leader's leaves those of the other learners alone; see `members`.
        """
        return self._scalings + self.leader._scalings

    @property
    def _scales_features(self) -> bool:
        return super()._scales_features or any(one._scales_features for one in self._members)

    @property
    def n_rounds(self) -> int:
        """Number of queries."""
        return self._n_queries

    @property
    def n_updates(self) -> int:
        """Number of rounds with an update of the learner that ranks the next query."""
        return self.leader.n_updates
