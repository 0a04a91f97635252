"""Servers to compare, each in a process of its own: the service, a constant, LightGBM behind FastAPI, Vowpal Wabbit."""

import multiprocessing
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from perceptrank.serve.http.access import Access
from perceptrank.serve.http.app import make_app
from perceptrank.serve.http.server import listen, run
from perceptrank.serve.service import Service
from perceptrank.serve.settings import Settings
from perceptrank.serve.warm_up import warm_up


@contextmanager
def running(target: Callable[..., None], *arguments: Any) -> Iterator[int]:
    """Run a server in a process of its own; yields its port."""
    context = multiprocessing.get_context("spawn")
    ports = context.Queue()
    process = context.Process(target=target, args=(ports, *arguments), daemon=True)
    process.start()
    try:
        yield ports.get(timeout=120)
    finally:
        process.terminate()
        process.join()


def service(ports: Any, folder: str) -> None:
    """The service itself, as `perceptrank serve` runs it."""
    access = Access(Path(folder))
    listening = listen("127.0.0.1", 0, access)
    with Service(folder, settings=Settings(snapshot_seconds=5)) as made:
        for one in made.rankers.values():
            warm_up(one.current)
        run(make_app(made, access), listening, lambda: ports.put(listening.getsockname()[1]))


@contextmanager
def processes(folder: Path, n: int) -> Iterator[int]:
    """Run `perceptrank serve --workers N`; yields its port once all processes serve."""
    words = ["--data", str(folder), "--port", "0", "--workers", str(n)]
    command = [sys.executable, "-P", "-m", "perceptrank", "serve", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            lines = [process.stderr.readline() for _ in range(n)]
            yield int(lines[0].rpartition(":")[2])
        finally:
            process.terminate()


def _serve(app: Any, ports: Any) -> None:
    """Serve an application by the same server with the same settings."""
    with tempfile.TemporaryDirectory() as folder:
        listening = listen("127.0.0.1", 0, Access(Path(folder)))
        run(app, listening, lambda: ports.put(listening.getsockname()[1]))


def constant(ports: Any, response: bytes, bare: bool) -> None:
    """Return the same bytes once the body has come; by a route of FastAPI's, or a bare one as the service has."""
    from fastapi import FastAPI, Request, Response
    from starlette.routing import Route

    app = FastAPI()

    async def same(request: Request) -> Response:
        await request.body()
        return Response(response, media_type="application/json")

    if not bare:
        app.add_api_route("/rank", same, methods=["POST"], response_model=None)
    else:
        app.router.routes.append(Route("/rank", same, methods=["POST"]))
    _serve(app, ports)


def lightgbm(ports: Any, n_features: int, lean: bool) -> None:
    """Rank by 100 trees; as FastAPI's documentation has it, or with all that is around the trees as lean as can be."""
    import lightgbm as lgb
    import msgspec
    from fastapi import FastAPI, Request, Response

    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(20_000, n_features)), rng.integers(0, 3, 20_000)
    settings = {"objective": "lambdarank", "num_leaves": 31, "verbose": -1, "num_threads": 1}
    model = lgb.train(settings, lgb.Dataset(X, y, group=[100] * 200), 100)
    app = FastAPI()

    if lean:

        class Document(msgspec.Struct):
            id: str
            features: list[float]

        class Query(msgspec.Struct):
            documents: list[Document]

        decoder, encode = msgspec.json.Decoder(Query), msgspec.json.Encoder().encode

        async def rank(request: Request) -> Response:
            documents = decoder.decode(await request.body()).documents
            scores = model.predict(np.array([one.features for one in documents]), num_threads=1)
            ids = [one.id for one in documents]
            order = [ids[i] for i in np.argsort(-scores, kind="stable").tolist()]
            scored = dict(zip(ids, scores.tolist(), strict=True))
            return Response(encode({"order": order, "scores": scored}), media_type="application/json")

        app.add_api_route("/rank", rank, methods=["POST"], response_model=None)
    else:
        from pydantic import BaseModel

        class Ranked(BaseModel):
            order: list[str]
            scores: dict[str, float]

        class Item(BaseModel):
            id: str
            features: list[float]

        class Items(BaseModel):
            documents: list[Item]

        async def rank_items(items: Items) -> Ranked:
            scores = model.predict(np.array([one.features for one in items.documents]), num_threads=1)
            ids = [one.id for one in items.documents]
            order = [ids[i] for i in np.argsort(-scores, kind="stable").tolist()]
            return Ranked(order=order, scores=dict(zip(ids, scores.tolist(), strict=True)))

        app.add_api_route("/rank", rank_items, methods=["POST"])
    _serve(app, ports)


def vowpal_wabbit(ports: Any, wheel: str) -> None:
    """Vowpal Wabbit's daemon, one process of it, as its Python package has it."""
    if wheel:
        sys.path.insert(0, wheel)
    import vowpalwabbit

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ports.put(port)
    ports.close()
    ports.join_thread()  # the daemon lets no other thread run while it waits
    daemon = ["--daemon", "--foreground", "--num_children", "1", "--port", str(port), "--quiet"]
    vowpalwabbit.Workspace(arg_list=daemon).run_parser()


def connected(port: int, seconds: float = 20.0) -> None:
    """Wait until something listens at a port, without connecting to it: a daemon has one client at a time."""
    deadline = time.monotonic() + seconds
    wanted = f":{port:04X} "
    while time.monotonic() < deadline:
        listening = [line for line in Path("/proc/net/tcp").read_text().splitlines() if " 0A " in line]
        if any(wanted in line for line in listening):
            return
        time.sleep(0.05)
    raise TimeoutError(f"nothing listens at port {port}")
