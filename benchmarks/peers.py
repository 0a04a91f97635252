"""Other libraries run on the same streams with the same measure: NDCG@10, and the seconds that each takes on one core.

python benchmarks/peers.py [--streams mq2008 mslr simulated] [--allrank PYTHON] [--json]
pip install vowpalwabbit river lightgbm xgboost-cpu scikit-learn rax optax      what is missing is said and left out

--allrank names an interpreter in whose environment allRank is installed: its release 1.4.3 needs Python 3.8 or older.

online    Each query is ranked before its grades are learned from. The mean is over the second half of the stream.
          Vowpal Wabbit's csoaa_ldf and river's linear regression try six settings each (three rates; features raw,
          or as z-scores within the query); the one that is best over the first half counts.
batch     Learn from the first half, then rank the second. LightGBM and XGBoost run at their defaults. A linear model
          trained by Adam on Rax's softmax loss tries six settings, too (three numbers of epochs), on a fifth of the
          first half. So does the Transformer of allRank, on standardised features or z-scores.

Ours run once, untuned. Differences are ours less theirs, paired by query, with intervals of 95 %. Seconds are those of
the setting that counts, without reading files; only Vowpal Wabbit's include reading its cache. Other comparisons have
their own scripts: sparse.py (Vowpal Wabbit's speed), clicks.py speed --peer (PDGD), serving.py (servers).
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

os.environ.update(OMP_NUM_THREADS="1", XLA_FLAGS="--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import numpy as np
from lambdamart import fit_lightgbm, fit_xgboost
from real_streams import find_streams

import perceptrank as pr

MEASURE = "ndcg@10"
VOWPAL_WABBIT_RATES, RIVER_RATES = (0.05, 0.5, 2.0), (0.0001, 0.001, 0.01)
EPOCHS = (10, 30, 100)  # of Rax, at Adam's rate of 0.03, and of allRank


class Run(NamedTuple):
    """NDCG@10 of each query, and the seconds that learning and ranking took."""

    values: np.ndarray
    seconds: float


Change = Callable[[pr.QueryStream], pr.QueryStream]
Setting = tuple[Change, float]


def streams(wanted: list[str]) -> Iterator[tuple[str, pr.QueryStream]]:
    for name, path in find_streams():
        if any(name.startswith(one) for one in wanted):
            yield name, pr.read_letor(path)
    if "simulated" in wanted:
        yield "simulated", pr.mslr_shaped(4000, n_documents=20, n_features=40, seed=1)


def as_they_are(stream: pr.QueryStream) -> pr.QueryStream:
    return stream


def query_zscores(stream: pr.QueryStream) -> pr.QueryStream:
    X = pr.QueryZScore().transform(stream).X
    return pr.QueryStream.from_arrays(X, stream.relevance, group=np.diff(stream.offsets))


def settings(values: tuple[float, ...]) -> list[Setting]:
    return [(change, value) for change in (as_they_are, query_zscores) for value in values]


def timed(stream: pr.QueryStream, score: Callable[[], Any]) -> Run:
    """Run a function that returns a score of each document of a stream."""
    start = time.perf_counter()
    scores = np.asarray(score(), np.float64)
    seconds = time.perf_counter() - start
    return Run(pr.parse(MEASURE).per_query(scores, stream.relevance, stream.offsets), seconds)


def online_ours(stream: pr.QueryStream) -> Run:
    pr.ListwisePerceptron().learn(stream[:2], MEASURE)  # compiles
    start = time.perf_counter()
    trace = pr.ListwisePerceptron().learn(stream, MEASURE)
    return Run(trace.values(MEASURE), time.perf_counter() - start)


def online_vowpal_wabbit(stream: pr.QueryStream, rate: float) -> Run:
    """Its progressive predictions are costs of the documents, listed from the lowest up."""
    import vowpalwabbit

    with tempfile.TemporaryDirectory() as folder:
        text, predicted = Path(folder) / "stream.txt", Path(folder) / "predicted.txt"
        with open(text, "w", encoding="ascii") as file:
            for query in stream:
                costs = query.relevance.max() - query.relevance
                for i, (cost, row) in enumerate(zip(costs, np.asarray(query.X), strict=True), 1):
                    pairs = " ".join(f"{j}:{value:.6g}" for j, value in enumerate(row) if value)
                    file.write(f"{i}:{cost:g} | {pairs}\n")
                file.write("\n")
        words = f"--csoaa_ldf mc --csoaa_rank --quiet -l {rate} -d {text} --cache_file {text}.cache"
        vowpalwabbit.Workspace(words).finish()  # writes the cache
        start = time.perf_counter()
        vowpalwabbit.Workspace(f"{words} -p {predicted}").finish()
        seconds = time.perf_counter() - start
        scores = np.full(int(stream.offsets[-1]), np.nan)
        for first, line in zip(stream.offsets, predicted.read_text().split(), strict=False):
            for pair in line.split(","):
                place, cost = pair.split(":")
                scores[first + int(place) - 1] = -float(cost)
    return Run(timed(stream, lambda: scores).values, seconds)


def online_river(stream: pr.QueryStream, rate: float) -> Run:
    from river import linear_model, optim, preprocessing

    model = preprocessing.StandardScaler() | linear_model.LinearRegression(optimizer=optim.SGD(rate))
    queries = [
        ([dict(enumerate(row)) for row in np.asarray(query.X).tolist()], query.relevance.tolist()) for query in stream
    ]

    def run() -> list[float]:
        scores: list[float] = []
        for documents, grades in queries:
            scores += [model.predict_one(one) for one in documents]
            for one, grade in zip(documents, grades, strict=True):
                model.learn_one(one, grade)
        return scores

    return timed(stream, run)


def best_online(run: Callable[[pr.QueryStream, float], Run], rates: tuple[float, ...], stream: pr.QueryStream) -> Run:
    """The setting that is best over the first half."""
    runs = [run(change(stream), rate) for change, rate in settings(rates)]
    return max(runs, key=lambda one: np.nanmean(one.values[: len(stream) // 2]))


def batch_ours(first: pr.QueryStream, second: pr.QueryStream) -> Run:
    pr.ListwisePerceptron().learn(first[:2])  # compiles
    learner = pr.ListwisePerceptron()

    def run() -> np.ndarray:
        learner.learn(first)
        return learner.predict(second)

    return timed(second, run)


def batch_trees(fit: Callable[[pr.QueryStream], Any]) -> Callable[[pr.QueryStream, pr.QueryStream], Run]:
    return lambda first, second: timed(second, lambda: fit(first).scores(second))


def standardised(first: pr.QueryStream, second: pr.QueryStream) -> list[pr.QueryStream]:
    """Give both halves the features' means and spreads of the first."""
    X = np.asarray(first.X)
    mean, spread = X.mean(axis=0), X.std(axis=0)
    spread[spread == 0] = 1.0
    return [
        pr.QueryStream.from_arrays((np.asarray(one.X) - mean) / spread, one.relevance, group=np.diff(one.offsets))
        for one in (first, second)
    ]


