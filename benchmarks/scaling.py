"""Learning from shards: quality against their number, and time, bytes and kills on local clusters of processes.

python benchmarks/scaling.py quality [--shards 1 2 8 64 1000] [--logs 10]
python benchmarks/scaling.py speed [--gigabytes 2.1] [--folder /tmp]
python benchmarks/scaling.py bytes
python benchmarks/scaling.py clicks [--impressions 400000]
python benchmarks/scaling.py kills [--runs 30]
python benchmarks/scaling.py others [--gigabytes 0.4] [--timeout 120]

Times are ratios of one run, best of several, which take turns. Data of `quality` are MQ2008 (`real_streams.FOLDER`) and
a simulated stream, dealt to shards query by query; what is measured is NDCG@10 on queries that were never learned from.
For the click perceptron, a simulated user clicks lists drawn by Plackett-Luce from the scores of production, a ranker
learned from 20 queries; differences are paired by logs of 20,000 impressions, with intervals of Student's t.

`clicks` counts a log of ten documents per impression in stores for judgements: time and bytes per impression, per row
of the sums (a document of a query at a place), and per document; then the same of learning from impressions.
"""

import argparse
import os
import pickle
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from cluster_rankers import others
from ratios import best_of
from real_streams import FOLDER
from scipy import stats

import perceptrank as pr
from perceptrank.distributed.counting import Counting
from perceptrank.distributed.executors import Outcome, Task
from perceptrank.distributed.shards import as_shards

EPOCHS = 5
IMPRESSIONS = 20_000
N_SLOW = 6


def streams() -> Iterator[tuple[str, pr.QueryStream, pr.QueryStream]]:
    folder = FOLDER / "mq2008-fold1"
    if folder.exists():
        train = pr.read_letor([folder / "train.txt.gz", folder / "vali.txt.gz"], n_features=46)
        yield "MQ2008", train, pr.read_letor(folder / "test.txt.gz", n_features=46)
    whole = pr.mslr_shaped(6000, n_documents=20, n_features=40, seed=1)
    yield "simulated", whole[:4000], whole[4000:]


def ndcg(ranker: Any, test: pr.QueryStream) -> np.ndarray:
    values = pr.parse("ndcg@10").per_query(ranker.predict(test), test.relevance, test.offsets)
    return values[~np.isnan(values)]


def interval(differences: np.ndarray) -> str:
    half = 1.96 * differences.std(ddof=1) / np.sqrt(len(differences))
    return f"{differences.mean():+.4f} ± {half:.4f}"


def quality(counts: list[int]) -> None:
    for name, train, test in streams():
        print(f"{name}: {len(train):,} queries to learn from, {len(test):,} to rank")
        plain = pr.ListwisePerceptron()
        passes = []
        for _ in range(EPOCHS):
            plain.learn(train)
            passes.append(ndcg(plain, test))
        print(f"  plain learning: one pass {passes[0].mean():.4f}, {EPOCHS} passes {passes[-1].mean():.4f}")
        heads = f"{EPOCHS} epochs", f"less {EPOCHS} passes", "less one pass"
        print(f"  {'shards':>6}  {'1 epoch':>8}  {heads[0]:>8}  {heads[1]:>17}  {heads[2]:>17}")
        for n in counts:
            parts = [train[place::n] for place in range(min(n, len(train)))]
            ranker, found = pr.ListwisePerceptron(), []
            for _ in range(EPOCHS):
                pr.distributed.learn(ranker, parts, traces=False)
                found.append(ndcg(ranker, test))
            last, first = interval(found[-1] - passes[-1]), interval(found[-1] - passes[0])
            print(f"  {n:>6}  {found[0].mean():>8.4f}  {found[-1].mean():>8.4f}  {last:>17}  {first:>17}", flush=True)


def click_quality(counts: list[int], n_logs: int) -> None:
    """Print NDCG@10 of the click perceptron after one epoch, less that of one pass over the same log."""
    for name, train, test in streams():
        user = pr.clicks.user("navigational", grades=3 if train.relevance.max() <= 2 else 5)
        today = pr.ListwisePerceptron()
        today.learn(train[:20])
        scores = np.split(today.scores(train), train.offsets[1:-1])
        policy = pr.clicks.PlackettLuce(float(np.mean([each.std() for each in scores])))
        kinds: dict[str, Callable[[], Any]] = {
            "from nothing": pr.ClickPerceptron,
            "from production": partial(
                pr.ClickPerceptron, production="score", evidence=1000.0, transforms=[pr.ScoreOf(today), "auto"]
            ),
        }
        found: dict[tuple[str, int], list[float]] = {(kind, n): [] for kind in kinds for n in (0, *counts)}
        for seed in range(n_logs):
            log = pr.simulate_clicks(train, user, ranker=today, policy=policy, impressions=IMPRESSIONS, n=10, seed=seed)
            for kind, make in kinds.items():
                plain = make()
                plain.learn(log)
                found[kind, 0].append(ndcg(plain, test).mean())
                for n in counts:
                    ranker = make()
                    pr.distributed.learn(ranker, [log[place::n] for place in range(n)], traces=False)
                    found[kind, n].append(ndcg(ranker, test).mean())
        print(f"{name}, {n_logs} logs of {IMPRESSIONS:,} impressions; production {ndcg(today, test).mean():.4f}")
        for kind in kinds:
            print(f"  clicks {kind}: one pass {np.mean(found[kind, 0]):.4f}")
            for n in counts:
                print(f"  {n:>6} shards  less one pass {t_interval(np.subtract(found[kind, n], found[kind, 0]))}")


