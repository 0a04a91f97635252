"""Evaluation of two models on 100,000 queries of 20 documents and 46 features, with intervals and a verdict.

python benchmarks/evaluation.py [--queries 100000] [--repeats 3] [--json]

Everything after reading: both models score every document, NDCG@10 and AP of every query, the queries that lost most,
intervals from 2000 resamples, four slices and the verdict. The ratio is to scoring alone, and to a pass of learning.
"""

import argparse
import sys
import time

import numpy as np
from ratios import best_of, row, show

import perceptrank as pr

DOCUMENTS, FEATURES = 20, 46
MEASURES = ["ndcg@10", "ap"]


def make_stream(n_queries: int) -> pr.QueryStream:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_queries * DOCUMENTS, FEATURES)).astype(np.float32)
    noise = rng.normal(size=len(X))
    grades = np.clip(np.round(X @ rng.normal(size=FEATURES) / 4 + noise), 0, 4)
    return pr.QueryStream.from_arrays(X, grades, group=np.full(n_queries, DOCUMENTS))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    stream = make_stream(options.queries)
    labels = np.random.default_rng(1).choice(["a", "b", "c", "d"], size=len(stream))
    models = {"current": pr.ListwisePerceptron(), "new": pr.ListwisePerceptron()}
    models["current"].learn(stream[:500])
    models["new"].learn(stream[:5000])

    def decide(by: object = None) -> object:
        result = pr.evaluate(models, stream, MEASURES, by=by)
        return result.verdict, result.slices, result.worst()

    def score() -> object:
        return [model.scores(stream) for model in models.values()]

    start = time.process_time()
    decide(labels)
    print(f"first use, CPU time {time.process_time() - start:.2f} s", file=sys.stderr)
    plain, sliced, scoring, learning = best_of(
        options.repeats, decide, lambda: decide(labels), score, lambda: pr.ListwisePerceptron().learn(stream, MEASURES)
    )
    rows = [
        row("evaluate two models, seconds", plain, "<= 2", plain, unit=" s"),
        row("evaluate two models with slices, seconds", sliced, "<= 2", sliced, unit=" s"),
        row("evaluate two models, against scoring alone", plain / scoring, "", scoring),
        row("evaluate two models, against learning one", plain / learning, "", learning),
    ]
    show(rows, as_json=options.json)


if __name__ == "__main__":
    main()
