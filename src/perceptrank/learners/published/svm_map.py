"""Structured SVM for mean average precision, one step per query."""

from __future__ import annotations

from perceptrank.kernels.arrays import Floats, Query, Rows
from perceptrank.kernels.compiled import helper
from perceptrank.kernels.ordering import sort_descending
from perceptrank.learners.compiled_learner import CompiledLearner, list_settings
from perceptrank.learners.rounds import list_pass
from perceptrank.learners.starting import Startable
from perceptrank.learners.tally import ListSettings


@helper
def svm_map_rule(settings: tuple[()], query: Query, coefficients: Floats, rows: Rows) -> float:
    """Write a subgradient at the ranking with the largest 1 - AP plus lead in the joint score, found greedily.

    Both classes are ordered by score. Every irrelevant document j is placed just before the relevant one, k-th of a,
    that maximises the sum of the losses of preceding k, k + 1, ..., a, or after all if no such sum is positive.
    """
    scores, grades, a, _, _ = query
    floats, ints = rows
    lower_first, ranked = floats[0], floats[1]
    ideal, n_before, buckets, spare = ints[0], ints[1], ints[2], ints[3]
    m = len(scores)
    b = m - a
    for i in range(m):
        lower_first[i] = -scores[i]
    sort_descending(grades, lower_first, m, ideal, buckets, spare)  # the first a are relevant, both classes by score
    for p in range(m):
        ranked[p] = scores[ideal[p]]
    value = 0.0
    for p in range(a):
        n_before[p] = 0  # how many irrelevant documents come before the relevant one at place p
    for j in range(1, b + 1):
        best, best_k, total = 0.0, a + 1, 0.0
        for i in range(a, 0, -1):
            gain = (i / (i + j - 1.0) - i / (i + j + 0.0)) / a
            total += gain - 2.0 * (ranked[i - 1] - ranked[a + j - 1]) / (a * b)
            if total > best:
                best, best_k = total, i
        value += best
        for i in range(best_k, a + 1):
            n_before[i - 1] += 1
        coefficients[ideal[a + j - 1]] = 2.0 * (a + 1 - best_k) / (a * b)
    for p in range(a):
        coefficients[ideal[p]] = -2.0 * n_before[p] / (a * b)
    return 1.0 if value > 0.0 else 0.0


class SvmMap(Startable, CompiledLearner):
    """Subgradient descent on the structured hinge of average precision: 1 - AP of a ranking plus its lead in score.

    With psi(ranking) the mean, over pairs of a relevant document i and an irrelevant j, of x_i - x_j if i comes first
    and of x_j - x_i if not, the loss of a query is the largest 1 - AP + w . (psi(ranking) - psi(ideal ranking)) over
    all rankings. A greedy search finds that ranking, in time proportional to the number of pairs. Learns from lists; a
    document is relevant if its grade is positive.

    References
    ----------
    Y. Yue, T. Finley, F. Radlinski and T. Joachims, "A Support Vector Method for Optimizing Average Precision".

    Examples
    --------
    >>> ranker = SvmMap(learning_rate=1.0)
    >>> ranker.learn_one([[1.0, 0.0], [0.0, 1.0]], [0, 1])  # the wrong order costs 1/2; psi changes its sign
    True
    >>> ranker.weights
    array([-2.,  2.])
    """

    algorithm = "svm-map"
    cost = "m d + m²"
    kernel = list_pass(svm_map_rule, floats=2, ints=4)

    learning_rate: float = 0.1

    def _make_settings(self) -> ListSettings:
        return list_settings(self, binary=True)
