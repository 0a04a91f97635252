"""Write what `test_upgrade.py` reads: files of every kind, by the version of perceptrank that is installed.

python tests/upgrade/write.py

A release leaves its files here, and every later version must read them and go on from there.
"""

import json
from pathlib import Path

import numpy as np

import perceptrank as pr

CHAINS = {
    "auto": "auto",
    "running": "running",
    "missing-bins": ["missing", "bins"],
    "hash": "hash",
    "fourier": ["query-zscore", "random-fourier:n_features=8"],
}


def stream() -> pr.QueryStream:
    """Return 16 queries of 4 documents with 3 features, the same in every version."""
    numbers = np.arange(16 * 4 * 3)
    X = (numbers * 7919 % 101 / 16 - 3).reshape(-1, 3)
    return pr.QueryStream.from_arrays(X, (X[:, 0] > X[:, 2]) + (X[:, 1] > 1), qid=np.repeat(np.arange(16), 4))


def models() -> dict[str, pr.Learner]:
    """Return learners of every kind, by the name of their file."""
    found = {name: cls() for name, cls in pr.algorithms().items()}
    found["adagrad"] = pr.AdaGrad(pr.OnlineListNet())
    found["bagging"] = pr.Bagging(pr.SlamPerceptron(transforms=None), seed=1)
    found |= {f"listwise-{name}": pr.ListwisePerceptron(transforms=chain) for name, chain in CHAINS.items()}
    return found


def main() -> None:
    folder = Path(__file__).parent / pr.__version__
    folder.mkdir()
    whole = stream()
    expected = {}
    for name, learner in models().items():
        trace = learner.learn(whole[:10], ["ndcg@10", "ap"])
        learner.save(folder / f"{name}.json")
        first = learner.predict(whole.X[:8]).tolist()
        learner.learn(whole[10:])
        expected[name] = {"scores": first, "scores after all": learner.predict(whole.X[:8]).tolist()}
    trace.save(folder / "trace.npz")
    expected["trace"] = trace.values("ndcg@10").tolist()
    pr.write_store(whole[:12], folder / "dense.store").append(whole[12:])
    (folder / "expected.json").write_text(json.dumps(expected))


if __name__ == "__main__":
    main()
