"""Several processes at one port: the primary, and workers that follow its folder and send it the answers."""

import json
import logging
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from perceptrank.serve.http.access import Access
from perceptrank.serve.http.app import make_app
from perceptrank.serve.http.log_lines import set_up
from perceptrank.serve.http.server import address_of, listen, run
from perceptrank.serve.replicas.links import Link, Peer, find_primary
from perceptrank.serve.replicas.replica import Replica, ReplicaRanker
from perceptrank.serve.service import Service
from perceptrank.serve.settings import Limits, Settings
from perceptrank.serve.submissions import Acknowledgement
from perceptrank.serve.warm_up import warm_up

logger = logging.getLogger("perceptrank.serve")
_STOP_SECONDS = 40.0  # for a worker to finish its requests
_LONGEST_PAUSE = 30.0  # seconds before a worker that dies again and again is started again
_WELL = 60.0  # seconds after which one that died is started again at once


class Workers:
    """Starts workers, starts those that die again, and tells the rankers whose rankings are whose.

    `plan` is what a worker is told on its standard input; `work` reads it.
    """

    def __init__(self, n: int, plan: dict[str, Any], service: Service, token: str) -> None:
        self._plan, self._service, self._token = json.dumps(plan), service, token
        self._processes: dict[int, subprocess.Popen[str]] = {}
        self._lock, self._stopping = threading.Lock(), threading.Event()
        self._threads = [threading.Thread(target=self._keep, args=(i + 1,), daemon=True) for i in range(n)]

    def start(self) -> None:
        """Start all of them."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Let all finish their requests; they need the primary for that."""
        with self._lock:
            self._stopping.set()
            for process in self._processes.values():
                process.terminate()
        deadline = time.monotonic() + _STOP_SECONDS
        for number, thread in enumerate(self._threads, 1):
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                self._processes[number].kill()

    def _keep(self, number: int) -> None:
        pause = 0.0
        while not self._stopping.wait(pause):
            # A program of its own, not a fork: this process has threads. It ends when its standard input does.
            code = "from perceptrank.serve.replicas.workers import work; work()"
            with self._lock:
                if self._stopping.is_set():
                    return
                process = self._processes[number] = subprocess.Popen(
                    [sys.executable, "-P", "-c", code],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    start_new_session=True,  # Ctrl-C is for the primary, which tells the workers
                )
            begin = time.monotonic()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                process.stdin.write(self._plan + "\n")
                process.stdin.flush()
                line = process.stdout.readline()
            except BrokenPipeError:
                line = ""  # it has died already
            links = self._add(**json.loads(line)) if line else {}
            if links:
                logger.info("worker %d serves too, as process %d", number, process.pid)
            status = process.wait()
            for (name, start), link in links.items():
                del self._service.rankers[name].owners[start]
                link.disconnect()
            process.stdout.close()
            process.stdin.close()
            if not self._stopping.is_set():
                pause = 0.0 if time.monotonic() - begin > _WELL else min(max(0.5, 2 * pause), _LONGEST_PAUSE)
                logger.warning("worker %d has ended with status %d; it is started again", number, status)

    def _add(self, url: str, starts: dict[str, str]) -> dict[tuple[str, str], Link]:
        """Let the rankers send answers to rankings of a worker there; return the links to it by ranker and start."""
        links = {(name, start): Link(Peer(url, self._token), name) for name, start in starts.items()}
        for (name, start), link in links.items():
            self._service.rankers[name].owners[start] = partial(_forward, link)
        return links


def _forward(link: Link, path: str, message: msgspec.Struct) -> "Future[Acknowledgement]":
    return link.answer(f"{path}?forwarded", message)


def work() -> None:
    """Be a worker, as standard input says; tell address and starts on standard output, and end when the input does."""
    plan = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_primary, daemon=True).start()
    set_up(plan["log_format"])
    folder, settings, limits = Path(plan["folder"]), Settings(**plan["settings"]), Limits(**plan["limits"])
    access = Access(folder)
    access.own_token = find_primary(folder).token or ""
    with Replica(folder, settings, database=plan["database"]) as service:
        starts = {}
        for name, ranker in service.rankers.items():
            warm_up(ranker.current)
            assert isinstance(ranker, ReplicaRanker)
            starts[name] = str(ranker.start)
        app = make_app(service, access, limits, **plan["app"], primary=service.find)
        with (
            listen(plan["host"], plan["port"], access, shared=True) as public,
            listen("127.0.0.1", 0, access) as private,
        ):
            told = {"url": address_of(private), "starts": starts}
            run(app, public, lambda: print(json.dumps(told), flush=True), limits, also=[private])


def _end_with_primary() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(1)  # at once: the port is to be free for the next primary
