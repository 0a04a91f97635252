"""The service against a server that does nothing, others that rank, and bare SQLite; in ratios of one run.

Run with: python benchmarks/serving.py [--quick] [--only WORD] [--answers N] [--vw FOLDER] [--json]; --only runs the
parts whose name has the word, --answers says after how many answers memory is measured, and --vw where Vowpal Wabbit's
Python package is, unpacked, if it is not installed. Contenders take turns; a ratio is the median of those of the turns.
"""

import json
import multiprocessing
import os
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack, closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import serving_peers as peers
from ratios import row, show
from serving_load import Saturation, flood, http_request, learn_until, read_lines, times

import perceptrank as pr
from perceptrank.serve.documents import Document
from perceptrank.serve.http.server import SWITCH_SECONDS
from perceptrank.serve.ranker import ServedRanker
from perceptrank.serve.settings import Settings

M, D = 100, 50
NAMES = [f"f{j}" for j in range(D)]
Rows = list[dict[str, object]]


def query(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(M, D)).round(4), rng.integers(0, 3, M)


def body_of(seed: int, *, named: bool) -> bytes:
    rows = query(seed)[0].tolist()
    documents = [
        {"id": f"d{i}", "features": dict(zip(NAMES, one, strict=True)) if named else one} for i, one in enumerate(rows)
    ]
    return json.dumps({"documents": documents}).encode()


def vw_lines(seed: int) -> bytes:
    """The same query as examples of Vowpal Wabbit's."""
    rows = query(seed)[0].tolist()
    return "".join("| " + " ".join(f"{n}:{v}" for n, v in zip(NAMES, one, strict=True)) + "\n" for one in rows).encode()


def begun(port: int) -> bytes:
    """Let the service learn from a first query, and return what a ranking looks like."""
    X, grades = query(0)
    with pr.Client(f"http://127.0.0.1:{port}") as client:
        named = {f"d{i}": dict(zip(NAMES, one, strict=True)) for i, one in enumerate(X.tolist())}
        client.learn(named, {f"d{i}": int(one) for i, one in enumerate(grades)}, event_id="first")
        return json.dumps(client.rank(named), separators=(",", ":")).encode()


def ranking(folder: str, n: int, turns: int, waiting: int) -> Rows:
    """Requests per second of a server that always has some waiting, against those of others."""
    lists, named = ([body_of(seed, named=is_named) for seed in range(4)] for is_named in (False, True))
    with ExitStack() as open_servers:
        start = open_servers.enter_context
        mine = start(peers.running(peers.service, folder))
        response = begun(mine)
        contenders: dict[str, Saturation] = {}

        def add(name: str, port: int, path: str, bodies: list[bytes]) -> None:
            contenders[name] = Saturation(port, [http_request(path, one) for one in bodies])
            start(closing(contenders[name]))

        add("by name", mine, "/v1/rank", named)
        add("as lists", mine, "/v1/rank", lists)
        for bare in (False, True):
            port = start(peers.running(peers.constant, response, bare))
            add(f"constant by name{' bare' * bare}", port, "/rank", named)
            add(f"constant as lists{' bare' * bare}", port, "/rank", lists)
        for lean in (False, True):
            add(f"lightgbm{' lean' * lean}", start(peers.running(peers.lightgbm, D, lean)), "/rank", lists)
        if (wheel := _vw()) is not None:
            port = start(peers.running(peers.vowpal_wabbit, wheel))
            peers.connected(port)
            contenders["vw"] = Saturation(port, [vw_lines(seed) for seed in range(4)], read_lines(M), connections=1)
            start(closing(contenders["vw"]))
        for one in contenders.values():
            one.rate(50)
        # As many rankings wait as may: from then on, their memory is used again, as in a service that has run a while.
        contenders["as lists"].rate(waiting)
        rates = {name: np.array([0.0] * turns) for name in contenders}
        for turn in range(turns):
            for name, one in contenders.items():
                rates[name][turn] = one.rate(n)
    rows = []

    def compare(what: str, one: str, other: str, bar: str) -> None:
        if other in rates:
            rows.append(row(what, _median(rates[one] / rates[other]), bar, float(1 / np.median(rates[one]))))

    size = f"rank, {M} x {D}"
    for how in ("by name", "as lists"):
        compare(f"{size} {how}: rate against a constant", how, f"constant {how}", ">= 0.5")
        compare(f"{size} {how}: against a constant of a bare route", how, f"constant {how} bare", "")
    compare(f"{size} as lists: against FastAPI + LightGBM, 100 trees", "as lists", "lightgbm", "> 1")
    compare(f"{size} as lists: against the same, as lean as can be", "as lists", "lightgbm lean", "> 1")
    compare(f"{size} by name: against Vowpal Wabbit's daemon", "by name", "vw", "> 1")
    return rows


