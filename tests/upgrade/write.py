"""Write what `test_upgrade.py` reads: files of every kind, by the version of perceptrank that is installed.

python tests/upgrade/write.py

A release commits the folder that this writes, and every later version must read it and continue from it.
"""

import json
from pathlib import Path

import numpy as np

import perceptrank as pr
from perceptrank.serve import ServedRanker, Settings
from perceptrank.serve.documents import Document
from perceptrank.transforms.trees.reading import ForestBuilder

CHAINS = {
    "auto": "auto",
    "running": "running",
    "missing-bins": ["missing", "bins"],
    "hash": "hash",
}


def stream() -> pr.QueryStream:
    """Return 16 queries of 4 documents with 3 features, the same in every version."""
    numbers = np.arange(16 * 4 * 3)
    X = (numbers * 7919 % 101 / 16 - 3).reshape(-1, 3)
    return pr.QueryStream.from_arrays(X, (X[:, 0] > X[:, 2]) + (X[:, 1] > 1), qid=np.repeat(np.arange(16), 4))


def forest() -> pr.Forest:
    """Return two trees."""
    builder = ForestBuilder()
    builder.add([0, 2], [0.5, -1.0], [1, -2], [-1, -3], [0, 0], [1.0, 0.0, 2.0])
    builder.add([1], [0.25], [-1], [-2], [0], [-0.5, 0.5])
    return builder.forest(n_features=3)


def models() -> dict[str, pr.Learner]:
    """Return learners of every kind that learn from grades, by the name of their file."""
    learners: dict[str, pr.Learner] = {name: cls() for name, cls in pr.algorithms().items()}
    learners["adagrad"] = pr.AdaGrad(pr.OnlineListNet())
    learners["bagging"] = pr.Bagging(pr.SlamPerceptron(transforms=None), seed=1)
    learners["fading"] = pr.Fading(pr.ListwisePerceptron(), half_life=30)
    learners["forgetting"] = pr.Forgetting(pr.ListwisePerceptron())
    learners["constrained"] = pr.ListwisePerceptron(transforms="running", positive=[0], initial_weights=[0.5, 0.0, 1.0])
    learners["from-score"] = pr.ListwisePerceptron(
        production="score", transforms=[pr.ScoreOf(pr.FixedRanker([1.0, 0.0, 2.0])), "auto"]
    )
    learners["trees"] = pr.WithTrees()
    learners["trees-leaves"] = pr.ListwisePerceptron(transforms=[pr.TreeLeaves(forest())])
    learners |= {f"listwise-{name}": pr.ListwisePerceptron(transforms=chain) for name, chain in CHAINS.items()}
    return learners


def policy_of(learner: pr.Learner) -> str:
    """Return a policy whose lists a click learner can learn from."""
    if learner.name == "rtop-k":
        return "uniform:0.5"
    return (getattr(learner, "policies", ()) or ("plackett-luce",))[-1].replace("shuffle", "shuffle:4")


def click_models() -> dict[str, pr.Learner]:
    """Return the learners of clicks, by the name of their file."""
    return {f"clicks-{name}": cls() for name, cls in pr.algorithms(clicks=True).items()}


def impressions(policy: str) -> pr.QueryStream:
    """Return a log of simulated clicks. Later versions may draw another one, so it is kept in a store."""
    return pr.simulate_clicks(stream(), pr.clicks.user("informational"), policy=policy, n=4, impressions=40, seed=1)


def sparse() -> pr.QueryStream:
    """Return the stream with sparse features, ids of documents, query weights, and ids and names that are text."""
    whole = stream()
    rows, columns = np.nonzero(whole.X > 0)
    starts = np.searchsorted(rows, np.arange(len(whole.X) + 1))
    return pr.QueryStream(
        pr.SparseFeatures(whole.X[rows, columns], columns, starts, 3),
        whole.relevance,
        whole.offsets,
        qids=[f"query {one}" for one in whole.qids],
        feature_names=["title", "body", "price"],
        docids=[f"d{i}" for i in range(len(whole.X))],
        query_weights=1.0 + np.arange(len(whole)) % 3,
    )


