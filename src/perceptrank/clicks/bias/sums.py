"""Sums of a log from which position bias is estimated: added up block by block, and over machines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from scipy.special import ndtri

from perceptrank.clicks.bias.coins import Coin, CoinCounts, add_counts, count_coins, padded_sum
from perceptrank.clicks.bias.conditional import Estimate
from perceptrank.clicks.bias.documents import MOST_PLACES, DocumentCounts, id_keys, row_keys
from perceptrank.clicks.bias.em import estimate_em
from perceptrank.clicks.bias.methods import choose, estimate_pairs, estimate_pivot, estimate_swaps
from perceptrank.clicks.bias.regression import estimate_regression
from perceptrank.clicks.bias.result import PositionBias
from perceptrank.kernels.arrays import Floats, Ints, Words
from perceptrank.stream.columns import CLICKED, PLACE
from perceptrank.stream.query_stream import QueryStream, missing_columns
from perceptrank.stream.sparse import SparseFeatures
from perceptrank.stream.texts import mix
from perceptrank.stream.validation import (
    ParameterError,
    check_choice,
    check_confidence,
    check_positive_whole,
)

Method: TypeAlias = Literal["auto", "swaps", "pairs", "pivot", "em", "regression-em"]
_OF_DOCUMENTS = {
    "pairs": estimate_pairs,
    "pivot": estimate_pivot,
    "em": estimate_em,
    "regression-em": estimate_regression,
}
_PART = 2**20  # impressions times places that are counted at once
_FEW_ROWS = 2**20  # of blocks that are not added up yet


class PositionBiasSums:
    """Sums of a log, or of a part of it, that position bias is estimated from.

    Those of several parts can be added; how a log is split makes no difference. For swaps they are a few numbers per
    place. Other methods count each document of a query at each place where it was seen.

    Parameters
    ----------
    method : "auto", "swaps", "pairs", "pivot", "em" or "regression-em"
        See `position_bias`.
    places : int, optional
        Number of places; default all that were shown.

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
        place, _ = _required(stream)
        size = max(1, _PART // int(place.max(initial=1).clip(1, MOST_PLACES)))
        for start in range(0, stream.n_queries, size):
            self._add(stream[start : start + size])

    def _add(self, stream: QueryStream) -> None:
        place, clicked = _required(stream)
        limit = self.places or MOST_PLACES
        rows = np.flatnonzero((place > 0) & (place <= limit))
        impression = np.repeat(np.arange(stream.n_queries), np.diff(stream.offsets))[rows]
        at, clicks = place[rows].astype(np.int64) - 1, np.asarray(clicked[rows], float)
        self.n_impressions += stream.n_queries
        self.n_far += 0 if self.places else int((place > limit).sum())
        self._shown = padded_sum(self._shown, np.bincount(at).astype(np.float64))
        self._clicks = padded_sum(self._clicks, np.bincount(at, clicks).astype(np.float64))
        columns: Mapping[str, Any] = stream.columns
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
        sizes = [len(part.keys) for part in self._documents]
        if sum(sizes[1:]) > max(sizes[0], _FEW_ROWS):
            self._documents = [DocumentCounts.joined(self._documents)]

    def __add__(self, other: PositionBiasSums) -> PositionBiasSums:
        if not isinstance(other, PositionBiasSums):
            return NotImplemented
        if (self.method, self.places) != (other.method, other.places):
            raise ValueError(
                f"sums must be of the same method and places, got {self.method!r}, {self.places} and {other.method!r}, "
                f"{other.places}"
            )
        total = PositionBiasSums(self.method, self.places)
        for name in ("n_impressions", "n_random", "n_nameless", "n_far"):
            setattr(total, name, getattr(self, name) + getattr(other, name))
        total._shown, total._clicks = padded_sum(self._shown, other._shown), padded_sum(self._clicks, other._clicks)
        total._coins = add_counts(self._coins, other._coins)
        total._documents = [*self._documents, *other._documents]
        return total

    def estimate(self, confidence: float = 0.95) -> PositionBias:
        """Estimate position bias from the sums.

        Parameters
        ----------
        confidence : float
            Confidence level of each interval.
        """
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
        self._documents = [DocumentCounts.joined(self._documents)]
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


def _required(stream: QueryStream) -> tuple[Any, Any]:
    if stream.place is None or stream.clicked is None:
        raise missing_columns(stream, "position bias", (PLACE, CLICKED))
    return stream.place, stream.clicked


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