def _median(ratios: np.ndarray) -> float:
    return float(np.median(ratios))


def _vw() -> str | None:
    """Return the folder of Vowpal Wabbit's package, "" if it is installed, None if there is none."""
    if "--vw" in sys.argv:
        return sys.argv[sys.argv.index("--vw") + 1]
    return "" if find_spec("vowpalwabbit") else None


def while_learning(folder: str, n: int, turns: int) -> Rows:
    """p99 / p50 of rank while answers come as fast as the service takes them, from a process of their own."""
    X, grades = query(1)
    line = {
        "documents": [{"id": f"d{i}", "features": one} for i, one in enumerate(X[:20].tolist())],
        "grades": {f"d{i}": int(one) for i, one in enumerate(grades[:20])},
    }
    lines = "\n".join([json.dumps(line)] * 20).encode()
    bodies = [body_of(seed, named=False) for seed in range(4)]
    spread, alone, medians, answers = [], [], [], []
    context = multiprocessing.get_context("spawn")
    with peers.running(peers.service, folder) as port:
        begun(port)
        times(port, "/v1/rank", bodies, 200)
        for _ in range(turns):
            p50, p99 = np.quantile(times(port, "/v1/rank", bodies, n), [0.5, 0.99])
            alone.append(p99 / p50)
            stop, count = context.Event(), context.Queue()
            learner = context.Process(target=learn_until, args=(port, lines, stop, count))
            learner.start()
            times(port, "/v1/rank", bodies, 200)
            start = time.perf_counter()
            p50, p99 = np.quantile(times(port, "/v1/rank", bodies, n), [0.5, 0.99])
            stop.set()
            answers.append(count.get() / (time.perf_counter() - start))
            learner.join()
            spread.append(p99 / p50)
            medians.append(p50)
    return [
        row("rank while learning: p99 / p50", _median(np.array(spread)), "<= 4", float(np.median(medians))),
        row("rank alone: p99 / p50", _median(np.array(alone)), "", None),
    ]


def feedback(folder: str, n: int, turns: int, group: int = 64) -> Rows:
    """Durable answers per second of the engine, against bare SQLite with the same durability, rows and groups."""
    X, grades = query(2)
    X = X[:20]
    given = {f"d{i}": float(one) for i, one in enumerate(grades[:20])}
    ranker = ServedRanker(Path(folder) / "engine", settings=Settings(snapshot_seconds=1e9, group_answers=group))
    ranking = ranker.rank([Document(f"d{i}", one) for i, one in enumerate(X.tolist())]).ranking_id
    bare = sqlite3.connect(Path(folder) / "bare.sqlite", isolation_level=None)
    bare.execute("PRAGMA journal_mode=WAL")
    bare.execute("PRAGMA synchronous=FULL")
    bare.execute("CREATE TABLE entries (sequence INTEGER PRIMARY KEY, record BLOB, link BLOB)")
    bare.execute("CREATE TABLE events (event_id TEXT PRIMARY KEY, sequence INTEGER, digest BLOB) WITHOUT ROWID")
    sys.setswitchinterval(SWITCH_SECONDS)  # as in the service
    record, number, ratios, seconds = os.urandom(X.nbytes + 300), 0, [], []
    for turn in range(turns + 1):
        start = time.perf_counter()
        futures: list[Future[Any]] = [ranker.feedback(ranking, given, event_id=f"{turn}-{i}") for i in range(n)]
        for one in futures:
            one.result()
        ranker.flush()
        mine = time.perf_counter() - start
        start = time.perf_counter()
        for first in range(0, n, group):
            numbers = range(number, number + min(group, n - first))
            bare.execute("BEGIN IMMEDIATE")
            bare.executemany("INSERT INTO entries VALUES (?, ?, ?)", ((i, record, record[:16]) for i in numbers))
            bare.executemany("INSERT INTO events VALUES (?, ?, ?)", ((f"e{i}", i, record[:16]) for i in numbers))
            bare.execute("COMMIT")
            number += len(numbers)
        if turn > 0:  # the first compiles
            ratios.append((time.perf_counter() - start) / mine)
            seconds.append(mine / n)
    ranker.close()
    bare.close()
    what = f"durable answers, groups of {group}: rate against bare SQLite"
    return [row(what, _median(np.array(ratios)), ">= 0.5", float(np.median(seconds)))]


