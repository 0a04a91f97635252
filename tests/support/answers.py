"""Queries for a ranker of the service, their answers, and the model that learns them without one."""

import json

import numpy as np

import perceptrank as pr
from perceptrank.serve import Settings
from perceptrank.serve.documents import Document
from perceptrank.serve.learning import Columns

NAMES = ("title", "price", "clicks")
QUIET = Settings(snapshot_seconds=1e9)  # snapshots when a test says so


def queries(n, seed=1, m=4):
    """Queries as (documents, grades), with features by name."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(n):
        X, grades = rng.normal(size=(m, 3)), rng.integers(0, 3, m)
        documents = [Document(f"d{i}", dict(zip(NAMES, row, strict=True))) for i, row in enumerate(X.tolist())]
        found.append((documents, {f"d{i}": float(grade) for i, grade in enumerate(grades)}))
    return found


def offline(made, model=None):
    """The model that learns the same queries one after the other, without a service."""
    model = model or pr.ListwisePerceptron()
    for documents, grades in made:
        X = np.array([[one.features[name] for name in NAMES] for one in documents])
        model.learn_one(Columns(X, NAMES), [grades[one.id] for one in documents])
    return model


def document(model):
    return json.dumps(model.as_document())


def answer(ranker, made):
    """Rank each query, then answer it; return the acknowledgements."""
    ranked = [ranker.rank(documents) for documents, _ in made]
    futures = [ranker.feedback(one.ranking_id, grades) for one, (_, grades) in zip(ranked, made, strict=True)]
    return [one.result(10) for one in futures]


def abandon(ranker):
    """Leave a ranker as a kill would: what waits is lost, nothing is written on the way out."""
    ranker.flush()
    ranker.save = lambda: None
    ranker.close()
