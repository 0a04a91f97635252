"""Bounds of another form than `Theorem.bound`, and the lower bound for all learners.

A learner's own bound is `learner.theorem.bound(...)`, or `guarantee`. Where a function here takes `margin`, the γ of a
separable stream, or `comparator`, the pair (U, L), give exactly one of them; `perceptrank.theory.margin`, `comparator`,
`diameter` and `radius` compute such values.
"""

import math

import numpy as np

from perceptrank.measures import AP, NDCG, MeasureLike
from perceptrank.stream.blocks import Blocks, as_blocks
from perceptrank.stream.validation import (
    ParameterError,
    check_choice,
    check_not_negative,
    check_positive,
    check_positive_whole,
)
from perceptrank.theory import theorems
from perceptrank.theory.adversary import n_rounds
from perceptrank.theory.surrogates import parse_learnable
from perceptrank.theory.theorem import AnyComparator, largest_lost, norm_and_loss
from perceptrank.theory.theorems import HEAD_START, MEAN_FACTOR

__all__ = [
    "averaged_risk",
    "forgetron",
    "hedge",
    "largest_share",
    "leader",
    "lower",
    "prank",
    "random_budget",
    "ridge",
    "safe_averaging",
    "weight_ratio",
]

FEWEST_UNITS = 83  # of the Forgetron: 1 / 84 + 2 / sqrt(84) + 1 / (2 sqrt(ln 84)) <= 15/32


def largest_share(measure: MeasureLike, n_documents: int) -> float:
    """Return the largest part of the weight of outranked documents that a ranking can lose: c_m of Lemma 1'.

    1 - 1 / m for AP, 1 - 1 / log2(1 + m) for NDCG, and 1 if there is a cut-off before m. For queries of at most m
    documents, bounds on a loss by the weight moved may be multiplied by it: those of `Theorem.bound`, but not what safe
    averaging adds, or the bound of a tournament.

    Parameters
    ----------
    measure : str or Measure
        "ndcg", "ndcg@k" or "ap".
    n_documents : int
        m, the largest number of documents of a query.

    Examples
    --------
    >>> largest_share("ap", 2), largest_share("ndcg", 3), largest_share("ndcg@10", 20)
    (0.5, 0.5, 1.0)
    """
    chosen, m = parse_learnable(measure), check_positive_whole("n_documents", n_documents)
    if chosen.cutoff is not None and chosen.cutoff < m:
        return 1.0
    return 1 - 1 / m if isinstance(chosen, AP) else 1 - 1 / math.log2(1 + m)


def safe_averaging(mean_loss: float, current_loss: float, *, largest_weight: float | None = None) -> float:
    """Bound the loss of safe averaging: min(3 current_loss + 2, (3 mean_loss + 1) / 2).

    If queries have weights, at most c, losses are weighted sums: min(3 current_loss + 2 c, 3/2 mean_loss + c).

    Parameters
    ----------
    mean_loss, current_loss : float ≥ 0
        Cumulative loss of ranking all queries by the mean of the iterates so far, and by the current weights.
    largest_weight : float > 0, optional
        Largest weight of a query, if not all are 1.

    Examples
    --------
    >>> safe_averaging(mean_loss=3691.0, current_loss=1.5)
    6.5
    """
    by_current = (1 + MEAN_FACTOR) * check_not_negative("current_loss", current_loss)
    by_mean = (1 + 1 / MEAN_FACTOR) * check_not_negative("mean_loss", mean_loss)
    if largest_weight is not None:
        largest = check_positive("largest_weight", largest_weight)
        return min(by_current + (HEAD_START + 1) * largest, by_mean + largest)
    return min(by_current + HEAD_START + 1, by_mean + max(0.0, 1 - HEAD_START / MEAN_FACTOR))


def random_budget(
    *,
    diameter: float,
    n_units: int,
    relative_margin: float = 1.0,
    decay: float = 1.0,
    share: float = 1.0,
    beside_weights: bool = False,
    margin: float | None = None,
    comparator: AnyComparator | None = None,
) -> float:
    """Bound the expected loss of a kernel perceptron on a budget that removes updates at random.

    With a = 2 (1 + relative_margin) (D U)² and b = decay / n_units, it is (2 L + a) / (1 - a b / (2 - b) / share), and
    infinite if the divisor is not positive. With decay = 1, b / 2 takes the place of b / (2 - b). With
    `beside_weights`, the a in the divisor is 2 (1 + relative_margin) (D U + 1/2)².

    Parameters
    ----------
    diameter : float
        Largest distance D between the images of two differently graded documents of a query.
    n_units : int
        A number of updates that is sure to be kept whenever one is removed.
    relative_margin : float ≥ 0
        Margin in units of the mean squared step per weight moved.
    decay : float ≥ 1
        That of bounded gradient descent; 1 for the randomised budget.
    share : float > 0
        The smallest weight that an update moves; 1 for the minimax rule.
    beside_weights : bool
        True if the kernel has a linear part that is kept exactly.
    margin : float, optional
        Margin of a separable stream; give this or `comparator`.
    comparator : (U, L), optional
        Norm of a function, and its cumulative surrogate over the rounds with an update.

    Examples
    --------
    >>> random_budget(diameter=1, n_units=16, relative_margin=0, margin=0.5)  # 8 / (1 - 8 / 32)
    10.666666666666666
    """
    check_positive_whole("n_units", n_units)
    if not 1 <= check_positive("decay", decay) < math.inf:
        raise ParameterError("decay", "must be at least 1", decay)
    norm, loss = map(float, norm_and_loss(margin, comparator))
    gone = min(1.0, decay / n_units)
    cost = gone / 2 if decay == 1 else gone / (2 - gone)
    constant = 2 * (1 + check_not_negative("relative_margin", relative_margin))
    size = check_not_negative("diameter", diameter) * norm
    removed = size + 0.5 if beside_weights else size
    left = 1 - constant * removed**2 * cost / check_positive("share", share)
    return (2 * loss + constant * size**2) / left if left > 0 else math.inf