def padded(stream: pr.QueryStream, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return values per document as an array of queries of one length, and which of its places are documents."""
    sizes = np.diff(stream.offsets)
    where = np.arange(sizes.max()) < sizes[:, None]
    found = np.zeros((*where.shape, *values.shape[1:]), np.float32)
    found[where] = values
    return found, where


def rax_linear(first: pr.QueryStream, second: pr.QueryStream, epochs: float) -> Run:
    """A linear model of standardised features by Adam on Rax's softmax loss, all queries in each step."""
    import jax
    import jax.numpy as jnp
    import optax
    import rax

    first, second = standardised(first, second)
    features, where = padded(first, np.asarray(first.X))
    labels, _ = padded(first, first.relevance)
    optimizer = optax.adam(0.03)

    def loss(weights: Any, features: Any, labels: Any, where: Any) -> Any:
        return rax.softmax_loss(features @ weights, labels, where=where)

    @jax.jit
    def step(weights: Any, state: Any, *data: Any) -> Any:
        change, state = optimizer.update(jax.grad(loss)(weights, *data), state)
        return optax.apply_updates(weights, change), state

    data = [jnp.asarray(one) for one in (features, labels, where)]
    weights = jnp.zeros(first.n_features)
    state = optimizer.init(weights)
    step(weights, state, *data)  # compiles

    def run() -> np.ndarray:
        now, then = weights, state
        for _ in range(int(epochs)):
            now, then = step(now, then, *data)
        scores: np.ndarray = np.asarray(second.X) @ np.asarray(now, np.float64)
        return scores

    return timed(second, run)


def batch_rax(first: pr.QueryStream, second: pr.QueryStream) -> Run:
    """Choose the setting on the last fifth of the half that is learned from, then learn from all of it."""
    n = len(first) * 4 // 5

    def value(setting: Setting) -> float:
        change, epochs = setting
        return float(np.nanmean(rax_linear(change(first[:n]), change(first[n:]), epochs).values))

    change, epochs = max(settings(EPOCHS), key=value)
    return rax_linear(change(first), change(second), epochs)


def batch_allrank(python: str) -> Callable[[pr.QueryStream, pr.QueryStream], Run]:
    """Return a function that trains allRank's Transformer in a process of another Python."""

    def train(first: pr.QueryStream, second: pr.QueryStream) -> list[Run]:
        """One run for each number of epochs."""
        first, second = standardised(first, second)
        features, where = padded(first, np.asarray(first.X))
        other, there = padded(second, np.asarray(second.X))
        grades = np.where(where, padded(first, first.relevance)[0], np.float32(-1))
        with tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder) / "data.npz", Path(folder) / "scores.npz"
            np.savez(source, features=features, grades=grades, other=other, padded=~there, epochs=EPOCHS)
            script = Path(__file__).with_name("peers_allrank.py")
            subprocess.run([python, script, source, target], check=True)
            with np.load(target) as made:
                scores, seconds = made["scores"], made["seconds"]
        return [
            Run(timed(second, lambda one=one: one[there]).values, float(taken))
            for one, taken in zip(scores, seconds, strict=True)
        ]

    def choose(first: pr.QueryStream, second: pr.QueryStream) -> Run:
        n = len(first) * 4 // 5
        tried = [
            (float(np.nanmean(run.values)), change, place)
            for change in (as_they_are, query_zscores)
            for place, run in enumerate(train(change(first[:n]), change(first[n:])))
        ]
        _, change, place = max(tried, key=lambda one: one[0])
        return train(change(first), change(second))[place]

    return choose


