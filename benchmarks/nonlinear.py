"""What functions that are not linear are worth: NDCG@10, time and memory on teacher streams and on the real samples.

python benchmarks/nonlinear.py real [--shuffles 10] [--batch]
python benchmarks/nonlinear.py teacher [--queries 50000] [--sets mq2008,imat2009] [--batch]
python benchmarks/nonlinear.py time [--queries 20000] [--sets mq2008]

PERCEPTRANK_DATA names the folder that holds the samples; the set "shaped" is simulated and needs none. Nothing is
tuned: learners have their defaults, beside what their names say (--learners "bins;kernel" chooses some). "progressive"
is each query ranked before it was learned from; "held out" are queries that were not learned from at all: a fifth of a
sample at a time, or the last tenth of a teacher stream. "share" is the share of the gap between the linear default and
the teacher without noise that a learner closes in the last tenth of a stream, ranked before it was learned from.
Differences to the linear default have intervals of 95 % each, by a paired bootstrap over queries; "behind" and "ahead"
are those that do not contain 0. Times are those of the processor, so that a busy machine hardly matters; set
OMP_NUM_THREADS=1, as threads that wait count. MB is the most that memory grew by in a pass, beside the stream (Linux).
Batch learners fit what the others learn from, on one thread.
"""

import argparse
import contextlib
import ctypes
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from lambdamart import FITTERS
from real_streams import find_streams

import perceptrank as pr
from perceptrank.evaluation.bootstrap import simultaneous_intervals

MEASURE = "ndcg@10"
N_FOLDS = 5


def listwise(*transforms: Any) -> Callable[[], Any]:
    return lambda: pr.ListwisePerceptron(transforms=list(transforms))


LINEAR = "linear: auto"
DEFAULT = "auto+bins"  # what docs/learners/transforms.md recommends where linear functions are not enough
LEARNERS: dict[str, Callable[[], Any]] = {
    LINEAR: listwise("auto"),
    "linear: running": listwise("running"),
    "bins": listwise("bins"),
    "bins, 64": listwise("bins:n_bins=64"),
    "bins, thermometer": listwise("bins:kind=thermometer"),
    DEFAULT: listwise("auto+bins"),
    "kernel, budget 1000": pr.KernelPerceptron,
}


def read_sets(chosen: str | None) -> Iterator[tuple[str, pr.QueryStream]]:
    """The samples whose names begin with one of the chosen; of several files, the one to train on, or that is named."""
    wanted = chosen.split(",") if chosen else [""]
    if "shaped" in wanted:
        yield "shaped", pr.mslr_shaped(100, n_documents=30, n_features=46)
    wanted = [one for one in wanted if one != "shaped"]
    for name, path in find_streams() if wanted else ():
        if name in wanted or (not name.endswith(("/vali", "/test")) and name.startswith(tuple(wanted))):
            yield name, pr.read_letor(path)


class Usage:
    """Seconds of the processor, and megabytes that this process grew by at most; NaN where Linux does not say."""

    def __enter__(self) -> "Usage":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)  # memory that is free would be used first, and would not count
        self._before = _memory("VmRSS")
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")  # the largest so far is what there is now
        self._start = time.process_time()
        return self

    def __exit__(self, *error: object) -> None:
        self.seconds = time.process_time() - self._start
        self.megabytes = max(0.0, _memory("VmHWM") - self._before)


def _memory(what: str) -> float:
    with contextlib.suppress(OSError), open("/proc/self/status") as lines:
        return next(float(line.split()[1]) / 1024 for line in lines if line.startswith(what))
    return np.nan


def size_of(ranker: Any) -> str:
    if isinstance(ranker, pr.KernelPerceptron):
        return f"{ranker.n_supports} supports"
    return f"{len(ranker.weights)} weights"


def difference(values: np.ndarray, linear: np.ndarray) -> str:
    if values is linear:
        return f"{np.nanmean(values):9.4f}{'':35}"
    found = simultaneous_intervals([(values - linear)[:, None]], [None], confidence=0.95, n_resamples=4000, seed=0)
    low, high = found.low[0, 0], found.high[0, 0]
    said = "ahead" if low > 0 else "behind" if high < 0 else ""
    return f"{np.nanmean(values):9.4f} {found.mean[0, 0]:+.4f} [{low:+.4f}, {high:+.4f}] {said:7}"


def real(options: argparse.Namespace) -> None:
    """For each query the mean over orders, then intervals over queries."""
    for name, stream in read_sets(options.sets):
        print(f"\n{name}: {len(stream)} queries, {stream.n_documents} documents; {options.shuffles} orders")
        print(f"{'':26}{'progressive':>40}{'held out':>39}{'us/doc':>16}{'MB':>6}  size")
        linear: list[np.ndarray] = []
        for kind, make in LEARNERS.items():
            make().learn(stream[:20], MEASURE)  # compiles
            ranker = make()
            with Usage() as usage:
                ranker.learn(stream, MEASURE)
            ahead, out = np.zeros(len(stream)), np.zeros(len(stream))
            for order, folds in splits(stream, options.shuffles):
                ahead[order] += make().learn(stream[order], MEASURE).values(MEASURE) / options.shuffles
                for rest, fold in folds:
                    learned = make()
                    learned.learn(stream[rest], [])
                    out[fold] += pr.evaluate(learned, stream[fold], MEASURE).values(MEASURE) / options.shuffles
            linear = linear or [ahead, out]
            told = difference(ahead, linear[0]) + difference(out, linear[1])
            cost = f"{usage.seconds / stream.n_documents * 1e6:8.2f}{usage.megabytes:6.0f}"
            print(f"{kind:26}{told}{cost}  {size_of(ranker)}", flush=True)
        for kind, fit in FITTERS.items() if options.batch else ():
            with Usage() as usage:
                fit(stream)
            out = np.zeros(len(stream))
            for _, folds in splits(stream, options.shuffles):
                for rest, fold in folds:
                    out[fold] += (
                        pr.evaluate(fit(stream[rest]), stream[fold], MEASURE).values(MEASURE) / options.shuffles
                    )
            cost = f"{usage.seconds / stream.n_documents * 1e6:8.2f}{usage.megabytes:6.0f}"
            print(f"{kind:26}{'':44}{difference(out, linear[1])}{cost}", flush=True)


