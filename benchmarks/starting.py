"""What a start from today's ranker is worth, and one from today's trees while the target drifts: NDCG@10.

python benchmarks/starting.py real [--orders 6] [--first 0] [--sets mq2008] [--transform auto]
python benchmarks/starting.py drift [--seeds 2] [--first 0] [--sets mq2008] [--queries 250] [--angle 45]

PERCEPTRANK_DATA names the folder that holds the samples. Each query is ranked before it was learned from. "±" are
intervals of 95 % by the normal approximation, paired by query and order. Set OMP_NUM_THREADS=1: times are those of the
processor.

real   In each order of the queries, today's ranker is ridge regression on the first 5 % of them, as weights of raw
       features; the rest is learned from. "first tenth" and "rest" are of what is learned from, means over orders.
       "random" is a ranker of random weights instead. "from it" is a listwise perceptron with that ranker's score as
       one more feature, which it starts from; "leader" is what `learn --from` makes, the tournament of both.
drift  Trees (LightGBM's defaults, LambdaMART) are fitted to five days of a stream with a teacher of trees. For 20 days
       after that, the target turns, by --angle degrees in all, towards that of another teacher of trees, fitted to a
       random network. "share" is the share of what a nightly refit to the last five days gains over trees that stay as
       they are; "cost" is its time divided by that of the learner, both with ranking. "leader" is what `learn --from`
       makes of trees; "leaves, refit once" begins anew after ten days, from trees fitted to the last five.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial

import lightgbm
import numpy as np
from nonlinear import MEASURE, read_sets

import perceptrank as pr

PAST, DAYS = 5, 20


def from_ranker(now: pr.Learner, transform: str = "auto") -> pr.Learner:
    return pr.ListwisePerceptron(production="score", transforms=[pr.ScoreOf(now), transform])


def standardized(stream: pr.QueryStream) -> tuple[np.ndarray, np.ndarray]:
    X = np.asarray(stream.X, np.float64)
    spread = X.std(axis=0)
    scale = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0)
    return (X - X.mean(axis=0)) * scale, scale


def ridge(stream: pr.QueryStream, seed: int) -> pr.FixedRanker:
    Z, scale = standardized(stream)
    wanted = Z.T @ (stream.relevance - stream.relevance.mean())
    return pr.FixedRanker(np.linalg.solve(Z.T @ Z + 0.1 * len(Z) * np.eye(len(scale)), wanted) * scale)


def at_random(stream: pr.QueryStream, seed: int) -> pr.FixedRanker:
    _, scale = standardized(stream)
    return pr.FixedRanker(np.random.default_rng(seed).normal(size=len(scale)) * scale)


def interval(values: np.ndarray) -> str:
    values = values[~np.isnan(values)]
    return f"{values.mean():+.4f} ± {1.96 * values.std() / np.sqrt(len(values)):.4f}"


def real(options: argparse.Namespace) -> None:
    learners: dict[str, Callable[[pr.FixedRanker], pr.Learner]] = {
        "alone": lambda now: now,
        "from scratch": lambda now: pr.ListwisePerceptron(transforms=options.transform),
        "from it": lambda now: from_ranker(now, options.transform),
        "leader": lambda now: pr.Tournament([now, from_ranker(now, options.transform)]),
    }
    for name, sample in read_sets(options.sets):
        stream = pr.QueryStream(np.asarray(sample.X, np.float64), sample.relevance, sample.offsets)
        orders = {seed: np.random.default_rng(seed).permutation(len(stream)) for seed in seeds(options, 6)}
        print(f"\n{name}: {len(stream)} queries, {stream.n_documents} documents; {len(orders)} orders")
        print(f"{'':22}{'first tenth':>12}{'rest':>9}{'minus today':>20}{'minus from scratch':>20}")
        for title, make_today in {"": ridge, "random, ": at_random}.items():
            found: dict[str, list[np.ndarray]] = {learner: [] for learner in learners}
            for seed, order in orders.items():
                n = max(4, len(order) // 20)
                now = make_today(stream[order[:n]], seed)
                for learner, make in learners.items():
                    found[learner].append(make(now).learn(stream[order[n:]], MEASURE).values(MEASURE))
            for learner, values in found.items():
                head, tail = (
                    np.mean([np.nanmean(np.split(one, [len(one) // 10])[part]) for one in values]) for part in (0, 1)
                )
                gains = [interval(np.concatenate(values) - np.concatenate(found[k])) for k in ("alone", "from scratch")]
                print(f"{title + learner:22}{head:12.4f}{tail:9.4f}{gains[0]:>20}{gains[1]:>20}", flush=True)


def seeds(options: argparse.Namespace, usual: int) -> range:
    return range(options.first, options.first + (options.orders or usual))


def drifting(sample: pr.QueryStream, n_queries: int, seed: int, angle: float) -> pr.QueryStream:
    """Queries of 25 days, of which the first five have one target."""
    simulated = pr.teacher_stream(sample, (PAST + DAYS) * n_queries, seed=seed)
    stream = pr.QueryStream.concatenate(list(simulated))
    heights = pr.teacher_stream(sample, 1, teacher="network", seed=seed).teacher.scores(sample)
    grades = np.digitize(heights, np.quantile(heights, [0.5, 0.75, 0.9])).astype(float)
    other = pr.teacher_stream(pr.QueryStream(sample.X, grades, sample.offsets), 1, seed=seed).teacher
    first, last = ((one - one.mean()) / one.std() for one in (simulated.teacher.scores(stream), other.scores(stream)))
    day = np.repeat(np.maximum(0, np.arange(len(stream)) // n_queries - PAST + 1), np.diff(stream.offsets))
    turned = np.deg2rad(angle) * day / DAYS
    wanted = np.cos(turned) * first + np.sin(turned) * last
    wanted += 0.3 * np.random.default_rng(seed).normal(size=len(wanted))
    _, counts = np.unique(sample.relevance, return_counts=True)
    grades = np.digitize(wanted, np.quantile(wanted, np.cumsum(counts)[:-1] / counts.sum())).astype(float)
    return pr.QueryStream(stream.X, grades, stream.offsets)


def fit(stream: pr.QueryStream) -> pr.TreeLeaves:
    data = lightgbm.Dataset(np.asarray(stream.X), stream.relevance, group=np.diff(stream.offsets))
    settings = {"objective": "lambdarank", "num_threads": 1, "verbose": -1, "deterministic": True, "seed": 0}
    with tempfile.NamedTemporaryFile() as file:
        lightgbm.train(settings, data, 100).save_model(file.name)
        return pr.TreeLeaves(file.name)


def static(leaves: pr.TreeLeaves) -> pr.FixedRanker:
    return pr.FixedRanker(leaves.forest.values, transforms=leaves)


def learners_of(leaves: pr.TreeLeaves, first: pr.QueryStream) -> dict[str, Callable[[], pr.Learner]]:
    start = leaves.start_weights(first[:100])

    def listwise(*, average: bool, transforms: pr.TreeLeaves | None = leaves) -> pr.Learner:
        return pr.ListwisePerceptron(initial_weights=start, average=average, transforms=transforms)

    members = [pr.FixedRanker(start), *(listwise(average=each, transforms=None) for each in (True, False))]
    return {
        STATIC: lambda: static(leaves),
        "from their score": lambda: from_ranker(static(leaves)),
        "leaves, mean": lambda: listwise(average=True),
        "leaves, current": lambda: listwise(average=False),
        "leader": lambda: pr.Tournament(members, transforms=leaves),
    }


def learn(learner: str, stream: pr.QueryStream, trees: pr.TreeLeaves, n: int) -> Iterator[np.ndarray]:
    rest = stream[PAST * n :]
    yield learners_of(trees, rest)[learner]().learn(rest, MEASURE).values(MEASURE)


def refit_once(stream: pr.QueryStream, trees: pr.TreeLeaves, n: int) -> Iterator[np.ndarray]:
    half = (PAST + DAYS // 2) * n
    yield from learn("leaves, current", stream[:half], trees, n)
    yield from learn("leaves, current", stream[half - PAST * n :], fit(stream[half - PAST * n : half]), n)


def refit_nightly(stream: pr.QueryStream, trees: pr.TreeLeaves, n: int) -> Iterator[np.ndarray]:
    for day in range(DAYS):
        past, today = stream[day * n : (day + PAST) * n], stream[(day + PAST) * n : (day + PAST + 1) * n]
        yield pr.evaluate(static(fit(past) if day else trees), today, MEASURE).values(MEASURE)


STATIC, NIGHTLY = "trees as they are", "refitted nightly"
WAYS: dict[str, Callable[[pr.QueryStream, pr.TreeLeaves, int], Iterator[np.ndarray]]] = {
    **{one: partial(learn, one) for one in (STATIC, "from their score", "leaves, mean", "leaves, current", "leader")},
    "leaves, refit once": refit_once,
    NIGHTLY: refit_nightly,
}


def drift(options: argparse.Namespace) -> None:
    n = options.queries
    for name, sample in read_sets(options.sets or "mq2008"):
        values: dict[str, list[np.ndarray]] = {way: [] for way in WAYS}
        times = dict.fromkeys(WAYS, 0.0)
        for seed in seeds(options, 2):
            stream = drifting(sample, n, seed, options.angle)
            trees = fit(stream[: PAST * n])
            for learner in ("from their score", "leader"):
                list(learn(learner, stream[: PAST * n + 20], trees, n))  # compiles
            for way, run in WAYS.items():
                start = time.process_time()
                values[way].append(np.concatenate(list(run(stream, trees, n))))
                times[way] += time.process_time() - start
        n_seeds, whole = len(seeds(options, 2)), {way: np.concatenate(each) for way, each in values.items()}
        print(f"\n{name}: {DAYS * n} queries after {PAST * n}; {n_seeds} seeds; {options.angle:g} degrees")
        print(f"{'':22}{'all days':>10}{'last five':>11}{'share':>8}{'cost':>8}{'minus refitted nightly':>26}")
        lowest, highest = (np.nanmean(whole[way]) for way in (STATIC, NIGHTLY))
        for way, each in whole.items():
            share = (np.nanmean(each) - lowest) / (highest - lowest)
            end = np.mean([np.nanmean(one[-PAST * n :]) for one in values[way]])
            told = f"{way:22}{np.nanmean(each):10.4f}{end:11.4f}{share:8.0%}  1/{times[NIGHTLY] / times[way]:<4.0f}"
            print(f"{told}{interval(each - whole[NIGHTLY]):>26}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["real", "drift"])
    parser.add_argument("--orders", "--seeds", type=int)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--queries", type=int, default=250)
    parser.add_argument("--angle", type=float, default=45.0)
    parser.add_argument("--sets")
    parser.add_argument("--transform", default="auto")
    options = parser.parse_args()
    {"real": real, "drift": drift}[options.what](options)


if __name__ == "__main__":
    main()