ONLINE: dict[str, tuple[list[str], Callable[[pr.QueryStream], Run]]] = {
    "Vowpal Wabbit": (["vowpalwabbit"], lambda s: best_online(online_vowpal_wabbit, VOWPAL_WABBIT_RATES, s)),
    "river": (["river"], lambda s: best_online(online_river, RIVER_RATES, s)),
}
BATCH: dict[str, tuple[list[str], Callable[[pr.QueryStream, pr.QueryStream], Run]]] = {
    "LightGBM": (["lightgbm", "sklearn"], batch_trees(fit_lightgbm)),
    "XGBoost": (["xgboost", "sklearn"], batch_trees(fit_xgboost)),
    "Rax, linear": (["jax", "rax", "optax"], batch_rax),
}


def compare(name: str, stream: pr.QueryStream, missing: list[str]) -> Iterator[dict[str, Any]]:
    """One row per learner and task."""
    half = len(stream) // 2
    for task, peers, ours, parts in (
        ("online", ONLINE, online_ours, (stream,)),
        ("batch", BATCH, batch_ours, (stream[:half], stream[half:])),
    ):
        base = ours(*parts)
        for peer, run in [("perceptrank", None)] + [(one, peers[one][1]) for one in peers if one not in missing]:
            values, seconds = base if run is None else run(*parts)
            differences = (base.values - values)[half if task == "online" else 0 :]
            judged = ~np.isnan(differences)
            spread = 1.96 * np.std(differences[judged], ddof=1) / np.sqrt(judged.sum())
            yield {
                "stream": name,
                "task": task,
                "library": peer,
                "queries": int(judged.sum()),
                MEASURE: float(np.mean(values[-len(differences) :][judged])),
                "ours less theirs": float(np.mean(differences[judged])),
                "plus or minus": float(spread),
                "seconds": seconds,
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ["imat2009", "mq2008", "mslr", "yahoo", "simulated"]
    parser.add_argument("--streams", nargs="+", default=names, choices=names)
    parser.add_argument("--allrank", metavar="PYTHON", help="an interpreter that has allRank")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    arguments = parser.parse_args()
    if arguments.allrank:
        BATCH["allRank"] = ([], batch_allrank(arguments.allrank))
    else:
        print("allRank: not run, --allrank not given", file=sys.stderr)
    missing = []
    for peer, (modules, _) in (ONLINE | BATCH).items():
        if absent := [one for one in modules if importlib.util.find_spec(one) is None]:
            missing.append(peer)
            print(f"{peer}: not run, {', '.join(absent)} not installed", file=sys.stderr)
    rows = []
    for name, stream in streams(arguments.streams):
        print(f"{name}: {len(stream):,} queries", file=sys.stderr)
        for one in compare(name, stream, missing):
            rows.append(one)
            if not arguments.json:
                margin = f"{one['ours less theirs']:+.3f} ± {one['plus or minus']:.3f}"
                margin = "" if one["library"] == "perceptrank" else margin
                print(
                    f"{name:30}  {one['task']:6}  {one['library']:13}  {one[MEASURE]:.3f}  {margin:15}"
                    f"  {one['seconds']:9.3f} s",
                    flush=True,
                )
    if arguments.json:
        print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
