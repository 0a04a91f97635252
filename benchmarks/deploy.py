"""How far exported models differ from `predict`: random models folded to raw features, in double precision and float32.

Run with: python benchmarks/deploy.py [number of models]
"""

import sys

import numpy as np

import perceptrank as pr
from perceptrank.deploy.exports import make_target
from perceptrank.deploy.ranking_function import RankingFunction

TRANSFORMS = ["running", "running-spread", ["running", "running"], ["running-spread", "running"]]


def random_model(rng: np.random.Generator, dtype: type) -> tuple[pr.Learner, np.ndarray]:
    """Return a model that has learned one query, and its documents: scales over twelve orders of magnitude.

    Means are up to 1000 deviations from 0; up to 10 where `running` comes after `running-spread`, since `predict`
    itself loses the digits of a larger mean there; and up to 1 in float32.
    """
    transforms = TRANSFORMS[int(rng.integers(len(TRANSFORMS)))]
    farthest = 0 if dtype is np.float32 else 1 if transforms == ["running-spread", "running"] else 3
    d = int(rng.integers(1, 40))
    X = rng.normal(size=(int(rng.integers(5, 12)), d)) * 10.0 ** rng.uniform(-6, 6, size=d)
    shift = 10.0 ** rng.uniform(-2, farthest, size=d)
    X = (X + X.std(axis=0) * shift * rng.choice([-1, 0, 1], size=d)).astype(dtype).astype(np.float64)
    model = pr.ListwisePerceptron(transforms=transforms)
    model.learn_one(X, np.arange(len(X)) % 3)
    return model, X


def random_clauses(rng: np.random.Generator) -> tuple[pr.Learner, np.ndarray]:
    """Return a model for hybrid search that has learned one query, and its documents: up to 5 clauses in float32."""
    d = int(rng.integers(1, 6))
    X = (rng.random(size=(int(rng.integers(5, 12)), d)) * 10.0 ** rng.uniform(-2, 6, size=d)).astype(np.float32)
    model = pr.ListwisePerceptron(transforms="hybrid:engine=elasticsearch", positive=list(range(d)))
    model.learn_one(X.astype(np.float64), np.argsort(np.argsort(X[:, 0])) // 3)
    return model, X.astype(np.float64)


def difference(model: pr.Learner, X: np.ndarray, target: str, **options: str) -> tuple[float, int]:
    """Return the largest difference of scores relative to the largest score, and the number of features."""
    chosen, function = make_target(target, options), RankingFunction.of(model)
    dropped = chosen.differences(function).dropped
    scores = chosen.scores(function, chosen.export(function), X, np.array([0, len(X)])) + dropped
    expected = model.predict(X)
    return float(np.abs(scores - expected).max() / np.abs(expected).max()), X.shape[1]


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    rng = np.random.default_rng(0)
    for target, how in (("python", "as Python functions"), ("vespa", "as Vespa profiles"), ("pmml", "as PMML")):
        worst = max(difference(*random_model(rng, np.float64), target)[0] for _ in range(n))
        print(f"{n} random models {how}, in double precision: worst relative difference {worst:.2g}")
    ulp = float(np.finfo(np.float32).eps)
    found = [difference(*random_model(rng, np.float32), "solr") for _ in range(n)]
    ulps = max(one / (ulp * d) for one, d in found)
    print(f"{n} random models as Solr computes them, in float32: worst {ulps:.2g} ulp of float32 per feature")
    found = [difference(*random_clauses(rng), "hybrid") for _ in range(n)]
    ulps = max(one / (ulp * d) for one, d in found)
    print(f"{n} random models as Elasticsearch's linear retriever: worst {ulps:.2g} ulp of float32 per feature")


if __name__ == "__main__":
    main()