def replica(folder: str, seconds: float, turns: int, connections: int = 16) -> Rows:
    """Rankings per second of a primary and a replica at one port, against those of the primary alone."""
    bodies = [body_of(seed, named=False) for seed in range(4)]
    rates = {1: np.zeros(turns), 2: np.zeros(turns)}
    with ExitStack() as running:
        ports = {n: running.enter_context(peers.processes(Path(folder) / str(n), n)) for n in rates}
        for port in ports.values():
            begun(port)
            time.sleep(0.5)  # for the replica to learn it too
            flood(port, "/v1/rank", bodies, connections, 1.0)
        for turn in range(turns):
            for n, port in ports.items():
                rates[n][turn] = flood(port, "/v1/rank", bodies, connections, seconds)
    load = f"{connections} connections of {'wrk' if shutil.which('wrk') else 'a client in Python'}, on the same cores"
    what = f"rank, {M} x {D} as lists, --workers 2 against 1 ({os.cpu_count()} cores; {load}): rate"
    return [row(what, _median(rates[2] / rates[1]), ">= 1.6", float(1 / np.median(rates[2])))]


def memory(folder: str, first: int, last: int) -> Rows:
    """Resident memory after many answers against that after few: ranked, answered and learned, without HTTP.

    Fewer rankings wait than there are answers at first, so that as many of them wait at both times.
    """
    X, grades = query(3)
    documents = [Document(f"d{i}", one) for i, one in enumerate(X[:5, :10].tolist())]
    given = {f"d{i}": float(one) for i, one in enumerate(grades[:5])}
    ranker = ServedRanker(Path(folder) / "memory", settings=Settings(rankings=first // 2))
    sizes, done, start = [], 0, time.perf_counter()
    for stop in (first, last):
        while done < stop:
            n = min(500, stop - done)
            futures = [ranker.feedback(ranker.rank(documents).ranking_id, given) for _ in range(n)]
            done += n
            for one in futures:
                one.result()
        ranker.flush()
        sizes.append(int(Path("/proc/self/statm").read_text().split()[1]))
    seconds = time.perf_counter() - start
    ranker.close()
    return [row(f"memory after {last:,} answers against {first:,}", sizes[1] / sizes[0], "<= 1.1", seconds / last)]


def main() -> None:
    quick = "--quick" in sys.argv
    turns, n = (3, 100) if quick else (9, 400)
    last = int(sys.argv[sys.argv.index("--answers") + 1]) if "--answers" in sys.argv else 10_000 if quick else 100_000
    parts: dict[str, Callable[[str], Rows]] = {
        "memory": lambda folder: memory(folder, 2000 if quick else 10_000, last),
        "ranking": lambda folder: ranking(folder, n, turns, 100 if quick else 6500),
        "latency": lambda folder: while_learning(folder, 3 * n, turns),
        "feedback": lambda folder: feedback(folder, 5 * n, turns),
        "replica": lambda folder: replica(folder, 2.0 if quick else 5.0, turns),
    }
    wanted = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
    rows: Rows = []
    for name, part in parts.items():
        if wanted in name:
            with tempfile.TemporaryDirectory() as folder:
                rows += part(folder)
    show(rows, as_json="--json" in sys.argv)


if __name__ == "__main__":
    main()
