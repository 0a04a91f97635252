"""Sums of learners against a plain loop over them, and the ways in which sums and tournaments contain each other."""

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import streams

import perceptrank as pr


def plain():
    return [pr.SlamPerceptron(), pr.ListwisePerceptron(transforms=None), pr.OnlineRidge(5.0, transforms=None)]


def scaled():
    return [pr.ListwisePerceptron(transforms="query-zscore"), pr.OnlineRidge(transforms="query-minmax"), pr.RankNet()]


class TwinSum:
    """The definition: learners one after the other, and the deviations of all their scores in a list each."""

    def __init__(self, learners):
        self.learners, self.spreads = learners, [[] for _ in learners]

    def units(self):
        return [np.mean(found) if found else 1.0 for found in self.spreads]

    def predict(self, X):
        return sum(one.predict(X) / unit for one, unit in zip(self.learners, self.units(), strict=True))

    def learn_one(self, X, relevance):
        for one, found in zip(self.learners, self.spreads, strict=True):
            scores = one.predict(X)
            found.extend([scores.std()] if np.ptp(scores) > 0 else [])
            one.learn_one(X, relevance)


@pytest.mark.kernel
@pytest.mark.parametrize("members", [plain, scaled])
@given(stream=streams())
def test_it_ranks_with_the_sum_of_scores_in_units_of_their_spreads(members, stream):
    ranker, single, twin = pr.Sum(members()), pr.Sum(members()), TwinSum(members())
    trace = ranker.learn(stream, "ndcg")
    for number, query in enumerate(stream):
        expected = twin.predict(query.X)
        np.testing.assert_allclose(single.predict(query.X), expected, rtol=1e-9, atol=1e-9)
        value = pr.NDCG()(expected, query.relevance) if query.relevance.any() else np.nan
        if not np.isclose(value, trace.values("ndcg")[number], equal_nan=True):
            assert np.diff(np.sort(expected)).min() < 1e-9  # scores that differ by rounding only
        twin.learn_one(query.X, query.relevance)
        single.learn_one(query.X, query.relevance)
    np.testing.assert_allclose(ranker.spreads_, twin.units(), rtol=1e-9)
    assert [one.n_updates for one in ranker.members] == [one.n_updates for one in twin.learners]
    assert ranker.n_rounds == len(stream)
    if members is plain:
        weights = [one.coef_ / unit for one, unit in zip(twin.learners, twin.units(), strict=True)]
        np.testing.assert_allclose(ranker.coef_, np.sum(weights, axis=0), rtol=1e-9, atol=1e-12)


def test_by_hand():
    ranker = pr.Sum([pr.MinimaxPerceptron(), pr.MinimaxPerceptron(learning_rate=8.0)])
    ranker.learn_one([[1.0], [0.0]], [1, 0])  # weights 1 and 8; all scores were 0
    assert ranker.spreads_.tolist() == [1.0, 1.0]
    assert ranker.predict([[1.0], [0.0]]).tolist() == [9.0, 0.0]
    ranker.learn_one([[5.0]], [1])  # one document has no spread
    assert ranker.spreads_.tolist() == [1.0, 1.0]
    ranker.learn_one([[6.0], [2.0]], [1, 0])  # scores 6, 2 and 48, 16: deviations of 2 and 16
    assert ranker.spreads_.tolist() == [2.0, 16.0]
    assert ranker.predict([[1.0], [0.0]]).tolist() == [1.0, 0.0]
    assert (ranker.coef_.tolist(), ranker.weights.tolist()) == ([1.0], [1.0])
    ranker.learn_one([[4.0], [2.0]], [1, 0])  # deviations of 1 and 8
    assert ranker.spreads_.tolist() == [1.5, 12.0]
    assert (ranker.n_rounds, ranker.n_updates) == (4, 1)


def test_weights_only_where_there_is_one_vector_of_them():
    stream = pr.separable(20, n_features=4).stream
    shared = pr.Sum(plain(), transforms="running")
    shared.learn(stream)
    np.testing.assert_allclose(
        shared.scores(stream), shared.transforms_[0].apply(stream.X, stream.offsets) @ shared.coef_, atol=1e-5
    )
    each = pr.Sum(scaled())
    each.learn(stream)
    for name in ("coef_", "weights"):
        with pytest.raises(AttributeError, match=r"ListwisePerceptron.*give the transforms to the Sum"):
            getattr(each, name)
    assert not hasattr(pr.Tournament([each]).fit(stream), "coef_")
    assert np.isfinite(each.predict(stream)).all()