def t_interval(differences: np.ndarray) -> str:
    half = stats.t.ppf(0.975, len(differences) - 1) * stats.sem(differences)
    return f"{differences.mean():+.4f} ± {half:.4f}"


@contextmanager
def cluster(n_workers: int) -> Iterator[Any]:
    import distributed

    with pr.distributed.local_cluster(n_workers) as made, distributed.Client(made) as client:
        yield client


def speed(gigabytes: float, folder: str | None, repeats: int) -> None:
    n_stores = 8
    with tempfile.TemporaryDirectory(dir=folder) as place:
        paths = [Path(place) / f"{n}.store" for n in range(n_stores)]
        per_store = gigabytes * 1e9 / n_stores
        per_query = pr.mslr_shaped(100, seed=0).X.nbytes / 100
        pr.write_store(pr.mslr_shaped(round(per_store / per_query), seed=0), paths[0])
        for path in paths[1:]:
            shutil.copytree(paths[0], path)
        n_bytes = sum(file.stat().st_size for path in paths for file in path.iterdir())
        n_documents = n_stores * pr.open_store(paths[0]).n_documents
        print(f"{n_bytes / 1e9:.2f} GB in {n_stores} stores, {n_bytes / n_documents:.0f} bytes a document")
        files = [str(path) for path in paths]

        def plain() -> None:
            pr.ListwisePerceptron().learn([pr.open_store(path) for path in files], "ndcg@10")

        with cluster(1) as one, cluster(2) as two:

            def on(client: Any) -> None:
                pr.distributed.learn(pr.ListwisePerceptron(), files, client)

            found = best_of(repeats, plain, lambda: on(one), lambda: on(two))
        for name, seconds in zip(("plain learning", "one worker", "two workers"), found, strict=True):
            rate = f"{n_bytes / 1e9 / seconds:.2f} GB/s, {seconds / n_documents * 1e6:.2f} µs a document"
            print(f"  {name}: {seconds:.2f} s, {rate}")
        print(f"  two workers against one: {found[1] / found[2]:.2f}x")
        print(f"  one worker against plain learning: {found[1] / found[0]:.2f}x time")


def bytes_moved() -> None:
    """What goes to a worker and back for each shard and epoch, as it is packed, against the state's arrays."""
    from distributed.protocol.pickle import dumps

    from perceptrank.distributed.packing import pack
    from perceptrank.distributed.shards import FileShard

    for n_features in (136, 5000):
        stream = pr.mslr_shaped(200, n_documents=10, n_features=n_features, seed=0)
        ranker = pr.ListwisePerceptron()
        trace = ranker.learn(stream, "ndcg@10")
        state = ranker.model
        size = 8 * (2 * state.n_features)
        task = Task(ranker, (pr.parse("ndcg@10"),), holds=True)
        there = len(pack(task, dumps)) + len(pack(FileShard(("shard.store",)), dumps))
        back = len(pickle.dumps(Outcome(state, None, trace.means(), np.empty(0, np.uint64))))
        print(
            f"{n_features} features: weights and their mean {size:,} bytes, to a worker {there:,}, back {back:,}: "
            f"{(there + back) / size:.2f}x; traces add 8 bytes per query, and 8 for each measure"
        )


