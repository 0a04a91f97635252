"""Weights of a hybrid query: searching a grid, as people do today, against learning them.

The grid has 11 weights for two clauses, and all multiples of a tenth for three; the best of the queries seen so far is
taken. Both learn from the first 10, 30, 100 and 300 of the same queries, start from equal weights, and are measured on
the same others. Intervals are 95 %, of the paired differences: over independent runs of simulated streams, and over the
queries of MQ2008, each in the mean of the random halves in which it is not learned from.

Run with: PERCEPTRANK_DATA=DIR python benchmarks/hybrid.py [number of runs]
"""

import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy import stats

import perceptrank as pr
from perceptrank.deploy.hybrid import learn_weights

SIZES = (10, 30, 100, 300)
NORMALIZATIONS = ("min_max", "l2", "z_score", "rrf")
SIMULATED = {  # noise of the clauses' views of what a document is worth
    "a text and a noisier vector clause": (1.0, 1.5),
    "a text and a better vector clause": (1.0, 0.5),
    "three clauses, each noisier": (1.0, 1.5, 3.0),
}
MQ2008 = {  # numbers of features
    "MQ2008: BM25, LM of the title": (25, 38),
    "MQ2008: BM25, LMs of title and page": (25, 38, 40),
    "MQ2008: BM25 of body and page, PageRank": (21, 25, 41),
}


def simulate(noise: tuple[float, ...], seed: int, n_queries: int = 600) -> pr.QueryStream:
    """Queries of 60 documents; each clause returns its best 8 to 25, with scores of a kind and scale of its own."""
    rng = np.random.default_rng([7, seed])
    rows, grades, sizes = [], [], []
    for _ in range(n_queries):
        worth = rng.normal(size=60)
        columns = []
        for j, deviation in enumerate(noise):
            view = worth + deviation * rng.normal(size=60)
            if j == 0:
                scores = np.exp(0.6 * view + rng.normal(1.5, 0.5))
            elif j == 1:
                scores = 0.5 + 0.5 / (1.0 + np.exp(-0.5 * view - rng.normal()))
            else:
                scores = rng.gamma(1.0) * np.exp(view)
            is_returned = np.argsort(np.argsort(-scores)) < rng.integers(8, 26)
            columns.append(np.where(is_returned, scores, np.nan))
        X = np.column_stack(columns)
        kept = ~np.isnan(X).all(axis=1)
        rows.append(X[kept])
        grades.append(np.digitize(worth[kept], [0.8, 1.4, 2.0]))
        sizes.append(int(kept.sum()))
    X = np.concatenate(rows).astype(np.float32)
    return pr.QueryStream.from_arrays(X, np.concatenate(grades), group=sizes, missing="keep")


def mq2008(folder: Path) -> pr.QueryStream:
    """All queries of fold 1."""
    parts = [pr.read_letor(folder / "mq2008-fold1" / f"{part}.txt.gz") for part in ("train", "vali", "test")]
    return pr.QueryStream.concatenate(parts)


def halves(name: str, whole: pr.QueryStream | None, seed: int) -> tuple[pr.QueryStream, pr.QueryStream]:
    """Return the queries to learn from, and those to measure with."""
    if name in SIMULATED:
        stream = simulate(SIMULATED[name], seed)
    else:
        assert whole is not None
        X = whole.X[:, [number - 1 for number in MQ2008[name]]]
        X = np.where(X > 0.0, X, np.nan)  # scores are scaled within queries: those of 0 are taken for not returned
        stream = whole.with_features(X)[np.random.default_rng(seed).permutation(len(whole))]
    return stream[: len(stream) // 2], stream[len(stream) // 2 :]


def values(weights: np.ndarray, stream: pr.QueryStream) -> np.ndarray:
    """Return NDCG@10 of each query, NaN if it has no relevant document."""
    return pr.evaluate(pr.FixedRanker(weights), stream, ["ndcg@10"]).values("ndcg@10")


def grid(d: int) -> Iterator[np.ndarray]:
    """Yield all weights that are multiples of a tenth and add up to 1."""
    for tenths in itertools.product(range(11), repeat=d):
        if sum(tenths) == 10:
            yield np.array(tenths) / 10.0


def measure(name: str, normalization: str, whole: pr.QueryStream | None, n_runs: int) -> None:
    """Print a row for a stream and a normalization."""
    units: dict[int, list[tuple[object, float]]] = {n: [] for n in SIZES}  # run or query, and difference
    means: dict[int, list[tuple[float, float]]] = {n: [] for n in SIZES}
    for seed in range(n_runs):
        scores = pr.HybridScores("opensearch", normalization)
        learning, held = map(scores.transform, halves(name, whole, seed))
        d = learning.n_features
        tried = list(grid(d))
        seen = [values(weights, learning) for weights in tried]
        for n in SIZES:
            best = int(np.argmax([np.nansum(each[:n]) for each in seen]))
            theirs = values(tried[best], held)
            ours = values(learn_weights(learning[:n], np.full(d, 1.0 / d)), held)
            counts = ~np.isnan(ours)
            means[n].append((float(ours[counts].mean()), float(theirs[counts].mean())))
            if whole is None:
                units[n].append((seed, float((ours - theirs)[counts].mean())))
            else:
                units[n] += zip(held.qids[counts].tolist(), (ours - theirs)[counts].tolist(), strict=True)
    for n in SIZES:
        by_unit: dict[object, list[float]] = {}
        for unit, difference in units[n]:
            by_unit.setdefault(unit, []).append(difference)
        each = np.array([np.mean(several) for several in by_unit.values()])
        half = float(stats.t.ppf(0.975, len(each) - 1)) * each.std(ddof=1) / np.sqrt(len(each))
        ours, theirs = np.mean(means[n], axis=0)
        verdict = "ahead" if each.mean() > half else "behind" if each.mean() < -half else "level"
        print(
            f"{name:40} {normalization:8} {n:4} queries: grid {theirs:.4f}, learned {ours:.4f}, "
            f"difference {each.mean():+.4f} ({each.mean() - half:+.4f} to {each.mean() + half:+.4f}) {verdict}",
            flush=True,
        )


def main() -> None:
    n_runs = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    folder = os.environ.get("PERCEPTRANK_DATA")
    whole = mq2008(Path(folder)) if folder else None
    for name in [*SIMULATED, *(MQ2008 if folder else ())]:
        for normalization in NORMALIZATIONS:
            measure(name, normalization, None if name in SIMULATED else whole, n_runs)


if __name__ == "__main__":
    main()
