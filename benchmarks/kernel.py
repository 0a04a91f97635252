"""Cost of a query for a kernel perceptron at capacity, as a multiple of the bare product of its matrices.

python benchmarks/kernel.py [--json]; a line is a learner with a full budget that ranks, or ranks and learns, queries.
"""

import argparse

import numpy as np
import ratios

import perceptrank as pr

SHAPES = ((120, 1000, 136), (40, 2000, 136), (20, 1000, 46))  # documents, supports, features before "auto" doubles them


def measure(m: int, budget: int, d: int, policy: str) -> list[dict[str, object]]:
    rng = np.random.default_rng(0)
    n = 40
    X = rng.normal(size=((budget // m + n + 20) * m, 2 * d))
    stream = pr.QueryStream.from_arrays(X, rng.integers(0, 5, len(X)), group=[m] * (len(X) // m))
    ranker = pr.KernelPerceptron(budget=budget, policy=policy, transforms=None)
    ranker.learn(stream[n:], measures=[])
    queries = stream[:n]
    supports, blocks = ranker.supports_, [np.array(query.X) for query in queries]
    out = np.empty((m, len(supports)))

    def multiply() -> None:
        for block in blocks:
            np.dot(block, supports.T, out=out)

    def rank() -> None:
        for block in blocks:
            ranker.predict(block)

    def learn() -> None:
        ranker.learn(queries, measures=[])

    bare, ranked, learned = ratios.best_of(15, multiply, rank, learn)
    what = f"{policy}, {m} documents x {len(supports)} supports x {2 * d}"
    return [
        ratios.row(f"{what}: rank", ranked / bare, "<= 2x", ranked / n),
        ratios.row(f"{what}: rank and learn", learned / bare, "<= 2x", learned / n),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    rows = [row for shape in SHAPES for policy in ("merge", "forgetron", "random") for row in measure(*shape, policy)]
    ratios.show(rows, as_json=asked.json)


if __name__ == "__main__":
    main()
