"""Feature hashing, against its definition, and learners whose columns come and go."""

import json
from hashlib import blake2b

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from support.learners import bits
from support.strategies import EITHER_PRECISION, streams
from typer.testing import CliRunner

import perceptrank as pr
from perceptrank.cli.app import app
from perceptrank.io.model_file import model_text
from perceptrank.transforms.registry import as_plain, from_plain

SETTINGS = st.builds(pr.Hash, st.integers(1, 20), signed=st.booleans(), seed=st.integers(0, 2**63 - 1))


def by_definition(X, names, transform):
    """Every column to its place, in the order of names."""
    made = np.zeros((len(X), transform.n_features), X.dtype)
    for name, j in sorted((name, j) for j, name in enumerate(names)):
        digest = blake2b(name.encode(), digest_size=8, key=transform.seed.to_bytes(8, "little")).digest()
        number = sum(byte << 8 * k for k, byte in enumerate(digest))
        sign = -1 if transform.signed and number % 2 else 1
        made[:, (number // 2) % transform.n_features] += sign * X[:, j]
    return made


@pytest.mark.kernel
@given(stream=streams(dtypes=EITHER_PRECISION), transform=SETTINGS, data=st.data())
def test_it_equals_its_definition(stream, transform, data):
    names = data.draw(st.lists(st.text(), min_size=stream.n_features, max_size=stream.n_features, unique=True))
    names = tuple(name.encode("utf-8", "replace").decode() + str(j) for j, name in enumerate(names))
    named = pr.QueryStream(stream.X, stream.relevance, stream.offsets, feature_names=names)
    found = transform.transform(named)
    assert found.X.dtype == stream.X.dtype
    assert np.array_equal(found.X, by_definition(stream.X, names, transform))
    assert found.feature_names == tuple(f"place {k}" for k in range(transform.n_features))
    numbers = [str(j) for j in range(stream.n_features)]
    assert np.array_equal(transform.apply(stream.X, stream.offsets), by_definition(stream.X, numbers, transform))
    order = data.draw(st.permutations(range(stream.n_features)))
    moved = pr.QueryStream(
        np.ascontiguousarray(stream.X[:, order]),
        stream.relevance,
        stream.offsets,
        feature_names=[names[j] for j in order],
    )
    assert np.array_equal(transform.transform(moved).X, found.X)
    assert from_plain(json.loads(json.dumps(as_plain(transform)))) == transform


def test_the_order_of_columns_does_not_change_a_bit():
    """However many share a place, although sums of three numbers depend on their order."""
    rng = np.random.default_rng(0)
    X, names = rng.normal(size=(9, 30)), [f"x{j}" for j in range(30)]
    assert not np.array_equal(X.sum(axis=1), sum(X.T))
    found = pr.Hash(1).for_columns(tuple(names)).apply(X, [0, 9])
    order = rng.permutation(30)
    moved = pr.Hash(1).for_columns(tuple(names[j] for j in order)).apply(np.ascontiguousarray(X[:, order]), [0, 9])
    assert np.array_equal(moved, found)


def test_places_are_the_same_everywhere():
    """Written down, so that no other machine, run or version has others: models would be worth nothing there."""
    X, names = np.array([[1.0, 2.0, 4.0, 8.0]]), ("bm25", "pagerank", "größe", "价格")
    transform = pr.Hash(8).for_columns(names)
    assert transform.apply(X, [0, 1]).tolist() == [[0, 0, 8, 0, -1 - 2, 0, 4, 0]]
    assert pr.Hash(8, seed=1).for_columns(names).apply(X, [0, 1]).tolist() == [[0, 4, 8, 0, 0, -1, 2, 0]]


@given(stream=streams(), size=st.integers(1, 500))
def test_blocks_do_not_change_a_bit(stream, size):
    transform = pr.Hash(3)
    found = [transform.learn_and_apply(block.X, block.offsets) for block in stream.blocks(size)]
    assert np.array_equal(np.concatenate(found), transform.apply(stream.X, stream.offsets))


def test_signs_make_inner_products_right_in_the_mean():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 1, 40))
    made = [
        (transform.apply(x, [0, 1]) @ transform.apply(y, [0, 1]).T).item()
        for transform in (pr.Hash(64, seed=seed) for seed in range(400))
    ]
    assert abs(np.mean(made) - (x @ y.T).item()) < 4 * np.std(made) / np.sqrt(len(made))


