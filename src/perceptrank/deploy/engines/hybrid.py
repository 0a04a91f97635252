"""Weights of hybrid search: OpenSearch's search pipelines and Elasticsearch's linear and rrf retrievers."""

import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from perceptrank.deploy.engines.float_model import ULP
from perceptrank.deploy.engines.hybrid_request import MOST_CLAUSES, read_request, write_request
from perceptrank.deploy.folding import fold_function
from perceptrank.deploy.ranking_function import RankingFunction
from perceptrank.deploy.target import Differences, Export, Target
from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.stream.sparse import AnyFeatures, dense
from perceptrank.transforms.hybrid_scores import HybridScores

_VERSIONS = {
    ("opensearch", "z_score"): "z_score needs OpenSearch 3.0",
    ("opensearch", "rrf"): "weights of rrf need OpenSearch 3.1; before 3.5 it ranks within each shard: use one shard",
    ("elasticsearch", "min_max"): "Elasticsearch before 8.18.3 and 9.0.3 does not normalize scores that are all equal",
    ("elasticsearch", "l2"): "l2_norm needs Elasticsearch 8.19 or 9.1",
    ("elasticsearch", "rrf"): "weights of rrf need Elasticsearch 9.2",
}


@dataclass(frozen=True, kw_only=True)
class HybridWeights(Target):
    """Weights that add up to 1, of the clauses of a hybrid query; the model's transform is `HybridScores` alone.

    Parameters
    ----------
    current : path, optional
        The pipeline or request in use now, as JSON: everything but the weights and the normalization is kept.
    """

    name = "hybrid"

    current: str | None = None

    def export(self, function: RankingFunction) -> Export:
        scores, shares = _scores_of(function), self._shares(function)
        request = None if self.current is None else read_request(self.current)
        if request is not None:
            n, engine = len(request.weights or shares), request.scores.engine
            if (engine, n) != (scores.engine, len(shares)):
                raise ValueError(
                    f"{self.current} has {n} weights of {engine}; the model has {len(shares)} clauses of "
                    f"{scores.engine}"
                )
        content = (json.dumps(write_request(scores, shares, request), indent=1) + "\n").encode()
        notes = [*function.notes(), f"the clauses of the query must be, in this order: {', '.join(function.names)}"]
        if version := _VERSIONS.get((scores.engine, scores.normalization)):
            notes.append(version)
        least = None if request is None else request.holder[request.kind].get("min_score")
        if least is not None:
            notes.append(f"min_score is kept, as {least}: choose it anew, since the scores of documents have changed")
        return Export(self.name, content, tuple(notes))

    def _shares(self, function: RankingFunction) -> dict[str, float]:
        """Return the weights by name, which add up to 1; those that are 0, too: the query has these clauses."""
        scores = _scores_of(function)
        folded = fold_function(replace(function, transforms=[]))
        if wrong := [name for name, weight, _ in folded.terms() if weight < 0.0]:
            raise ValueError(
                f"hybrid search has no negative weights, as {', '.join(map(repr, wrong))} has: learn with "
                "positive=[...] for all features (--set 'positive=[...]' of the command learn)"
            )
        if scores.engine == "opensearch" and len(folded.names) > MOST_CLAUSES:
            raise ValueError(
                f"a hybrid query of OpenSearch has at most {MOST_CLAUSES} clauses, and there are {len(folded.names)} "
                "features: learn from fewer (--column feature=NAME)"
            )
        shares = folded.weights
        if abs(shares.sum() - 1.0) > 1e-12:
            shares = shares / shares.max()  # whose sum cannot overflow
            shares = shares / shares.sum()
        return dict(zip(folded.names, shares.tolist(), strict=True))

    def engine(self) -> str:
        return "emulated as hybrid search in float32, from the engine's source (no engine was asked)"

    def differences(self, function: RankingFunction) -> Differences:
        rounding = 4 * ULP * len(function.names)  # 4 units in the last place per clause
        reason = "OpenSearch leaves clauses out of a document's mean where their normalized score is negative"
        return Differences(rounding, reason=reason)

    def scores(self, function: RankingFunction, export: Export, X: AnyFeatures, offsets: Ints) -> Floats:
        """Return the scores of documents as the engine computes them, times the sum of the model's weights."""
        scores = _scores_of(function)
        normalized: Any = scores.apply(dense(X), offsets).astype(np.float32)
        shares = np.array(list(self._shares(function).values()), np.float32)
        combined: Floats = combine(scores, normalized, shares).astype(np.float64)
        return combined * float(function.weights.sum())


def combine(scores: HybridScores, normalized: Any, shares: Any) -> Any:
    """Return the weighted sums of normalized scores, each operation in float32 and in the engine's order."""
    total, weights = np.zeros(len(normalized), np.float32), np.zeros(len(normalized), np.float32)
    for share, column in zip(shares, normalized.T, strict=True):
        counts = (column >= 0.0) | (scores.engine == "elasticsearch")
        total = np.where(counts, total + share * column, total)
        weights = np.where(counts, weights + share, weights)
    if scores.engine == "elasticsearch" or scores.normalization == "rrf":
        return total
    return np.where(weights > 0.0, total / np.where(weights > 0.0, weights, np.float32(1.0)), np.float32(0.0))


def _scores_of(function: RankingFunction) -> HybridScores:
    """Return the transform of a model; raise unless it ranks by the normalized scores of a hybrid query."""
    if len(function.transforms) == 1 and isinstance(function.transforms[0], HybridScores):
        return function.transforms[0]
    after = " and then ".join(map(repr, function.transforms))
    raise ValueError(
        f"{function.algorithm} ranks by {f'features after {after}' if after else 'raw features'}, and hybrid search by "
        "normalized scores: learn again with transforms=HybridScores(...) and positive=[...] for all features, or with "
        "the command hybrid"
    )
