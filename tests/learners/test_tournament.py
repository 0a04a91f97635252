"""Tournaments against a plain loop over their learners, and Hedge's guarantee."""

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import streams

import perceptrank as pr
from perceptrank.theory import bounds


def rivals():
    return [pr.SlamPerceptron(learning_rate=0.01), pr.ListwisePerceptron(), pr.MinimaxPerceptron(), pr.RankNet()]


@given(stream=streams(), measure=st.sampled_from(["ndcg@10", "ap", "ndcg@2"]))
def test_it_ranks_with_the_one_that_has_done_best(stream, measure):
    learners = rivals()
    tournament = pr.Tournament(rivals(), measure=measure)
    trace = tournament.learn(stream, measure)
    judge, sums, expected = pr.parse(measure), np.zeros(4), []
    for query in stream:
        values = [judge(one.predict(query.X), query.relevance) for one in learners]
        expected.append(values[int(np.argmax(sums))])
        if not np.isnan(values[0]):
            sums += values
        for one in learners:
            one.learn_one(query.X, query.relevance)
    np.testing.assert_array_equal(trace.values(measure), expected)
    best = learners[int(np.argmax(sums))]
    assert repr(tournament.leader) == repr(best)
    np.testing.assert_array_equal(tournament.coef_, best.coef_)
    np.testing.assert_array_equal(tournament.weights, best.weights)
    assert [one.n_updates for one in tournament.members] == [one.n_updates for one in learners]
    assert tournament.n_updates == best.n_updates


def test_what_it_is_judged_by_cannot_be_changed():
    tournament = pr.Tournament()
    with pytest.raises(AttributeError, match="this Tournament has not learned"):
        tournament.coef_  # noqa: B018
    tournament.learn(pr.separable(5).stream)
    with pytest.raises(ValueError, match="measure cannot be changed"):
        tournament.measure = "ap"


def test_by_default_its_learners_learn_what_they_are_judged_by():
    tournament = pr.Tournament(measure="ap")
    listwise, _, both = tournament.members
    assert {listwise.measure, both.members[0].measure} == {"ap"}
    tournament.measure = "ndcg@5"
    listwise, _, both = tournament.members
    assert {listwise.measure, both.members[0].measure} == {"ndcg"}


def scaled_rivals():
    return [pr.ListwisePerceptron(transforms=one) for one in (None, "query-zscore", ["query-minmax", "running"])]


@given(stream=streams(), outer=st.sampled_from([None, "query-minmax"]))
def test_learners_may_scale_features_each_in_its_way(stream, outer):
    tournament = pr.Tournament(scaled_rivals(), transforms=outer)
    trace = tournament.learn(stream, "ndcg@10")
    given = stream if outer is None else pr.QueryMinMax().transform(stream)
    learners = scaled_rivals()
    values = np.array([one.learn(given, "ndcg@10").values("ndcg@10") for one in learners])
    sums = np.cumsum(np.nan_to_num(values), axis=1)
    before = np.column_stack([np.zeros(3), sums[:, :-1]])
    expected = values[np.argmax(before, axis=0), np.arange(len(stream))]
    np.testing.assert_array_equal(trace.values("ndcg@10"), expected)
    best = learners[int(np.argmax(sums[:, -1]))]
    assert repr(tournament.leader) == repr(best)
    np.testing.assert_array_equal(tournament.scores(stream), best.scores(given))
    np.testing.assert_array_equal(tournament.predict(stream[0].X), best.predict(given[0].X))
    assert len(tournament.transforms_) == (outer is not None) + len(best.transforms_)


@pytest.mark.filterwarnings("ignore:features differ in spread")
def test_the_default_copes_with_features_as_they_come():
    """Features of very different sizes, and each query on a level of its own."""
    stream = pr.separable(200, margin=0.3, seed=4).stream
    rng = np.random.default_rng(0)
    levels = np.repeat(rng.normal(size=(200, stream.n_features)), np.diff(stream.offsets), axis=0)
    raw = stream.with_features((stream.X + 3 * levels) * np.logspace(-3, 5, stream.n_features))
    alone = pr.ListwisePerceptron(transforms=None).learn(raw, "ndcg@10").mean("ndcg@10")
    for ranker in (pr.Tournament(), pr.ListwisePerceptron(transforms="auto")):
        assert ranker.learn(raw, "ndcg@10").mean("ndcg@10") > alone + 0.05


