"""Learners of grades that start from another ranker, whose score is one more feature."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import examples, streams

import perceptrank as pr

NAMES = ("title", "price", "stock")
WEIGHTS = {"title": 1.0, "stock": -2.0}
NOW = pr.FixedRanker(WEIGHTS)
KINDS = [kind for kind in pr.algorithms().values() if "production" in kind.parameter_names]


def stream(n_queries=30, seed=0, sparse=False):
    """Features with ties, and scales that are far apart."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n_queries * 6, 3)), 1) * [1.0, 1000.0, 1.0]
    grades = np.clip(np.round(X @ [1.0, 0.001, 0.5] + 1.0), 0, 3)
    made = pr.QueryStream.from_arrays(X, grades, group=[6] * n_queries, feature_names=NAMES)
    return made.to_sparse() if sparse else made


def order_and_ties(scores):
    """Signs of all differences between scores of a query."""
    return np.sign(scores[:, None] - scores[None, :])


def test_list_learners_start_from_a_score():
    assert {"listwise", "slam", "listnet", "category-ranking", "minimax"} <= {kind.algorithm for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("transforms", ["auto", "running", []])
def test_the_first_query_is_ranked_as_today_with_its_ties(kind, transforms):
    queries = stream(1)
    learner = kind(production="score", transforms=[pr.ScoreOf(NOW), *([transforms] if transforms else [])])
    expected = order_and_ties(NOW.scores(queries))
    if transforms != "running":  # which has no spread yet
        assert np.array_equal(order_and_ties(learner.scores(queries)), expected)  # before anything was learned
    trace = learner.learn(queries, "ndcg@3")
    assert trace.mean("ndcg@3") == NOW.learn(queries, "ndcg@3").mean("ndcg@3")


@pytest.mark.parametrize("transforms", ["auto", "running-spread"])
def test_sparse_features_too(transforms):
    whole = stream(sparse=True)
    learner = pr.ListwisePerceptron(production="score", transforms=[pr.ScoreOf(NOW), transforms])
    values = learner.learn(whole, "ndcg@3").values("ndcg@3")
    assert values[0] == NOW.learn(whole, "ndcg@3").values("ndcg@3")[0]
    dense = pr.ListwisePerceptron(production="score", transforms=[pr.ScoreOf(NOW), "running-spread"])
    dense.learn(whole.to_dense())
    np.testing.assert_allclose(learner.scores(whole), dense.scores(whole.to_dense()), rtol=1e-6)


def test_the_start_weight_is_in_units_of_steps():
    """√8 times the learning rate, on the z-score of the score; rankings do not depend on the rate."""
    whole = stream()
    same = pr.QueryStream(whole.X[:6], np.ones(6), np.array([0, 6]), feature_names=NAMES)  # teaches nothing
    learned = []
    for rate in (0.25, 1.0, 64.0):
        learner = pr.ListwisePerceptron(production="score", transforms=[pr.ScoreOf(NOW), "auto"], learning_rate=rate)
        learner.learn(same)
        assert learner.weights.tolist() == [0.0, 0.0, 0.0, rate * np.sqrt(8), 0.0, 0.0, 0.0, 0.0]
        learner.learn(whole)
        learned.append((learner.weights / rate).tolist())
    assert learned[0] == learned[1] == learned[2]


def test_blocks_single_queries_and_a_saved_model_agree_to_the_bit(tmp_path):
    whole = stream()
    make = lambda: pr.ListwisePerceptron(production="score", transforms=[pr.ScoreOf(NOW), "auto"])  # noqa: E731
    at_once, one_by_one, resumed = make(), make(), make()
    at_once.learn(whole)
    for query in whole:
        one_by_one.learn(pr.QueryStream.concatenate([whole[int(query.qid) : int(query.qid) + 1]]))
    resumed.learn(whole[:10])
    resumed.save(tmp_path / "model.json")
    resumed = pr.load(tmp_path / "model.json")
    resumed.learn(whole[10:])
    assert at_once.weights.tobytes() == one_by_one.weights.tobytes() == resumed.weights.tobytes()


def test_a_column_of_the_data_may_have_the_score():
    whole = stream()
    column = pr.ListwisePerceptron(production="price")
    assert np.array_equal(order_and_ties(column.scores(whole[:1])), order_and_ties(whole.X[:6, 1]))
    by_number = pr.ListwisePerceptron(production=1)
    column.learn(whole), by_number.learn(whole)
    assert column.weights.tobytes() == by_number.weights.tobytes()


def test_wrappers_start_as_their_learner():
    first = stream(1)
    inner = pr.ListwisePerceptron(production="score", transforms=[pr.ScoreOf(NOW), "auto"])
    for learner in (inner, pr.AdaGrad(inner), pr.Fading(inner), pr.WithTrees(inner), pr.Forgetting(inner)):
        assert np.array_equal(order_and_ties(learner.scores(first)), order_and_ties(NOW.scores(first))), learner
    fades = pr.Fading(pr.ListwisePerceptron(production=0, average=False))
    assert fades.theorem.starts


def test_constraints_are_those_of_the_features():
    learner = pr.ListwisePerceptron(
        production="score", transforms=[pr.ScoreOf(NOW), "auto"], positive=["title"], zero=["price"]
    )
    learner.learn(stream())
    weights = learner.weights.reshape(2, 4)  # z-scores, then normal scores
    assert (weights[:, 0] >= 0).all()
    assert (weights[:, 1] == 0).all()
    assert weights[0, 3] not in (0.0, np.sqrt(8))
    with pytest.raises(ValueError, match="must not be among"):
        pr.ListwisePerceptron(production="title", negative=["title"]).learn(stream())


def test_wrong_starts():
    with pytest.raises(ValueError, match="give production or initial_weights, not both"):
        pr.ListwisePerceptron(production="title", initial_weights={"title": 1.0})
    with pytest.raises(ValueError, match="production must name a feature"):
        pr.SlamPerceptron(production=1.5)
    with pytest.raises(ValueError, match="`production` names unknown features 'score'"):
        pr.ListwisePerceptron(production="score").learn(stream())
    learner = pr.ListwisePerceptron(production="title")
    learner.learn(stream())
    with pytest.raises(ValueError, match="production cannot be changed once something was learned"):
        learner.set_params(production="price")
    with pytest.raises(ValueError, match="`production` needs outputs that rise with the score"):
        pr.ListwisePerceptron(production=0, transforms="bins:kind=one-hot").learn(stream())


LEARNERS = st.sampled_from(
    [
        lambda: pr.ListwisePerceptron(average=False, transforms=None, production=0, learning_rate=0.3),
        lambda: pr.ListwisePerceptron("ap", violators="top", average=False, transforms=None, production=0),
        lambda: pr.SlamPerceptron("ndcg", learning_rate=0.2, margin=0.7, production=0),
        lambda: pr.MinimaxPerceptron("ndcg", learning_rate=2.0, production=0),
    ]
)


@examples(3)
@given(data=streams(), make=LEARNERS, scale=st.sampled_from([0.1, 1.0, 10.0]), seed=st.integers(0, 10**6))
def test_the_bound_against_the_score_and_against_every_ranker(data, make, scale, seed):
    """Theorem S from w₁ = η √n e: S - L + √n u₀ ≤ U √(n + C S), and S ≤ L 2q / (2q - C) for u = (√n / q) e."""
    learner = make()
    measure = getattr(learner, "measure", "ndcg")
    with pytest.raises(ValueError, match="depends on the features and transforms: learn first"):
        learner.guarantee(margin=1.0, diameter=1.0)
    learner.learn(data, measure)
    S = learner.model.counts.mass
    theorem = learner.theorem
    assert theorem.starts
    C = theorem.of_moved.factor * pr.theory.diameter(data, measure) ** 2 + theorem.of_moved.offset
    n, e = data.n_features, np.eye(data.n_features)[0]
    rng = np.random.default_rng(seed)
    for u in (scale * e, -scale * e, scale * rng.normal(size=data.n_features)):
        L = pr.theory.cumulative_surrogate(u, data, measure, surrogate=theorem.surrogate)
        assert S - L + np.sqrt(n) * u[0] <= np.linalg.norm(u) * np.sqrt(n + C * S) * (1 + 1e-9) + 1e-9
    for q in (0.6 * C, C, 10 * C):
        if q > 0:
            L = pr.theory.cumulative_surrogate(np.sqrt(n) / q * e, data, measure, surrogate=theorem.surrogate)
            assert L * 2 * q / (2 * q - C) * (1 + 1e-9) + 1e-9 >= S