def shuffled_columns(stream, rng, n_more):
    """The same queries with columns in another order, and some more that are 0."""
    names = [*stream.feature_names, *(f"more {j}" for j in range(n_more))]
    X = np.hstack([stream.X, np.zeros((stream.n_documents, n_more))])
    order = rng.permutation(len(names))
    return pr.QueryStream(
        np.ascontiguousarray(X[:, order]),
        stream.relevance,
        stream.offsets,
        feature_names=[names[j] for j in order],
    )


def judged(n_queries=40, n_features=5):
    stream = pr.separable(n_queries, n_features=n_features, seed=4).stream
    return pr.QueryStream(
        stream.X, stream.relevance, stream.offsets, feature_names=[f"x{j}" for j in range(n_features)]
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda: pr.ListwisePerceptron(transforms=pr.Hash(32)),
        lambda: pr.SlamPerceptron(transforms=[pr.Hash(32), "running"]),
        lambda: pr.SlamPerceptron(transforms=pr.Chain(pr.Hash(32), "running")),
        lambda: pr.SlamPerceptron(transforms=pr.Join(pr.Hash(32), [pr.Hash(16, seed=1), "running"])),
        lambda: pr.Bagging(pr.SlamPerceptron(transforms=pr.Hash(32)), n_members=2),
        lambda: pr.Sum([pr.SlamPerceptron(), pr.OnlineRidge()], transforms=pr.Hash(8)),
        lambda: pr.Tournament([pr.SlamPerceptron(), pr.OnlineRidge()], transforms=pr.Hash(8)),
    ],
    ids=["listwise", "list", "chain", "join", "bagging", "sum", "tournament"],
)
def test_columns_may_come_go_and_change_their_order(make, tmp_path):
    stream, rng = judged(), np.random.default_rng(1)
    whole, changing = make(), make()
    whole.learn(stream)
    for n_more, part in enumerate((stream[:10], stream[10:20], stream[20:30])):
        changing.learn(shuffled_columns(part, rng, n_more))
        changing.save(tmp_path / "m.json")
        changing = pr.load(tmp_path / "m.json")
        assert changing.n_features_in_ == len(changing.feature_names_in_) == 5 + n_more
    pandas = pytest.importorskip("pandas")
    last = shuffled_columns(stream[30:], rng, 3)
    for query in last:
        changing.learn_one(pandas.DataFrame(query.X, columns=list(last.feature_names)), query.relevance)
    changing.learn(stream[:1])
    whole.learn(stream[:1])
    assert bits(changing) == bits(whole)
    other = shuffled_columns(stream, rng, 2)
    scores = whole.predict(stream)
    assert np.array_equal(changing.predict(other), scores)
    frame = pandas.DataFrame(other.X, columns=list(other.feature_names))
    assert np.array_equal(changing.predict(frame, group=np.diff(other.offsets)), scores)
    assert np.array_equal(changing.predict(np.array(stream.X), group=np.diff(stream.offsets)), scores)


def test_columns_without_names_go_by_their_numbers():
    stream = judged()
    plain = pr.QueryStream(stream.X, stream.relevance, stream.offsets)
    ranker = pr.SlamPerceptron(transforms=pr.Hash(16))
    ranker.learn(plain)
    before = bits(ranker)
    for attempt in (lambda: ranker.learn(stream), lambda: ranker.predict(stream)):
        with pytest.raises(ValueError, match="learned from features without names"):
            attempt()
    with pytest.raises(ValueError, match="X has 3 features, but SlamPerceptron is expecting 5"):
        ranker.predict(np.zeros((2, 3)))
    assert bits(ranker) == before


