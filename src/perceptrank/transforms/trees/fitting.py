"""Fit a forest to remembered queries: LambdaMART by LightGBM, on a thread of its own."""

import threading
from typing import Any, TypeAlias

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

Fitted: TypeAlias = tuple[Forest | None, str]


def lightgbm() -> Any:
    """Return LightGBM; raise if it is not there, with the extra that has it."""
    try:
        import lightgbm
    except ImportError:
        raise ImportError("trees are fitted by LightGBM: pip install 'perceptrank[trees]'") from None
    return lightgbm


class Fit:
    """A fit that is done, or that goes on beside the stream: the queries decide every bit, whenever it is ready."""

    def __init__(self, result: Fitted = (None, "")) -> None:
        self._result = result
        self._thread: threading.Thread | None = None

    @classmethod
    def begin(cls, queries: list[Remembered], n_trees: int, seed: int) -> "Fit":
        """Begin to fit a forest to queries."""
        fit = cls()

        def run() -> None:
            fit._result = try_fit(queries, n_trees, seed)

        fit._thread = threading.Thread(target=run, daemon=True)  # a process that ends does not wait for it
        fit._thread.start()
        return fit

    def result(self) -> Fitted:
        """Wait for the forest; return it, or None and the reason why there is none."""
        if self._thread is not None:
            self._thread.join()
        return self._result

    def __reduce__(self) -> Any:
        return Fit, (self.result(),)


def try_fit(queries: list[Remembered], n_trees: int, seed: int) -> Fitted:
    """Return the forest that is fitted to queries, or None and the reason why there is none."""
    try:
        return fit_forest(queries, n_trees, seed), ""
    except Exception as error:
        return None, str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"


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
    spread = float(np.mean([forest.scores(query.X).std() for query in queries[:_SCALED_ON]]))
    return forest.with_values(forest.values / (spread if spread > 0.0 else 1.0))


def as_labels(grades: Floats) -> tuple[Floats, Floats]:
    """Return grades as the whole numbers that LightGBM takes, and the gain 2^grade - 1 of each of those."""
    levels = np.unique(grades)
    if len(levels) > _MOST_LEVELS:
        levels = np.unique(np.quantile(grades, np.linspace(0.0, 1.0, _MOST_LEVELS)))
    labels = np.minimum(np.searchsorted(levels, grades), len(levels) - 1)
    return labels.astype(np.float64), np.exp2(np.minimum(levels, _LARGEST_GRADE)) - 1.0
