"""Speed as ratios measured side by side in one run, single thread, best of several.

python benchmarks/speed.py [--repeats 5] [--json]
"""

import argparse
import subprocess
import sys
from collections.abc import Callable

import numpy as np
from numpy_twin import NumpyListwise, NumpySlam
from ratios import best_of, row, show

import perceptrank as pr


def dense_stream(n_queries: int, n_documents: int, n_features: int, seed: int = 0) -> pr.QueryStream:
    """Queries of equal length with noisy linear grades, distributed as in MSLR-WEB10K."""
    rng = np.random.default_rng(seed)
    X = rng.random((n_queries * n_documents, n_features), dtype=np.float32)
    heights = X @ rng.normal(size=n_features).astype(np.float32) + rng.normal(size=len(X)).astype(np.float32)
    grades = np.searchsorted(np.quantile(heights, [0.52, 0.84, 0.97, 0.99]), heights)
    return pr.QueryStream.from_arrays(X, grades, group=np.full(n_queries, n_documents))


def passes(repeats: int) -> list[dict[str, object]]:
    stream = dense_stream(10_000, 120, 136)
    reading, slam, recorded, listwise, automatic = best_of(
        repeats,
        stream.X.sum,
        lambda: pr.SlamPerceptron("ndcg@10").learn(stream, []),
        lambda: pr.SlamPerceptron("ndcg@10").learn(stream, "ndcg@10"),
        lambda: pr.ListwisePerceptron("ndcg", transforms=None).learn(stream, "ndcg@10"),
        lambda: pr.ListwisePerceptron("ndcg", transforms="auto").learn(stream, "ndcg@10"),
    )
    print(f"10,000 queries x 120 documents x 136 float32 features, {stream.X.nbytes / 1e6:.0f} MB", file=sys.stderr)
    return [
        row("slam ndcg@10, one pass, against summing the features", slam / reading, "<= 2.0", slam),
        row("slam ndcg@10, recording ndcg@10, the same", recorded / reading, "", recorded),
        row("listwise ndcg, averaged, recording ndcg@10, the same", listwise / reading, "<= 4.0", listwise),
        row("that listwise on z-scores and normal scores, against it", automatic / listwise, "<= 6", automatic),
    ]


def transforms(repeats: int) -> list[dict[str, object]]:
    stream = dense_stream(1_000, 120, 136)
    bins = pr.Bins().learn(stream[:100])

    def learn(first: object) -> Callable[[], object]:
        return lambda: pr.ListwisePerceptron("ndcg", transforms=first).learn(stream, "ndcg@10")

    names = ("running", "missing", "hash", "bins")
    listwise, *others = best_of(repeats, learn(None), *map(learn, names[:-1]), learn(bins))
    what = {"hash": "hash, 1,024 places", "bins": "bins, 8 hats a feature, edges found before"}
    return [
        row(f"listwise on {what.get(name, name)}, against it on raw features", seconds / listwise, "", seconds)
        for name, seconds in zip(names, others, strict=True)
    ]


def small_queries(repeats: int) -> list[dict[str, object]]:
    stream = dense_stream(3000, 20, 20)
    rows = []
    for name, make, twin in (
        ("slam ndcg@10", lambda: pr.SlamPerceptron("ndcg@10"), NumpySlam),
        ("listwise ndcg", lambda: pr.ListwisePerceptron("ndcg", transforms=None), NumpyListwise),
    ):
        queries = [(query.X, query.relevance) for query in stream]

        def loop(learner: pr.Learner | NumpySlam | NumpyListwise, queries: list = queries) -> None:
            for X, relevance in queries:
                learner.learn_one(X, relevance)

        compiled, looped, plain = best_of(
            repeats,
            lambda make=make: make().learn(stream, "ndcg@10"),
            lambda make=make: loop(make()),
            lambda twin=twin: loop(twin(20)),
        )
        n = len(stream)
        rows.append(
            row(f"{name}, 20 x 20 queries, learn() against the NumPy twin", plain / compiled, ">= 30", compiled / n)
        )
        rows.append(row(f"{name}, 20 x 20 queries, learn_one() against the twin", plain / looped, ">= 4", looped / n))
    return rows


def comparison(repeats: int) -> list[dict[str, object]]:
    stream = dense_stream(10_000, 120, 136)

    def learners() -> list[pr.Learner]:
        rates = [10.0**-power for power in range(6)]
        return [
            *(pr.SlamPerceptron("ndcg@10", learning_rate=rate) for rate in rates),
            *(pr.OnlineListNet(learning_rate=rate) for rate in rates),
            *(pr.ListwisePerceptron(relative_margin=margin) for margin in (0.0, 0.5, 1.0)),
            pr.MinimaxPerceptron(),
        ]

    together, alone = best_of(
        repeats,
        lambda: pr.compare(learners(), stream, "ndcg@10", n_threads=2),
        lambda: [learner.learn(stream, "ndcg@10") for learner in learners()],
    )
    return [row("16 learners in one pass, two threads, against 16 passes", together / alone, "<= 0.5", together)]


def imports(repeats: int) -> list[dict[str, object]]:
    def start(code: str) -> Callable[[], object]:
        return lambda: subprocess.run([sys.executable, "-c", code], check=True)

    nothing, numpy, ours = best_of(
        3 * repeats, start("pass"), start("import numpy"), start("import numpy, perceptrank")
    )
    return [
        row(
            "import numpy, perceptrank, against import numpy",
            (ours - nothing) / (numpy - nothing),
            "<= 2.0",
            ours - nothing,
        )
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    parts = (passes, transforms, small_queries, comparison, imports)
    rows = [one for part in parts for one in part(arguments.repeats)]
    show(rows, as_json=arguments.json)


if __name__ == "__main__":
    main()
