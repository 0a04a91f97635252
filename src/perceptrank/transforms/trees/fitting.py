"""Fit a forest to remembered queries: LambdaMART by LightGBM, on a thread of its own."""

import threading
from typing import Any

import numpy as np

from perceptrank.kernels.arrays import Floats
from perceptrank.transforms.trees.forest import Forest
from perceptrank.transforms.trees.memory import Remembered
from perceptrank.transforms.trees.reading import parse_lightgbm

_MANY = 4_000  # queries from which on trees are larger
_FEW_TREES, _MANY_TREES = (31, 0.1), (63, 0.2)  # leaves of a tree, and rate
_LONGEST = 10_000  # documents of a query that LightGBM takes
_MOST_LEVELS = 256
_LARGEST_GRADE = 31  # beyond, gains are all the same: 2**31 - 1
_SCALED_ON = 1_000  # queries
_BINNED_ON = 50_000  # documents, which LightGBM holds in double precision
UNGRADED = "no query that is remembered has documents of different grades"


def lightgbm() -> Any:
    """Return LightGBM; raise if it is not there, with the extra that has it."""
    try:
        import lightgbm
    except ImportError:
        raise ImportError("trees are fitted by LightGBM: pip install 'perceptrank[trees]'") from None
    return lightgbm


class Fit:
    """A forest that is being fitted while others go on; `result` waits for it.

    What it is fitted to decides every bit of it, so it does not matter when it is ready.
    """

    def __init__(self, queries: list[Remembered], n_trees: int, seed: int) -> None:
        self._forest: Forest | None = None
        self._problem = ""
        # A daemon, so that a process that ends does not wait for it.
        self._thread = threading.Thread(target=self._run, args=(queries, n_trees, seed), daemon=True)
        self._thread.start()

    def _run(self, queries: list[Remembered], n_trees: int, seed: int) -> None:
        try:
            self._forest = fit_forest(queries, n_trees, seed)
        except Exception as error:
            self._problem = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"

    def result(self) -> tuple[Forest | None, str]:
        """Return the forest, or None and the reason why there is none."""
        self._thread.join()
        return self._forest, self._problem


def fit_forest(queries: list[Remembered], n_trees: int, seed: int) -> Forest:
    """Fit LambdaMART to queries; raise if that fails. The scores of a query have about the standard deviation 1."""
    library = lightgbm()
    n_all, queries = len(queries), [query for query in queries if len(query.relevance) <= _LONGEST]
    if n_all and not queries:
        raise ValueError(
            f"all queries that are remembered have more than the {_LONGEST:,} documents that LightGBM takes"
        )
    if not any(query.relevance.min() < query.relevance.max() for query in queries):
        raise ValueError(UNGRADED)
    lengths = np.array([len(query.relevance) for query in queries])
    labels, gains = as_labels(np.concatenate([query.relevance for query in queries]))
    weights = np.array([query.weight for query in queries])
    leaves, rate = _FEW_TREES if len(queries) < _MANY else _MANY_TREES
    settings = {
        "objective": "lambdarank",
        "num_leaves": leaves,
        "learning_rate": rate,
        "label_gain": gains.tolist(),
        "seed": seed % 2**31,
        "num_threads": 1,
        "deterministic": True,
        "force_row_wise": True,
        "use_missing": False,
        "bin_construct_sample_cnt": _BINNED_ON,
        "verbose": -1,
    }
    equal = (weights == weights[0]).all()
    of_documents = None if equal else np.repeat(weights / weights.mean(), lengths)
    features = [query.X for query in queries]  # which are not copied
    data = library.Dataset(features, labels, group=lengths, weight=of_documents, params=settings)
    booster = library.train(settings, data, n_trees)
    forest = parse_lightgbm(booster.model_to_string())
    return forest.with_values(forest.values / spread_within(forest, queries[:_SCALED_ON]))


def as_labels(grades: Floats) -> tuple[Floats, Floats]:
    """Return grades as the whole numbers that LightGBM takes, and the gain 2^grade - 1 of each of those."""
    levels = np.unique(grades)
    if len(levels) > _MOST_LEVELS:
        levels = np.unique(np.quantile(grades, np.linspace(0.0, 1.0, _MOST_LEVELS)))
    labels = np.minimum(np.searchsorted(levels, grades), len(levels) - 1)
    return labels.astype(np.float64), np.exp2(np.minimum(levels, _LARGEST_GRADE)) - 1.0


def spread_within(forest: Forest, queries: list[Remembered]) -> float:
    """Return the mean standard deviation of scores within queries, 1 if it is 0."""
    spread = float(np.mean([forest.scores(query.X).std() for query in queries]))
    return spread if spread > 0.0 else 1.0
