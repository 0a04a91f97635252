"""Algorithm 1: the classification perceptron."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from perceptrank.kernels.arrays import Ints
from perceptrank.kernels.compiled import compiled
from perceptrank.kernels.scoring import score_row, squared_norm
from perceptrank.kernels.scratch import Scratch
from perceptrank.learners.compiled_learner import CompiledLearner
from perceptrank.learners.rounds import Pass, adapt, are_valid, open_query, take_step
from perceptrank.learners.tally import (
    LARGEST_REACH,
    LARGEST_SQUARED_NORM,
    LARGEST_WEIGHT,
    MASS,
    ROUND_WEIGHT,
    ROUNDS,
    SQUARED_REACH,
    SQUARED_STEPS,
    UPDATE_WEIGHT,
    UPDATES,
    Block,
    Iterates,
    Record,
)
from perceptrank.stream.validation import check_positive
from perceptrank.theory import theorems

PerceptronSettings = tuple[bool, float]  # averaging, learning_rate


@compiled
def perceptron_pass(
    settings: PerceptronSettings, block: Block, state: Iterates, record: Record, scratch: Scratch
) -> int:
    """Rank each query as a whole, then learn from one document after the other; return how many queries were learned.

    A round is a document.
    """
    averaging, learning_rate = settings
    X, relevance, offsets, _ = block
    weights, total, tally, squares = state
    _, masses = record
    scores, step, mean = scratch[0][0], scratch[2][0], scratch[2][1]
    for q in range(len(offsets) - 1):
        start, stop = offsets[q], offsets[q + 1]
        if not open_query(averaging, block, q, state, mean, scores, record) or not are_valid(relevance, start, stop):
            return q
        weight, updates = masses[q], tally[UPDATES]
        if weight == 0.0:
            continue
        for i in range(start, stop):
            label = 1.0 if relevance[i] > 0.0 else -1.0
            score = score_row(X, i, weights)
            if not math.isfinite(score):
                return q
            if label * score <= 0.0:
                for j in range(len(weights)):
                    step[j] = -label * X[i, j] * weight
                length = squared_norm(step)
                adapt(step, squares)
                if not length <= LARGEST_SQUARED_NORM or not take_step(weights, step, learning_rate):
                    return q
                tally[UPDATES] += 1.0
                tally[SQUARED_REACH] += length
                tally[SQUARED_STEPS] += length
                tally[LARGEST_REACH] = max(tally[LARGEST_REACH], length / weight)
            tally[ROUNDS] += 1.0
            for j in range(len(weights)):
                total[j] += weight * weights[j]
        masses[q] = weight * (tally[UPDATES] - updates)
        tally[MASS] += masses[q]
        tally[UPDATE_WEIGHT] += masses[q]
        tally[ROUND_WEIGHT] += weight * (stop - start)
        tally[LARGEST_WEIGHT] = max(tally[LARGEST_WEIGHT], weight)
    return len(offsets) - 1


class Perceptron(CompiledLearner):
    """The perceptron for classification (Algorithm 1): a round is a document, positive if its label is above 0.

    On a mistake, w += learning_rate * y * x, y = 1 or -1; a score of 0 is a mistake. Predictions do not depend on the
    learning rate. Number of mistakes, `n_updates`, on examples that a unit vector classifies with margin γ: at most
    R² / γ², R the largest norm of an example.

    On judged queries it learns relevant against irrelevant documents and ranks by score. As a plain classifier, it
    takes labels -1 and 1 (or 0 and 1), and `classify` returns labels; every example is then a query of its own.

    References
    ----------
    F. Rosenblatt, "The Perceptron: A Probabilistic Model for Information Storage and Organization in the Brain".

    Examples
    --------
    >>> classifier = Perceptron()
    >>> classifier.learn_one([1.0, 2.0], -1), classifier.learn_one([1.0, -2.0], 1)
    (True, False)
    >>> classifier.classify([[0.0, 1.0], [0.0, -1.0]])
    array([-1,  1])
    """

    algorithm = "perceptron"
    accepts_query_weights = True
    cost = "m d"
    takes = "documents"
    depends_on_rate = False
    reads_labels = True
    theorem = theorems.perceptron()
    kernel = Pass(perceptron_pass, (1, 0, 2))

    learning_rate: float = 1.0

    def _make_settings(self) -> PerceptronSettings:
        return bool(self.average), check_positive("learning_rate", self.learning_rate)

    def classify(self, X: npt.ArrayLike) -> Ints:
        """Return labels -1 and 1, one per row.

        Parameters
        ----------
        X : array of shape (documents, features)
        """
        return np.where(self.predict(X) > 0, 1, -1)