def test_an_interrupted_tournament_forgets_what_its_learners_transforms_saw():
    stream = pr.separable(30, seed=1).stream
    tournament, undisturbed = pr.Tournament(), pr.Tournament()
    tournament.learn(stream[:10])
    with pytest.raises(ValueError, match=r"NaN|infinite|finite"):
        tournament.learn_one(np.full((2, stream.n_features), np.inf), [0, 1])
    with pytest.raises(ValueError, match=r"NaN|infinite|finite|overflow"):
        tournament.learn_one(np.full((2, stream.n_features), 1e300), np.array([0.0, np.nan]))
    tournament.learn(stream[10:])
    undisturbed.learn(stream)
    assert tournament.as_document() == undisturbed.as_document()


def test_hedge_draws_with_its_chances():
    """After a round that one of two learners won by 1, chances are 1 : exp(-rate), rate = sqrt(8 ln 2 / 2)."""
    tournament = pr.Tournament([pr.SlamPerceptron(), pr.SlamPerceptron()], strategy="hedge")
    rounds = np.arange(20_000)
    sums = np.array([[1.0], [0.0]]) * np.ones(len(rounds))
    drawn = tournament.model.choices(sums, np.ones(len(rounds), dtype=int), rounds)
    chance = 1 / (1 + np.exp(-np.sqrt(8 * np.log(2) / 2)))
    assert (drawn == 0).mean() == pytest.approx(chance, abs=4 * np.sqrt(chance * (1 - chance) / len(rounds)))
    np.testing.assert_array_equal(drawn, tournament.model.choices(sums, np.ones(len(rounds), dtype=int), rounds))


@given(seed=st.integers(0, 10**6))
def test_hedge_keeps_its_guarantee(seed):
    """In expectation, taken exactly from the chances, against learners that change places."""
    rng = np.random.default_rng(seed)
    n, rounds = 4, 300
    losses = rng.random((n, rounds)) * (rng.random((n, 1)) < 0.7)
    losses[:, rng.random(rounds) < 0.3] = rng.random((n, 1))
    total, expected = np.zeros(n), 0.0
    for t in range(1, rounds + 1):
        exponents = -np.sqrt(8 * np.log(n) / t) * (total - total.min())
        chances = np.exp(exponents) / np.exp(exponents).sum()
        expected += chances @ losses[:, t - 1]
        total += losses[:, t - 1]
    assert expected - total.min() <= bounds.hedge(n_learners=n, n_queries=rounds)


@given(seed=st.integers(0, 10**6), n=st.integers(1, 6), rate=st.sampled_from([0.1, 1.0, 5.0]))
def test_hedge_with_a_fixed_rate_keeps_its_guarantee(seed, n, rate):
    """The expected loss, taken exactly from its own chances: on average over draws that fill the unit interval."""
    rng = np.random.default_rng(seed)
    losses = rng.random((n, 80)) ** rng.choice([0.1, 1, 8], (n, 1)) * (rng.random((n, 80)) < rng.random((n, 1)))
    losses[rng.integers(n), 10:] = 0.0
    before = np.cumsum(np.column_stack([np.zeros(n), losses]), axis=1)[:, :-1]
    chances = np.exp(-rate * (before - before.min(axis=0)))
    expected = (chances / chances.sum(axis=0) * losses).sum()
    assert expected <= bounds.hedge(n_learners=n, rate=rate, best_loss=losses.sum(axis=1).min()) + 1e-9


def test_hedge_with_a_fixed_rate_draws_with_its_chances():
    """After rounds that one of two learners won by 3 in sum, chances are 1 : exp(-3/2), in whatever round."""
    tournament = pr.Tournament([pr.SlamPerceptron(), pr.SlamPerceptron()], strategy="hedge", rate=0.5)
    rounds = np.arange(20_000)
    drawn = tournament.model.choices(np.array([[3.0], [0.0]]) * np.ones(len(rounds)), rounds, rounds)
    chance = 1 / (1 + np.exp(-1.5))
    assert (drawn == 0).mean() == pytest.approx(chance, abs=4 * np.sqrt(chance * (1 - chance) / len(rounds)))