def nested():
    return [
        pr.ListwisePerceptron(transforms="running"),
        pr.OnlineRidge(transforms="query-zscore"),
        pr.Sum([pr.ListwisePerceptron(transforms="running"), pr.OnlineRidge(transforms="query-zscore")]),
    ]


@given(stream=streams(), outer=st.sampled_from([None, "query-minmax"]), cut=st.integers(1, 11))
def test_a_tournament_ranks_with_a_sum_that_leads(stream, outer, cut, tmp_path):
    tournament = pr.Tournament(nested(), transforms=outer)
    trace = tournament.learn(stream, "ndcg@10")
    given = stream if outer is None else pr.QueryMinMax().transform(stream)
    learners = nested()
    values = np.array([one.learn(given, "ndcg@10").values("ndcg@10") for one in learners])
    sums = np.cumsum(np.nan_to_num(values), axis=1)
    before = np.column_stack([np.zeros(3), sums[:, :-1]])
    np.testing.assert_array_equal(trace.values("ndcg@10"), values[np.argmax(before, axis=0), np.arange(len(stream))])
    for place, one in enumerate(learners):
        leading = copy.copy(tournament)
        leading.model.more["sums"][:] = np.arange(3) == place
        assert repr(leading.leader) == repr(one)
        np.testing.assert_array_equal(leading.scores(stream), one.scores(given))
        np.testing.assert_array_equal(leading.predict(stream[0].X), one.predict(given[0].X))
    cut = min(cut, len(stream))
    first = pr.Tournament(nested(), transforms=outer)
    first.learn(stream[:cut])
    first.save(tmp_path / "model.json")
    resumed = pr.load(tmp_path / "model.json")
    if cut < len(stream):
        resumed.learn(stream[cut:])
    assert resumed.as_document() == tournament.as_document()


def test_a_sum_of_tournaments_and_sums():
    stream = pr.separable(30, n_features=4, seed=3).stream
    ranker = pr.Sum([pr.Tournament(nested()), pr.Sum(scaled())], transforms="query-minmax")
    assert ranker.learn(stream, "ndcg@10").values("ndcg@10")[15:].mean() > 0.8
    single = pr.Sum([pr.Tournament(nested()), pr.Sum(scaled())], transforms="query-minmax")
    for query in stream:
        single.learn_one(query.X, query.relevance)
    assert single.as_document() == ranker.as_document()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [([], "at least one"), ([1], "learners must be learners, got 1"), (pr.SlamPerceptron(), "list of learners")],
)
def test_wrong_sums(wrong, message):
    with pytest.raises(ValueError, match=message):
        pr.Sum(wrong)


def test_damaged_files_are_refused():
    ranker = pr.Sum()
    ranker.learn(pr.separable(5).stream)
    document = ranker.as_document()
    for name, value in {
        "members": document["members"][:1],
        "state": document["state"] | {"spreads": [1.0]},
    }.items():
        with pytest.raises(ValueError, match=r"members|spreads"):
            pr.Sum.from_document(document | {name: value})
    for name, values in {"spreads": [-1.0, 1.0], "counts": [1.0, -1.0]}.items():
        with pytest.raises(ValueError, match=f"{name} must not be negative"):
            pr.Sum.from_document(document | {"state": document["state"] | {name: values}})
    with pytest.raises(ValueError, match="spreads must be positive where counts are"):
        pr.Sum.from_document(document | {"state": document["state"] | {"spreads": [0.0, 1.0]}})


def test_features_that_are_wrong_are_named():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"price": [1.0, 0.0], "age": [0.0, 1.0]})
    for ranker in (pr.Sum(), pr.Tournament([pr.SlamPerceptron()])):
        ranker.learn_one(frame, [1, 0])
        with pytest.raises(ValueError, match="'age'"):
            ranker.predict(frame.assign(age=np.nan))


def test_it_is_better_than_its_parts_where_they_differ():
    """Listwise and ridge are level on this noise; their sum is ahead of both."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(6000, 30))
    hidden = X @ rng.normal(size=30) / 4 + 1.5 * rng.standard_t(3, size=6000)
    stream = pr.QueryStream.from_arrays(X, np.clip(np.round(hidden), 0, 4), group=[10] * 600)
    alone = [
        one.learn(stream, "ndcg@10").mean("ndcg@10")
        for one in (pr.ListwisePerceptron(transforms=None), pr.OnlineRidge())
    ]
    assert pr.Sum(transforms=[]).learn(stream, "ndcg@10").mean("ndcg@10") > max(alone)