def forgetron(
    *, diameter: float, n_units: int, margin: float | None = None, comparator: AnyComparator | None = None
) -> float:
    """Bound the loss of the Forgetron with the minimax rule: 64/33 (2 L + (D U)²).

    It holds if k = n_units ≥ 83, for functions with D U ≤ √((k + 1) / ln(k + 1)) / 4; otherwise it is infinite. The
    surrogate is max-pair with margin 1. Parameters are those of `random_budget`.

    Examples
    --------
    >>> round(forgetron(diameter=1, n_units=500, margin=0.5), 2)
    7.76
    """
    norm, loss = map(float, norm_and_loss(margin, comparator))
    k, size = check_positive_whole("n_units", n_units), check_not_negative("diameter", diameter) * norm
    if k < FEWEST_UNITS or size > math.sqrt((k + 1) / math.log(k + 1)) / 4:
        return math.inf
    return 64 / 33 * (2 * loss + size**2)


def leader(*, n_learners: int, best_loss: float, largest_weight: float = 1.0) -> float:
    """Bound the loss of a tournament with strategy "leader": N L* + (N - 1) times the largest weight of a query.

    Parameters
    ----------
    n_learners : int
        N.
    best_loss : float ≥ 0
        L*, the smallest cumulative loss of a learner, weighted as queries are.
    largest_weight : float > 0
        Largest weight of a query.

    Examples
    --------
    >>> leader(n_learners=3, best_loss=10.0)
    32.0
    """
    n = check_positive_whole("n_learners", n_learners)
    return n * check_not_negative("best_loss", best_loss) + (n - 1) * check_positive("largest_weight", largest_weight)


def hedge(
    *, n_learners: int, n_queries: int | None = None, rate: float | None = None, best_loss: float | None = None
) -> float:
    """Bound the expected loss of a tournament with strategy "hedge", or its regret against the best learner.

    With the default rate, √(8 ln N / t) in round t, the expected regret: √(2 T ln N) + √(ln N / 8). With a fixed rate,
    the expected loss: (rate L* + ln N) / (1 - exp(-rate)). N. Cesa-Bianchi and G. Lugosi, "Prediction, Learning, and
    Games", Theorem 2.3 and Section 2.4. The other parameters are those of `leader`.

    Parameters
    ----------
    n_queries : int, optional
        T, the number of queries that count, of weights up to 1; without a fixed rate.
    rate : float > 0, optional
        The fixed rate; needs `best_loss`.

    Examples
    --------
    >>> round(hedge(n_learners=4, n_queries=1000), 2)
    53.07
    >>> round(hedge(n_learners=4, rate=1.0, best_loss=10.0), 2)  # (10 + ln 4) / (1 - 1/e)
    18.01
    """
    log = math.log(check_positive_whole("n_learners", n_learners))
    if (n_queries is None) != (best_loss is not None) or (rate is None) != (best_loss is None):
        raise ValueError("give n_queries, or rate and best_loss")
    if rate is None:
        return math.sqrt(2 * check_positive_whole("n_queries", n_queries) * log) + math.sqrt(log / 8)
    return (check_positive("rate", rate) * check_not_negative("best_loss", best_loss) + log) / -math.expm1(-rate)


def prank(*, n_grades: int, radius: float, margin: float, threshold_margin: float = 0.0) -> float:
    """Bound the number of thresholds that PRank gets wrong, at least the sum of distances to the true grades.

    With n = n_grades - 1 thresholds, K = n R² + 1 and b = max(K, 2 threshold_margin): (K + b)² / (4 b γ²). With those
    that are right by less than the margin, there are at most (K + 2 threshold_margin) / γ².

    Parameters
    ----------
    n_grades : int
        Number of grades, at least 2.
    radius : float
        Largest norm R of a document.
    margin : float > 0
        γ, with which weights and thresholds of norm 1 together put all documents on the right sides.
    threshold_margin : float ≥ 0
        The margin of `MarginPRank`, 0 for `PRank`.

    Examples
    --------
    >>> prank(n_grades=3, radius=1.0, margin=0.5), prank(n_grades=3, radius=1.0, margin=0.5, threshold_margin=4.5)
    (12.0, 16.0)
    """
    check_positive_whole("n_grades", n_grades, least=2)
    norm, _ = norm_and_loss(margin, None)
    reach = check_not_negative("radius", radius) * norm
    price = 2 * check_not_negative("threshold_margin", threshold_margin) * norm * norm
    with np.errstate(over="ignore"):
        return largest_lost((n_grades - 1) * reach**2 + norm**2, price, 0.0)


