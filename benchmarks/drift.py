"""Forgetting beside the learner that forgets nothing: where the target moves, and where it stays.

python benchmarks/drift.py [--seeds 5] [--queries 10000] [--alarms]

Progressive NDCG@10 of one pass. Simulated streams are those of `pr.drifting`, another one for each seed; real ones, in
the folder that PERCEPTRANK_DATA names, are shuffled by each seed, so that nothing moves in them. Differences are paired
by query (of a real stream, the mean over its shuffles), with an interval of 95 % by the normal approximation. The
columns "fading N" are of one half-life alone. Alarms are those of `Trace.changes()` in all versions of a stream, for
the learner that forgets nothing. Times are CPU times of learning, the shortest of three, divided by that of the learner
alone.

With --alarms, how soon a rise of the losses raises an alarm, and how often there is one without a rise: losses from a
beta distribution with a standard deviation of 0.18, in 20 streams for each rise, and 1,000 without one.
"""

import argparse
import time
from collections.abc import Callable, Iterator

import numpy as np
from real_streams import find_streams

import perceptrank as pr

LEARNERS: dict[str, Callable[[], pr.Learner]] = {
    "listwise": pr.ListwisePerceptron,
    "fading 30": lambda: pr.Fading(pr.ListwisePerceptron(), half_life=30),
    "fading 100": lambda: pr.Fading(pr.ListwisePerceptron(), half_life=100),
    "fading 1000": lambda: pr.Fading(pr.ListwisePerceptron(), half_life=1000),
    "forgetting": lambda: pr.Forgetting(pr.ListwisePerceptron()),
}


def streams(n_queries: int, seeds: int) -> Iterator[tuple[str, list[pr.QueryStream]]]:
    """Every stream with its versions by seed; queries of the same id are the same."""
    for drift in ("none", "abrupt", "gradual", "rotating"):
        yield drift, [pr.drifting(n_queries, drift=drift, seed=seed) for seed in range(seeds)]
    yield "one change", [pr.drifting(n_queries, period=n_queries // 2, seed=seed) for seed in range(seeds)]
    yield "mslr-shaped", [pr.mslr_shaped(n_queries // 10, seed=seed) for seed in range(seeds)]
    for name, path in find_streams():
        stream = pr.read_letor(path)
        yield name, [stream.shuffled(seed, documents=True) for seed in range(seeds)]


def cpu_time(make: Callable[[], pr.Learner], stream: pr.QueryStream) -> float:
    """Shortest CPU time of learning a stream."""
    times = []
    for _ in range(3):
        learner = make()
        start = time.process_time()
        learner.learn(stream, "ndcg@10")
        times.append(time.process_time() - start)
    return min(times)


def show_alarms() -> None:
    """Print the median delay after a rise, and the share of false alarms."""
    rng = np.random.default_rng(1)
    print(f"{'losses before':>14}{'rise':>6}{'found':>7}{'median delay':>14}")
    for n_before in (300, 1000, 5000):
        for rise in (0.05, 0.1, 0.2, 0.4):
            delays = []
            for _ in range(20):
                losses = rng.beta(2, 4, size=n_before + 2000)
                losses[n_before:] = np.minimum(losses[n_before:] + rise, 1.0)
                alarms = [one.alarm - n_before for one in pr.ChangeDetector().add_all(losses)]
                delays += [one for one in alarms if one >= 0][:1]
            median = f"{np.median(delays):.0f}" if delays else "-"
            print(f"{n_before:14,}{rise:6}{len(delays):4}/20{median:>14}", flush=True)
    for promised in (0.01, 0.5):
        detectors = (pr.ChangeDetector(promised, tolerance=0.0) for _ in range(1000))
        share = np.mean([bool(one.add_all(rng.beta(2, 4, size=2000))) for one in detectors])
        print(f"false alarms, promised at most {promised} without a tolerance: {share:.3f} of 1,000 streams of 2,000")
    losses = rng.beta(2, 4, size=20_000)
    start = time.process_time()
    pr.ChangeDetector().add_all(losses)
    print(f"{(time.process_time() - start) / len(losses) * 1e6:.1f} µs a value")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--alarms", action="store_true")
    options = parser.parse_args()
    if options.alarms:
        show_alarms()
        return
    heads = "".join(f"{name:>12}" for name in LEARNERS)
    print(f"{'stream':36}{heads}{'forgetting - listwise':>32}{'alarms':>8}{'fading x':>10}{'forgetting x':>14}")
    for name, versions in streams(options.queries, options.seeds):
        values: dict[str, list[np.ndarray]] = {one: [] for one in LEARNERS}
        n_alarms = 0
        for stream in versions:
            for one, make in LEARNERS.items():
                trace = make().learn(stream, "ndcg@10")
                values[one].append(trace.values("ndcg@10"))
                n_alarms += len(trace.changes()) if one == "listwise" else 0
        joined = {one: np.concatenate(found) for one, found in values.items()}
        gained = joined["forgetting"] - joined["listwise"]
        is_shuffled = "/" in name
        ids = np.concatenate([one.qids for one in versions]) if is_shuffled else np.arange(len(gained))
        _, numbers = np.unique(ids, return_inverse=True)
        gained = np.bincount(numbers, gained) / np.bincount(numbers)
        gained = gained[~np.isnan(gained)]
        error = 1.96 * gained.std() / np.sqrt(len(gained))
        means = "".join(f"{np.nanmean(found):12.4f}" for found in joined.values())
        difference = f"{gained.mean():+.4f} ({gained.mean() - error:+.4f} to {gained.mean() + error:+.4f})"
        alone = cpu_time(LEARNERS["listwise"], versions[0])
        times = [cpu_time(LEARNERS[one], versions[0]) / alone for one in ("fading 100", "forgetting")]
        print(f"{name:36}{means}{difference:>32}{n_alarms:8}{times[0]:10.2f}{times[1]:14.2f}", flush=True)


if __name__ == "__main__":
    main()
