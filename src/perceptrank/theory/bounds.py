"""The theorems as functions: how much a learner can lose at most, and how much any learner can be made to lose.

Every function takes what its constant needs and then either `margin`, the gamma of a separable stream, or `comparator`,
the pair (U, L); see `perceptrank.theory.Theorem`. These come from `perceptrank.theory.margin` and `comparator`,
distances and norms from `diameter` and `radius`.
"""

import math

import numpy as np

from perceptrank.measures import AP, NDCG, MeasureLike
from perceptrank.stream.blocks import Blocks, as_blocks
from perceptrank.stream.validation import check_not_negative, check_positive, check_positive_whole
from perceptrank.theory import theorems
from perceptrank.theory.adversary import n_rounds
from perceptrank.theory.surrogates import parse_learnable
from perceptrank.theory.theorem import AnyComparator, Comparator, from_constant

__all__ = [
    "Comparator",
    "hedge",
    "listwise",
    "lower",
    "minimax",
    "parameter_mixing",
    "perceptron",
    "slam",
    "slam_as_in_the_paper",
    "weight_ratio",
]


def perceptron(*, radius: float, margin: float | None = None, comparator: AnyComparator | None = None) -> float:
    """Mistakes of the classification perceptron (Algorithm 1): C = R^2.

    The surrogate of a comparator is the hinge loss, summed over the rounds with a mistake. Theorem 1 and its corollary
    in the paper.

    >>> perceptron(radius=1, margin=0.5)
    4.0
    """
    return theorems.perceptron().bound(radius=check_positive("radius", radius), margin=margin, comparator=comparator)


def slam_as_in_the_paper(
    *,
    radius: float,
    n_documents: int,
    weight_ratio: float,
    margin: float | None = None,
    comparator: AnyComparator | None = None,
) -> float:
    """Cumulative loss of Algorithm 2 at the rate 1 / C, as the paper has it: C = 4 m R^2 v_max.

    `n_documents` is m, the most documents of a query, or k for NDCG@k; `weight_ratio` is v_max, see the function of
    that name. The rate is the one that suits a separable stream; the general form holds for the best rate in hindsight.
    The surrogate of a comparator is SLAM with margin 1, summed over all rounds. The paper's theorem has v_max outside
    of the root; it belongs under the root too. Not for weights that are shared inside a class (`class_order="mean"`)
    under a cut-off: then more than k are positive.

    >>> slam_as_in_the_paper(radius=1, n_documents=10, weight_ratio=2, margin=1)
    80.0
    """
    check_positive_whole("n_documents", n_documents)
    constant = n_documents * minimax(radius=radius, margin=1) * check_positive("weight_ratio", weight_ratio)
    return from_constant(constant, margin, comparator)


def slam(
    *,
    diameter: float,
    learning_rate: float,
    surrogate_margin: float = 1.0,
    margin: float | None = None,
    comparator: AnyComparator | None = None,
) -> float:
    """Cumulative loss of Algorithm 2 at any rate, as we have it: C = D^2 + 2 surrogate_margin / learning_rate.

    The surrogate of a comparator is SLAM with margin 1, summed over the rounds with a loss. Neither the number of
    documents nor the cut-off nor the grades matter.

    >>> slam(diameter=2, learning_rate=0.5, margin=1)
    8.0
    """
    check_positive("surrogate_margin", surrogate_margin)
    promised = theorems.slam(check_positive("learning_rate", learning_rate), surrogate_margin)
    return promised.bound(diameter=diameter, margin=margin, comparator=comparator)


def minimax(*, radius: float, margin: float | None = None, comparator: AnyComparator | None = None) -> float:
    """Mistakes, hence cumulative loss, of Algorithm 3: C = 4 R^2.

    The surrogate of a comparator is max-pair with margin 1, summed over the rounds with a mistake.

    >>> minimax(radius=1, margin=1)
    4.0
    """
    promised = theorems.pair_perceptron()
    return promised.bound(radius=check_positive("radius", radius), margin=margin, comparator=comparator)


