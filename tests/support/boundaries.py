"""Models of bins, and documents at the edges of these."""

import warnings

import numpy as np

import perceptrank as pr
from perceptrank.deploy.additive import is_rising, raw_thresholds
from perceptrank.deploy.ranking_function import RankingFunction
from perceptrank.transforms.bins import Bins


def learned_bins(transforms, names=None, seed=0):
    """A model, and the documents it learned: of float32, with many equal values, small, far from 0, and constant."""
    rng = np.random.default_rng(seed)
    n = 300
    X = np.column_stack(
        [
            rng.normal(size=n),
            np.round(rng.normal(5.0, 10.0, size=n)),
            rng.normal(size=n) * 1e-4,
            np.full(n, 2.5),
            np.round(rng.exponential(size=n), 1),
            100.0 + rng.normal(size=n),
        ]
    )
    X = X.astype(np.float32).astype(np.float64)
    grades = np.digitize(X[:, 0] + np.abs(X[:, 1]) / 10 - X[:, 4], [0.0, 1.0, 2.0])
    stream = pr.QueryStream.from_arrays(X, grades, group=[10] * (n // 10), feature_names=names)
    model = pr.ListwisePerceptron(transforms=transforms)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "features differ in spread")
        model.learn(stream)
    return model, stream


def around_edges(model, stream, kind):
    """Documents in which one feature after the other is at an edge, right beside it, or beyond all of them."""
    transforms = RankingFunction.of(model).transforms
    place = next(place for place, one in enumerate(transforms) if type(one) is Bins)
    before, bins = transforms[:place], transforms[place]
    assert all(map(is_rising, before))
    rows = []
    for j, thresholds in enumerate(raw_thresholds(before, bins.edges)):
        edges = np.unique(thresholds[np.isfinite(thresholds)]).astype(kind)
        ends = np.array([-1e30, 1e30, -1.0, 0.0], dtype=kind)
        values = [edges, np.nextafter(edges, kind(np.inf)), np.nextafter(edges, kind(-np.inf)), ends]
        for value in np.concatenate(values).tolist():
            row = stream.X[len(rows) % len(stream.X)].copy()
            row[j] = value
            rows.append(row)
    X = np.array(rows)
    return pr.QueryStream.from_arrays(
        X, np.arange(len(X)) % 3, qid=np.arange(len(X)) // 20, feature_names=stream.feature_names
    )
