"""What a start from today's ranker is worth, and from today's trees while the target drifts: NDCG@10.

python benchmarks/starting.py real [--orders 3] [--first 0] [--sets mq2008]

PERCEPTRANK_DATA names the folder that holds the samples. Each query is ranked before it was learned from. "±" is an
interval of 95 % by the normal approximation, paired by query.

real     In each order of the queries, today's ranker is ridge regression on the first 5 % of them, as weights of raw
         features; the rest is learned from. Below are the first tenth of that and the rest, means over orders. "at
         random" are the same learners with a ranker of random weights. "from it" is a listwise perceptron with that
         ranker's score as one more feature, which it starts from; "leader" is the tournament of both, which `learn
         --from` makes. Intervals are those of the difference to today's ranker, over all queries.
"""

import argparse
from collections.abc import Callable

import numpy as np
from nonlinear import MEASURE, read_sets

import perceptrank as pr
from perceptrank.learners import learner as base

TODAY, SCRATCH, FROM, LEADER = "today's", "from scratch", "from it", "leader"


def from_ranker(now: pr.FixedRanker) -> pr.Learner:
    return pr.ListwisePerceptron(production="score", transforms=[pr.ScoreOf(now), "auto"])


LEARNERS: dict[str, Callable[[pr.FixedRanker], pr.Learner]] = {
    TODAY: lambda now: now,
    SCRATCH: lambda now: pr.ListwisePerceptron(),
    FROM: from_ranker,
    LEADER: lambda now: pr.Tournament([now, from_ranker(now)], measure=MEASURE),
}


def ridge(stream: pr.QueryStream) -> pr.FixedRanker:
    """Weights of raw features, fitted to grades with features of spread 1."""
    X = np.asarray(stream.X, np.float64)
    spread = X.std(axis=0)
    scale = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0)
    Z, y = (X - X.mean(axis=0)) * scale, stream.relevance - stream.relevance.mean()
    return pr.FixedRanker(np.linalg.solve(Z.T @ Z + 0.1 * len(Z) * np.eye(len(spread)), Z.T @ y) * scale)


def at_random(stream: pr.QueryStream, seed: int) -> pr.FixedRanker:
    spread = np.asarray(stream.X, np.float64).std(axis=0)
    scale = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0)
    return pr.FixedRanker(np.random.default_rng(seed).normal(size=len(spread)) * scale)


def interval(values: np.ndarray) -> str:
    values = values[~np.isnan(values)]
    return f"{values.mean():+.4f} ± {1.96 * values.std() / np.sqrt(len(values)):.4f}"


def real(options: argparse.Namespace) -> None:
    for name, sample in read_sets(options.sets):
        stream = pr.QueryStream(np.asarray(sample.X, np.float64), sample.relevance, sample.offsets)
        print(f"\n{name}: {len(stream)} queries, {stream.n_documents} documents; {options.orders} orders")
        print(f"{'':32}{'first tenth':>12}{'rest':>9}{'difference to today':>25}", flush=True)
        seeds = range(options.first, options.first + options.orders)
        orders = [np.random.default_rng(seed).permutation(len(stream)) for seed in seeds]
        for kind in ("", " (at random)"):
            for strength in options.strengths:
                base.STRENGTH = strength
                for learner, make in LEARNERS.items():
                    if learner in (TODAY, SCRATCH) and (
                        strength != options.strengths[0] or (kind and learner == SCRATCH)
                    ):
                        continue
                    head, tail, gain = [], [], []
                    for seed, order in zip(seeds, orders, strict=True):
                        n = max(4, len(order) // 20)
                        past, rest = stream[order[:n]], stream[order[n:]]
                        now = at_random(past, seed) if kind else ridge(past)
                        values = make(now).learn(rest, MEASURE).values(MEASURE)
                        today = now.learn(rest, MEASURE).values(MEASURE)
                        cut = len(rest) // 10
                        head.append(np.nanmean(values[:cut]))
                        tail.append(np.nanmean(values[cut:]))
                        gain.append(values - today)
                    shown = learner + kind + (f" c={strength:g}" if learner in (FROM, LEADER) else "")
                    print(
                        f"{shown:32}{np.mean(head):12.4f}{np.mean(tail):9.4f}{interval(np.concatenate(gain)):>25}",
                        flush=True,
                    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["real"])
    parser.add_argument("--orders", type=int, default=3)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--strengths", type=lambda text: [float(part) for part in text.split(",")], default=[30.0])
    parser.add_argument("--sets")
    options = parser.parse_args()
    real(options)


if __name__ == "__main__":
    main()
