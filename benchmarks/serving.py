"""The service against the same server doing nothing, and against bare SQLite; all in ratios of one run.

Run with: python benchmarks/serving.py [--quick | --long] [--json]; --long takes 1,000,000 answers for the memory.
"""

import http.client
import json
import multiprocessing
import os
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
from ratios import row, show

import perceptrank as pr
from perceptrank.serve.access import Access
from perceptrank.serve.documents import Document
from perceptrank.serve.http_app import make_app
from perceptrank.serve.ranker import Ranker
from perceptrank.serve.running import listen, run
from perceptrank.serve.service import Service
from perceptrank.serve.settings import Settings

M, D = 100, 50
NAMES = [f"f{j}" for j in range(D)]


def query(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(M, D)), rng.integers(0, 3, M)


def body_of(seed: int, *, named: bool) -> bytes:
    rows = query(seed)[0].round(4).tolist()
    documents = [
        {"id": f"d{i}", "features": dict(zip(NAMES, one, strict=True)) if named else one} for i, one in enumerate(rows)
    ]
    return json.dumps({"documents": documents}).encode()


def serve(folder: str, port: Any, constant: bytes) -> None:
    """Serve a folder, and at /constant what a ranking looks like, after the body was read."""
    from fastapi import Request, Response

    access = Access(Path(folder))
    listening = listen("127.0.0.1", 0, access)
    with Service(folder, settings=Settings(snapshot_seconds=5)) as service:
        app = make_app(service, access)

        async def same(request: Request) -> Response:
            await request.body()
            return Response(constant, media_type="application/json")

        app.add_api_route("/constant", same, methods=["POST"], response_model=None)
        run(app, listening, lambda: port.put(listening.getsockname()[1]))


