"""Models to export, and engines that are started for the tests."""

import warnings

import numpy as np
import pytest
from support import emulators
from support.postgresql import PostgreSQL

import perceptrank as pr


@pytest.fixture(autouse=True)
def reading_emulators(monkeypatch):
    """Where no engine runs, what is compared with a model is read from the exported file."""
    emulators.install(monkeypatch)


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


@pytest.fixture(scope="session")
def postgresql():
    """Start a server; yield where it is, as psql takes it."""
    server = PostgreSQL()
    yield server.address
    server.close()
