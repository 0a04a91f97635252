"""Estimate position bias from a log of clicks, by sums that are added up block by block, and over machines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from scipy.special import ndtri

from perceptrank.clicks.bias.coins import Coin, CoinCounts, add_counts, count_coins, padded_sum
from perceptrank.clicks.bias.conditional import Estimate
from perceptrank.clicks.bias.documents import MOST_PLACES, DocumentCounts, id_keys, row_keys
from perceptrank.clicks.bias.methods import choose, estimate_em, estimate_pairs, estimate_pivot, estimate_swaps
from perceptrank.clicks.bias.regression import estimate_regression
from perceptrank.clicks.bias.result import PositionBias
from perceptrank.kernels.arrays import Floats, Ints, Words
from perceptrank.stream.blocks import Blocks, as_blocks
from perceptrank.stream.columns import CLICKED, PLACE
from perceptrank.stream.query_stream import QueryStream, missing_columns
from perceptrank.stream.sparse import SparseFeatures
from perceptrank.stream.texts import mix
from perceptrank.stream.validation import ParameterError, check_choice, check_confidence, check_positive_whole

Method: TypeAlias = Literal["auto", "swaps", "pairs", "pivot", "em", "regression-em"]
_OF_DOCUMENTS = {
    "pairs": estimate_pairs,
    "pivot": estimate_pivot,
    "em": estimate_em,
    "regression-em": estimate_regression,
}
_PART = 2**20  # impressions times places that are counted at once
_FEW_ROWS = 2**20  # of blocks that are not added up yet


def position_bias(
    streams: Blocks, method: Method = "auto", *, places: int | None = None, confidence: float = 0.95
) -> PositionBias:
    """Estimate how often users look at each place, relative to the first.

    A document of attractiveness a at place k is taken to be clicked with probability θ_k a. The examination θ_k can be
    told from a only if something else than attractiveness has moved documents. Where nothing has, the result says why
    a place is not identified.

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
            that the EM algorithm of Wang et al. (2018) climbs, with Firth's correction for its bias. Its intervals are
            the narrowest where clicks are frequent.
        "regression-em"
            The same, with attractiveness as a logistic function of the features, for documents that do not come back.
        "auto"
            "swaps" or "pairs": where both identify the same places and agree, the one with the narrower intervals.
    places : int, optional
        Number of places; default all that were shown.
    confidence : float
        Confidence level of each interval.

    Notes
    -----
    Intervals are normal for ln θ_k. Their variance is at least that of independent clicks, 1/C_k + 1/C_{k+1} for a
    swap; it is more where the clicks of an impression (swaps) or of a query (others) vary more than that.

    Swaps of neighbours link place 10 to place 1 by a chain of nine ratios, whose errors add up: documents that come
    back (pairs), several rankers, or a shuffle of the first places tell more. ``plackett-luce`` moves documents too,
    for "pairs"; it is not used by "swaps".

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