def test_a_fixed_rate_stops_losing_on_a_separable_stream():
    """One learner knows everything: with a fixed rate what the other costs is bounded, with the default it grows."""
    losses = np.array([[1.0], [0.0]]) * np.ones((2, 20_000))
    sums, rounds = np.cumsum(np.column_stack([np.zeros(2), 1 - losses]), axis=1)[:, :-1], np.arange(20_000)
    fixed = pr.Tournament([pr.SlamPerceptron()] * 2, strategy="hedge", rate=1.0)
    assert losses[fixed.model.choices(sums, rounds, rounds), rounds].sum() <= 8
    assert bounds.hedge(n_learners=2, rate=1.0, best_loss=0.0) == pytest.approx(np.log(2) / (1 - np.exp(-1)))
    assert bounds.hedge(n_learners=2, n_queries=20_000) > 100


def test_a_fixed_rate_is_saved_and_others_are_not(tmp_path):
    stream = pr.separable(30, seed=1).stream
    plain, fixed = (pr.Tournament(rivals(), strategy="hedge", rate=rate) for rate in (None, 2.0))
    assert plain.as_document()["parameters"]["rate"] is None
    fixed.learn(stream[:10])
    fixed.save(tmp_path / "m.json")
    again = pr.load(tmp_path / "m.json")
    assert again.rate == 2.0
    again.learn(stream[10:])
    fixed.learn(stream[10:])
    assert again.as_document() == fixed.as_document()
    assert "exp(-η)" in fixed.theorem.statement
    for wrong in (0, -1.0, "1", np.nan):
        with pytest.raises(ValueError, match="rate must be a number > 0"):
            pr.Tournament(strategy="hedge", rate=wrong)


@pytest.mark.parametrize(
    "given", [{}, {"n_queries": 5, "best_loss": 1.0}, {"rate": 1.0}, {"rate": 1.0, "n_queries": 5}]
)
def test_a_bound_of_hedge_is_of_one_kind(given):
    with pytest.raises(ValueError, match="give n_queries, or rate and best_loss"):
        bounds.hedge(n_learners=2, **given)


@given(seed=st.integers(0, 10**6), n=st.integers(1, 5), rounds=st.integers(1, 60))
def test_the_leader_keeps_its_guarantee(seed, n, rounds):
    rng = np.random.default_rng(seed)
    losses = rng.random((n, rounds)) ** rng.choice([0.1, 1, 8], (n, 1)) * (rng.random((n, rounds)) < rng.random((n, 1)))
    losses[:, rng.random(rounds) < 0.2] = 1.0
    assert lost_by_leader(losses) <= bounds.leader(n_learners=n, best_loss=losses.sum(axis=1).min()) + 1e-9


@pytest.mark.parametrize(("n", "best"), [(1, 4), (2, 0), (3, 5), (7, 2)])
def test_the_leaders_guarantee_is_attained(n, best):
    losses, total = np.zeros((n, n * best + n - 1)), np.zeros(n)
    for t in range(losses.shape[1]):
        losses[np.argmin(total), t] = 1.0
        total += losses[:, t]
    assert total.min() == best
    assert lost_by_leader(losses) == bounds.leader(n_learners=n, best_loss=best)


def lost_by_leader(losses):
    """The loss of a tournament whose learners have these losses, round by round; rounds are chosen by its own code."""
    tournament = pr.Tournament([pr.SlamPerceptron()] * len(losses))
    sums = np.cumsum(np.column_stack([np.zeros(len(losses)), 1 - losses]), axis=1)[:, :-1]
    rounds = np.arange(losses.shape[1])
    return losses[tournament.model.choices(sums, rounds, rounds), rounds].sum()


def test_the_theorem_is_that_of_the_strategy():
    assert "N L*" in pr.Tournament().theorem.statement
    assert "hedge" in pr.Tournament(strategy="hedge").theorem.statement


