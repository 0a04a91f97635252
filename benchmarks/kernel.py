"""Cost of a query for a kernel perceptron at capacity, as a multiple of the bare product of its matrices.

python benchmarks/kernel.py [--json]; a line is a learner with a full budget that ranks, or ranks and learns, queries.
python benchmarks/kernel.py --quality [--orders 10]: progressive NDCG@10 on the real samples beside the linear default,
mean over orders of the queries, with simultaneous intervals over the policies; PERCEPTRANK_DATA names their folder.
"""

import argparse

import numpy as np
import ratios
from nonlinear import MEASURE, read_sets

import perceptrank as pr
from perceptrank.evaluation.bootstrap import simultaneous_intervals

# Documents, supports, features before "auto" doubles them, and queries: few short ones, so that some run is whole.
SHAPES = ((120, 1000, 136, 40), (40, 2000, 136, 40), (20, 1000, 46, 5))


def measure(m: int, budget: int, d: int, n: int, policy: str) -> list[dict[str, object]]:
    rng = np.random.default_rng(0)
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

    bare, ranked, learned = ratios.best_of(400 // n, multiply, rank, learn)
    what = f"{policy}, {m} documents x {len(supports)} supports x {2 * d}"
    return [
        ratios.row(f"{what}: rank", ranked / bare, "<= 2x", ranked / n),
        ratios.row(f"{what}: rank and learn", learned / bare, "<= 2x", learned / n),
    ]


def compare(orders: int) -> None:
    makers = {"linear": pr.ListwisePerceptron}
    makers |= {name: (lambda name=name: pr.KernelPerceptron(policy=name)) for name in ("merge", "random", "forgetron")}
    for name, stream in read_sets(None):
        values = {}
        for kind, make in makers.items():
            total = np.zeros(len(stream))
            for seed in range(orders):
                order = np.random.default_rng(seed).permutation(len(stream))
                total[order] += make().learn(stream[order], MEASURE).values(MEASURE)
            values[kind] = total / orders
        kinds = [kind for kind in values if kind != "linear"]
        differences = np.stack([values[kind] - values["linear"] for kind in kinds], axis=1)
        found = simultaneous_intervals([differences], [None], confidence=0.95, n_resamples=2000, seed=0)
        print(f"{name}: linear {np.nanmean(values['linear']):.4f}")
        for k, kind in enumerate(kinds):
            interval = f"{found.mean[0, k]:+.4f} [{found.low[0, k]:+.4f}, {found.high[0, k]:+.4f}]"
            print(f"  {kind:12}{np.nanmean(values[kind]):.4f}  {interval}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quality", action="store_true")
    parser.add_argument("--orders", type=int, default=10)
    asked = parser.parse_args()
    if asked.quality:
        compare(asked.orders)
        return
    rows = [row for shape in SHAPES for policy in ("merge", "forgetron", "random") for row in measure(*shape, policy)]
    ratios.show(rows, as_json=asked.json)


if __name__ == "__main__":
    main()
