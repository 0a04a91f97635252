"""Predtron, for rankings."""

from __future__ import annotations

from dataclasses import KW_ONLY

from perceptrank.kernels.arrays import Floats, Query, Rows
from perceptrank.kernels.compiled import helper
from perceptrank.kernels.ordering import sort_descending
from perceptrank.learners.compiled_learner import CompiledLearner, list_settings
from perceptrank.learners.rounds import list_pass
from perceptrank.learners.starting import Startable
from perceptrank.learners.tally import ListSettings
from perceptrank.measures import MeasureLike
from perceptrank.theory.surrogates import weighing_of


@helper
def predtron_rule(settings: tuple[int], query: Query, coefficients: Floats, rows: Rows) -> float:
    """Write the place in the ideal ranking minus the place in the ranking, if the first `cutoff` grades differ."""
    (cutoff,) = settings
    scores, grades, _, _, _ = query
    floats, ints = rows
    lower_first, order, ideal, buckets, spare = floats[0], ints[0], ints[1], ints[2], ints[3]
    m = len(scores)
    for i in range(m):
        lower_first[i] = -scores[i]
    sort_descending(grades, lower_first, m, ideal, buckets, spare)
    sort_descending(scores, grades, m, order, buckets, spare)
    n_wrong = 0
    for p in range(m if cutoff == 0 else min(cutoff, m)):
        n_wrong += 1 if grades[order[p]] != grades[ideal[p]] else 0
    if n_wrong == 0:
        return 0.0
    for p in range(m):
        coefficients[ideal[p]] += p
        coefficients[order[p]] -= p
    return 1.0


class Predtron(Startable, CompiledLearner):
    """A perceptron on representations of predictions: a ranking is represented by minus the place of each document.

    If the ranking was not perfect, w += learning_rate * Xᵀ (p - q), p the places of the documents in the ranking and
    q those in the ideal one, in which documents of one grade are ordered by score. That is the sum of x_i - x_j over
    all misordered pairs. Learns from lists; rankings do not depend on the learning rate.

    Parameters
    ----------
    measure : "ndcg", "ndcg@k", "ap", or a Measure
        The measure that decides whether a ranking was perfect.

    References
    ----------
    P. Jain, N. Natarajan and A. Tewari, "Predtron: A Family of Online Algorithms for General Prediction Problems"; the
    representation is ours.

    Examples
    --------
    >>> ranker = Predtron()
    >>> ranker.learn_one([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], [0, 2, 1])  # worst order: 0, 2, 1; ideal: 1, 2, 0
    True
    >>> ranker.weights
    array([-2.,  2.])
    """

    algorithm = "predtron"
    cost = "m (d + log m)"
    depends_on_rate = False
    kernel = list_pass(predtron_rule, floats=1, ints=4)

    measure: MeasureLike = "ndcg@10"
    _: KW_ONLY
    learning_rate: float = 1.0

    def _make_settings(self) -> ListSettings:
        binary, cutoff, _, _ = weighing_of(self.measure)
        return list_settings(self, cutoff, binary=binary)
