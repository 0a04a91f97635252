"""Learning from sparse features as ratios measured side by side in one run, single thread, best of several.

python benchmarks/sparse.py [--queries 20000] [--repeats 5] [--json]
Two streams of queries of 20 documents with 100 non-zeros of 1,000,000 features: features as frequent as words are
(Zipf's law), and all equally frequent, the worst case, in which hardly any weight is still in a cache. Vowpal Wabbit is
compared with if it is installed (pip install vowpalwabbit): one pass of csoaa_ldf over a cache file that it has written
before, on a part of the stream.
"""

import argparse
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

import numba
import numpy as np
from ratios import best_of, row, show

import perceptrank as pr
from perceptrank.kernels.fetching import AHEAD, fetch

N_DOCUMENTS, N_NONZEROS, N_FEATURES = 20, 100, 1_000_000
VW_QUERIES = 1000


def sparse_stream(n_queries: int, *, zipf: bool, seed: int = 0) -> pr.QueryStream:
    """Queries with noisy linear grades."""
    rng = np.random.default_rng(seed)
    n = n_queries * N_DOCUMENTS
    if zipf:  # the logarithm of the rank is uniform; ranks are spread over the features as by a hash
        ranks = np.exp(rng.random((n, N_NONZEROS), dtype=np.float32) * np.log(N_FEATURES)).astype(np.int64)
        columns = ranks * 387_420_489 % N_FEATURES
    else:
        columns = rng.integers(0, N_FEATURES, (n, N_NONZEROS))
    columns = np.sort(columns, axis=1)
    distinct = np.ones(columns.shape, bool)
    distinct[:, 1:] = columns[:, 1:] != columns[:, :-1]
    starts = np.concatenate([[0], np.cumsum(distinct.sum(axis=1))])
    values = rng.random(starts[-1], dtype=np.float32)
    indices = columns[distinct].astype(np.int32)
    weights = rng.normal(size=N_FEATURES).astype(np.float32)
    heights = np.add.reduceat(values * weights[indices], starts[:-1]) + rng.normal(size=n)
    grades = np.searchsorted(np.quantile(heights, [0.52, 0.84, 0.97, 0.99]), heights)
    X = pr.SparseFeatures(values, indices, starts, N_FEATURES)
    return pr.QueryStream.from_arrays(X, grades, group=np.full(n_queries, N_DOCUMENTS))


@numba.njit(fastmath=True)
def gather(values: np.ndarray, indices: np.ndarray, table: np.ndarray) -> float:
    """Sum values times weights, fetched ahead as a pass does it: the least that a pass has to do."""
    total, last = 0.0, len(values) - 1
    for k in range(len(values)):
        fetch(table, 2 * int(np.uint32(indices[min(k + AHEAD, last)])))
        total += values[k] * table[2 * int(np.uint32(indices[k]))]
    return total


def passes(n_queries: int, repeats: int) -> list[dict[str, object]]:
    rows, table = [], np.ones(2 * N_FEATURES)
    for name, zipf in (("Zipf", True), ("uniform", False)):
        stream = sparse_stream(n_queries, zipf=zipf)
        values, indices, _ = stream.X.arrays
        reading, gathering, listwise, slam, automatic = best_of(
            repeats,
            lambda values=values, indices=indices: values.sum() + indices.sum(),
            lambda values=values, indices=indices: gather(values, indices, table),
            lambda stream=stream: pr.ListwisePerceptron("ndcg", transforms=None).learn(stream, []),
            lambda stream=stream: pr.SlamPerceptron("ndcg@10").learn(stream, []),
            lambda stream=stream: pr.ListwisePerceptron("ndcg", transforms="auto").learn(stream, []),
        )
        n = stream.X.n_nonzeros
        print(
            f"{name}: {len(stream):,} queries, {n:,} non-zeros, {stream.X.nbytes / 1e6:.0f} MB; nanoseconds per "
            f"non-zero: summing {reading / n * 1e9:.2f}, gathering {gathering / n * 1e9:.2f}, "
            f"listwise {listwise / n * 1e9:.2f}, slam {slam / n * 1e9:.2f}, "
            f"listwise on the running spread {automatic / n * 1e9:.2f}",
            file=sys.stderr,
        )
        rows.append(row(f"{name}: gathering weights, the same", gathering / reading, "", gathering))
        what = f"{name}: listwise ndcg, averaged, against summing values and indices"
        rows.append(row(what, listwise / reading, "<= 6", listwise))
        rows.append(row(f"{name}: slam ndcg@10, the same", slam / reading, "", slam))
        rows.append(
            row(f"{name}: listwise on the running spread, against listwise", automatic / listwise, "<= 2", automatic)
        )
        if zipf:
            rows += against_vowpal_wabbit(stream[:VW_QUERIES], repeats)
    return rows


def against_vowpal_wabbit(stream: pr.QueryStream, repeats: int) -> list[dict[str, object]]:
    """One pass of Vowpal Wabbit's multiclass with label-dependent features over its cache, in processes of its own."""
    if importlib.util.find_spec("vowpalwabbit") is None:
        print("vowpalwabbit is not installed: not compared", file=sys.stderr)
        return []
    with tempfile.TemporaryDirectory() as folder:
        text, cache = Path(folder) / "stream.txt", Path(folder) / "stream.cache"
        with open(text, "w", encoding="ascii") as file:
            for query in stream:
                costs = query.relevance.max() - query.relevance
                for i, cost in enumerate(costs):
                    document = query.X[i : i + 1]
                    first, last = document.starts
                    pairs = zip(document.indices[first:last], document.values[first:last], strict=True)
                    file.write(f"{i + 1}:{cost:g} | {' '.join(f'{j}:{value:.6g}' for j, value in pairs)}\n")
                file.write("\n")
        setting = f"--csoaa_ldf mc -b 22 --quiet --cache_file {cache} -d {text}"
        code = (
            f"import time, vowpalwabbit\nvowpalwabbit.Workspace('{setting}').finish()\nbest = 1e9\n"
            f"for _ in range({repeats}):\n    start = time.perf_counter()\n"
            f"    vowpalwabbit.Workspace('{setting}').finish()\n"
            "    best = min(best, time.perf_counter() - start)\nprint(best)"
        )
        said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
        peer = float(said.stdout.split()[-1])
    (own,) = best_of(repeats, lambda: pr.ListwisePerceptron("ndcg", transforms=None).learn(stream, []))
    what = f"Zipf, {len(stream):,} queries: Vowpal Wabbit csoaa_ldf on its cache, against listwise"
    return [row(what, peer / own, ">= 10", peer)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    arguments = parser.parse_args()
    show(passes(arguments.queries, arguments.repeats), as_json=arguments.json)


if __name__ == "__main__":
    main()