def listwise(
    *,
    diameter: float,
    relative_margin: float = 1.0,
    margin: float | None = None,
    comparator: AnyComparator | None = None,
) -> float:
    """Cumulative loss of the listwise perceptron, last iterate, any violators: C = (1 + 2 relative_margin) D^2.

    The surrogate of a comparator, summed over the rounds with an update, is level-pair with margin 1 if violators are
    weighted by places, SLAM with margin 1 otherwise. With an absolute margin the constant is that of `slam`.

    >>> listwise(diameter=2, relative_margin=0, margin=1)
    4.0
    """
    promised = theorems.listwise(check_not_negative("relative_margin", relative_margin), "level-pair")
    return promised.bound(diameter=diameter, margin=margin, comparator=comparator)


def parameter_mixing(*, diameter: float, learning_rate: float, surrogate_margin: float = 1.0, margin: float) -> float:
    """Loss of iterative parameter mixing with Algorithm 2, or with the listwise rule and surrogate_margin 0.

    Shards each run a pass from the mean of all and are averaged; the losses of a shard count by its weight in that
    mean. Summed over epochs and shards: (D^2 + 2 surrogate_margin / learning_rate) / gamma^2.

    >>> parameter_mixing(diameter=2, learning_rate=1, surrogate_margin=0, margin=0.5)
    16.0
    """
    check_not_negative("surrogate_margin", surrogate_margin)
    promised = theorems.slam(check_positive("learning_rate", learning_rate), surrogate_margin)
    return promised.bound(diameter=diameter, margin=margin)


def hedge(*, n_learners: int, n_queries: int) -> float:
    """How much more than the best of its learners a tournament with strategy "hedge" loses at most, in expectation.

    sqrt(2 T ln N) + sqrt(ln N / 8): exponential weights with the rate sqrt(8 ln N / t) in round t; N. Cesa-Bianchi and
    G. Lugosi, "Prediction, Learning, and Games", Theorem 2.3. Queries that do not count do not count in T.

    >>> round(hedge(n_learners=4, n_queries=1000), 2)
    53.07
    """
    log = math.log(check_positive_whole("n_learners", n_learners))
    return math.sqrt(2 * check_positive_whole("n_queries", n_queries) * log) + math.sqrt(log / 8)


def lower(*, radius: float, margin: float, measure: MeasureLike = "ndcg", version: str = "sharp") -> float:
    """What any deterministic learner can be made to lose on a stream with that margin, features permitting.

    So many rounds as `n_rounds` says, each of which costs 1/2 in AP and 1 - 1 / log2(3) in NDCG.

    >>> lower(radius=1, margin=0.5, measure="ap")
    7.5
    """
    chosen = parse_learnable(measure)
    alone = isinstance(chosen, NDCG) and chosen.cutoff == 1
    per_round = 1.0 if alone else 0.5 if isinstance(chosen, AP) else 1 - 1 / math.log2(3)
    return n_rounds(radius, margin, version) * per_round


def weight_ratio(measure: MeasureLike, stream: Blocks) -> float:
    """v_max of a stream: the largest ratio of two positive SLAM weights of a query. 1 for AP.

    Weights fall along the ideal ranking, with the grade and with the place, so it is the first one against the last
    that is positive.

    >>> from perceptrank import QueryStream
    >>> weight_ratio("ndcg", QueryStream.from_arrays([[0.0]] * 3, [2, 1, 0]))  # (2^2 - 1) / 1 against 1 / log2(3)
    4.754887502163468
    """
    chosen = parse_learnable(measure)
    if not isinstance(chosen, NDCG):
        return 1.0
    largest = 1.0
    for block in as_blocks(stream):
        for start, stop in zip(block.offsets[:-1], block.offsets[1:], strict=True):
            grades = np.sort(block.relevance[start:stop])[::-1][: chosen.cutoff]
            relevant = grades[grades > 0]
            if len(relevant):
                gains = _ratio_of_gains(chosen.gain, float(relevant[0]), float(relevant[-1]))
                largest = max(largest, gains * math.log2(1 + len(relevant)))
    return largest


def _ratio_of_gains(gain: str, better: float, worse: float) -> float:
    if gain == "linear":
        return better / worse
    with np.errstate(over="ignore"):
        shares = math.expm1(-better * math.log(2)) / math.expm1(-worse * math.log(2))
        return float(np.exp2(better - worse) * shares)
