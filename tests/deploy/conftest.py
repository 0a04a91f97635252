"""Models to export, and engines that are started for the tests."""

import os
import shutil
import subprocess
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import perceptrank as pr


@pytest.fixture(scope="session")
def stream():
    """Raw features of very different scales: far from 0, tiny, constant, with ties, and of any sign."""
    rng = np.random.default_rng(7)
    sizes = [1, 2, 30, *rng.integers(2, 25, size=37)]
    n = sum(sizes)
    columns = [
        1e6 + rng.normal(size=n),
        1e-5 * rng.normal(size=n),
        np.full(n, 3.25),
        rng.integers(0, 4, size=n),
        np.exp(3 * rng.normal(size=n)),
        rng.normal(size=n) * 100 - 40,
    ]
    X = np.column_stack(columns).astype(np.float64)
    grades = np.clip(np.round(X[:, 0] - 1e6 - 0.02 * X[:, 5] + 0.3 * X[:, 3]), 0, 4)
    names = ["title bm25", 'quo"te', "constant", "__proto__", "naïve 検索", "back\\slash'"]
    return pr.QueryStream.from_arrays(X, grades, group=sizes, feature_names=names)


@pytest.fixture(scope="session")
def learned(stream):
    """Return a function that makes a listwise perceptron with some transforms that has learned the stream."""

    def learn(transforms="running", **settings):
        ranker = pr.ListwisePerceptron(transforms=transforms, **settings)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "features differ in spread")
            ranker.learn(stream)
        return ranker

    return learn


@pytest.fixture(scope="session")
def learned_floats():
    """Return a function that makes a model and documents whose features float32 holds, of very different scales."""

    def learn(seed=0, n=300, d=30, **settings):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-4, 4, size=d)
        X = (X + X.std(axis=0) * rng.uniform(-3, 3, size=d)).astype(np.float32).astype(np.float64)
        grades = np.digitize((X / X.std(axis=0)) @ rng.normal(size=d), [-4, 0, 4])
        names = [f"field_{j}" for j in range(d)]
        stream = pr.QueryStream.from_arrays(X, grades, group=[10] * (n // 10), feature_names=names)
        model = pr.ListwisePerceptron(transforms="running", **settings)
        model.learn(stream)
        return model, stream

    return learn


def server_program(name):
    """The path of a program of PostgreSQL's server, which is often not on the PATH; skip if there is none."""
    found = shutil.which(name) or next(iter(sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))), None)
    if found is None or shutil.which("psql") is None:
        pytest.skip(f"PostgreSQL is not installed: there is no {name} or no psql")
    return str(found)


@pytest.fixture(scope="session")
def postgresql():
    """Start a server in a temporary folder, as a user who is not root; yield where it is, as psql takes it."""
    initdb, server = server_program("initdb"), server_program("postgres")
    who = {"user": 65534, "group": 65534, "extra_groups": []} if os.getuid() == 0 else {}
    folder = Path(tempfile.mkdtemp(prefix="pr-pg-", dir="/tmp"))  # the path of a socket must be short
    if who:
        os.chown(folder, 65534, 65534)
    settings = {"cwd": folder, "env": {"PATH": os.environ["PATH"], "LC_ALL": "C"}, **who}
    process = None
    try:
        making = [initdb, "-D", str(folder / "data"), "-A", "trust", "-U", "tester", "-E", "UTF8", "--no-sync"]
        made = subprocess.run(making, capture_output=True, text=True, check=False, **settings)
        if made.returncode:
            pytest.skip(f"PostgreSQL cannot make a cluster: {made.stderr.strip()}")
        with open(folder / "log", "wb") as log:
            process = subprocess.Popen(
                [server, "-D", str(folder / "data"), "-k", str(folder), "-c", "listen_addresses=", "-F"],
                stdout=log,
                stderr=log,
                **settings,
            )
        url = f"host={folder} user=tester dbname=postgres"
        for _ in range(200):
            asked = subprocess.run(["psql", "-X", "-d", url, "-c", "SELECT 1"], capture_output=True, check=False)
            if asked.returncode == 0:
                break
            if process.poll() is not None:
                pytest.skip(f"PostgreSQL does not start: {(folder / 'log').read_text()[-500:]}")
            time.sleep(0.1)
        yield url
    finally:
        if process is not None:
            process.terminate()
            process.wait(30)
        shutil.rmtree(folder)