def clicks(impressions: int, folder: str | None) -> None:
    """Time and bytes of judging a log of clicks in shards."""
    n_queries, n_documents, n_shown, n_stores = 2000, 30, 10, 8
    rng = np.random.default_rng(0)
    shop = pr.QueryStream.from_arrays(
        rng.random((n_queries * n_documents, 1)),
        rng.choice(5, n_queries * n_documents, p=[0.5, 0.25, 0.12, 0.08, 0.05]).astype(float),
        qid=np.repeat([f"running shoes {n}" for n in range(n_queries)], n_documents),
        docids=[f"B{number:09d}" for number in rng.permutation(n_queries * n_documents)],
    )
    user = pr.clicks.position_based([k**-0.8 for k in range(1, n_shown + 1)], attraction=[0.05, 0.3, 0.5, 0.7, 0.95])
    with tempfile.TemporaryDirectory(dir=folder) as place:
        files = [os.path.join(place, f"{n}.store") for n in range(n_stores)]
        for seed, file in enumerate(files):
            log = pr.simulate_clicks(
                shop,
                user,
                ranker=[1.0],
                policy="fair-pairs",
                n=n_shown,
                shown_only=True,
                impressions=impressions // n_stores,
                seed=seed,
            )
            pr.write_store(log.with_features(np.empty((log.n_documents, 0))), file)
        n_bytes = sum(entry.stat().st_size for file in files for entry in os.scandir(file))
        shards = as_shards(files)
        for method in ("swaps", "auto"):
            work = Counting((pr.clicks.JudgementSums(), pr.clicks.PositionBiasSums(method)))
            work.run(shards[0])
            start = time.perf_counter()
            counted = [work.run(shard) for shard in shards]
            counting = time.perf_counter() - start
            judged, bias = counted[0].sums
            n_rows = len(judged.table().pair)
            sizes = len(pickle.dumps(judged)), len(pickle.dumps(bias))
            start = time.perf_counter()
            for other in counted[1:]:
                judged += other.sums[0]
                bias += other.sums[1]
            adding = time.perf_counter() - start
            n_added = sum(len(other.sums[0].table().pair) for other in counted[1:])
            start = time.perf_counter()
            result = pr.clicks.judgements(judged, bias=bias.estimate())
            judging = time.perf_counter() - start
            print(f"position bias by {method}, {len(judged.table().pair) / len(result):.1f} rows for a document")
            print(
                f"  an impression: {n_bytes / impressions:.0f} bytes in a store, {counting / impressions * 1e6:.1f} µs"
            )
            print(
                f"  a row: {sizes[0] / n_rows:.0f} + {sizes[1] / n_rows:.1f} bytes to send (judgements, position bias)"
            )
            print(f"  a row: {adding / n_added * 1e6:.2f} µs to add; a document: {judging / len(result) * 1e6:.1f} µs")


def click_learning(folder: str | None) -> None:
    """Time and bytes of learning from impressions of ten documents with 136 features."""
    shop = pr.mslr_shaped(300, n_documents=30, seed=0)
    user = pr.clicks.user("navigational")
    log = pr.simulate_clicks(shop, user, policy="plackett-luce", impressions=30_000, n=10, shown_only=True)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        path = os.path.join(place, "log.store")
        pr.write_store(log, path)
        size = sum(entry.stat().st_size for entry in os.scandir(path))
        (seconds,) = best_of(3, lambda: pr.distributed.learn(pr.ClickPerceptron(), [path], traces=False))
    print(f"learning by clicks, {shop.n_features} features")
    print(f"  an impression: {size / len(log):,.0f} bytes in a store, {seconds / len(log) * 1e6:.1f} µs")


class Slow:
    """Queries that take their time, so that a kill comes while they are learned."""

    def __init__(self, stream: pr.QueryStream, seconds: float) -> None:
        self.stream, self.seconds = stream, seconds

    def __iter__(self) -> Iterator[pr.QueryStream]:
        time.sleep(self.seconds)
        yield self.stream


def kills(runs: int) -> None:
    stream = pr.separable(300, n_features=10, seed=0).stream
    parts = [stream[place::N_SLOW] for place in range(N_SLOW)]
    expected = pr.distributed.learn(pr.ListwisePerceptron(), parts, epochs=EPOCHS).ranker.as_document()
    rng, same = np.random.default_rng(0), 0
    for run in range(runs):
        with cluster(2) as client:
            same += _with_a_kill(client, parts, rng) == expected
        print(f"  run {run + 1}: {same} with the same bits", flush=True)
    print(f"{same} of {runs} runs with a killed worker gave the same bits")


def _with_a_kill(client: Any, parts: list[pr.QueryStream], rng: np.random.Generator) -> dict[str, Any]:
    def kill() -> None:
        time.sleep(rng.uniform(0.0, 3.0))
        pids = list(client.run(os.getpid).values())
        os.kill(pids[rng.integers(len(pids))], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    slow = [Slow(part, 0.2) for part in parts]
    ranker, _ = pr.distributed.learn(pr.ListwisePerceptron(), slow, client, epochs=EPOCHS, timeout=120)
    killer.join()
    return ranker.as_document()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["quality", "speed", "bytes", "clicks", "kills", "others"])
    parser.add_argument("--shards", type=int, nargs="+", default=[1, 2, 8, 64, 1000])
    parser.add_argument("--logs", type=int, default=10)
    parser.add_argument("--impressions", type=int, default=400_000)
    parser.add_argument("--gigabytes", type=float, help="2.1, or 0.4 beside others")
    parser.add_argument("--folder")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--timeout", type=float, default=120.0)
    given = parser.parse_args()
    if given.what == "quality":
        quality(given.shards)
        click_quality(given.shards, given.logs)
    elif given.what == "clicks":
        clicks(given.impressions, given.folder)
        click_learning(given.folder)
    elif given.what == "speed":
        speed(given.gigabytes or 2.1, given.folder, given.repeats)
    elif given.what == "bytes":
        bytes_moved()
    elif given.what == "others":
        others(given.gigabytes or 0.4, given.folder, given.timeout, [0.3, 0.7])
    else:
        kills(given.runs)


if __name__ == "__main__":
    main()
