"""What wrappers, ensembles, transforms and starts do over a stream of simulated queries."""

from collections.abc import Callable
from typing import Any

import numpy as np

import perceptrank as pr
from perceptrank.learners.learner import Learner

EVERY = 5  # long lines have a point for so many queries


def simulate(targets: np.ndarray, n_documents: int, noise: float, seed: int, scales: Any = 1.0) -> pr.QueryStream:
    """Queries of documents graded 0 to 2 by a target, one for each query, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(len(targets), n_documents, targets.shape[1]))
    heights = np.einsum("qmd,qd->qm", X, targets) + noise * rng.normal(size=X.shape[:2])
    grades = np.digitize(heights, [0.5, 1.3])
    X = (X * scales).reshape(-1, targets.shape[1])
    return pr.QueryStream.from_arrays(X, grades.ravel(), group=[n_documents] * len(targets))


def follow(learner: Learner, stream: pr.QueryStream, watch: Callable[[Learner, Any], Any]) -> list[Any]:
    """Learn query after query; return what was seen after each."""
    seen = []
    for query in stream:
        learner.learn_one(query.X, query.relevance)
        seen.append(watch(learner, query))
    return seen


def degrees_apart(weights: np.ndarray, target: np.ndarray) -> float:
    """The angle between two vectors, a right one if the first is 0."""
    length = np.linalg.norm(weights) * np.linalg.norm(target)
    return round(float(np.degrees(np.arccos(np.clip(weights @ target / length, -1, 1)))), 2) if length > 0 else 90.0


def losses(learner: Learner, stream: pr.QueryStream) -> list[float]:
    """Cumulative loss in NDCG@10, each query ranked before it was learned from."""
    return np.round(np.cumsum(learner.learn(stream, "ndcg@10").losses("ndcg@10")), 3).tolist()


def averaging() -> dict[str, Any]:
    """How far the current weights and their mean point from the target."""
    target = np.array([1.0, 0.0])
    stream = simulate(np.tile(target, (100, 1)), 8, 1.0, seed=3)
    seen = follow(
        pr.ListwisePerceptron(transforms=None),
        stream,
        lambda one, _: (degrees_apart(one.weights, target), degrees_apart(one.coef_, target)),
    )
    current, mean = np.transpose(seen).tolist()
    return {"the current weights": current, "the mean of all weights so far": mean}


def adagrad() -> dict[str, Any]:
    """Losses on features of scales 1 to 100, with and without adapted steps."""
    stream = simulate(np.full((400, 4), 0.5), 8, 0.5, seed=0, scales=np.array([1.0, 5.0, 20.0, 100.0]))
    learner = pr.RankNet(learning_rate=0.1)
    return {"ranknet": losses(learner, stream), "adagrad:ranknet": losses(pr.AdaGrad(learner), stream)}


def fading() -> dict[str, Any]:
    """How far from a target that turns by a right angle the rankings of two learners are."""
    targets = np.repeat([[1.0, 0.0], [0.0, 1.0]], 150, axis=0)
    stream = simulate(targets, 8, 1.0, seed=5)
    learners = {"listwise": pr.ListwisePerceptron(transforms=None)}
    learners["fading:listwise, half_life=30"] = pr.Fading(pr.ListwisePerceptron(transforms=None), half_life=30)
    number = iter(range(2 * len(targets)))
    return {
        name: follow(one, stream, lambda now, _: degrees_apart(now.coef_, targets[next(number) % len(targets)]))
        for name, one in learners.items()
    }


def forgetting() -> dict[str, Any]:
    """Losses on a stream with another target every 1,000 queries, and which copy leads."""
    stream = pr.drifting(3000, period=1000, seed=1)
    learner, leaders, lost = pr.Forgetting(pr.ListwisePerceptron()), [], [0.0]
    copies = ["as it is", "half-life 30", "half-life 100"]
    for start in range(0, len(stream), 4 * EVERY):
        trace = learner.learn(stream[start : start + 4 * EVERY], "ndcg@10")
        lost.append(round(lost[-1] + float(trace.losses("ndcg@10").sum()), 3))
        leaders.append(copies[[one is learner.leader for one in learner.members].index(True)])
    alone = [0.0, *losses(pr.ListwisePerceptron(), stream)[4 * EVERY - 1 :: 4 * EVERY]]
    return {"listwise": alone, "forgetting:listwise": lost, "leaders": leaders}


def tournament() -> dict[str, Any]:
    """Losses of three learning rates and of the tournament over them, and who leads."""
    stream = pr.drifting(600, drift="none", n_documents=10, seed=1)
    rates = [0.1, 0.03, 0.01]
    members = {f"rate {rate:g}": losses(pr.OnlineListNet(rate), stream) for rate in rates}
    contest = pr.Tournament.over(pr.OnlineListNet, learning_rate=rates)
    lost = losses(contest, stream)
    again = pr.Tournament.over(pr.OnlineListNet, learning_rate=rates)
    leaders = follow(again, stream, lambda one, _: f"rate {one.leader.learning_rate:g}")
    best = np.array(min(members.values(), key=lambda values: values[-1]))
    everybody = members | {"the tournament": lost}
    behind = {name: np.round(np.array(values) - best, 3)[::EVERY].tolist() for name, values in everybody.items()}
    return behind | {"leaders": leaders[::EVERY]}


def total() -> dict[str, Any]:
    """The first query, after 40, that the sum ranks far better than both of its learners do."""
    stream = simulate(np.full((200, 8), 0.35), 6, 1.0, seed=4)
    ranker = pr.Sum([pr.ListwisePerceptron(transforms=None), pr.OnlineRidge()])
    for number, query in enumerate(stream):
        if number >= 40 and query.relevance.any():
            scores = [one.predict(query.X) for one in ranker.members]
            scores = [one / spread for one, spread in zip(scores, ranker.spreads_, strict=True)]
            scores.append(ranker.predict(query.X))
            kinds = [np.argsort(-one, kind="stable").tolist() for one in scores]
            worth = [ndcg(query.relevance[order]) for order in kinds]
            if worth[2] > max(worth[:2]) + 0.08:
                break
        ranker.learn_one(query.X, query.relevance)
    return {"grades": query.relevance.astype(int).tolist(), "orders": kinds, "ndcg": worth, "query": number + 1}


def ndcg(grades: np.ndarray) -> float:
    """NDCG of grades in the order of a ranking."""
    gains, discounts = 2.0**grades - 1.0, 1.0 / np.log2(np.arange(2, len(grades) + 2))
    return round(float(gains @ discounts / (np.sort(gains)[::-1] @ discounts)), 4)


def starting() -> dict[str, Any]:
    """Losses of weights that are there, and of learners that start from nothing, from them, and from ten times them."""
    rng = np.random.default_rng(0)
    target, error = rng.normal(size=(2, 20)) / 4
    weights = target + 0.8 * error
    stream = simulate(np.tile(target, (400, 1)), 10, 0.7, seed=2)
    made = {"the weights as they are": losses(pr.FixedRanker(weights), stream)}
    made["from nothing"] = losses(pr.ListwisePerceptron(transforms=None), stream)
    for name, factor in (("from the weights", 1), ("from ten times the weights", 10)):
        made[name] = losses(pr.ListwisePerceptron(transforms=None, initial_weights=factor * weights), stream)
    return {name: values[::EVERY] for name, values in made.items()}


def transforms() -> dict[str, Any]:
    """One feature of a query, one value of it far from the others, as transforms within the query make it."""
    values = np.array([4.0, 5.0, 6.0, 7.0, 9.0, 11.0, 14.0, 60.0])
    made = {"as it is": values.tolist()}
    stream = pr.QueryStream.from_arrays(values[:, None], np.arange(8) % 2, group=[8])
    for name in ("query-minmax", "query-zscore", "query-rank", "query-normal"):
        learner = pr.MinimaxPerceptron(transforms=name)
        learner.learn(stream)
        made[name] = np.round(learner.transforms_[0].transform(stream).X[:, 0], 4).tolist()
    return made


def bins() -> dict[str, Any]:
    """Five hats over a feature, and what is learned of it if neither much nor little of it is wanted."""
    rng = np.random.default_rng(0)
    X = rng.gamma(2.0, 1.0, size=(4000, 1))
    grades = np.digitize(-np.abs(X[:, 0] - 2.0) + 0.3 * rng.normal(size=4000), [-1.0, -0.4])
    stream = pr.QueryStream.from_arrays(X, grades, group=[10] * 400)
    grid = np.linspace(0.0, 6.0, 61)[:, None]
    hats = pr.Bins(5).learn(stream).freeze()
    made = {"grid": grid[:, 0].round(2).tolist(), "edges": np.round(hats.edges[0], 4).tolist()}
    points = pr.QueryStream.from_arrays(grid, np.zeros(len(grid)), group=[len(grid)])
    made["hats"] = np.round(hats.transform(points).X, 3).T.tolist()
    for name in ("running", "bins"):
        ranker = pr.ListwisePerceptron(transforms=name)
        ranker.learn(stream)
        scores = ranker.predict(grid)
        made[name] = np.round((scores - scores.min()) / np.ptp(scores), 3).tolist()
    return made


def trees() -> dict[str, Any]:
    """Losses where a document is good if two features agree, which no linear function tells."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8000, 4))
    grades = np.clip(np.round(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=8000)), 0, 3)
    stream = pr.QueryStream.from_arrays(X, grades, group=[8] * 1000)
    learners = {"listwise": pr.ListwisePerceptron(), "trees:listwise": pr.WithTrees()}
    return {name: losses(one, stream)[::EVERY] for name, one in learners.items()}


STREAMS = {
    "averaging": averaging,
    "adagrad": adagrad,
    "fading": fading,
    "forgetting": forgetting,
    "tournament": tournament,
    "sum": total,
    "starting": starting,
    "transforms": transforms,
    "bins": bins,
    "trees": trees,
}