class PositionBiasSums:
    """Sums of a log, or of a part of it, that position bias is estimated from.

    Those of several parts can be added. For swaps they are a few numbers per place; other methods count each document
    of a query at each place where it was seen. Parameters are those of `position_bias`.

    Examples
    --------
    >>> import perceptrank as pr
    >>> log = pr.QueryStream.from_arrays(
    ...     np.empty((4, 0)), qid=[1, 1, 2, 2], place=[1, 2, 1, 2], clicked=[1, 0, 1, 1],
    ...     columns={"policy": ["fair-pairs:1", "fair-pairs:1"]})
    >>> monday, tuesday = PositionBiasSums("swaps"), PositionBiasSums("swaps")
    >>> monday.add(log[:1])
    >>> tuesday.add(log[1:])
    >>> (monday + tuesday).estimate().examination.round(3).tolist()
    [1.0, 0.5]
    """

    def __init__(self, method: Method = "auto", places: int | None = None) -> None:
        check_choice("method", method, get_args(Method))
        if places is not None and check_positive_whole("places", places) > MOST_PLACES:
            raise ParameterError("places", f"must be at most {MOST_PLACES}", places)
        self.method, self.places = method, places
        self.n_impressions = self.n_random = self.n_nameless = self.n_far = 0
        self._shown = self._clicks = np.zeros(0)
        self._coins: dict[Coin, CoinCounts] = {}
        self._documents: list[DocumentCounts] = []

    def add(self, stream: QueryStream) -> None:
        """Add the impressions of a stream.

        Parameters
        ----------
        stream : QueryStream
            With the columns ``place`` and ``clicked``; ``policy`` for swaps, ``user_query`` and ``docid`` for others.
        """
        if stream.place is None or stream.clicked is None:
            raise missing_columns(stream, "position bias", (PLACE, CLICKED))
        size = max(1, _PART // int(stream.place.max(initial=1).clip(1, MOST_PLACES)))
        for start in range(0, stream.n_queries, size):
            self._add(stream[start : start + size])

    def _add(self, stream: QueryStream) -> None:
        columns: Mapping[str, Any] = stream.columns
        place, clicked, limit = columns[PLACE], columns[CLICKED], self.places or MOST_PLACES
        rows = np.flatnonzero((place > 0) & (place <= limit))
        impression = np.repeat(np.arange(stream.n_queries), np.diff(stream.offsets))[rows]
        at, clicks = place[rows].astype(np.int64) - 1, np.asarray(clicked[rows], float)
        self.n_impressions += stream.n_queries
        self.n_far += 0 if self.places else int((place > limit).sum())
        self._shown = padded_sum(self._shown, np.bincount(at).astype(np.float64))
        self._clicks = padded_sum(self._clicks, np.bincount(at, clicks).astype(np.float64))
        if self.method in ("auto", "swaps") and "policy" in columns:
            chances = columns["propensity"][rows] if "propensity" in columns else None
            coins, n_random = count_coins(columns["policy"], impression, at, clicks, chances)
            self.n_random += n_random
            self._coins = add_counts(self._coins, coins)
        if self.method != "swaps":
            self._add_documents(stream, rows, impression, at, clicks)

    def _add_documents(self, stream: QueryStream, rows: Ints, impression: Ints, at: Ints, clicks: Floats) -> None:
        queries = _query_keys(stream)[impression]
        X = np.empty((len(rows), 0))
        if self.method == "regression-em":
            X = _features(stream)[rows]
            keys = row_keys(X)
        else:
            docids = stream.docids
            has_name = np.zeros(len(rows), bool) if docids is None else docids.lengths[rows] > 0
            self.n_nameless += int(len(rows) - has_name.sum())
            keys = np.zeros(len(rows), np.uint64) if docids is None else docids.hashes()[rows]
            if not has_name.all():
                X, keys, queries = X[has_name], keys[has_name], queries[has_name]
                at, clicks = at[has_name], clicks[has_name]
        self._documents.append(DocumentCounts.of(mix(queries, keys), queries, at, clicks, X))
        self._compact_if_long()

    def __iadd__(self, other: PositionBiasSums) -> PositionBiasSums:
        if not isinstance(other, PositionBiasSums):
            return NotImplemented
        if (self.method, self.places) != (other.method, other.places):
            raise ValueError(
                f"sums must be of the same method and places, got {self.method!r}, {self.places} and {other.method!r}, "
                f"{other.places}"
            )
        for name in ("n_impressions", "n_random", "n_nameless", "n_far"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self._shown, self._clicks = padded_sum(self._shown, other._shown), padded_sum(self._clicks, other._clicks)
        self._coins = add_counts(self._coins, other._coins)
        self._documents += other._documents
        self._compact_if_long()
        return self

    def __add__(self, other: PositionBiasSums) -> PositionBiasSums:
        if not isinstance(other, PositionBiasSums):
            return NotImplemented
        total = PositionBiasSums(self.method, self.places)
        total += self
        total += other
        return total

    def compact(self) -> None:
        """Add up the rows of different blocks, so that the sums are as small as they can be."""
        if self._documents:
            self._documents = [DocumentCounts.joined(self._documents)]

    def _compact_if_long(self) -> None:
        sizes = [len(part.keys) for part in self._documents]
        if sum(sizes[1:]) > max([*sizes[:1], _FEW_ROWS]):
            self.compact()

    def estimate(self, confidence: float = 0.95) -> PositionBias:
        """Estimate position bias from the sums. Parameters are those of `position_bias`."""
        check_confidence(confidence)
        if self.n_impressions == 0:
            raise ValueError("there are no impressions to estimate position bias from")
        n = self.places or len(self._shown)
        if n == 0:
            raise ValueError("no document of the log was shown: the column place is 0 everywhere")
        shown, clicks = padded_sum(self._shown, np.zeros(n)), padded_sum(self._clicks, np.zeros(n))
        method, estimate, why = self._estimate(shown)
        error = ndtri((1 + confidence) / 2) * np.sqrt(np.diag(estimate.covariance))
        with np.errstate(over="ignore"):  # hardly any clicks: no upper bound
            low, high = np.exp(estimate.log_examination - error), np.exp(estimate.log_examination + error)
        return PositionBias(
            examination=np.exp(estimate.log_examination),
            low=low,
            high=high,
            log_covariance=estimate.covariance,
            clicks=clicks,
            shown=shown,
            method=method,
            identified=estimate.identified,
            reason=estimate.reason,
            notes=(*why, *self._left_out(method)),
            confidence=float(confidence),
        )

    def _estimate(self, shown: Floats) -> tuple[str, Estimate, list[str]]:
        if self.method == "swaps":
            return "swaps", estimate_swaps(self._coins, shown), []
        self.compact()
        documents = self._documents[0].up_to(len(shown))
        if self.method != "auto":
            return self.method, _OF_DOCUMENTS[self.method](documents, shown), []
        swaps, pairs = estimate_swaps(self._coins, shown), estimate_pairs(documents, shown)
        method, why = choose(swaps, pairs, self.n_random)
        return method, swaps if method == "swaps" else pairs, [why]

    def _left_out(self, method: str) -> list[str]:
        notes = []
        if method == "swaps" and self.n_random < self.n_impressions:
            others = self.n_impressions - self.n_random
            notes.append(
                f"{others:,} of {self.n_impressions:,} impressions are not used: their policy is not one of "
                "fair-pairs:1, fair-pairs:2 and shuffle:K."
            )
        if method != "swaps" and self.n_nameless:
            notes.append(f"{self.n_nameless:,} documents are not used: they have no docid.")
        if self.n_far:
            notes.append(f"{self.n_far:,} documents are not used: they were shown below place {MOST_PLACES}.")
        return notes


def _query_keys(stream: QueryStream) -> Words:
    """Return a key for what the user asked; where that is unknown, for the impression."""
    texts: Any = stream.columns.get("user_query")
    if texts is None:
        return id_keys(stream.qids)
    keys: Words = texts.hashes()
    if (unknown := texts.lengths == 0).any():
        keys[unknown] = mix(keys[unknown], id_keys(stream.qids[unknown]))
    return keys


def _features(stream: QueryStream) -> Floats:
    if isinstance(stream.X, SparseFeatures) or stream.n_features == 0:
        kind = "no" if stream.n_features == 0 else "sparse"
        raise ValueError(f"method 'regression-em' needs dense features, but the stream has {kind} features")
    X = np.asarray(stream.X, np.float64)
    if np.isnan(X).any():
        raise ValueError("method 'regression-em' needs features without missing values (NaN)")
    return X