def test_members_learn_and_rank_by_the_same_places():
    """Those of an ensemble do not know names: what they learn and what they rank by must go by the same numbers."""
    stream = judged()
    plain = pr.QueryStream(stream.X, stream.relevance, stream.offsets)
    for ensemble in (pr.Sum, pr.Tournament):
        one, other = (ensemble([pr.SlamPerceptron(transforms=pr.Hash(16))]) for _ in range(2))
        assert np.array_equal(one.learn(stream).masses, other.learn(plain).masses)
        assert np.array_equal(one.predict(stream), other.predict(plain))
        with pytest.raises(ValueError, match="expecting 5 features"):
            one.predict(shuffled_columns(stream, np.random.default_rng(0), 1))


def test_after_other_transforms_columns_are_fixed():
    stream = judged()
    one, other = pr.SlamPerceptron(transforms=["running", "hash"]), pr.SlamPerceptron(transforms=["running", "hash"])
    one.learn(stream)
    other.learn(pr.QueryStream(stream.X, stream.relevance, stream.offsets))
    assert np.array_equal(one.weights, other.weights)
    with pytest.raises(ValueError, match="feature names should match"):
        one.learn(pr.QueryStream(stream.X, stream.relevance, stream.offsets, feature_names=list("abcde")))


def test_bad_settings():
    for n_features in (0, -1, 2.5, "many", True):
        with pytest.raises(ValueError, match="n_features must be a whole number > 0"):
            pr.Hash(n_features)
    with pytest.raises(ValueError, match="signed must be True or False, got 1"):
        pr.Hash(signed=1)
    with pytest.raises(ValueError, match="seed must be a whole number"):
        pr.Hash(seed=-1)
    with pytest.raises(ValueError, match="X must have a column for each of 2 names, got 3"):
        pr.Hash(4).for_columns(("a", "b")).apply(np.zeros((1, 3)), [0, 1])
    for change in ({"n_features": 0}, {"signed": None}, {"seed": "0"}):
        with pytest.raises(ValueError, match="must be"):
            from_plain({"name": "hash", **pr.Hash().state(), **change})


def test_on_the_command_line(tmp_path):
    pytest.importorskip("pyarrow")
    stream, rng = judged(), np.random.default_rng(2)
    pr.write_parquet(stream[:30], tmp_path / "train.parquet")
    pr.write_parquet(shuffled_columns(stream[30:], rng, 2), tmp_path / "test.parquet")
    model = str(tmp_path / "m.json")
    learn = ["learn", str(tmp_path / "train.parquet"), "--transform", "hash", "--save", model]
    for command in (learn, ["evaluate", model, str(tmp_path / "test.parquet")]):
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.output
    expected = pr.ListwisePerceptron(transforms="hash")
    expected.learn(stream[:30])
    assert bits(pr.load(model)) == bits(expected)


@given(streams(dtypes=EITHER_PRECISION), st.integers(1, 8), st.booleans())
def test_sparse_columns_are_hashed_as_dense_ones(stream, n_features, named):
    if named:
        names = [f"column {j}" for j in range(stream.n_features)]
        stream = stream.with_features(stream.X, feature_names=names)
    transform = pr.Hash(n_features)
    made = transform.transform(stream.to_sparse())
    assert made.is_sparse
    dense = transform.transform(stream)
    np.testing.assert_allclose(made.X.toarray(), dense.X, rtol=1e-5, atol=1e-5 * np.abs(stream.X).max())
    assert made.feature_names == dense.feature_names


def test_a_model_of_hashed_sparse_features(tmp_path):
    X = sp.csr_array((np.ones(4), ([0, 0, 1, 2], [7, 9 * 10**4, 5, 99])), shape=(3, 10**5))
    learner = pr.ListwisePerceptron(transforms=[pr.Hash(2**14), "running"])
    learner.learn_one(X, [0, 1, 2])
    learner.learn_one(X, [2, 1, 0])
    assert len(learner.coef_) == 2**14
    learner.save(tmp_path / "model.json")
    np.testing.assert_array_equal(pr.load(tmp_path / "model.json").predict(X), learner.predict(X))