def averaged_risk(
    *,
    diameter: float,
    n_queries: int,
    learning_rate: float = 1.0,
    surrogate_margin: float,
    margin: float | None = None,
    comparator: AnyComparator | None = None,
) -> float:
    """Bound the expected loss of the averaged ranker on a new query, if queries are drawn independently: Theorem G.

    For the mean of all iterates of `ListwisePerceptron(violators="top", margin=..., class_order="mean" or "index")`
    after T queries; for AP any class order. `predict` ranks by that mean only while it is safe (`ranks_with`). With
    ρ = surrogate_margin / (learning_rate D²), the bound is (L + ρ D² U² / 2 + S / (2 ρ)) / T, where S is the bound on
    the weight moved. Not for transforms that learn.

    Margin and diameter are those of all queries that can be drawn.

    Parameters
    ----------
    diameter : float > 0
        Largest distance D between two differently graded documents of a query.
    n_queries : int
        T.
    learning_rate, surrogate_margin : float > 0
        Those of the learner.
    margin : float, optional
        Margin γ of a ranker; give this or `comparator`.
    comparator : Comparator or (U, L), optional
        Norm of a fixed ranker, and the expectation of its cumulative SLAM surrogate with margin 1, over T + 1 queries.

    Examples
    --------
    >>> averaged_risk(diameter=2, n_queries=1000, surrogate_margin=4.0, margin=0.5)  # rho = 1: 2 * 16 / 1000
    0.032
    """
    size, delta = check_positive("diameter", diameter), check_positive("surrogate_margin", surrogate_margin)
    rate = check_positive("learning_rate", learning_rate)
    norm, loss = map(float, norm_and_loss(margin, comparator))
    moved = theorems.slam(rate, delta, splits=False).bound(diameter=diameter, margin=margin, comparator=comparator)
    rho = delta / rate / size / size
    bound = loss + rho / 2 * (size * norm) ** 2 + moved / (2 * rho)
    return bound / check_positive_whole("n_queries", n_queries)


def ridge(*, n_features: int, n_documents: float, penalty: float, largest_loss: float, n_doublings: int = 0) -> float:
    """Bound the regret of online ridge regression, in its own loss, against any fixed ranker u with u's penalty.

    E² (d ln(1 + 2 n / penalty) + 2 k ln 2). The loss of a query is the sum of the squared differences between scores
    and targets, both centred within the query; u's penalty is `penalty` times the sum of (unit_j u_j)², with the units
    at the end.

    Parameters
    ----------
    n_features : int
        d, the number of features.
    n_documents : float
        n, the number of documents learned from, each times the weight of its query.
    penalty : float > 0
        The learner's penalty.
    largest_loss : float ≥ 0
        E², the largest loss of a query, times its weight.
    n_doublings : int
        k, how often a unit was doubled, summed over features.

    Examples
    --------
    >>> round(ridge(n_features=10, n_documents=5000, penalty=1000, largest_loss=4), 1)
    95.9
    """
    size = check_positive_whole("n_features", n_features) * math.log1p(
        2 * check_positive("n_documents", n_documents) / check_positive("penalty", penalty)
    )
    doublings = check_not_negative("n_doublings", n_doublings)
    return check_not_negative("largest_loss", largest_loss) * (size + 2 * doublings * math.log(2))


def lower(*, radius: float, margin: float, measure: MeasureLike = "ndcg", version: str = "sharp") -> float:
    """Return the loss that an adversary can force on any deterministic learner, given enough features.

    Each round costs 1/2 in AP, 1 - 1 / log2(3) in NDCG and 1 in NDCG@1. The other parameters are those of `n_rounds`,
    without the version "exact".

    Parameters
    ----------
    measure : str or Measure
        "ndcg", "ndcg@k" or "ap".

    Examples
    --------
    >>> lower(radius=1, margin=0.5, measure="ap")
    7.5
    """
    chosen = parse_learnable(measure)
    check_choice("version", version, ("sharp", "paper"))
    per_round = 0.5 if isinstance(chosen, AP) else 1.0 if chosen.cutoff == 1 else 1 - 1 / math.log2(3)
    return n_rounds(radius, margin, version) * per_round


def weight_ratio(measure: MeasureLike, stream: Blocks) -> float:
    """Return v_max of a stream, the largest ratio of two positive SLAM weights of a query; 1 for AP.

    Parameters
    ----------
    measure : str or Measure
        "ndcg", "ndcg@k" or "ap".
    stream : QueryStream or iterable of blocks

    Examples
    --------
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
        return float(np.exp2(better - worse) * (math.expm1(-better * math.log(2)) / math.expm1(-worse * math.log(2))))