def splits(stream: pr.QueryStream, n: int) -> Iterator[tuple[Any, list[tuple[Any, Any]]]]:
    """Orders of queries, and of each the folds: what to learn from, and what is held out."""
    for seed in range(n):
        order = np.random.default_rng(seed).permutation(len(stream))
        folds = np.array_split(order, N_FOLDS)
        yield order, [(np.concatenate([*folds[:k], *folds[k + 1 :]]), folds[k]) for k in range(N_FOLDS)]


def teacher(options: argparse.Namespace) -> None:
    for name, sample in read_sets(options.sets):
        simulated = pr.teacher_stream(sample, options.queries)
        stream = pr.QueryStream.concatenate(list(simulated))
        cut = len(stream) - len(stream) // 10
        train, last = stream[:cut], stream[cut:]
        best = pr.evaluate(simulated.teacher, last, MEASURE).mean(MEASURE)
        print(f"\n{name}: {len(stream)} queries, {stream.n_documents} documents; teacher {best:.4f} in the last tenth")
        print(f"{'':26}{'last tenth':>11}{'share':>7}{'held out':>10}{'all':>8}{'us/doc':>9}{'MB':>6}  size")
        linear = 0.0
        for kind, make in LEARNERS.items():
            make().learn(train[:20], MEASURE)  # compiles
            ranker = make()
            with Usage() as usage:
                trace = ranker.learn(train, MEASURE)
            out = pr.evaluate(ranker, last, MEASURE).mean(MEASURE)
            end = ranker.learn(last, MEASURE)
            reached = end.mean(MEASURE)
            linear = linear or reached
            every = np.nanmean(np.concatenate([trace.values(MEASURE), end.values(MEASURE)]))
            told = f"{reached:11.4f}{(reached - linear) / (best - linear):7.0%}{out:10.4f}{every:8.4f}"
            cost = f"{usage.seconds / train.n_documents * 1e6:9.2f}{usage.megabytes:6.0f}"
            print(f"{kind:26}{told}{cost}  {size_of(ranker)}", flush=True)
        for kind, fit in FITTERS.items() if options.batch else ():
            with Usage() as usage:
                model = fit(train)
            out = pr.evaluate(model, last, MEASURE).mean(MEASURE)
            cost = f"{usage.seconds / train.n_documents * 1e6:9.2f}{usage.megabytes:6.0f}"
            print(f"{kind:26}{'':11}{(out - linear) / (best - linear):7.0%}{out:10.4f}{'':8}{cost}", flush=True)


def equal_time(options: argparse.Namespace) -> None:
    """Kernels on a budget, the linear default and bins by the time that a query takes, shortest first."""
    makers: dict[str, Callable[[], Any]] = {LINEAR: LEARNERS[LINEAR], DEFAULT: listwise("auto+bins")}
    for n in (100, 300, 1000, 3000):
        makers[f"kernel, budget {n}"] = lambda n=n: pr.KernelPerceptron(budget=n)
        makers[f"kernel, minimax, budget {n}"] = lambda n=n: pr.KernelPerceptron(rule="minimax", budget=n)
    for name, sample in read_sets(options.sets):
        blocks = list(pr.teacher_stream(sample, options.queries))
        found = []
        for kind, make in makers.items():
            make().learn(blocks[0][:20], MEASURE)
            ranker = make()
            with Usage() as usage:
                trace = ranker.learn(blocks, MEASURE)
            values = trace.values(MEASURE)
            reached = float(np.nanmean(values[-(len(values) // 10) :]))
            found.append((usage.seconds / options.queries * 1e6, kind, reached, usage.megabytes))
        print(f"\n{name}: {options.queries} queries\n{'':28}{'us/query':>10}{'last tenth':>12}{'MB':>6}")
        for microseconds, kind, reached, megabytes in sorted(found):
            print(f"{kind:28}{microseconds:10.0f}{reached:12.4f}{megabytes:6.0f}", flush=True)
        for microseconds, kind, reached, _ in sorted(found):
            others = [(one[2], one[1]) for one in found if one[0] <= microseconds and not one[1].startswith("kernel")]
            if kind.startswith("kernel"):
                print(f"within the time of {kind} ({reached:.4f}): {max(others)[1]} ({max(others)[0]:.4f})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["real", "teacher", "time"])
    parser.add_argument("--queries", type=int, default=50_000)
    parser.add_argument("--sets")
    parser.add_argument("--shuffles", type=int, default=10)
    parser.add_argument("--batch", action="store_true")
    parser.add_argument("--learners", default="", help="beginnings of names, with ; between them; by default all")
    options = parser.parse_args()
    for kind in set(LEARNERS) - {LINEAR}:
        if not kind.startswith(tuple(options.learners.split(";"))):
            del LEARNERS[kind]
    {"real": real, "teacher": teacher, "time": equal_time}[options.what](options)


if __name__ == "__main__":
    main()
