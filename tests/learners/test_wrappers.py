"""AdaGrad and bagging around other learners; what every learner must pass is in test_learners.py."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.learners import all_wrapped
from support.strategies import streams

import perceptrank as pr
from perceptrank.learners.wrappers.bagging import draw_repeats


def test_the_wrappers_are_not_among_the_algorithms():
    known = {"adagrad": pr.AdaGrad, "bagging": pr.Bagging, "fading": pr.Fading, "forgetting": pr.Forgetting}
    known["trees"] = pr.WithTrees
    assert pr.wrappers() == known
    assert not set(pr.wrappers()) & set(pr.algorithms())


MARGINS = pr.Tournament.over(pr.ListwisePerceptron, relative_margin=[0.5, 1], transforms=[None])
WRAPPED = {name: make for wrapper in pr.wrappers().values() for name, make in all_wrapped(wrapper).items()}
WRAPPED["bagging:tournament"] = lambda: pr.Bagging(MARGINS, n_members=3)


@pytest.mark.kernel
@pytest.mark.parametrize("make", WRAPPED.values(), ids=WRAPPED)
def test_around_every_learner(make, tmp_path):
    """In one go, query by query, and stopped, saved and resumed, it learns the same; and it learns something."""
    stream = pr.separable(40, n_documents=6, n_features=3, seed=1).stream
    whole, single, resumed = make(), make(), make()
    trace = whole.learn(stream, "ap")
    for query in stream:
        single.learn_one(query.X, query.relevance)
    resumed.learn(stream[:15])
    resumed.save(tmp_path / "model.json")
    resumed = pr.load(tmp_path / "model.json")
    resumed.learn(stream[15:])
    assert whole.as_document() == single.as_document() == resumed.as_document()
    assert trace.values("ap")[20:].mean() > 0.7


# AdaGrad


def test_adagrad_by_hand():
    diagonal, norm = pr.AdaGrad(pr.RankNet(1.0)), pr.AdaGrad(pr.RankNet(1.0), steps="norm")
    for learner in (diagonal, norm):
        learner.learn_one([[6.0, 8.0], [0.0, 0.0]], [1, 0])  # the gradient is half of (6, 8)
    np.testing.assert_allclose(diagonal.weights, [1.0, 1.0])
    np.testing.assert_allclose(norm.weights, [0.6, 0.8])
    for learner in (diagonal, norm):
        learner.learn_one([[0.0, 0.0], [0.0, 1.0]], [1, 0])
    wrong = 1 / (1 + np.exp(-1.0))  # the lead of the wrong document is 1
    np.testing.assert_allclose(diagonal.weights, [1.0, 1 - wrong / np.sqrt(16 + wrong**2)])
    wrong = 1 / (1 + np.exp(-0.8))
    np.testing.assert_allclose(norm.weights, [0.6, 0.8 - wrong / np.sqrt(25 + wrong**2)])


def test_adagrad_around_learners_of_single_documents_by_hand():
    perceptron = pr.AdaGrad(pr.Perceptron(0.5))
    perceptron.learn_one([[3.0]], [1])  # squares 9, step 3/3
    perceptron.learn_one([[4.0]], [0])  # a mistake: squares 25, step -4/5
    np.testing.assert_allclose(perceptron.weights, [0.5 * (1 - 0.8)])
    committee = pr.AdaGrad(pr.CommitteePerceptron(2), steps="norm")
    committee.learn_one([[3.0], [0.0]], [1, 0])  # a step of 3/3
    committee.learn_one([[1.0], [0.0]], [1, 0])  # right once
    committee.learn_one([[0.0], [4.0]], [1, 0])  # wrong: 1 joins with one success; a step of -4/5
    np.testing.assert_allclose(committee.weights, [0.2])
    np.testing.assert_allclose(committee.coef_, [1.0])


@given(seed=st.integers(0, 10**6), exponent=st.integers(-8, 20), steps=st.sampled_from(["diagonal", "norm"]))
def test_adagrad_around_the_listwise_perceptron_does_not_depend_on_scale_or_rate(seed, exponent, steps):
    """But for the smallest root, 1e-10, which is far below all steps, also short ones, if features are large."""
    rng = np.random.default_rng(seed)
    X, grades = 2.0**20 * rng.normal(size=(90, 3)), rng.integers(0, 4, size=90)
    stream = pr.QueryStream.from_arrays(X, grades, group=[6] * 15)
    plain = pr.AdaGrad(pr.ListwisePerceptron(), steps=steps)
    scaled = pr.AdaGrad(pr.ListwisePerceptron(learning_rate=4.0), steps=steps)
    plain.learn(stream)
    scaled.learn(stream.with_features(stream.X * 2.0**exponent))
    assert scaled.n_updates == plain.n_updates
    np.testing.assert_allclose(scaled.coef_, 4 * plain.coef_, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rate", [0.001, 0.01, 0.1, 1.0])
def test_rare_features_learn_faster(rate):
    """Two features that say the same; the second is there in one query of twenty."""
    common, rare = [[1.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]]
    stream = pr.QueryStream.from_arrays(
        np.vstack(([common] * 19 + [rare]) * 20).reshape(-1, 2), [1, 0] * 400, group=[2] * 400
    )
    constant, adaptive, whole = (
        pr.RankNet(rate),
        pr.AdaGrad(pr.RankNet(rate)),
        pr.AdaGrad(pr.RankNet(rate), steps="norm"),
    )
    for learner in (constant, adaptive, whole):
        learner.learn(stream)
    parts = [one.weights[1] / one.weights[0] for one in (constant, adaptive, whole)]
    assert parts[1] > 1.05 * max(parts[0], parts[2])


def test_adagrad_takes_average_scaling_and_measure_from_its_learner():
    inner = pr.SlamPerceptron("ap", average=True, transforms="running")
    learner = pr.AdaGrad(inner)
    assert (learner.average, learner.transforms, learner.name) == (True, "running", "adagrad:slam")
    assert [str(measure) for measure in learner.learn(pr.separable(5).stream).measures] == ["ap"]
    assert len(learner.transforms_) == 1
    assert inner.n_queries == 0
    with pytest.raises(ValueError, match="adagrad has no theorem"):
        learner.guarantee(radius=1.0, margin=1.0)


@pytest.mark.parametrize("inner", [pr.SolarI(), pr.PRank(), pr.Tournament(), pr.AdaGrad(pr.RankNet()), "slam", None])
def test_adagrad_needs_a_learner_with_a_rate(inner):
    with pytest.raises(ValueError, match="learner must be"):
        pr.AdaGrad(inner)
    with pytest.raises(ValueError, match=r"steps must be one of 'diagonal', 'norm', got 'full'"):
        pr.AdaGrad(pr.RankNet(), steps="full")


# Bagging


def test_repeats_are_drawn_from_the_poisson_distribution():
    repeats = draw_repeats(3, 0, 20000, 5)
    assert np.array_equal(draw_repeats(3, 100, 50, 5), repeats[100:150])
    assert not np.array_equal(draw_repeats(4, 0, 100, 5), repeats[:100])
    for value, chance in enumerate([0.367879, 0.367879, 0.183940, 0.061313, 0.015328]):
        deviation = np.sqrt(chance * (1 - chance) / 20000)
        assert np.abs((repeats == value).mean(axis=0) - chance).max() < 4 * deviation
    correlations = np.corrcoef(repeats.T)[~np.eye(5, dtype=bool)]
    assert np.abs(correlations).max() < 4 / np.sqrt(20000)


@pytest.mark.kernel
@pytest.mark.parametrize("inner", [pr.ListwisePerceptron("ap", transforms=None), pr.OnlineListNet(0.1), MARGINS])
@given(stream=streams(), members=st.integers(1, 4), seed=st.integers(0, 99))
def test_bagging_is_what_its_definition_says(inner, stream, members, seed):
    learner = pr.Bagging(inner, n_members=members, seed=seed)
    trace = learner.learn(stream, "ndcg")
    twins = [type(inner)(**inner.get_params(deep=False)) for _ in range(members)]
    for number, query in enumerate(stream):
        mean = np.mean([twin.predict(query.X) for twin in twins], axis=0)
        value = pr.NDCG()(mean, query.relevance) if query.relevance.any() else np.nan
        if not np.isclose(value, trace.values("ndcg")[number], equal_nan=True):
            assert np.diff(np.sort(mean)).min() < 1e-9  # scores that differ by rounding only
        for twin, times in zip(twins, draw_repeats(seed, number, 1, members)[0], strict=True):
            for _ in range(times):
                twin.learn_one(query.X, query.relevance)
    learned = [twin.coef_ if twin.n_queries else np.zeros(stream.n_features) for twin in twins]
    np.testing.assert_allclose(learner.coef_, np.mean(learned, axis=0), rtol=1e-12, atol=1e-15)
    assert [one.n_queries for one in learner.members] == [one.n_queries for one in twins]


def test_bagging_by_hand():
    learner = pr.Bagging(pr.MinimaxPerceptron(), n_members=4, seed=1)
    draws = draw_repeats(1, 0, 2, 4)
    assert (draws == 0).any()  # someone does not learn
    learner.learn_one([[1.0], [0.0]], [1, 0])  # whoever learns goes to 1, once: then all is right
    assert learner.coef_[0] == np.mean(draws[0] > 0)
    learner.learn_one([[0.0], [3.0]], [1, 0])
    moved = [(3 if times else 0) for times in draws[1]]
    assert learner.coef_[0] == np.mean([(1 if first else 0) - 3 * (then > 0) for first, then in draws.T.tolist()])
    assert learner.n_updates == 1 + any(moved)


def test_members_have_seeds_of_their_own():
    largest = pr.Bagging(pr.CommitteePerceptron(seed=2**63 - 1), n_members=3, seed=2**63 - 1)
    assert len({one.seed for one in largest.members}) == 3
    wrapped = pr.Bagging(pr.AdaGrad(pr.CommitteePerceptron(seed=3)), n_members=3)
    assert len({one.learner.seed for one in wrapped.members}) == 3
    nested = pr.Bagging(pr.Bagging(pr.SlamPerceptron(), n_members=2, seed=7), n_members=3, seed=7)
    assert len({one.seed for one in nested.members} | {7}) == 4


def test_bagging_refuses_what_cannot_be():
    with pytest.raises(ValueError, match="learner must be a learner, got 'slam'"):
        pr.Bagging("slam")
    with pytest.raises(ValueError, match="n_members must be"):
        pr.Bagging(pr.RankNet(), n_members=0)
    with pytest.raises(MemoryError, match="1000000000 members takes"):
        pr.Bagging(pr.RankNet(), n_members=10**9)
    many = pr.Bagging(pr.Opauc(), n_members=10**3)
    with pytest.raises(MemoryError, match="1000 members takes"):
        many.learn_one(np.ones((2, 3000)), [0, 1])
    with pytest.raises(ValueError, match=r"transforms of their own.*give transforms to Bagging"):
        pr.Bagging(pr.Tournament([pr.ListwisePerceptron(transforms="auto")]))
    pr.Bagging(pr.RankNet(transforms=[]))
    with pytest.raises(MemoryError, match="1000000 members takes"):
        pr.Bagging(pr.Bagging(pr.RankNet(), n_members=10**3), n_members=10**6)
    with pytest.raises(MemoryError, match="members takes"):
        pr.Bagging(pr.RankNet(), n_members=10**400)


def test_a_grade_that_is_wrong_is_noticed_even_if_no_member_learns_from_it():
    seed = next(seed for seed in range(99) if draw_repeats(seed, 0, 1, 1)[0, 0] == 0)
    learner = pr.Bagging(pr.RankNet(), n_members=1, seed=seed)
    for wrong in (np.nan, -1.0, np.inf):
        with pytest.raises(ValueError, match="relevance"):
            learner.learn_one(np.eye(2), np.array([0.0, wrong]))
    assert learner.n_queries == 0


def test_bagging_steadies_a_learner_that_is_thrown_about():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(4000, 8))
    grades = (X @ rng.normal(size=8) + 2 * rng.normal(size=4000) > 1.5).astype(float)
    stream = pr.QueryStream.from_arrays(X, grades, group=np.full(400, 10))
    alone = pr.SlamPerceptron(learning_rate=1.0).learn(stream, "ndcg@10").mean("ndcg@10")
    together = pr.Bagging(pr.SlamPerceptron(learning_rate=1.0)).learn(stream, "ndcg@10").mean("ndcg@10")
    assert together > alone + 0.02


# Settings and files


def test_settings_of_the_learner_inside_can_be_reached():
    learner = pr.Bagging(pr.AdaGrad(pr.OnlineListNet(0.1)), n_members=2)
    assert learner.get_params()["learner__learner__learning_rate"] == 0.1
    assert "learner__learner" not in learner.get_params(deep=False)
    inside = learner.learner
    learner.set_params(learner__learner__learning_rate=0.5, learner__steps="norm", n_members=3)
    assert (learner.learner.learner.learning_rate, learner.learner.steps, len(learner.members)) == (0.5, "norm", 3)
    assert (inside.learner.learning_rate, inside.steps) == (0.1, "diagonal")  # the one that was given is left alone
    assert [one.learner.learning_rate for one in learner.members] == [0.5] * 3
    for wrong in (
        {"learner__foo": 1},
        {"foo__learner": 1},
        {"n_members__x": 1},
        {"n_members__": 1},
        {"learner__": 1},
        {"learner__learner__learning_rate": 0},
    ):
        with pytest.raises(ValueError, match=r"has no parameter|learning_rate must be"):
            learner.set_params(**wrong)
    learner.learn(pr.separable(5).stream)
    learner.set_params(**learner.get_params())
    with pytest.raises(ValueError, match=r"learner cannot be changed to .* once something was learned"):
        learner.set_params(learner__steps="diagonal")
    before = learner.as_document()
    learner.set_params(learner__steps=str(np.array("norm")), learner__learner__learning_rate=float("0.5"))
    assert learner.as_document() == before
    learner.set_params(learner__learner__learning_rate=0.25)  # takes effect at once, as without the wrappers
    inside = [one["parameters"]["learner"]["parameters"] for one in learner.as_document()["members"]]
    assert [one["learning_rate"] for one in inside] == [0.25] * 3


CHANGES = [
    (pr.Bagging(pr.ListwisePerceptron()), {"learner__transforms": "running"}),
    (pr.Bagging(pr.AdaGrad(pr.ListwisePerceptron())), {"learner__learner__transforms": "running"}),
    (pr.Bagging(pr.SlamPerceptron()), {"learner": pr.SlamPerceptron(transforms="running")}),
    (pr.AdaGrad(pr.ListwisePerceptron()), {"learner__transforms": "running"}),
    (pr.Tournament(), {"learners": [pr.SlamPerceptron()]}),
    (pr.Sum(), {"learners": [pr.OnlineRidge()]}),
]


@pytest.mark.parametrize(("ranker", "change"), CHANGES, ids=map(repr, CHANGES))
def test_transforms_follow_the_learners_inside(ranker, change):
    """Settings changed before learning give the learner that they give if it is made with them."""
    stream = pr.separable(12, n_documents=5, n_features=3, seed=2).stream
    ranker.set_params(**change)
    made = type(ranker)(**ranker.get_params(deep=False))
    ranker.learn(stream)
    made.learn(stream)
    assert ranker.as_document() == made.as_document()


@pytest.mark.parametrize("around", [pr.AdaGrad, lambda learner: pr.Bagging(learner, n_members=2)])
def test_the_given_learner_is_copied(around, tmp_path):
    stream = pr.separable(8, n_features=3).stream
    given = pr.CommitteePerceptron(n_members=5)
    learner, undisturbed = around(given), around(pr.CommitteePerceptron(n_members=5))
    learner.learn(stream[:4])
    given.n_members = 3
    with pytest.raises(ValueError, match="overflow"):
        learner.fit(stream.with_features(stream.X.astype(float) * 1e200))
    learner.learn(stream[4:])
    undisturbed.learn(stream)
    assert np.array_equal(learner.coef_, undisturbed.coef_)
    learner.save(tmp_path / "model.json")
    assert np.array_equal(pr.load(tmp_path / "model.json").coef_, undisturbed.coef_)
    learner.fit(stream)  # begins with the learner as it is now
    assert np.array_equal(learner.coef_, around(pr.CommitteePerceptron(n_members=3)).fit(stream).coef_)
    with pytest.raises(ValueError, match="learner cannot be changed"):
        learner.set_params(learner__n_members=4)


def test_transforms_of_another_width_are_refused(tmp_path):
    tournament = pr.Tournament([pr.ListwisePerceptron(transforms=one) for one in (None, None, "running")])
    tournament.learn(pr.separable(5).stream)
    document = tournament.as_document()
    other = pr.ListwisePerceptron(transforms="running")
    other.learn_one([[1.0], [2.0]], [0, 1])
    document["members"][2]["transforms"] = other.as_document()["transforms"]
    with pytest.raises(ValueError, match="the transform was learned from 1 features, got 20"):
        pr.Tournament.from_document(document)


def test_learners_two_levels_down_are_copied_too(tmp_path):
    stream = pr.separable(20).stream
    inner, second = pr.ListwisePerceptron(), pr.ListwisePerceptron(transforms=None)
    for learner in (pr.Bagging(pr.AdaGrad(inner), n_members=2), pr.Bagging(pr.Tournament([second]), n_members=2)):
        inner.relative_margin = second.relative_margin = 3.0
        learner.set_params(seed=3)
        learner.learn(stream)
        learner.save(tmp_path / "model.json")
        assert pr.load(tmp_path / "model.json").as_document() == learner.as_document()
        inner.relative_margin = second.relative_margin = 1.0


def test_a_refused_change_of_what_is_inside_changes_nothing():
    buffered = pr.BufferedPairwise()
    learner = pr.Bagging(pr.Bagging(buffered, n_members=2), n_members=2)
    learner.learn(pr.separable(5).stream)
    before = learner.as_document()
    buffered.buffer_size = 7
    for wrong in (pr.Bagging(buffered, n_members=2), np.array([1.0, 2.0])):
        with pytest.raises(ValueError, match="learner"):
            learner.set_params(learner=wrong)
        assert learner.as_document() == before


def test_seeds_inside_a_tournament_differ_between_members():
    rivals = pr.Tournament([pr.BufferedPairwise(seed=1), pr.Bagging(pr.SlamPerceptron(), n_members=2, seed=5)])
    members = pr.Bagging(rivals, n_members=3).members
    assert len({one.members[0].seed for one in members}) == len({one.members[1].seed for one in members}) == 3


@pytest.mark.parametrize("around", [pr.AdaGrad, lambda learner: pr.Bagging(learner, n_members=2)])
def test_around_the_classification_perceptron(around):
    X, labels = np.random.default_rng(0).normal(size=(60, 3)), np.tile([-1, 1], 30)
    learner = around(pr.Perceptron()).fit(X, labels)
    assert learner.n_queries == 60
    one_by_one = around(pr.Perceptron())
    for x, label in zip(X, labels, strict=True):
        one_by_one.learn_one(x, label)
    assert np.array_equal(one_by_one.coef_, learner.coef_)


def nest(document, times):
    """Put it into AdaGrad again and again."""
    for _ in range(times):
        document["parameters"]["learner"] = {"algorithm": "adagrad", "parameters": dict(document["parameters"])}


def test_damaged_files_are_refused(tmp_path):
    learner = pr.Bagging(pr.AdaGrad(pr.RankNet()), n_members=2)
    learner.learn(pr.separable(5).stream)
    learner.save(tmp_path / "model.json")
    document = json.loads((tmp_path / "model.json").read_text())
    for damage in (
        lambda one: one["parameters"].update(learner=None),
        lambda one: one["parameters"]["learner"].update(algorithm="foo"),
        lambda one: one["parameters"].update(n_members=3),
        lambda one: one["parameters"].update(n_members=10**12),
        lambda one: nest(one, 100),
        lambda one: nest(one, 450),
        lambda one: one["members"][0]["state"].update(squares=[1.0]),
        lambda one: one["members"][0].update(state=None),
        lambda one: one["members"][0]["parameters"]["learner"]["parameters"].update(learning_rate=5.0),
        lambda one: one.pop("members"),
    ):
        damaged = json.loads(json.dumps(document))
        damage(damaged)
        (tmp_path / "damaged.json").write_text(json.dumps(damaged))
        with pytest.raises(ValueError, match=r"damaged\.json"):
            pr.load(tmp_path / "damaged.json")