@pytest.mark.parametrize("transforms", [pr.Hash(4), [pr.Hash(4), "running"], pr.Chain(pr.Hash(4), "bins")])
def test_model_files_with_any_number_of_columns_are_read_at_once(transforms):
    """Neither memory nor time may go by a number that nothing else in the file bounds."""
    ranker = pr.ListwisePerceptron(transforms=transforms)
    ranker.learn(pr.separable(5, n_features=3).stream)
    document = ranker.as_document()
    assert pr.ListwisePerceptron.from_document(document | {"features": 10**14}).n_features_in_ == 10**14
    for wrong in (0, -1, 2.5):
        with pytest.raises(ValueError, match="features"):
            pr.ListwisePerceptron.from_document(document | {"features": wrong})


@pytest.mark.parametrize("transforms", [None, "auto", "running", "bins", pr.Bins(3, sparse=True)])
def test_model_files_of_absurd_width_are_refused(transforms):
    ranker = pr.ListwisePerceptron(transforms=transforms)
    ranker.learn(pr.separable(5, n_features=3).stream)
    for wrong in (0, 2, 4, 10**14):
        with pytest.raises(ValueError, match="features"):
            pr.ListwisePerceptron.from_document(ranker.as_document() | {"features": wrong})


def test_only_columns_that_occur_take_time_and_memory(monkeypatch):
    X = sp.csr_array((np.arange(1.0, 7.0), ([0, 0, 0, 1, 2, 2], [7, 10**9, 5, 99, 7, 1])), shape=(4, 2 * 10**9))
    made = pr.Hash(3).transform(pr.QueryStream.from_arrays(X, [0, 1, 2, 0])).X
    names = [str(j) for j in (1, 5, 7, 99, 10**9)]
    occurring = np.array([[0, 3.0, 1, 0, 2], [0, 0, 0, 4, 0], [6, 0, 5, 0, 0], [0, 0, 0, 0, 0]])
    np.testing.assert_allclose(made.toarray(), by_definition(occurring, names, pr.Hash(3)))
    learner = pr.ListwisePerceptron(transforms=pr.Hash(64))
    learner.learn_one(X, [0, 1, 2, 0])
    assert learner.n_features_in_ == 2 * 10**9
    few = pr.QueryStream.from_arrays(sp.random(20, 300, 0.2, "csr", random_state=0), np.arange(20) % 3)
    expected = pr.Hash(16).transform(few).X
    monkeypatch.setattr("perceptrank.transforms.hash._MOST_NAMES", 10)
    assert expected == pr.Hash(16).transform(few).X


def test_features_that_are_no_more_than_a_number_in_a_file_take_no_memory(tmp_path):
    """Weights belong to places, so that a small file may have any number of columns; whoever lists them refuses."""
    pytest.importorskip("msgspec")
    from perceptrank.serve import ServedRanker

    stream = pr.separable(5, n_features=4).stream
    learner = pr.ListwisePerceptron(transforms="hash:n_features=8")
    learner.learn(stream)
    document = learner.as_document() | {"features": 2_000_000_000}
    (tmp_path / "m.json").write_text(model_text(document))
    model = pr.load(tmp_path / "m.json")
    assert model.weights.tolist() == learner.weights.tolist()
    for use in (pr.deploy.explain, lambda model: pr.deploy.export(model, "elasticsearch")):
        with pytest.raises(ValueError, match=r"has 2,000,000,000 features without names, and no more than 1,048,576"):
            use(model)
    with pytest.raises(ValueError, match=r"a model to serve must have at most 100,000 features, .* got 2,000,000,000"):
        ServedRanker(tmp_path / "served", model)
    document["parameters"]["positive"] = ["f1"]
    (tmp_path / "m.json").write_text(model_text(document))
    with pytest.raises(pr.FormatError, match=r"m.json.*features without names"):
        pr.load(tmp_path / "m.json")
    wide = pr.ListwisePerceptron()
    wide.learn(pr.QueryStream.from_arrays(np.eye(2, 2**20 + 1), [1, 0]))
    assert len(wide.model.input_names()) == 2**20 + 1  # as many weights are stored
