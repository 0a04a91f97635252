"""Online ridge regression of grades, within queries."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY
from typing import ClassVar

import numpy as np

from perceptrank.kernels.arrays import Features, FloatRows, Floats
from perceptrank.kernels.compiled import compiled, helper
from perceptrank.kernels.levels import grades_differ, read_grades
from perceptrank.kernels.scratch import Scratch
from perceptrank.learners.compiled_learner import CompiledLearner
from perceptrank.learners.inverse_matrix import decorrelate, divide_feature, multiply, subtract_squares
from perceptrank.learners.model import Model
from perceptrank.learners.rounds import Pass, close_round, open_query
from perceptrank.learners.tally import LARGEST_SQUARED_NORM, Block, Iterates, Record
from perceptrank.measures.gains import EXP2, gain_of
from perceptrank.stream.memory import check_room
from perceptrank.stream.validation import check_choice, check_positive
from perceptrank.theory import theorems

TARGETS = ("grades", "gains")
RidgeSettings = tuple[float, bool]  # penalty, of_gains

# Documents that enter the inverse at once: many enough to read it seldom, few enough to stay in the first cache.
CHUNK = 16
LARGEST_RAISE = 2.0**30  # of a unit at once; its square must not overflow

# The inverse (the upper triangle, row after row), products, units, sums of squares, counts, and scratch of a chunk.
Moments = tuple[Floats, Floats, Floats, Floats, Floats, FloatRows]


@compiled
def ridge_pass(
    settings: RidgeSettings, block: Block, state: Iterates, extra: Moments, record: Record, scratch: Scratch
) -> int:
    """Rank, then learn, query after query; return how many queries were learned."""
    penalty, of_gains = settings
    X, relevance, offsets, _ = block
    weights = state[0]
    inverse, products, units, sums, counts, small = extra
    floats, _, vectors = scratch
    scores, targets = floats[0], floats[1]
    center, step, rows, images = vectors[0], vectors[1], vectors[2 : 2 + CHUNK], vectors[2 + CHUNK :]
    for q in range(len(offsets) - 1):
        start, stop = offsets[q], offsets[q + 1]
        if not open_query(False, block, q, state, center, scores, record):
            return q
        n_relevant = read_grades(relevance, start, stop - start, False, targets)
        if n_relevant < 0:
            return q
        mass, weight = 0.0, record[1][q]
        if weight > 0.0 and grades_differ(targets, stop - start, n_relevant):
            mass, root = 1.0, math.sqrt(weight)
            center_targets(of_gains, stop - start, targets)
            if not add_squares(weight, X, start, stop, center, step, sums, counts):
                return q
            for k in range(len(weights)):
                if counts[k] > 0.0:
                    update_unit(penalty, k, sums[k] / counts[k], units, products, inverse, step)
            for first in range(start, stop, CHUNK):
                n = min(CHUNK, stop - first)
                read_rows(root, X, first, n, start, center, units, rows)
                for i in range(n):
                    for k in range(len(weights)):
                        products[k] += root * targets[first - start + i] * rows[i, k]
                multiply(inverse, n, rows, images)
                decorrelate(n, rows, images, small)
                subtract_squares(inverse, n, images)
            for k in range(len(weights)):
                rows[0, k] = products[k]
            multiply(inverse, 1, rows, images)
            for k in range(len(weights)):
                weights[k] = images[0, k] / units[k] if units[k] > 0.0 else 0.0
        if not close_round(q, mass, state, record):
            return q
    return len(offsets) - 1


@helper
def center_targets(of_gains: bool, m: int, targets: Floats) -> None:
    """Replace grades by their deviations from the mean of the query, or by those of gains 2^grade - 1."""
    mean = 0.0
    for i in range(m):
        targets[i] = gain_of(EXP2, targets[i], 0.0) if of_gains else targets[i]
        mean += targets[i] / m
    for i in range(m):
        targets[i] -= mean


@helper
def add_squares(
    weight: float, X: Features, start: int, stop: int, center: Floats, squares: Floats, sums: Floats, counts: Floats
) -> bool:
    """Make center the mean of the query's rows minus its first row, and count its squares; False if too large.

    From the first row, which is subtracted exactly, a constant feature deviates by 0 and not by a rounding error.
    """
    for k in range(len(center)):
        center[k] = 0.0
        squares[k] = 0.0
    for i in range(start, stop):
        for k in range(len(center)):
            center[k] += np.float64(X[i, k]) - np.float64(X[start, k])
    for k in range(len(center)):
        center[k] /= stop - start
    for i in range(start, stop):
        for k in range(len(center)):
            apart = (np.float64(X[i, k]) - np.float64(X[start, k])) - center[k]
            squares[k] += apart * apart
    total = 0.0
    for k in range(len(center)):
        sums[k] += weight * squares[k]
        counts[k] += weight * float(stop - start) if squares[k] > 0.0 else 0.0
        total += sums[k]
    return total <= LARGEST_SQUARED_NORM


@helper
def update_unit(
    penalty: float, k: int, variance: float, units: Floats, products: Floats, inverse: Floats, column: Floats
) -> None:
    """Make the unit of feature k its deviation at first, then double it while the variance is above 2 unit²."""
    if units[k] == 0.0:
        units[k] = math.sqrt(variance)
        return
    while variance > 2.0 * units[k] * units[k]:
        ratio = 2.0
        while ratio < LARGEST_RAISE and variance > 2.0 * (ratio * units[k]) * (ratio * units[k]):
            ratio *= 2.0
        units[k] *= ratio
        products[k] /= ratio
        divide_feature(penalty, k, ratio, inverse, column)


@helper
def read_rows(
    root: float, X: Features, first: int, n: int, start: int, center: Floats, units: Floats, rows: FloatRows
) -> None:
    """Write n documents from number `first` on, centred, in units and times `root`; what never varied becomes 0."""
    for i in range(n):
        for k in range(len(center)):
            apart = (np.float64(X[first + i, k]) - np.float64(X[start, k])) - center[k]
            rows[i, k] = root * apart / units[k] if units[k] > 0.0 else 0.0


class RidgeModel(Model):
    """The model of ridge regression."""

    never_negative = ("units", "sums", "counts")


class OnlineRidge(CompiledLearner):
    """Ridge regression of grades on features, both centred within their query; the exact solution after every query.

    Minimises the sum of (y_i - w . z_i)² over all documents of all queries so far whose grades differ, plus penalty
    times the sum of (u_k w_k)², z and y being the deviations of features and targets from their means in the query.
    For a query of m documents that is the sum of ((y_i - y_j) - w . (x_i - x_j))² over its pairs, each with the weight
    1 / m: least squares over all pairs, in which a query counts as much as it has documents. With query weights,
    the squares are weighted, and a document counts as many as its query's weight.

    The penalty is a number of documents: u_k is the unit of feature k, its deviation within the first query in which
    it varies, doubled whenever its mean variance over all queries in which it varies has come to be above 2 u_k². So
    rankings do not depend on the scale of any feature, and units only grow, as the theorem needs.

    Takes memory d² / 2, for the inverse matrix.

    Parameters
    ----------
    penalty : float > 0
        Weight of the penalty, in documents whose features all deviate by one unit.
    target : either "grades" or "gains"
        What is regressed: grades R, or gains 2^R - 1.

    References
    ----------
    - V. Vovk, "Competitive On-line Statistics".
    - K. S. Azoury and M. K. Warmuth, "Relative Loss Bounds for On-Line Density Estimation with the Exponential Family
      of Distributions".

    Examples
    --------
    >>> ranker = OnlineRidge(penalty=2.0)
    >>> ranker.learn_one([[3.0, 7.0], [1.0, 7.0]], [1, 0])  # z = +-1, y = +-1/2, the unit is 1: w = 1 / (2 + 2)
    True
    >>> ranker.weights, ranker.units_
    (array([0.25, 0.  ]), array([1., 0.]))
    """

    algorithm = "ridge"
    accepts_query_weights = True
    depends_on_scale = False
    fixed = ("penalty", "target")
    model_class = RidgeModel
    cost = "m d²"
    depends_on_rate = False
    average: ClassVar[bool] = False  # type: ignore[misc]
    theorem = theorems.ridge()
    kernel = Pass(ridge_pass, (2, 0, 2 + 2 * CHUNK), lambda _: (np.empty((CHUNK, CHUNK)),))

    penalty: float = 1000.0
    _: KW_ONLY
    target: str = "grades"

    def extra_state(self, n_features: int) -> dict[str, Floats]:
        check_room(f"the inverse matrix of {n_features} features", n_features * (n_features + 1) // 2)
        inverse = np.zeros(n_features * (n_features + 1) // 2)
        lengths = np.arange(n_features, 0, -1)
        inverse[np.cumsum(lengths) - lengths] = 1.0 / float(self.penalty)  # the diagonal
        return {"inverse": inverse} | {name: np.zeros(n_features) for name in ("products", "units", "sums", "counts")}

    @property
    def units_(self) -> Floats:
        """The unit of each feature, in which the penalty is; 0 for features that have not varied within a query."""
        return self._model.require_learned().more["units"].copy()

    def _make_settings(self) -> RidgeSettings:
        check_choice("target", self.target, TARGETS)
        return check_positive("penalty", self.penalty), self.target == "gains"