def times(port: int, path: str, bodies: list[bytes], n: int) -> np.ndarray:
    """Seconds of requests over one connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    found = np.empty(n)
    for i in range(n):
        start = time.perf_counter()
        connection.request("POST", path, bodies[i % len(bodies)])
        connection.getresponse().read()
        found[i] = time.perf_counter() - start
    connection.close()
    return found


def side_by_side(first: Callable[[], np.ndarray], second: Callable[[], np.ndarray], turns: int) -> tuple[float, float]:
    """Shortest median of each, taking turns."""
    medians = [(float(np.median(first())), float(np.median(second()))) for _ in range(turns)]
    return min(one for one, _ in medians), min(other for _, other in medians)


def ranking(folder: str, n: int, turns: int) -> list[dict[str, object]]:
    ports: Any = multiprocessing.Queue()
    with_answer = pr.ListwisePerceptron()
    X, grades = query(0)
    with_answer.learn_one(X, grades)
    scores = dict(zip((f"d{i}" for i in range(M)), with_answer.predict(X).tolist(), strict=True))
    constant = json.dumps(
        {"ranking_id": "1-1-0123456789abcdef", "order": list(scores), "scores": scores, "model_version": 3}
    )
    process = multiprocessing.Process(target=serve, args=(folder, ports, constant.encode()))
    process.start()
    port = ports.get()
    rows: list[dict[str, object]] = []
    try:
        with pr.Client(f"http://127.0.0.1:{port}") as client:
            named = {f"d{i}": dict(zip(NAMES, one, strict=True)) for i, one in enumerate(X.tolist())}
            client.learn(named, {f"d{i}": int(one) for i, one in enumerate(grades)}, event_id="first")
        for what, is_named in (("by name", True), ("as lists", False)):
            bodies = [body_of(seed, named=is_named) for seed in range(4)]
            mine, nothing = side_by_side(
                lambda bodies=bodies: times(port, "/v1/rank", bodies, n),  # type: ignore[misc]
                lambda bodies=bodies: times(port, "/constant", bodies, n),  # type: ignore[misc]
                turns,
            )
            rows.append(row(f"rank, {M} x {D} {what}: rate against a constant", nothing / mine, ">= 0.5", mine))
        rows.append(while_learning(port, n))
    finally:
        process.terminate()
        process.join()
    return rows


def while_learning(port: int, n: int) -> dict[str, object]:
    """p99 / p50 of rank while answers come as fast as the service takes them."""
    stop = threading.Event()
    X, grades = query(1)
    lines = "\n".join(
        json.dumps(
            {
                "documents": [{"id": f"d{i}", "features": one} for i, one in enumerate(X[:20].round(3).tolist())],
                "grades": {f"d{i}": int(one) for i, one in enumerate(grades[:20])},
            }
        )
        for _ in range(20)
    ).encode()

    def learn() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        while not stop.is_set():
            connection.request("POST", "/v1/learn", lines, {"Content-Type": "application/x-ndjson"})
            connection.getresponse().read()
        connection.close()

    thread = threading.Thread(target=learn)
    thread.start()
    found = times(port, "/v1/rank", [body_of(seed, named=False) for seed in range(4)], 4 * n)
    stop.set()
    thread.join()
    p50, p99 = np.quantile(found, [0.5, 0.99])
    return row("rank while learning: p99 / p50", float(p99 / p50), "<= 4", float(p50))


def feedback(folder: str, n: int, turns: int, group: int = 64) -> dict[str, object]:
    """Durable answers per second of the engine, against bare SQLite with the same durability, rows and groups."""
    X, grades = query(2)
    X = X[:20]
    given = {f"d{i}": float(one) for i, one in enumerate(grades[:20])}
    ranker = Ranker(Path(folder) / "engine", settings=Settings(snapshot_seconds=1e9, group_answers=group))
    ranking = ranker.rank([Document(f"d{i}", one) for i, one in enumerate(X.tolist())]).ranking_id
    bare = sqlite3.connect(Path(folder) / "bare.sqlite", isolation_level=None)
    bare.execute("PRAGMA journal_mode=WAL")
    bare.execute("PRAGMA synchronous=FULL")
    bare.execute("CREATE TABLE entries (sequence INTEGER PRIMARY KEY, record BLOB, link BLOB)")
    bare.execute("CREATE TABLE events (event_id TEXT PRIMARY KEY, sequence INTEGER, digest BLOB) WITHOUT ROWID")
    record, number, best = os.urandom(X.nbytes + 300), 0, [float("inf"), float("inf")]
    for turn in range(turns):
        start = time.perf_counter()
        futures: list[Future[Any]] = [ranker.feedback(ranking, given, event_id=f"{turn}-{i}") for i in range(n)]
        for one in futures:
            one.result()
        ranker.flush()
        best[0] = min(best[0], time.perf_counter() - start)
        start = time.perf_counter()
        for first in range(0, n, group):
            numbers = range(number, number + min(group, n - first))
            bare.execute("BEGIN IMMEDIATE")
            bare.executemany("INSERT INTO entries VALUES (?, ?, ?)", ((i, record, record[:16]) for i in numbers))
            bare.executemany("INSERT INTO events VALUES (?, ?, ?)", ((f"e{i}", i, record[:16]) for i in numbers))
            bare.execute("COMMIT")
            number += len(numbers)
        best[1] = min(best[1], time.perf_counter() - start)
    ranker.close()
    bare.close()
    return row(
        f"durable answers, groups of {group}: rate against bare SQLite", best[1] / best[0], ">= 0.5", best[0] / n
    )


def memory(folder: str, first: int, more: int) -> dict[str, object]:
    """Resident memory after many answers against that after few."""
    X, grades = query(3)
    documents = [Document(f"d{i}", one) for i, one in enumerate(X[:5, :10].tolist())]
    given = {f"d{i}": float(one) for i, one in enumerate(grades[:5])}
    ranker = Ranker(Path(folder) / "memory", settings=Settings(snapshot_seconds=1e9))
    sizes = []
    done = 0
    for stop in (first, first + more):
        while done < stop:
            futures = [ranker.learn(documents, given, event_id=str(i)) for i in range(done, min(done + 500, stop))]
            done += len(futures)
            for one in futures:
                one.result()
        ranker.flush()
        sizes.append(resident())
    ranker.close()
    return row(f"memory after {first + more:,} answers against {first:,}", sizes[1] / sizes[0], "<= 1.1", None)


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1])


def main() -> None:
    quick = "--quick" in sys.argv
    with tempfile.TemporaryDirectory() as folder:
        rows = ranking(str(Path(folder) / "service"), 50 if quick else 400, 2 if quick else 5)
        rows.append(feedback(folder, 500 if quick else 4000, 2 if quick else 5))
        rows.append(
            memory(folder, 2000 if quick else 10_000, 990_000 if "--long" in sys.argv else 5000 if quick else 90_000)
        )
    show(rows, as_json="--json" in sys.argv)


if __name__ == "__main__":
    main()
