"""Transforms that are made of others, that clip and that take logarithms; and what learners make of them."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.learners import bits
from support.strategies import EITHER_PRECISION, streams
from typer.testing import CliRunner

import perceptrank as pr
from perceptrank.cli.app import app
from perceptrank.transforms.registry import as_plain, from_plain, make_transforms, named_transforms

TRANSFORMS = named_transforms()

NAMES = sorted(TRANSFORMS)


@pytest.mark.kernel
@given(stream=streams(dtypes=EITHER_PRECISION), names=st.lists(st.sampled_from(NAMES), min_size=1, max_size=3))
def test_joins_and_chains_are_their_parts(stream, names):
    joined, chained = pr.Join(*names), pr.Chain(*names)
    side_by_side = np.hstack([TRANSFORMS[name]().learn_and_apply(stream.X, stream.offsets) for name in names])
    assert np.array_equal(joined.learn_and_apply(stream.X, stream.offsets), side_by_side)
    assert joined.n_outputs(stream.n_features) == side_by_side.shape[1]
    X = stream.X
    for name in names:
        X = TRANSFORMS[name]().learn_and_apply(X, stream.offsets)
    assert np.array_equal(chained.learn_and_apply(stream.X, stream.offsets), X)
    assert joined.learns == chained.learns == any(TRANSFORMS[name]().learns for name in names)


@pytest.mark.kernel
@given(stream=streams(dtypes=EITHER_PRECISION))
def test_clipping_and_logarithms(stream):
    X = stream.X
    clipped = pr.Clip(0.5).apply(X, stream.offsets)
    assert np.array_equal(clipped, np.clip(X, -0.5, 0.5))
    assert np.array_equal(np.signbit(clipped), np.signbit(X))  # also of zeros
    np.testing.assert_allclose(
        pr.SignedLog().apply(X, stream.offsets), np.sign(X) * np.log1p(np.abs(X.astype(float))), rtol=1e-6
    )


NOT_FINITE = ["clip", "clip+clip", "signed-log+clip", "hash", "auto", "running", pr.Missing(0.0, indicator=True)]


@pytest.mark.parametrize("transforms", NOT_FINITE, ids=map(str, NOT_FINITE))
@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_what_is_not_finite_is_named_as_it_was_given(transforms, value):
    ranker = pr.ListwisePerceptron(transforms=transforms)
    X = pytest.importorskip("pandas").DataFrame({"age": [1.0, 2.0, 3.0], "price": [3.0, 1.0, 2.0]})
    ranker.learn_one(X, [0, 1, 2])
    before, X.loc[1, "price"] = bits(ranker), value
    for wrong in (lambda: ranker.learn_one(X, [0, 1, 2]), lambda: ranker.predict(X)):
        with pytest.raises(ValueError, match=r"infinity at document 1, feature 1 \('price'\)"):
            wrong()
    assert bits(ranker) == before


@pytest.mark.parametrize("name", NAMES)
def test_no_documents_teach_nothing(name):
    transform = TRANSFORMS[name]()
    assert transform.learn_and_apply(np.empty((0, 3)), [0]).shape == (0, transform.n_outputs(3))
    assert from_plain(as_plain(transform)) == transform


@pytest.mark.parametrize(
    "transforms", ["auto", "running+query-normal", ["running", "clip"], [pr.Join("running", "clip")]]
)
def test_models_with_transforms_go_on_as_if_they_had_never_stopped(transforms, tmp_path):
    stream = pr.separable(40, n_features=5, seed=3).stream
    whole, resumed = pr.ListwisePerceptron(transforms=transforms), pr.ListwisePerceptron(transforms=transforms)
    whole.learn(stream)
    resumed.learn(stream[:17])
    resumed.save(tmp_path / "m.json")
    resumed = pr.load(tmp_path / "m.json")
    assert json.loads((tmp_path / "m.json").read_text())["features"] == resumed.n_features_in_ == 5
    resumed.learn(stream[17:])
    assert bits(resumed) == bits(whole)
    assert np.array_equal(resumed.predict(stream), whole.predict(stream))


def test_statistics_of_parts_are_merged():
    stream = pr.separable(30, n_features=4).stream
    one, other = pr.Join("running", "query-rank"), pr.Join("running", "query-rank")
    one.learn_and_apply(stream[:10].X, stream[:10].offsets)
    other.learn_and_apply(stream[10:].X, stream[10:].offsets)
    merged = one.merge(other).parts[0]
    assert merged.count == stream.n_documents
    np.testing.assert_allclose(merged.mean, stream.X.mean(axis=0), atol=1e-12)
    with pytest.raises(ValueError, match="different transforms"):
        one.merge(pr.Join("query-rank", "running"))


@pytest.mark.parametrize("name", NAMES)
def test_only_transforms_of_one_kind_are_merged(name):
    transform, stream = TRANSFORMS[name](), pr.separable(3, n_features=2).stream
    transform.learn_and_apply(stream.X, stream.offsets)
    for other in ("clip", "running", "bins", "missing", "running-spread", "query-rank"):
        if other != name:
            with pytest.raises(TypeError, match="can only be merged with another"):
                transform.merge(TRANSFORMS[other]())
    with pytest.raises(TypeError, match="can only be merged with another"):
        pr.Join("running", "clip").merge(pr.Chain("running", "clip"))
    with pytest.raises(ValueError, match="differ in their settings"):
        pr.Clip(2).merge(pr.Clip(3))
    with pytest.raises(ValueError, match="differ in their settings"):
        pr.Join("clip", pr.Hash(8)).merge(pr.Join("clip", pr.Hash(9)))


def test_names_of_outputs():
    stream = pr.QueryStream.from_arrays(np.eye(2), [0, 1], feature_names=["age", "price"])
    assert pr.Chain("running", "clip").transform(stream).feature_names == ("age", "price")
    names = pr.Join("running", ["query-rank", "clip"]).transform(stream).feature_names
    assert names == ("age running", "price running", "age chain", "price chain")


def test_norms_that_are_known_before():
    assert pr.Clip(2).largest_norm(9, 5) == 6
    assert pr.QueryZScore().largest_norm(4, 10) == 6
    assert pr.Chain("running", "query-rank").largest_norm(16, 3) == 4
    assert pr.Join("query-rank", "query-minmax").largest_norm(8, 3) == pytest.approx(4)
    assert pr.Join("query-rank", "running").largest_norm(8, 3) == np.inf


def test_wrong_names_are_all_said_at_once():
    with pytest.raises(ValueError, match=r"transforms must be one of 'auto', .*got \['ranks', 'logs', 3\]"):
        pr.SlamPerceptron(transforms=["ranks", "running+logs", 3])
    for kind in (pr.Join, pr.Chain):
        with pytest.raises(ValueError, match=r"got \['ranks', 'logs', 'bits'\]"):
            kind("ranks", "running+logs", ["clip", "bits"])
    for nothing in ((), ([],), ([], "clip")):
        with pytest.raises(ValueError, match="at least one"):
            pr.Join(*nothing)
    with pytest.raises(ValueError, match="got None"):
        pr.Join(None, "clip")
    with pytest.raises(ValueError, match="limit must be"):
        pr.Clip(0)


def test_plain_values_come_back():
    for transform in (pr.Join("running", pr.Chain("clip", "query-normal")), pr.Clip(1.5), pr.SignedLog()):
        assert from_plain(json.loads(json.dumps(as_plain(transform)))) == transform
    with pytest.raises(ValueError, match="at least one"):
        from_plain({"name": "join", "parts": []})
    assert [repr(one) for one in make_transforms("auto")] == ["Join(QueryZScore(), QueryNormal())"]
    assert make_transforms("auto+clip") == [pr.Join("query-zscore", "query-normal", "clip")]


def test_features_of_very_different_spreads_are_warned_of():
    X = np.random.default_rng(0).normal(size=(40, 3)) * [1, 10, 1e6]
    stream = pr.QueryStream.from_arrays(X, np.arange(40) % 3, group=[10] * 4)
    for kind in (pr.SlamPerceptron, pr.Perceptron):
        with pytest.warns(UserWarning, match=r"differ in spread by a factor of 7e\+05.*transforms='auto'"):
            kind().learn(stream)
    slam, scaled = pr.SlamPerceptron(), pr.SlamPerceptron(transforms="running")
    for ranker in (
        pr.AdaGrad(slam),
        pr.Bagging(slam, n_members=2),
        pr.Bagging(pr.AdaGrad(slam), n_members=2),
        pr.Bagging(pr.ListwisePerceptron(), transforms=[], n_members=2),
        pr.Tournament([scaled, slam]),
        pr.Sum([slam]),
        pr.ListwisePerceptron(transforms=None),
    ):
        with pytest.warns(UserWarning, match="differ in spread"):
            ranker.learn(stream)
    for ranker in (
        pr.ListwisePerceptron(),
        pr.OnlineRidge(),
        scaled,
        pr.AdaGrad(scaled),
        pr.Bagging(pr.ListwisePerceptron(), n_members=2),
        pr.Tournament([scaled, pr.OnlineRidge()]),
        pr.Tournament([slam], transforms="auto"),
        pr.Sum(),
    ):
        ranker.learn(stream)  # warnings are errors


def test_many_rows_without_queries_are_refused():
    X = np.random.default_rng(0).normal(size=(1001, 2))
    with pytest.raises(ValueError, match=r"all 1001 rows would be .* of one query: give qid, .* or group=\[1001\] if"):
        pr.SlamPerceptron().fit(X, np.arange(1001) % 2)
    pr.SlamPerceptron().fit(X, np.arange(1001) % 2, group=[1001])


def test_bagging_shares_the_transforms_of_its_learner():
    stream = pr.separable(20, n_features=3).stream
    bagging = pr.Bagging(pr.ListwisePerceptron(transforms="auto"), n_members=2)
    bagging.learn(stream)
    assert bagging.transforms_ == make_transforms("auto")
    assert all(not one.transforms_ for one in bagging.members)
    apart = pr.Bagging(pr.ListwisePerceptron(transforms=None), n_members=2)
    apart.learn(bagging.transforms_[0].transform(stream))
    assert np.array_equal(bagging.coef_, apart.coef_)


def test_norms_are_known_before_anything_is_seen():
    learner = pr.ListwisePerceptron("ndcg", transforms="auto")
    stream = pr.separable(30, seed=2, n_documents=12, n_features=6).stream
    radius = learner.model.largest_norm(6, longest=12)
    assert pr.theory.radius(learner.transforms_[0].transform(stream)) <= radius < np.inf
    assert learner.guarantee(radius=radius, margin=0.1) < np.inf
    assert pr.ListwisePerceptron(transforms=None).model.largest_norm(6, longest=12) == np.inf
    assert pr.ListwisePerceptron(transforms=["running", pr.Clip(2)]).model.largest_norm(9, longest=12) == 6
    for name, sizes in {"longest": (9, 0), "n_features": (-1, 5)}.items():
        with pytest.raises(ValueError, match=f"{name} must be"):
            learner.model.largest_norm(*sizes)


def test_settings_follow_names():
    assert make_transforms("query-rank+clip:limit=2") == [pr.Join("query-rank", pr.Clip(2))]
    assert make_transforms("bins:n-bins=4,kind=one-hot,sparse=true") == [pr.Bins(4, "one-hot", sparse=True)]
    with pytest.raises(ValueError, match="settings like name:setting=value, and clip has limit, got 'clip:high=2'"):
        make_transforms("clip:high=2")
    with pytest.raises(ValueError, match=r"query-rank has no settings, got 'query-rank:a=1'"):
        pr.SlamPerceptron(transforms="query-rank:a=1")
    with pytest.raises(ValueError, match="limit must be"):
        make_transforms("clip:limit=-2")
    with pytest.raises(ValueError, match=r"transforms must be one of 'auto'.*got 'klip:limit=2'"):
        make_transforms("klip:limit=2")


def test_settings_on_the_command_line(tmp_path):
    stream = pr.separable(30, n_features=4, seed=2).stream
    pr.write_letor(stream, tmp_path / "train.txt")
    model = tmp_path / "model.json"
    given = ["learn", str(tmp_path / "train.txt"), "--transform", "auto", "--transform", "bins:n_bins=8,kind=one-hot"]
    done = CliRunner().invoke(app, [*given, "--save", str(model)])
    assert done.exit_code == 0, done.output
    expected = pr.ListwisePerceptron(transforms=["auto", pr.Bins(8, "one-hot")])
    expected.learn(pr.read_letor(tmp_path / "train.txt"))
    assert bits(pr.load(model)) == bits(expected)
    done = CliRunner().invoke(app, ["evaluate", str(model), str(tmp_path / "train.txt")])
    assert done.exit_code == 0, done.output
    done = CliRunner().invoke(app, [*given[:-1], "bins:pairs=3"])
    assert done.exit_code != 0
    assert "bins has n_bins, kind" in " ".join(done.output.split())


def test_blocks_are_small_where_features_become_many():
    """So that 8,192 outputs of a stream take no more memory than those of a few queries."""
    stream = pr.QueryStream.from_arrays(np.zeros((20_000, 2), np.float32), np.zeros(20_000), group=[20] * 1000)
    ranker = pr.ListwisePerceptron(transforms=pr.Bins(4096))
    most = max(block.n_documents for block in ranker.model.blocks(stream))
    assert 20 <= most <= 600
    plain = pr.ListwisePerceptron()
    assert max(block.n_documents for block in plain.model.blocks(stream)) == 20_000