def first_model() -> pr.Learner:
    """Return what the service starts from."""
    ranker = pr.SlamPerceptron()
    ranker.learn(stream()[:2])
    return ranker


def answer(ranker: ServedRanker, places: range) -> None:
    """Answer rankings of the queries at some places."""
    for place, query in enumerate(stream()):
        if place in places:
            documents = [Document(f"d{i}", row) for i, row in enumerate(query.X.tolist())]
            grades = {f"d{i}": float(grade) for i, grade in enumerate(query.relevance)}
            ranker.learn(documents, grades, event_id=f"event {place}").result()
    ranker.flush()


def click(ranker: ServedRanker, places: range) -> None:
    """Show queries at some places, and click on what comes first."""
    for place, query in enumerate(stream()):
        if place in places:
            listed = ranker.rank([Document(f"d{i}", row) for i, row in enumerate(query.X.tolist())])
            ranker.clicks(listed.ranking_id, [listed.order[0]], event_id=f"click {place}").result()
    ranker.flush()


def write_clicks_service(folder: Path) -> list[float]:
    """Leave the folder of a service that learns from clicks; return scores."""
    ranker = ServedRanker(folder / "default", pr.ClickPerceptron())
    click(ranker, range(2, 10))
    scores: list[float] = ranker.current.learner.predict(stream().X[:8]).tolist()
    ranker.close()
    return scores


def write_service(folder: Path) -> list[float]:
    """Leave the folder of a service: a log with a challenger and answers, some after the snapshot; return scores."""
    settings = Settings(snapshot_seconds=1e6, snapshot_answers=10**6, snapshots=1)
    ranker = ServedRanker(folder / "default", first_model(), settings, challengers={"new": pr.ListwisePerceptron()})
    answer(ranker, range(2, 6))
    ranker.close()  # with a snapshot
    snapshot = {path: path.read_bytes() for path in (folder / "default" / "versions").iterdir()}
    ranker = ServedRanker(folder / "default", settings=settings)
    answer(ranker, range(6, 10))
    scores: list[float] = ranker.current.learner.predict(stream().X[:8]).tolist()
    ranker.close()
    for path in (folder / "default" / "versions").iterdir():
        path.unlink()
    for path, content in snapshot.items():
        path.write_bytes(content)
    return scores


def write(folder: Path) -> None:
    """Write files of every kind into a new folder."""
    folder.mkdir()
    whole = stream()
    expected = {}
    for name, learner in models().items():
        trace = learner.learn(whole[:10], ["ndcg@10", "ap"])
        learner.save(folder / f"{name}.json")
        first = learner.predict(whole.X[:8]).tolist()
        learner.learn(whole[10:])
        expected[name] = {"scores": first, "scores after all": learner.predict(whole.X[:8]).tolist()}
    for name, learner in click_models().items():
        path = folder / f"{policy_of(learner).replace(':', '-')}.store"
        if not path.exists():
            pr.write_store(impressions(policy_of(learner)), path)
        log = pr.open_store(path)[:]
        learner.learn(log[:20])
        learner.save(folder / f"{name}.json")
        first = learner.predict(whole.X[:8]).tolist()
        learner.learn(log[20:])
        expected[name] = {"scores": first, "scores after all": learner.predict(whole.X[:8]).tolist()}
    trace.save(folder / "trace.npz")
    expected["trace"] = trace.values("ndcg@10").tolist()
    pr.write_store(whole[:12], folder / "dense.store").append(whole[12:])
    pr.write_store(sparse(), folder / "sparse.store")
    pr.write_parquet(sparse(), folder / "sparse.parquet")
    pr.write_parquet(impressions("fair-pairs"), folder / "clicks.parquet")
    expected["service"] = write_service(folder / "service")
    expected["clicks service"] = write_clicks_service(folder / "clicks-service")
    (folder / "expected.json").write_text(json.dumps(expected))


if __name__ == "__main__":
    write(Path(__file__).parent / pr.__version__)
