"""Online bagging of any learner without transforms of its own."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY
from typing import Any, Self

import numpy as np

from perceptrank.kernels.arrays import Floats, IntRows, Ints
from perceptrank.kernels.chance import noise
from perceptrank.kernels.compiled import compiled
from perceptrank.kernels.scoring import score_rows
from perceptrank.learners.learner import Learner
from perceptrank.learners.learning import one_query
from perceptrank.learners.model import Model, fixed_copy
from perceptrank.learners.rounds import count_round
from perceptrank.learners.saving import fresh
from perceptrank.learners.wrappers.wrapper import Ensemble, Wrapper, without_transforms
from perceptrank.stream.memory import check_room
from perceptrank.stream.sparse import AnyFeatures, SparseFeatures
from perceptrank.stream.validation import check_positive_whole, check_seed
from perceptrank.transforms.registry import make_transforms
from perceptrank.transforms.transform import TransformLike

_MOST_REPEATS = 20  # larger draws have probabilities below rounding


def draw_repeats(seed: int, first: int, n: int, n_members: int) -> IntRows:
    """Draw from the Poisson distribution of mean 1 for n queries from number `first` on, and every member."""
    repeats = np.zeros((n, n_members), np.int64)
    fill_repeats(seed, first, repeats)
    return repeats


@compiled
def fill_repeats(seed: int, first: int, repeats: IntRows) -> None:
    """Fill zeros, queries from number `first` on times members, with draws of the Poisson distribution of mean 1."""
    for q in range(repeats.shape[0]):
        for member in range(repeats.shape[1]):
            left = noise(seed, first + q, member)
            chance = math.exp(-1.0)
            while left >= chance and repeats[q, member] < _MOST_REPEATS:
                left -= chance
                repeats[q, member] += 1
                chance /= repeats[q, member]


class BaggingModel(Model):
    """The model of bagging: its weights are the mean of the members'."""

    def follow_members(self) -> None:
        """Take the mean of the members' weights."""
        self.weights[:] = np.mean([member.coef_ for member in self.members], axis=0)


class Bagging(Wrapper, Ensemble):
    """Train copies of a learner on bootstrap samples of the queries; rank with the mean of their weights.

    Each member learns every query k times, with k drawn from the Poisson distribution of mean 1: in the limit, a sample
    with replacement. The mean reduces the variance of learners that a single noisy query can move far. Each of the k
    times has the weight of the query.

    Parameters
    ----------
    learner : learner
        Settings of the members, each with its own seed if the learner has one.
    transforms : str, Transform or list of them, optional
        Transforms that features go through first, once for all members; by default those of the learner.

    References
    ----------
    N. C. Oza and S. Russell, "Online Bagging and Boosting".

    Examples
    --------
    >>> import perceptrank as pr
    >>> ranker = Bagging(pr.MinimaxPerceptron(), n_members=5)
    >>> trace = ranker.learn(pr.separable(200).stream)
    >>> [member.n_rounds for member in ranker.members]
    [183, 206, 199, 198, 182]
    """

    algorithm = "bagging"
    model_class = BaggingModel
    fixed = ("n_members", "seed")
    cost = "N times that of its learner"

    _: KW_ONLY
    n_members: int = 10
    seed: int = 0
    transforms: TransformLike = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_positive_whole("n_members", self.n_members)
        check_seed(self.seed)
        if transforms_features(without_transforms(self.learner)):
            raise ValueError(
                "learner must not be made of learners with transforms of their own, so that weights can be averaged, "
                f"got {self.learner!r}; give transforms to Bagging instead"
            )
        if not self.learner.model.is_linear:
            raise ValueError(
                f"learner must rank by weights of features, so that they can be averaged, got {self.learner!r}"
            )
        check_room(f"{self.n_members} members", room_of(self, 0))

    def _make_members(self) -> list[Learner]:
        return [self._make_member(number) for number in range(self.n_members)]

    def _make_member(self, number: int) -> Learner:
        return fresh(without_transforms(self._copy), lambda seed: int(2**53 * noise(int(self.seed), seed, number)))

    def _own_transform(self) -> TransformLike:
        return self._copy._own_transform() if self.transforms is None else self.transforms

    def extra_state(self, n_features: int) -> dict[str, Floats]:
        check_room(f"{self.n_members} members", room_of(self, n_features))
        return {}

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Self:
        expected, n_members = document["parameters"]["n_members"], len(document["members"])
        if expected != n_members:
            raise ValueError(f"there must be {expected} members, got {n_members}")
        return super().from_document(document)

    @property
    def weights(self) -> Floats:
        """The mean of the members' current iterates."""
        return fixed_copy(np.mean([member.weights for member in self._model.require_learned().members], axis=0))

    def _pass(
        self, state: Model, X: AnyFeatures, relevance: Floats, offsets: Ints, predicted: Floats, masses: Floats
    ) -> int:
        n = len(offsets) - 1
        valid = (relevance >= 0) & np.isfinite(relevance)  # checked here, since no member may learn a query
        if relevance.ndim == 1 and not valid.all():
            return int(np.searchsorted(offsets, np.argmin(valid), side="right")) - 1
        members = state.members
        repeats = draw_repeats(int(self.seed), state.queries, n, len(members))
        mass = np.empty(1)
        for q in range(n):
            start, stop, weight = offsets[q], offsets[q + 1], float(masses[q])
            if not self._score_query(state, X, start, stop, predicted):
                return q
            if weight == 0.0:
                continue
            query = X[start:stop], relevance[start:stop], one_query(int(stop - start)), np.empty(stop - start), mass
            moved = 0.0
            for member, times in zip(members, repeats[q], strict=True):
                for _ in range(times):
                    mass[0] = weight
                    if not member._pass(member.model, *query):
                        return q
                    member.model.queries += 1
                    moved += mass[0]
            if not state.is_sparse:
                state.follow_members()
            masses[q] = moved / len(members)
            if not count_round(masses[q] / weight, state.core, weight):
                return q
        if state.is_sparse:
            state.follow_members()
        return n

    def _score_query(self, state: Model, X: AnyFeatures, start: int, stop: int, predicted: Floats) -> bool:
        """Write the scores of a query to rank by, the mean of the members'; return whether all are finite."""
        if not isinstance(X, SparseFeatures):
            return score_rows(X, start, stop, state.weights, predicted[start:])
        # The mean of all weights is only taken once a block, since it costs time for every feature.
        query, offsets = X[start:stop], one_query(int(stop - start))
        models = [member.model for member in state.members]
        scores = [model.block_scores(query, offsets, model.feature_names) for model in models]
        predicted[start:stop] = np.mean(scores, axis=0)
        return bool(np.isfinite(predicted[start:stop]).all())


def transforms_features(learner: Learner) -> bool:
    """Tell whether the weights of a learner, or of one that it is made of, apply to transformed features."""
    own = bool(make_transforms(learner._own_transform()))
    return own or any(transforms_features(member) for member in learner.model.members)


def room_of(learner: Learner, n_features: int) -> int:
    """Return the approximate size of a learner's model, in float64 numbers."""
    if isinstance(learner, Bagging):
        return learner.n_members * room_of(learner.learner, n_features)
    if members := learner.model.members:
        return sum(room_of(member, n_features) for member in members)
    return 250 + 2 * n_features + sum(values.size for values in learner.extra_state(n_features).values())
