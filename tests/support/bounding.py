"""What tests of bounds need: names of measures, diameters of streams, and rankers to compare with."""

import numpy as np

import perceptrank as pr
from support import twins


def named(name, k):
    return f"{name}@{k}" if k else name


def diameter(stream, name):
    """The largest distance between two documents of a query with different grades."""
    largest = 0.0
    for query in stream:
        grades = twins.judged(query.relevance, name)
        apart = np.linalg.norm(query.X[:, None].astype(float) - query.X[None, :], axis=2)
        largest = max(largest, apart[np.not_equal.outer(grades, grades)].max(initial=0.0))
    return largest


def comparators(stream, seed):
    """Some fixed rankers to compare with: good ones and bad ones, short and long."""
    rng = np.random.default_rng(seed)
    trained = pr.ListwisePerceptron(transforms=None).fit(stream, n_passes=3).coef_
    for direction in (trained, rng.normal(size=stream.n_features)):
        norm = np.linalg.norm(direction)
        for length in (0.1, 1.0, 10.0):
            yield direction * (length / norm) if norm > 0 else direction


def rounds_of(learner, stream, name, k):
    """For each round (X, grades, v, weight moved, weight of outranked documents, loss)."""
    for query in stream:
        scores, grades = learner.predict(query.X), twins.judged(query.relevance, name)
        v = twins.slam_weights(scores, query.relevance, name, k, class_order=getattr(learner, "class_order", "score"))
        _, outranked = twins.listwise(scores, grades, v, 0.0, "top")
        loss = 1 - twins.measure(name, scores, query.relevance, k=k) if query.relevance.any() else 0.0
        moved = learner.learn(pr.QueryStream.from_arrays(query.X, query.relevance), []).masses[0]
        yield query.X.astype(float), grades, v, moved, v[outranked].sum() if moved > 0 else 0.0, loss
