"""Pairwise gradient descent against a buffer."""

from __future__ import annotations

from dataclasses import KW_ONLY

import numpy as np

from perceptrank.kernels.arrays import FloatRows, Floats
from perceptrank.kernels.chance import noise
from perceptrank.kernels.compiled import compiled
from perceptrank.kernels.scratch import Scratch
from perceptrank.learners.compiled_learner import CompiledLearner
from perceptrank.learners.rounds import Pass, adapt, are_valid, count_round, open_query
from perceptrank.learners.tally import ROUNDS, Block, Iterates, Record
from perceptrank.stream.memory import check_room
from perceptrank.stream.validation import check_positive, check_positive_whole, check_seed

BufferedPairwiseSettings = tuple[bool, float, float, int]  # averaging, learning_rate, margin, seed


@compiled
def buffered_pairwise_pass(
    settings: BufferedPairwiseSettings,
    block: Block,
    state: Iterates,
    extra: tuple[FloatRows, Floats],
    record: Record,
    scratch: Scratch,
) -> int:
    """Rank each query, then learn from one document after the other; return how many queries were learned.

    Pairwise hinges against a reservoir of documents, a uniform sample of all so far.
    """
    averaging, learning_rate, margin, seed = settings
    X, relevance, offsets, _ = block
    weights, _, tally, squares = state
    kept, grades = extra
    _, masses = record
    d, size = len(weights), len(grades)
    scores, mean, step = scratch[0][0], scratch[2][0], scratch[2][1]
    for q in range(len(offsets) - 1):
        start, stop = offsets[q], offsets[q + 1]
        if not open_query(averaging, block, q, state, mean, scores, record) or not are_valid(relevance, start, stop):
            return q
        masses[q] = 0.0
        for i in range(start, stop):
            n_seen = int(tally[ROUNDS])
            n_kept = min(n_seen, size)
            n_pairs = 0
            n_moved = 0
            for k in range(d):
                step[k] = 0.0
            for p in range(n_kept):
                if grades[p] == relevance[i]:
                    continue
                n_pairs += 1
                sign = 1.0 if relevance[i] > grades[p] else -1.0
                lead = 0.0
                for k in range(d):
                    lead += weights[k] * (X[i, k] - kept[p, k])
                if sign * lead < margin:
                    n_moved += 1
                    for k in range(d):
                        step[k] += sign * (X[i, k] - kept[p, k])
            if n_moved > 0:
                for k in range(d):
                    step[k] /= n_pairs
                adapt(step, squares)
                for k in range(d):
                    weights[k] += learning_rate * step[k]
            place = n_seen if n_seen < size else int(noise(seed, n_seen, 0) * (n_seen + 1))
            if place < size:
                grades[place] = relevance[i]
                for k in range(d):
                    kept[place, k] = X[i, k]
            moved = 1.0 if n_moved > 0 else 0.0
            masses[q] += moved
            if not count_round(moved, state, 1.0):
                return q
    return len(offsets) - 1


class BufferedPairwise(CompiledLearner):
    """Gradient descent on the pairwise hinges of each document against a buffer of earlier ones.

    For a document x, w += learning_rate times the mean, over the buffered documents x' of another grade, of x - x'
    (x' - x if x has the lower grade) if the scores violate the margin. Then x enters the buffer by reservoir sampling,
    which keeps a uniform sample of all documents so far. Learns from documents one by one, across queries.

    Parameters
    ----------
    buffer_size : int
        Number of documents in the buffer.
    margin : float > 0
        Required difference in score of two documents of different grades.

    References
    ----------
    - P. Kar, B. K. Sriperumbudur, P. Jain and H. C. Karnick, "On the Generalization Ability of Online Learning
      Algorithms for Pairwise Loss Functions".
    - Y. Wang, R. Khardon, D. Pechyony and R. Jones, "Generalization Bounds for Online Learning Algorithms with
      Pairwise Loss Functions".

    Examples
    --------
    >>> ranker = BufferedPairwise(learning_rate=0.5)
    >>> ranker.learn_one([[1.0, 0.0], [0.0, 1.0]], [1, 0])
    True
    >>> ranker.weights
    array([ 0.5, -0.5])
    """

    algorithm = "buffered-pairwise"
    without_query_weights = "its buffer is a sample in which all documents count alike"
    fixed = ("buffer_size",)
    cost = "s m d"
    takes = "documents"
    kernel = Pass(buffered_pairwise_pass, (1, 0, 2))

    learning_rate: float = 0.1
    _: KW_ONLY
    buffer_size: int = 100
    margin: float = 1.0
    seed: int = 0

    def extra_state(self, n_features: int) -> dict[str, Floats]:
        check_room(f"a buffer of {self.buffer_size} documents", self.buffer_size * n_features)
        return {"kept": np.zeros((self.buffer_size, n_features)), "grades": np.zeros(self.buffer_size)}

    def _make_settings(self) -> BufferedPairwiseSettings:
        rate, margin = check_positive("learning_rate", self.learning_rate), check_positive("margin", self.margin)
        check_positive_whole("buffer_size", self.buffer_size)
        check_seed(self.seed)
        return bool(self.average), rate, margin, int(self.seed)
