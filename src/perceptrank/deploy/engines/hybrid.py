"""Weights of hybrid search: OpenSearch's normalization processor and Elasticsearch's linear retriever."""

import json
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from perceptrank.deploy.engines.elasticsearch import field_query
from perceptrank.deploy.engines.float_model import ULP
from perceptrank.deploy.folding import Folded, fold_function
from perceptrank.deploy.ranking_function import RankingFunction
from perceptrank.deploy.target import Differences, Export, Target
from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.stream.sparse import AnyFeatures
from perceptrank.stream.validation import ParameterError, check_choice, is_whole

ENGINES = ("opensearch", "elasticsearch")
PARTS = ("pipeline", "query")
MOST_CLAUSES = 5  # of a hybrid query of OpenSearch
LOWEST = np.float32(0.001)  # what OpenSearch makes of the lowest score of a clause, in place of 0
SAME = np.float32(1e-6)  # Elasticsearch takes scores that differ by less for equal
_LIMITS = {
    "opensearch": "the lowest score of a clause becomes 0.001, not 0: documents whose scores differ by less may "
    "change places",
    "elasticsearch": "scores of a clause that differ by less than 0.000001 are equal to Elasticsearch: multiply them",
}


@dataclass(frozen=True, kw_only=True)
class HybridWeights(Target):
    """Weights that add up to 1 of clauses whose scores are scaled to the range from 0 to 1 within a query.

    Parameters
    ----------
    server : either "opensearch" or "elasticsearch"
        What ranks.
    part : "pipeline", "query", or None
        Of OpenSearch: the search pipeline with the weights, the default, or a draft of a search request with a clause
        per feature. Elasticsearch has the weights in the request, which is all there is.
    window : int
        Number of documents of each clause that are ranked.
    """

    name = "hybrid"

    server: str = "opensearch"
    part: str | None = None
    window: int = 100

    def __post_init__(self) -> None:
        check_choice(self.option("server"), self.server, ENGINES)
        if self.part is not None:
            check_choice(self.option("part"), self.part, PARTS)
        if self.part == "pipeline" and self.server == "elasticsearch":
            raise ValueError(
                "part of the target hybrid must be 'query' for elasticsearch, which has no pipeline for it"
            )
        if not is_whole(self.window) or not 1 <= self.window <= 10_000:
            raise ParameterError(self.option("window"), "must be a whole number from 1 to 10000", self.window)

    def export(self, function: RankingFunction) -> Export:
        folded = self._fold(function)
        shares = self._shares(folded)
        is_query = self.part == "query" or self.server == "elasticsearch"
        body: Any = self._query(shares) if is_query else _pipeline(list(shares.values()))
        return Export(self.name, (json.dumps(body, indent=1) + "\n").encode(), tuple(self._notes(function, folded)))

    def _fold(self, function: RankingFunction) -> Folded:
        """Return the weights of features after query-minmax."""
        if [transform.label for transform in function.transforms] != ["min-max"]:
            raise ValueError(_refusal(function))
        folded = fold_function(replace(function, transforms=[]))
        wrong = [name for name, weight, _ in folded.terms() if weight < 0.0]
        if wrong:
            raise ValueError(
                f"hybrid search has no negative weights, as {', '.join(map(repr, wrong))} has: learn with "
                "positive=[...] for all features (--set 'positive=[...]' of the command learn), and with the negative "
                "of a feature whose low values are good"
            )
        if self.server == "opensearch" and len(folded.places) > MOST_CLAUSES:
            raise ValueError(
                f"a hybrid query of OpenSearch has at most {MOST_CLAUSES} clauses, and {len(folded.places)} features "
                "have a weight: learn with zero=[...] for the others, or set server=elasticsearch"
            )
        return folded

    def _shares(self, folded: Folded) -> dict[str, float]:
        """Return the weights, which add up to 1, by name."""
        with np.errstate(over="ignore"):
            total = float(folded.weights.sum())
        shares = {name: weight / total for name, weight, _ in folded.terms()}
        for name, share in shares.items():
            if not np.float32(share) > 0.0:
                raise ValueError(
                    f"weights of hybrid search are float32, which cannot hold {share:g} of the feature {name!r}: learn "
                    "with zero=[...] for it"
                )
        return shares

    def _query(self, shares: dict[str, float]) -> dict[str, Any]:
        size = min(10, self.window)
        if self.server == "opensearch":
            clauses = [field_query(name) for name in shares]
            return {"size": size, "query": {"hybrid": {"queries": clauses, "pagination_depth": self.window}}}
        retrievers = [
            {"retriever": {"standard": {"query": field_query(name)}}, "weight": share, "normalizer": "minmax"}
            for name, share in shares.items()
        ]
        return {"size": size, "retriever": {"linear": {"retrievers": retrievers, "rank_window_size": self.window}}}

    def _notes(self, function: RankingFunction, folded: Folded) -> list[str]:
        return [
            *function.notes(),
            *folded.left_out(),
            f"the clauses of the query are, in this order: {', '.join(term.name for term in folded.terms())}",
            f"scores are the model's divided by {folded.weights.sum():g}, in float32, which changes no order",
            "a clause must return every document that is ranked, with a score of 0 where it does not match: minimum "
            "and maximum are those of the documents that it returns",
            "scores of a clause are not negative: add a constant to one that would be, which changes nothing else",
            _LIMITS[self.server],
        ]

    def engine(self) -> str:
        return f"emulated as hybrid search by {self.server} in float32, from its source (no engine was asked)"

    def differences(self, function: RankingFunction) -> Differences:
        """Return 4 units in the last place of float32 per feature, and what OpenSearch adds to the lowest scores.

        The latter is no rounding: it changes orders. A query's largest score is at least the largest weight of its
        clauses that are not constant.
        """
        n = len(self._fold(function).places)
        if self.server == "elasticsearch":
            reason = "Elasticsearch takes scores of a clause that differ by less than 0.000001 for equal"
            return Differences(4 * ULP * n, 4 * ULP * n, reason=reason)
        reason = "OpenSearch makes 0.001, not 0, of the lowest score of a clause"
        return Differences((4 * ULP + float(LOWEST)) * n, 4 * ULP * n, reason=reason)

    def scores(self, function: RankingFunction, export: Export, X: AnyFeatures, offsets: Ints) -> Floats:
        """Return the scores of documents as the engine computes them, times the sum of the model's weights.

        Clauses that are constant in a query add the same to all of its scores, which is taken off.
        """
        folded = self._fold(function)
        values = folded.columns(X)
        negative = np.argwhere(values < 0.0)
        if len(negative):
            i, j = negative[0]
            raise ValueError(
                f"scores of a clause are not negative, and feature {folded.names[folded.places[j]]!r} is "
                f"{values[i, j]:g} in a document: add a constant to it, which changes nothing else"
            )
        if self.part == "query" and self.server == "opensearch":
            raise ValueError("parity with hybrid needs part='pipeline', got 'query'")
        shares = np.array(list(self._shares(folded).values()), np.float32)
        parts = []
        for start, stop in pairwise(offsets):
            normalized, constant = self._normalize(values[start:stop].astype(np.float32))
            combined = self._combine(normalized, shares)
            added = shares[constant].astype(np.float64) @ normalized[0, constant].astype(np.float64)
            parts.append(combined.astype(np.float64) - float(added))
        return np.concatenate(parts) * float(folded.weights.sum())

    def _normalize(self, values: Any) -> tuple[Any, Any]:
        """Return the scores of each clause from 0 to 1, and which clauses are constant: 1, unless OpenSearch has 0s."""
        low, high = values.min(axis=0), values.max(axis=0)
        constant = high - low < SAME if self.server == "elasticsearch" else high == low
        scaled = (values - low) / np.where(constant, np.float32(1.0), high - low)
        if self.server == "opensearch":
            scaled = np.where(scaled == 0.0, LOWEST, scaled)
            # its maximum is at least Float.MIN_VALUE, the smallest number above 0
            return np.where(constant & (high > 0.0), np.float32(1.0), scaled), constant
        return np.where(constant, np.float32(1.0), scaled), constant

    def _combine(self, normalized: Any, shares: Any) -> Any:
        """Return the weighted sums, each operation in float32; OpenSearch divides them by the sum of the weights."""
        total, weights = np.zeros(len(normalized), np.float32), np.float32(0.0)
        for j, share in enumerate(shares):
            total = total + share * normalized[:, j]
            weights = weights + share
        return total / weights if self.server == "opensearch" else total


def _pipeline(weights: list[float]) -> dict[str, Any]:
    combination = {"technique": "arithmetic_mean", "parameters": {"weights": weights}}
    processor = {"normalization": {"technique": "min_max"}, "combination": combination}
    return {"phase_results_processors": [{"normalization-processor": processor}]}


def _refusal(function: RankingFunction) -> str:
    """Say why a model cannot be had by hybrid search, and what to do."""
    why = "it scales each clause to the range from 0 to 1 within a query"
    if any(transform.label == "z-score" for transform in function.transforms):
        why = "OpenSearch's z_score makes 0.001 of all that is below the mean, and Elasticsearch has none"
    after = " and then ".join(map(repr, function.transforms))
    return (
        f"{function.algorithm} ranks by {f'features after {after}' if after else 'raw features'}, which hybrid search "
        f"cannot do: {why}; learn again with transforms='query-minmax' (--transform query-minmax of the command learn) "
        "and positive=[...] for all features"
    )
