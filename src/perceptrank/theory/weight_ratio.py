"""The largest ratio of two SLAM weights, which the paper's bound of Algorithm 2 depends on."""

from __future__ import annotations

import math

import numpy as np

from perceptrank.measures import NDCG, MeasureLike
from perceptrank.stream.blocks import Blocks, as_blocks
from perceptrank.theory.surrogates import parse_learnable


def weight_ratio(measure: MeasureLike, stream: Blocks) -> float:
    """Return v_max of a stream, the largest ratio of two positive SLAM weights of a query; 1 for AP.

    Weights decrease along the ideal ranking, by grade and by place, so it is the ratio of the first positive weight to
    the last.

    Parameters
    ----------
    measure : str or Measure
        "ndcg", "ndcg@k" or "ap".
    stream : QueryStream or iterable of blocks

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If an argument is out of its range.

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
        shares = math.expm1(-better * math.log(2)) / math.expm1(-worse * math.log(2))
        return float(np.exp2(better - worse) * shares)
