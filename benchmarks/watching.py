"""The cost of being watched: POST /v1/rank, 100 documents of 50 features, and answers, with and without live pages.

Rounds with and without open pages alternate in one service. Times are those that the service takes of a processor, the
shortest of all rounds, so that others on the machine matter less.
"""

import argparse
import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np


def body(seed: int) -> bytes:
    X = np.random.default_rng(seed).normal(size=(100, 50))
    documents = [{"id": f"d{i}", "features": {f"f{j}": float(x) for j, x in enumerate(row)}} for i, row in enumerate(X)]
    return json.dumps({"documents": documents}).encode()


class Watchers:
    """Open pages, each of which reads all frames."""

    def __init__(self, port: int, n: int) -> None:
        self._connections = []
        for _ in range(n):
            connection = http.client.HTTPConnection("127.0.0.1", port)
            connection.request("GET", "/live")
            response = connection.getresponse()
            threading.Thread(target=self._read, args=[response], daemon=True).start()
            self._connections.append((connection, response))

    @staticmethod
    def _read(response: http.client.HTTPResponse) -> None:
        try:
            while response.readline():
                pass
        except (OSError, ValueError, AttributeError, http.client.HTTPException):
            pass  # it was closed

    def close(self) -> None:
        """Close the pages."""
        for connection, _ in self._connections:
            if connection.sock is not None:
                connection.sock.shutdown(2)
            connection.close()


def processor(pid: int) -> float:
    """Seconds of a processor that a process has taken (Linux)."""
    parts = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")


def work(port: int, pid: int, bodies: list[bytes], n: int) -> float:
    """Rank, and answer every tenth; return the seconds of a processor that the service takes for a ranking."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    start = processor(pid)
    for k in range(n):
        connection.request("POST", "/v1/rank", bodies[k % len(bodies)])
        ranked = json.loads(connection.getresponse().read())
        if k % 10 == 0:
            answer = {"ranking_id": ranked["ranking_id"], "grades": {"d7": 1}}
            connection.request("POST", "/v1/feedback", json.dumps(answer))
            connection.getresponse().read()
    connection.close()
    return (processor(pid) - start) / n


def idle(pid: int, seconds: float) -> float:
    """Return the share of a core that the service takes while nothing is asked of it."""
    start = processor(pid)
    time.sleep(seconds)
    return (processor(pid) - start) / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rankings", type=int, default=1000, help="of each round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pages", type=int, default=5)
    given = parser.parse_args()
    bodies = [body(seed) for seed in range(20)]
    found: dict[str, list[tuple[float, float]]] = {"alone": [], "watched": []}
    with tempfile.TemporaryDirectory() as folder:
        words = ["-m", "perceptrank", "serve", "--port", "0", "--data", f"{folder}/data", "--log-format", "json"]
        process = subprocess.Popen([sys.executable, *words], stderr=subprocess.PIPE, text=True)
        try:
            port = int(json.loads(process.stderr.readline())["address"].rpartition(":")[2])
            work(port, process.pid, bodies, 200)
            for _ in range(given.rounds):
                for name, pages in (("alone", 0), ("watched", given.pages)):
                    watchers = Watchers(port, pages)
                    taken = work(port, process.pid, bodies, given.rankings), idle(process.pid, 3.0)
                    watchers.close()
                    found[name].append(taken)
        finally:
            process.terminate()
            process.communicate(timeout=60)
    for name, rounds in found.items():
        ranking, rest = (min(values) for values in zip(*rounds, strict=True))
        print(f"{name:8} {1e3 * ranking:.3f} ms of a processor per ranking; idle {rest:.1%} of a core")
    ratio = min(one for one, _ in found["watched"]) / min(one for one, _ in found["alone"])
    print(f"with {given.pages} pages / alone, per ranking: {ratio:.2f}")


if __name__ == "__main__":
    main()
