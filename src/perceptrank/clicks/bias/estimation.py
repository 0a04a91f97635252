"""Estimate position bias from a log of clicks."""

from __future__ import annotations

from perceptrank.clicks.bias.result import PositionBias
from perceptrank.clicks.bias.sums import Method, PositionBiasSums
from perceptrank.stream.blocks import Blocks, as_blocks
from perceptrank.stream.validation import check_confidence


def position_bias(
    streams: Blocks, method: Method = "auto", *, places: int | None = None, confidence: float = 0.95
) -> PositionBias:
    """Estimate how often users look at each place, relative to the first.

    A document of attractiveness a at place k is taken to be clicked with probability θ_k a. The examination θ_k can be
    told from a only if something else than attractiveness has moved documents. Where nothing has, the result says that
    a place is not identified, and why, instead of giving a number.

    Parameters
    ----------
    streams : QueryStream or iterable of QueryStream
        Impressions: ``place`` and ``clicked`` per document. Each block is read once.
    method : str
        "swaps"
            Compares the places that a policy has drawn at random, as ``policy`` says (``fair-pairs:1``,
            ``fair-pairs:2``, ``shuffle:K``): θ_{k+1} / θ_k = C_{k+1} / C_k, the clicks of both places in swapped pairs,
            weighted by 1 / ``propensity`` where that is known. Assumes nothing of the documents.
        "pairs"
            Compares the clicks of each document (``docid``) of each query (``user_query``) at all places where it was
            seen, as interventions are harvested by Agarwal et al. (2019). Assumes that its attractiveness did not
            change when it changed places.
        "pivot"
            As "pairs", but each place only with place 1 (Mantel and Haenszel's ratio).
        "em"
            Estimates the attractiveness of each document that has changed places, too: the maximum of the likelihood
            that the EM algorithm of Wang et al. (2018) climbs, with Firth's correction, as EM alone is biased if
            documents were seen a few times. Its intervals are the narrowest where clicks are frequent.
        "regression-em"
            The same, with attractiveness as a logistic function of the features, for documents that do not come back.
            Its intervals hold if that is what attractiveness is.
        "auto"
            "swaps" or "pairs": where both identify the same places and agree, the one with the narrower intervals.
    places : int, optional
        Number of places; default all that were shown.
    confidence : float
        Confidence level of each interval.

    Returns
    -------
    PositionBias
        Examination with intervals, which places are identified, and why others are not.

    Notes
    -----
    Intervals are normal for ln θ_k. Their variance is at least that of independent clicks, 1/C_k + 1/C_{k+1} for a
    swap; it is more where the clicks of an impression (swaps) or of a query (others) vary more than that.

    Swaps of neighbours link place 10 to place 1 by a chain of nine ratios, whose errors add up: documents that come
    back (pairs), several rankers, or a shuffle of the first places tell more from the same number of impressions.
    ``plackett-luce`` moves documents too, for "pairs"; it is not used by "swaps".

    Users who stop at the first good document, or trust the first places, do not follow this model. Then θ_k mixes their
    habits with the documents above: it is what a click at this place is worth on average in this log.

    Examples
    --------
    >>> import numpy as np
    >>> import perceptrank as pr
    >>> shown = np.array(["a", "b", "b", "a"] * 500)  # two documents, swapped by a coin
    >>> examined = np.random.default_rng(0).random(2000) < np.tile([1.0, 0.6], 1000)
    >>> log = pr.QueryStream.from_arrays(
    ...     np.empty((2000, 0)), group=[2] * 1000, docids=shown, place=[1, 2] * 1000, clicked=examined & (shown == "a"),
    ...     columns={"policy": ["fair-pairs:1"] * 1000, "user_query": ["red shoes"] * 1000})
    >>> bias = pr.clicks.position_bias(log)
    >>> bool(bias.low[1] < 0.6 < bias.high[1]), bias.method
    (True, 'swaps')
    >>> fixed = pr.clicks.position_bias(log[0:1000:2], method="pairs")  # only those where "a" came first
    >>> fixed.identified.tolist(), fixed.reason[1]
    ([True, False], 'no clicked document that changed places links it to place 1')
    """
    check_confidence(confidence)
    sums = PositionBiasSums(method, places)
    for block in as_blocks(streams, required=True):
        sums.add(block)
    return sums.estimate(confidence)