def test_over_takes_all_combinations():
    tournament = pr.Tournament.over(
        pr.ListwisePerceptron,
        relative_margin=[0, 1, 2],
        measure=["ndcg", "ap"],
        tournament={"measure": "ap", "strategy": "hedge"},
    )
    assert len(tournament.learners) == 6
    assert {(one.relative_margin, one.measure) for one in tournament.learners} == {
        (margin, measure) for margin in (0, 1, 2) for measure in ("ndcg", "ap")
    }
    assert (tournament.measure, tournament.strategy) == ("ap", "hedge")
    for wrong in (1.0, "ndcg"):
        with pytest.raises(TypeError, match="measure must be a list"):
            pr.Tournament.over(pr.ListwisePerceptron, measure=wrong)


def test_settings_take_part_and_what_was_learned_before_does_not(tmp_path):
    stream = pr.separable(30, n_features=5, seed=1).stream
    trained = pr.SlamPerceptron(learning_rate=0.5)
    trained.learn(stream)
    tournament = pr.Tournament([trained, pr.MinimaxPerceptron()])
    assert tournament.members[0].n_queries == 0
    tournament.learn(stream)
    assert trained.n_queries == 30
    tournament.save(tmp_path / "model.json")
    loaded = pr.load(tmp_path / "model.json")
    assert [repr(one) for one in loaded.learners] == [repr(one) for one in tournament.learners]
    assert loaded.as_document() == loaded.__copy__().as_document()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"learners": []}, "at least one"),
        ({"learners": [1]}, "learners must be learners"),
        ({"learners": pr.SlamPerceptron()}, "list of learners"),
        ({"learners": [pr.Tournament()]}, "other than tournaments"),
        ({"strategy": "best"}, "strategy"),
        ({"measure": "best"}, "best"),
        ({"seed": -1}, "seed"),
    ],
)
def test_wrong_tournaments(wrong, message):
    with pytest.raises(ValueError, match=message):
        pr.Tournament(**wrong)


def test_damaged_files_are_refused(tmp_path):
    tournament = pr.Tournament([pr.ListwisePerceptron(), pr.SlamPerceptron(), pr.RankNet()])
    tournament.learn(pr.separable(5).stream)
    document = tournament.as_document()
    narrow = copy.deepcopy(document["members"])
    narrow[1]["state"] |= {"weights": [0.0], "total": [0.0]}
    unlearned = copy.deepcopy(document["members"])
    unlearned[0]["state"] = None
    for name, values in {
        "members": [document["members"][:1], narrow, unlearned],
        "state": [document["state"] | {"sums": [1.0]}, document["state"] | {"judged": ["x"]}],
        "feature_names": [["a"], "abc"],
    }.items():
        for value in values:
            with pytest.raises(ValueError, match=r"members|sums|judged|feature"):
                pr.Tournament.from_document(document | {name: value})


def test_learners_set_before_learning_take_part_and_scaling_set_later_waits():
    stream = pr.separable(20, n_features=4).stream
    tournament = pr.Tournament()
    tournament.learners = [pr.SlamPerceptron()]
    assert [type(one) for one in tournament.members] == [pr.SlamPerceptron]
    scaled = pr.Tournament(transforms="running")
    scaled.learn(stream)
    before = scaled.predict(stream)
    scaled.set_params(transforms="running")
    np.testing.assert_array_equal(scaled.predict(stream), before)


def test_a_list_that_is_changed_later_does_no_harm(tmp_path):
    given = [pr.SlamPerceptron(), pr.RankNet()]
    tournament = pr.Tournament(given)
    tournament.learn(pr.separable(5).stream)
    given.append(pr.Perceptron())
    tournament.save(tmp_path / "model.json")
    assert len(pr.load(tmp_path / "model.json").members) == 2


def test_the_judge_checks_grades_too():
    tournament = pr.Tournament(measure="err")
    with pytest.raises(ValueError, match="max_grade"):
        tournament.learn_one(np.eye(3), [0, 1, 50])
    assert tournament.n_queries == 0
