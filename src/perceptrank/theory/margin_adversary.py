"""Streams on which a margin costs what the theorems say: the constants (1 + 2ρ) D²/γ² and 9/8 D²/γ² are reached.

All documents have three features, and e_1 ranks them with margin γ. In each round the adversary, who knows the
learner's weights w, picks differences x with e_1 · x = γ and |x| = D whose scores w · x are 0, so that the relevant
document is outranked by one that it is tied with; or just below the margin Δ, so that |w|² grows by D² + 2 Δ instead of
D², without turning to e_1: more rounds are lost later.

With violators="top" a round is of one kind or the other, and (4ρ² - 1) / 8ρ D²/γ² of the second cost the learner most.
With "uniform" and "places" it is of both: few documents are tied with the relevant one, all others almost Δ below.
"""

import math
from typing import NamedTuple

import numpy as np

from perceptrank.kernels.arrays import Floats
from perceptrank.measures import MeasureLike, parse
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.validation import (
    ParameterError,
    check_choice,
    check_not_negative,
    check_positive,
    check_positive_whole,
)

LENGTHS = {"top": 2, "uniform": 100, "places": 1000}  # of queries, unless told
_ROUNDING = 1e-9
_MOST_BYTES = 2**31


class CostlyStream(NamedTuple):
    """A stream for one setting of the listwise perceptron.

    Attributes
    ----------
    stream : QueryStream
        The queries, each with one relevant document.
    separator : array
        Unit vector that ranks all queries correctly.
    margin, diameter : float
        Its margin, and the diameter D of the stream.
    n_lost : int
        Number of queries that the learner loses.
    """

    stream: QueryStream
    separator: "Floats"
    margin: float
    diameter: float
    n_lost: int


def costly_stream(
    violators: str = "uniform",
    *,
    relative_margin: float = 1.0,
    margin: float = 0.1,
    n_documents: int | None = None,
    measure: MeasureLike = "ndcg@1",
) -> CostlyStream:
    """Make a stream of diameter 1 on which `ListwisePerceptron(violators=..., relative_margin=...)` loses most.

    It needs `average=False`, and no transforms.

    Parameters
    ----------
    violators : "top", "uniform", or "places"
    relative_margin : float ≥ 0
        Those of the learner.
    margin : float > 0
        Margin of the stream, smaller than 1.
    n_documents : int, optional
        Documents of a query, at least 2: by default 2 for "top", 100 for "uniform" and 1000 for "places". For the last
        two, the more there are, the closer the loss is to the bound.
    measure : str or Measure
        The measure of the loss.

    Examples
    --------
    >>> import perceptrank as pr
    >>> costly = costly_stream("top", margin=0.05)
    >>> ranker = pr.ListwisePerceptron("ndcg@1", violators="top", average=False, transforms=None)
    >>> lost = ranker.learn(costly.stream, "ndcg@1").losses("ndcg@1").sum()
    >>> bound = ranker.guarantee(diameter=1.0, margin=0.05)
    >>> float(lost), costly.n_lost, round(float(bound), 6)
    (449.0, 449, 450.0)
    """
    check_choice("violators", violators, LENGTHS)
    rho, m = check_not_negative("relative_margin", relative_margin), n_documents or LENGTHS[violators]
    if not check_positive("margin", margin) < 1:
        raise ParameterError("margin", "must be smaller than 1, the diameter", margin)
    check_positive_whole("n_documents", m, least=2)
    n_bytes = 24 * m * (1 + 2 * rho) / margin**2
    if n_bytes > _MOST_BYTES:
        needed = f"{1e-9 * n_bytes:.0f} GB of memory"
        raise ValueError(f"margin {margin} needs {needed}; choose a larger margin or fewer documents")
    n_above = 1 if violators == "top" or m == 2 else _best_number_above(violators, rho, m, measure)
    share = 1.0 if m == 2 else _share_above(violators, n_above, m)
    n_apart = max(0.0, (4 * rho**2 - 1) / (8 * rho)) / margin**2 if rho > 0 and violators == "top" else math.inf
    queries: list[Floats] = []
    weights, reaches, n_lost = np.zeros(3), 0.0, 0
    while True:
        delta = rho * reaches / len(queries) * (1 - _ROUNDING) if queries else 0.0
        tied, apart = _difference(weights, margin, 0.0), _difference(weights, margin, delta)
        if tied is None:
            break
        if violators == "top" and apart is not None and delta > 0 and len(queries) - n_lost < n_apart:
            above, below = apart, apart
        else:
            above, below = tied, tied if apart is None or share == 1.0 else apart
            n_lost += 1
        queries.append(np.vstack([-np.tile(above, (n_above, 1)), -np.tile(below, (m - 1 - n_above, 1)), np.zeros(3)]))
        step = share * above + (1 - share) * below
        weights = weights + step
        reaches += float(step @ step)
    grades = np.tile(np.append(np.zeros(m - 1), 1.0), len(queries))
    stream = QueryStream.from_arrays(np.concatenate(queries), grades, group=np.full(len(queries), m))
    return CostlyStream(stream, np.array([1.0, 0.0, 0.0]), margin, 1.0, n_lost)


def _difference(weights: Floats, margin: float, score: float) -> Floats | None:
    """Return a vector of length 1 with this score, whose first feature is the margin; None if there is none."""
    across = np.hypot(weights[1], weights[2])
    direction = weights[1:] / across if across > 0 else np.array([1.0, 0.0])
    along = (score - weights[0] * margin) / across if across > 0 else 0.0
    along -= _ROUNDING if score == 0.0 and across > 0 else 0.0  # rounding must not break the tie in its favour
    left = 1 - margin**2 - along**2
    if left < 0:
        return None
    aside = math.sqrt(left) * np.array([-direction[1], direction[0]])
    return np.concatenate([[margin], along * direction + aside])


def _share_above(violators: str, n_above: int, m: int) -> float:
    """Return the part of a step that is along documents that outrank the relevant one."""
    return n_above / (m - 1) if violators == "uniform" else math.log(n_above + 1) / math.log(m)


def _best_number_above(violators: str, rho: float, m: int, measure: MeasureLike) -> int:
    """Return how many of m documents should outrank the relevant one for the largest loss in sum over rounds."""
    chosen = parse(measure)

    def total_loss(n_above: int) -> float:
        lost = 1 - chosen(-np.arange(n_above + 1.0), np.append(np.zeros(n_above), 1.0))
        return lost * (1 + 2 * rho * (1 - _share_above(violators, n_above, m)))

    return max(range(1, min(m, 200)), key=total_loss)
