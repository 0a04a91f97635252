"""What functions that are not linear are worth: NDCG@10 on teacher streams and on the real samples.

python benchmarks/nonlinear.py teacher [--queries 50000] [--sets mq2008,imat2009] [--batch]
python benchmarks/nonlinear.py real [--shuffles 10]
python benchmarks/nonlinear.py time [--queries 20000] [--sets mq2008]
PERCEPTRANK_DATA names the folder that holds the samples. Nothing is tuned: learners have their defaults, beside what
their names say. "share" is the share of the gap between the linear default and the teacher without noise that a learner
closes in the last tenth of a stream, in one pass. Batch learners fit the first nine tenths, with default settings.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from real_streams import find_streams

import perceptrank as pr
from perceptrank.evaluation.bootstrap import simultaneous_intervals

MEASURE = "ndcg@10"
LINEAR = "linear (listwise)"
LEARNERS: dict[str, Callable[[], Any]] = {
    LINEAR: pr.ListwisePerceptron,
    "linear, running": lambda: pr.ListwisePerceptron(transforms="running"),
    "bins": lambda: pr.ListwisePerceptron(transforms="bins"),
    "bins, 64": lambda: pr.ListwisePerceptron(transforms="bins:n_bins=64"),
    "auto, random-fourier": lambda: pr.ListwisePerceptron(transforms=["auto", "random-fourier"]),
    "auto, fastfood": lambda: pr.ListwisePerceptron(transforms=["auto", "fastfood"]),
    "auto, random-relu": lambda: pr.ListwisePerceptron(transforms=["auto", "random-relu"]),
    "bins, random-fourier": lambda: pr.ListwisePerceptron(transforms=["bins", "random-fourier"]),
    "kernel, budget 1000": pr.KernelPerceptron,
}


def read_sets(chosen: str | None) -> list[tuple[str, pr.QueryStream]]:
    """The samples whose names begin with one of the chosen; of a data set in several files, the one to train on."""
    found = [(name, path) for name, path in find_streams() if not name.endswith(("/vali", "/test"))]
    wanted = chosen.split(",") if chosen else [""]
    return [(name, pr.read_letor(path)) for name, path in found if name.startswith(tuple(wanted))]


def last_tenth(values: np.ndarray) -> float:
    return float(np.nanmean(values[-(len(values) // 10) :]))


def size_of(ranker: Any) -> str:
    if isinstance(ranker, pr.KernelPerceptron):
        return f"{ranker.n_supports} supports"
    return f"{len(ranker.weights)} weights"


def teacher(options: argparse.Namespace) -> None:
    for name, real in read_sets(options.sets):
        simulated = pr.teacher_stream(real, options.queries)
        blocks = list(simulated)
        n_documents = sum(block.n_documents for block in blocks)
        best = last_tenth(pr.evaluate(simulated.teacher, blocks, MEASURE).values(MEASURE))
        print(f"\n{name}: {options.queries} queries, {n_documents} documents; teacher {best:.4f}")
        print(f"{'':28}{'last tenth':>12}{'share':>8}{'all':>8}{'us/doc':>9}  size")
        linear = None
        for kind, make in LEARNERS.items():
            ranker = make()
            ranker.learn(blocks[0][:20], MEASURE)  # compiles
            ranker = make()
            start = time.perf_counter()
            trace = ranker.learn(blocks, MEASURE)
            seconds = time.perf_counter() - start
            last = last_tenth(trace.values(MEASURE))
            linear = last if linear is None else linear
            share = (last - linear) / (best - linear)
            rest = f"{trace.mean(MEASURE):8.4f}{seconds / n_documents * 1e6:9.2f}  {size_of(ranker)}"
            print(f"{kind:28}{last:12.4f}{share:8.0%}{rest}", flush=True)
        if options.batch:
            for kind, seconds, last in batch_learners(blocks):
                share = (last - linear) / (best - linear)
                print(f"{kind:28}{last:12.4f}{share:8.0%}{'':8}{seconds / n_documents * 1e6:9.2f}", flush=True)


def batch_learners(blocks: list[pr.QueryStream]) -> Any:
    """LambdaMART of LightGBM and XGBoost, fitted to the first nine tenths of the queries."""
    stream = pr.QueryStream.concatenate(blocks)
    cut = len(stream) - len(stream) // 10
    train, test = stream[:cut], stream[cut:]
    sizes = np.diff(train.offsets)
    for kind, make in (("LambdaMART, LightGBM", _lightgbm), ("LambdaMART, XGBoost", _xgboost)):
        start = time.perf_counter()
        predict = make(train, sizes)
        seconds = time.perf_counter() - start
        ranker = _Scores(predict)
        yield kind, seconds, pr.evaluate(ranker, test, MEASURE).mean(MEASURE)


class _Scores:
    def __init__(self, predict: Callable[[np.ndarray], np.ndarray]) -> None:
        self._predict = predict

    def scores(self, stream: pr.QueryStream) -> np.ndarray:
        return np.asarray(self._predict(np.asarray(stream.X)), np.float64)


def _lightgbm(train: pr.QueryStream, sizes: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    import lightgbm

    model = lightgbm.LGBMRanker(verbose=-1)
    model.fit(np.asarray(train.X), train.relevance.astype(int), group=sizes)
    return model.predict


def _xgboost(train: pr.QueryStream, sizes: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    import xgboost

    model = xgboost.XGBRanker()
    model.fit(np.asarray(train.X), train.relevance.astype(int), group=sizes)
    return model.predict


def real(options: argparse.Namespace) -> None:
    """Differences to the linear default: mean over orders for each query, then simultaneous intervals over queries."""
    for name, stream in read_sets(options.sets):
        values = {}
        for kind, make in LEARNERS.items():
            total = np.zeros(len(stream))
            for seed in range(options.shuffles):
                order = np.random.default_rng(seed).permutation(len(stream))
                total[order] += make().learn(stream[order], MEASURE).values(MEASURE)
            values[kind] = total / options.shuffles
        others = [kind for kind in values if kind != LINEAR]
        differences = np.stack([values[kind] - values[LINEAR] for kind in others], axis=1)
        found = simultaneous_intervals([differences], [None], confidence=0.95, n_resamples=2000, seed=0)
        print(f"\n{name}: {len(stream)} queries, {options.shuffles} orders; linear {np.nanmean(values[LINEAR]):.4f}")
        for k, kind in enumerate(others):
            low, high = found.low[0, k], found.high[0, k]
            said = "ahead" if low > 0 else "behind" if high < 0 else ""
            print(f"{kind:28}{np.nanmean(values[kind]):8.4f}  {found.mean[0, k]:+.4f} [{low:+.4f}, {high:+.4f}] {said}")


def equal_time(options: argparse.Namespace) -> None:
    """Kernels on a budget and random features, by the time that a query takes."""
    for name, sample in read_sets(options.sets):
        blocks = list(pr.teacher_stream(sample, options.queries))
        print(f"\n{name}: {options.queries} queries\n{'':28}{'last tenth':>12}{'us/query':>10}")
        makers = {f"kernel, budget {n}": (lambda n=n: pr.KernelPerceptron(budget=n)) for n in (100, 300, 1000, 3000)}
        makers |= {
            f"random-fourier, {n}": (lambda n=n: pr.ListwisePerceptron(transforms=["auto", pr.RandomFourier(n)]))
            for n in (256, 1024, 4096)
        }
        for kind, make in makers.items():
            make().learn(blocks[0][:20], MEASURE)
            start = time.perf_counter()
            trace = make().learn(blocks, MEASURE)
            seconds = time.perf_counter() - start
            print(
                f"{kind:28}{last_tenth(trace.values(MEASURE)):12.4f}{seconds / options.queries * 1e6:10.0f}", flush=True
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["teacher", "real", "time"])
    parser.add_argument("--queries", type=int, default=50_000)
    parser.add_argument("--sets")
    parser.add_argument("--shuffles", type=int, default=10)
    parser.add_argument("--batch", action="store_true")
    options = parser.parse_args()
    {"teacher": teacher, "real": real, "time": equal_time}[options.what](options)


if __name__ == "__main__":
    main()
