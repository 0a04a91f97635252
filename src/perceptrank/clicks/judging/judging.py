"""Judge documents by the clicks of a log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from perceptrank.clicks.bias.result import PositionBias
from perceptrank.clicks.bias.sums import PositionBiasSums
from perceptrank.clicks.judging import models
from perceptrank.clicks.judging.judgements import Judgements
from perceptrank.clicks.judging.sums import JudgementSums
from perceptrank.kernels.arrays import Floats
from perceptrank.stream.blocks import Blocks, as_blocks
from perceptrank.stream.texts import Texts
from perceptrank.stream.validation import ParameterError, as_number, as_numbers, check_choice, check_confidence

ClickModel: TypeAlias = Literal["position", "dbn", "cascade", "coec", "ctr"]
THRESHOLDS = (0.2, 0.4, 0.6, 0.8)
_OTHERS: dict[str, Callable[..., models.Estimates]] = {
    "dbn": models.simplified_dbn,
    "cascade": models.cascade,
    "coec": models.coec,
    "ctr": models.ctr,
}


def judgements(
    streams: Blocks | JudgementSums,
    model: ClickModel = "position",
    bias: PositionBias | npt.ArrayLike | None = None,
    *,
    prior: tuple[float, float] | None = None,
    thresholds: Sequence[float] = THRESHOLDS,
    confidence: float = 0.95,
    progress: Callable[[int, int], object] | None = None,
) -> Judgements:
    """Estimate from clicks how good each document is for each query, with intervals; grade what is certain enough.

    Parameters
    ----------
    streams : QueryStream, iterable of QueryStream, or JudgementSums
        Impressions: ``place``, ``clicked`` and ``docid`` per document. Impressions with the same ``user_query`` are of
        one query; without it, each ``qid`` is a query. Of clicks that are numbers between 0 and 1, the estimate takes
        the sum, and the interval has room for the whole numbers below and above it.
    model : str
        "position"
            The user looks at place k with probability θ_k, the position bias, and clicks what is seen with probability
            a. Estimates a by (C + α) / (E + α + β), with C clicks and the exposure E, the sum of θ_k over impressions.
            The coverage of the interval is at least `confidence`, whatever a is; the error of an estimated position
            bias is added to it.
        "dbn"
            The simplified dynamic Bayesian network (Chapelle and Zhang, 2009): users read from the top, click what
            attracts with probability a, and stop when satisfied with probability s. Estimates a s, with
            a = (clicks + α) / (shown at or above the last click + α + β), s = (last clicks + α) / (clicks + α + β).
            For users who read on after the last click, a is too large.
        "cascade"
            Users read from the top, click the first document that attracts, and stop. Estimates (clicks + α) / (shown +
            α + β), over impressions in which the document was not below the first click; later clicks do not count.
        "coec"
            Clicks over expected clicks, as OpenSearch's search-relevance plugin computes it, for comparison. All
            impressions of a document count as if they had been at the smallest place it ever had; places below 20 are
            left out, and place 20 is rated 0; there is no prior, no interval, and no upper bound. Expected clicks are
            the click rate of a place: where a ranker puts good documents, these are rated low.
        "ctr"
            Clicks divided by impressions, for comparison.
    bias : PositionBias or array of shape (places,), optional
        Examination of each place, for "position": as `position_bias` returns it, or probabilities that are known
        exactly, NaN where they are not. By default it is estimated from the same streams. Impressions at places that
        are not identified are left out.
    prior : (float, float), optional
        α and β. By default they are fitted to the log: α + β is one number for all documents, which maximizes the
        likelihood of their clicks; α / (α + β) is the mean of documents that were shown at about the same place.
    thresholds : sequence of float
        Bounds of the bands of grades, increasing, between 0 and 1. By default five bands of the same width, for grades
        0 to 4. A document whose interval does not lie in one band has no grade.
    confidence : float
        Confidence level of each interval.
    progress : callable, optional
        Called with the number of documents of queries that have an interval, and their number.

    Notes
    -----
    Intervals do not use the prior: the estimate of a document that was seen seldom may lie outside its interval.

    Intervals hold for users who follow the model. Under users who stop at a good document, documents below it are seen
    less than the position bias says: with many impressions, intervals of "position" are then too narrow.

    Memory grows with the number of different (query, document, place), not with that of impressions.

    Examples
    --------
    >>> import perceptrank as pr
    >>> examination = np.array([1.0, 0.5, 0.3])
    >>> rng = np.random.default_rng(0)
    >>> shown = np.array([rng.permutation(3) for _ in range(2000)])  # documents 0, 1 and 2 at random places
    >>> clicked = rng.random(shown.shape) < examination * np.array([0.9, 0.5, 0.1])[shown]
    >>> log = pr.QueryStream.from_arrays(
    ...     np.empty((6000, 0)), group=[3] * 2000, docids=shown.ravel(), place=[1, 2, 3] * 2000,
    ...     clicked=clicked.ravel(), columns={"user_query": ["red shoes"] * 2000})
    >>> judged = pr.clicks.judgements(log, bias=examination)
    >>> for row in judged.rows():
    ...     print(row["docid"], f"{row['estimate']:.2f} ({row['low']:.2f} to {row['high']:.2f})", row["grade"])
    0 0.88 (0.84 to 0.92) 4.0
    1 0.51 (0.47 to 0.54) 2.0
    2 0.11 (0.09 to 0.13) 0.0
    """
    bounds = check_settings(model, thresholds, confidence, has_bias=bias is not None)
    known = None if bias is None else bias if isinstance(bias, PositionBias) else _as_bias(bias)
    sums, known = _count(streams, known, is_needed=model == "position")
    table = sums.table()
    if not len(table.pair):
        why = "those that were shown have no id" if sums.n_nameless else "all places are 0"
        raise ValueError(f"no document with an id was shown: {why}")
    if known is None:
        result = _OTHERS[model](table, prior, confidence)
    else:
        result = models.position_based(table, prior, confidence, known, progress)
    first = table.firsts
    last = np.append(first[1:], len(table.pair)) - 1
    is_graded = result.identified & ~np.isnan(result.low)
    columns = vars(result) | {
        "query": np.array(sums.queries, object)[table.query[first]],
        "docid": np.array(sums.documents, object)[table.document[first]],
        "grade": np.where(is_graded, find_grades(result.low, result.high, bounds), np.nan),
        "clicks": table.per_pair(table.clicks),
        "shown": table.per_pair(table.shown),
        "smallest_place": table.place[first],
        "largest_place": table.place[last],
        "reason": np.array(result.reason, object),
    }
    estimate = np.where(np.isnan(result.estimate), -np.inf, result.estimate)
    order = np.lexsort((table.document[first], -estimate, table.query[first]))
    notes = [f"{sums.n_nameless:,} shown documents without an id are not judged"] if sums.n_nameless else []
    in_order: dict[str, Any] = {name: column[order] for name, column in columns.items()}
    in_order |= {name: Texts(in_order[name].tolist()) for name in ("query", "docid", "reason")}
    return Judgements(
        **in_order,
        model=model,
        thresholds=bounds,
        confidence=float(confidence),
        n_impressions=sums.n_impressions,
        notes=tuple(notes),
        bias=known,
    )


def check_settings(model: str, thresholds: Sequence[float], confidence: float, *, has_bias: bool) -> tuple[float, ...]:
    """Return the thresholds as numbers; raise `ValueError` if an argument of `judgements` is invalid."""
    check_choice("model", model, get_args(ClickModel))
    check_confidence(confidence)
    if has_bias and model != "position":
        raise ValueError(f"`bias` is for the model 'position': {model!r} has no position bias")
    bounds = tuple(as_number(bound) for bound in thresholds)
    inside = (0.0, *bounds, 1.0)
    if not bounds or not all(low < high for low, high in pairwise(inside)):
        raise ParameterError("thresholds", "must be increasing numbers between 0 and 1", tuple(thresholds))
    return bounds


def _count(
    streams: Blocks | JudgementSums, bias: PositionBias | None, *, is_needed: bool
) -> tuple[JudgementSums, PositionBias | None]:
    """Add up a log, and estimate its position bias if that is needed and not known."""
    if isinstance(streams, JudgementSums):
        if is_needed and bias is None:
            raise ValueError("bias must be given with sums, as `PositionBiasSums` estimates it from the same log")
        return streams, bias
    sums = JudgementSums()
    bias_sums = PositionBiasSums() if is_needed and bias is None else None
    for block in as_blocks(streams, required=True):
        sums.add(block)
        if bias_sums is not None:
            bias_sums.add(block)
    return sums, bias if bias_sums is None else bias_sums.estimate()


def _as_bias(bias: npt.ArrayLike) -> PositionBias:
    """Return examination probabilities that are known exactly as a position bias."""
    examination = as_numbers("bias", bias).astype(float)
    if examination.ndim != 1 or not len(examination):
        raise ValueError(f"bias must have one probability for each place, got shape {examination.shape}")
    is_valid = np.isnan(examination) | ((examination > 0) & (examination <= 1))
    if not is_valid.all():
        place = int(np.argmin(is_valid)) + 1
        raise ValueError(f"bias must be above 0 and at most 1, or NaN, got {examination[place - 1]} at place {place}")
    n, identified = len(examination), ~np.isnan(examination)
    nothing = np.full(n, np.nan)
    return PositionBias(
        examination=examination,
        low=examination,
        high=examination,
        log_covariance=np.zeros((n, n)),
        clicks=nothing,
        shown=nothing,
        method="given",
        identified=identified,
        reason=tuple("" if known else "NaN in `bias`" for known in identified),
    )


def find_grades(low: Floats, high: Floats, thresholds: Sequence[float]) -> Floats:
    """Return the band of each interval that lies in one, from 0 on; else NaN.

    >>> find_grades(np.array([0.0, 0.1, 0.2]), np.array([0.1, 0.2, 1.0]), [0.2]).tolist()
    [0.0, nan, 1.0]
    """
    band = np.searchsorted(thresholds, low, side="right")
    return np.where(band == np.searchsorted(thresholds, high, side="right"), band, np.nan)
