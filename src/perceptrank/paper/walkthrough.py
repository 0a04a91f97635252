"""The first rounds of a listwise perceptron on queries with two features, recorded one by one, to be drawn.

It ranks with its current weights and has no margin of its own, so it learns from mistakes alone: the barest rule.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from perceptrank.datasets.separable import separable
from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.learners.listwise import ListwisePerceptron
from perceptrank.measures import parse

N_ROUNDS = 16
N_DOCUMENTS, N_GRADES, MARGIN = 6, 3, 0.5
_SPREAD = 2.0  # across w*: wide enough that some rounds after the first go wrong
_MEASURE = "ndcg"


@dataclass(frozen=True)
class Round:
    """A query, and the weights before and after it was learned."""

    X: Floats
    grades: Floats
    before: Floats
    after: Floats

    @property
    def step(self) -> Floats:
        """Vector that the update added to the weights."""
        return self.after - self.before

    @cached_property
    def ranked(self) -> Ints:
        """The documents as they were ranked; of tied ones the less relevant first, as in the measure."""
        return ranking(self.X @ self.before, self.grades)

    @cached_property
    def ranked_again(self) -> Ints:
        """The documents as the weights after the update rank them."""
        return ranking(self.X @ self.after, self.grades)

    @property
    def ndcg(self) -> float:
        """NDCG of the ranking."""
        return parse(_MEASURE)(self.X @ self.before, self.grades)

    @property
    def ndcg_again(self) -> float:
        """NDCG of the same query after the update."""
        return parse(_MEASURE)(self.X @ self.after, self.grades)

    @property
    def mistakes(self) -> list[tuple[int, int]]:
        """Pairs (document, a lower-graded one that was ranked before it)."""
        return wrong_pairs(self.ranked, self.grades)

    @cached_property
    def moves(self) -> Floats:
        """Coefficients of the documents in the step, all 0 without a mistake; by the rule of `ListwisePerceptron`."""
        place = np.empty(len(self.ranked))
        place[self.ranked] = np.arange(1, len(self.ranked) + 1)
        rise = np.zeros(len(place))
        for lower, grade in pairwise(np.unique(self.grades)):
            wanted = sorted(self.ranked, key=lambda i: bool(self.grades[i] < grade))  # in the same order otherwise
            new = np.empty(len(place))
            new[wanted] = np.arange(1, len(place) + 1)
            rise += (2**grade - 2**lower) * (np.log(place) - np.log(new))
        direction = rise @ self.X
        length = direction @ direction
        return rise * (self.step @ direction / length) if length > 0 else rise


@dataclass(frozen=True)
class Walkthrough:
    """Rounds, with the unit vector w* that ranks all queries of the stream, and its margin."""

    rounds: list[Round]
    ranker: Floats
    margin: float

    @property
    def losses(self) -> Floats:
        """Cumulative loss, 1 - NDCG, after each round."""
        return np.cumsum([1 - shown.ndcg for shown in self.rounds])

    @property
    def opening(self) -> int:
        """The round to show first: the first mistake that is repaired, after round 1, where all scores are 0."""
        repaired = (k for k, shown in enumerate(self.rounds) if k and shown.mistakes and shown.ndcg_again == 1)
        return next(repaired, 0)

    @property
    def stills(self) -> list[int]:
        """Rounds to print: the first to show, the last other mistake, and the last round if nothing was wrong."""
        mistakes = [k for k, shown in enumerate(self.rounds) if shown.mistakes and k != self.opening]
        chosen = {self.opening, *mistakes[-1:]}
        return sorted(chosen | ({len(self.rounds) - 1} if not self.rounds[-1].mistakes else set()))


def walk_through(seed: int) -> Walkthrough:
    """Learn the first queries of a simulated stream that have documents of different grades, and record each round."""
    simulated = separable(
        2 * N_ROUNDS, n_documents=N_DOCUMENTS, n_features=2, n_grades=N_GRADES, margin=MARGIN, noise=_SPREAD, seed=seed
    )
    queries = [query for query in simulated.stream if np.unique(query.relevance).size > 1][:N_ROUNDS]
    learner = ListwisePerceptron(_MEASURE, relative_margin=0.0, average=False, transforms=None)
    rounds, weights = [], np.zeros(2)
    for query in queries:
        learner.learn_one(query.X, query.relevance)
        rounds.append(Round(np.asarray(query.X), query.relevance, weights, learner.coef_.copy()))
        weights = rounds[-1].after
    return Walkthrough(rounds, simulated.ranker, simulated.margin)


def wrong_pairs(ranked: Ints, grades: Floats) -> list[tuple[int, int]]:
    """Return the pairs (document, a lower-graded one before it) of a ranking."""
    return [(int(i), int(j)) for place, i in enumerate(ranked) for j in ranked[:place] if grades[j] < grades[i]]


def ranking(scores: Floats, grades: Floats) -> Ints:
    """Return the documents by score; of tied ones the less relevant first, as in the measures."""
    return np.lexsort((np.arange(len(scores)), grades, -scores))
