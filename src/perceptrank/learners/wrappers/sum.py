"""Several learners at once, ranking with the sum of their scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import Any

import numpy as np

from perceptrank.kernels.arrays import FloatRows, Floats, Ints
from perceptrank.kernels.compiled import compiled, helper
from perceptrank.learners.learner import Learner
from perceptrank.learners.listwise.perceptron import ListwisePerceptron
from perceptrank.learners.model import LinearPart, Model, fixed_copy
from perceptrank.learners.ridge import OnlineRidge
from perceptrank.learners.rounds import count_round
from perceptrank.learners.saving import fresh
from perceptrank.learners.starting import NO_SIGNS
from perceptrank.learners.tally import Iterates
from perceptrank.learners.wrappers.wrapper import Ensemble, check_learners
from perceptrank.stream.sparse import AnyFeatures
from perceptrank.transforms.transform import TransformLike


@compiled
def sum_pass(
    offsets: Ints,
    scores: FloatRows,
    moved: FloatRows,
    state: Iterates,
    spreads: Floats,
    counts: Floats,
    predicted: Floats,
    masses: Floats,
) -> int:
    """Add the members' scores, in units of their spreads so far, then count their spreads, query after query."""
    n_members = scores.shape[0]
    for q in range(len(offsets) - 1):
        start, stop = offsets[q], offsets[q + 1]
        for i in range(start, stop):
            predicted[i] = 0.0
        weight, mass = masses[q], 0.0
        for member in range(n_members):
            unit = spreads[member] / counts[member] if counts[member] > 0.0 else 1.0
            for i in range(start, stop):
                predicted[i] += scores[member, i] / unit
            spread = spread_of(scores[member], start, stop)
            if not spread < math.inf:
                return q
            if spread > 0.0:
                spreads[member] += weight * spread
                counts[member] += weight
            mass += moved[member, q] / n_members
        masses[q] = mass
        if weight > 0.0 and not count_round(mass / weight, state, weight):
            return q
    return len(offsets) - 1


@helper
def spread_of(scores: Floats, start: int, stop: int) -> float:
    """Return the standard deviation of the scores of one query, exactly 0 if all are equal."""
    mean, squares = 0.0, 0.0
    for i in range(start, stop):
        mean += (scores[i] - scores[start]) / (stop - start)
    for i in range(start, stop):
        apart = (scores[i] - scores[start]) - mean
        squares += apart * apart / (stop - start)
    return math.sqrt(squares)


class SumModel(Model):
    """The model of a sum, with its members."""

    never_negative = ("spreads", "counts")

    def restore(self, plain: dict[str, Any], more: dict[str, Floats], signs: Floats = NO_SIGNS) -> None:
        super().restore(plain, more, signs)
        if ((more["spreads"] > 0) != (more["counts"] > 0)).any():
            raise ValueError("spreads must be positive where counts are, and nowhere else")

    @property
    def units(self) -> Floats:
        """The spread of each member's scores, 1 where it is not known."""
        if not self.has_begun:
            return np.ones(len(self.members))
        spreads, counts = self.more["spreads"], self.more["counts"]
        return np.where(counts > 0, spreads / np.where(counts > 0, counts, 1.0), 1.0)

    @property
    def coefficients(self) -> Floats:
        """The sum of the members' coefficients in units of their spreads, if none transforms features itself."""
        return self.weighted([member.model.coefficients for member in self.members])

    def weighted(self, vectors: list[Floats]) -> Floats:
        """Return the sum of a vector per member, each in units of its spread; raise if members transform features."""
        for member in self.members:
            if member.model.has_transforms:
                raise AttributeError(
                    f"there is no single weight vector, because {member!r} has its own transforms: use "
                    "`members`, or give the transforms to the Sum"
                )
        return np.sum([vector / unit for vector, unit in zip(vectors, self.units, strict=True)], axis=0)

    @property
    def parts(self) -> list[LinearPart]:
        if not any(member.model.has_transforms for member in self.members):
            return super().parts
        return [
            LinearPart(part.name or member.name, [(self, self.transforms), *part.steps], part.weights / unit)
            for member, unit in zip(self.members, self.units, strict=True)
            for part in member.model.parts
        ]

    @property
    def has_transforms(self) -> bool:
        return bool(self.transforms) or any(member.model.has_transforms for member in self.members)

    def block_scores(self, X: AnyFeatures, offsets: Ints, names: tuple[str, ...] | None) -> Floats:
        X = self.transformed(self.transforms, X, offsets, names)
        scores = np.zeros(len(X))
        with np.errstate(over="ignore", invalid="ignore"):
            for member, unit in zip(self.members, self.units, strict=True):
                scores += member.model.block_scores(X, offsets, names) / unit
        if not np.isfinite(scores).all():
            raise ValueError("scores overflow: the features are too large")
        return scores


class Sum(Ensemble):
    """Run several learners on the stream at once, and rank with the sum of their scores, each in units of its spread.

    All learners rank and learn every query. The score of a document is the sum of the learners' scores, each divided by
    the learner's spread: the standard deviation of its scores within a query before it learned from that, in the mean,
    by query weight, over all queries so far in which these were not all equal; 1 before there is one. Learners of
    different kinds make different mistakes, some of which cancel.

    Parameters
    ----------
    learners : list of learners, optional
        Settings of the learners, not their state. By default a listwise perceptron and ridge regression.
    transforms : str, Transform or list of them, optional
        Transforms that features go through first, shared by all learners, before their own; of the default learners,
        which have none, "auto".

    References
    ----------
    E. A. Fox and J. A. Shaw, "Combination of Multiple Searches", for the sum; M. Montague and J. A. Aslam, "Relevance
    Score Normalization for Metasearch", for the units.

    Examples
    --------
    >>> import perceptrank as pr
    >>> ranker = Sum([pr.ListwisePerceptron(), pr.OnlineRidge(transforms="running")])
    >>> trace = ranker.learn(pr.separable(200).stream)
    >>> [member.n_queries for member in ranker.members], ranker.spreads_.shape
    ([200, 200], (2,))
    """

    algorithm = "sum"
    model_class = SumModel
    fixed = ("learners",)
    cost = "that of its learners"

    learners: Sequence[Learner] | None = None
    _: KW_ONLY
    transforms: TransformLike = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.learners is not None:
            check_learners(self.learners)

    def _make_members(self) -> list[Learner]:
        if self.learners is None:
            return [ListwisePerceptron(transforms=None), OnlineRidge()]
        return [fresh(learner) for learner in self.learners]

    # Learning

    def extra_state(self, n_features: int) -> dict[str, Floats]:
        n = len(self._model.members)
        return {"spreads": np.zeros(n), "counts": np.zeros(n)}

    def _pass(
        self, state: Model, X: AnyFeatures, relevance: Floats, offsets: Ints, predicted: Floats, masses: Floats
    ) -> int:
        n, n_members = len(offsets) - 1, len(state.members)
        scores, moved = np.empty((n_members, len(relevance))), np.tile(masses, (n_members, 1))
        done = self._learn_in_members(state, X, relevance, offsets, scores, moved)
        if done < n:
            return done
        more = state.more
        return sum_pass(offsets, scores, moved, state.core, more["spreads"], more["counts"], predicted, masses)

    # The learned state

    @property
    def spreads_(self) -> Floats:
        """The divisor of each learner's scores."""
        model: Any = self._model.require_learned()
        return model.units

    @property
    def weights(self) -> Floats:
        """The sum of the learners' current iterates in units of their spreads, if none transforms features itself."""
        model: Any = self._model.require_learned()
        return fixed_copy(model.weighted([member.weights for member in model.members]))
