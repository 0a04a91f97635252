"""Bins between quantiles, and the sketch that these come from, against their definitions."""

import json
import math
import tracemalloc
from bisect import bisect_left, bisect_right

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.learners import bits
from support.strategies import EITHER_PRECISION, examples, streams
from typer.testing import CliRunner

import perceptrank as pr
from perceptrank.cli.app import app
from perceptrank.transforms.bins import KINDS
from perceptrank.transforms.quantile_sketch import CAPACITY, QuantileSketch
from perceptrank.transforms.registry import as_plain, from_plain

ALL_KINDS = pytest.mark.parametrize("kind", KINDS)


class SlowSketch:
    """The sketch of one feature: lists of values, halved when they are full."""

    def __init__(self):
        self.levels, self.times = [[]], [[0, 0]]

    def add(self, value):
        self.levels[0].append(value)
        self.halve()

    def merge(self, other):
        for h, items in enumerate(other.levels):
            if h == len(self.levels):
                self.levels.append([])
                self.times.append([0, 0])
            self.levels[h] += items
            self.times[h] = [one + two for one, two in zip(self.times[h], other.times[h], strict=True)]
        self.halve()

    def halve(self):
        for h, (items, times) in enumerate(zip(self.levels, self.times, strict=True)):
            if len(items) < CAPACITY:
                continue
            items.sort()
            rest = [items.pop()] if len(items) % 2 else []
            second = times[0] > times[1]  # more times upwards than downwards
            times[second] += 1
            if h + 1 == len(self.levels):
                self.levels.append([])
                self.times.append([0, 0])
            self.levels[h + 1] += items[second::2]
            items[:] = rest

    @property
    def rank_error(self):
        return sum(max(times) << h for h, times in enumerate(self.times))

    def quantile(self, part, n_parts):
        weighted = sorted((item, 1 << h) for h, items in enumerate(self.levels) for item in items)
        n, weight = sum(one for _, one in weighted), 0
        for item, one in weighted:
            weight += one
            if weight * n_parts >= part * n:
                return item
        raise AssertionError


def rank_error(sketch):
    """Upper bound on the error of any estimated rank."""
    return sum((pairs + more) << h for h, (pairs, more) in enumerate(zip(sketch.pairs, sketch.unpaired, strict=True)))


def values(rng, n, kind):
    """Values in an order that is hard for a sketch, or with many that are equal."""
    drawn = {
        "random": lambda: rng.normal(size=n),
        "rising": lambda: np.arange(n) + 0.5,
        "falling": lambda: -np.arange(n) * 1.0,
        "few": lambda: rng.integers(0, 5, n) * 1.0,
        "zigzag": lambda: np.where(np.arange(n) % 2, 1.0, -1.0) * np.arange(n),
    }
    return drawn[kind]()


@examples(0.2)
@given(
    seed=st.integers(0, 10**6),
    sizes=st.lists(st.integers(1, 1700), min_size=1, max_size=3),
    kinds=st.lists(st.sampled_from(["random", "rising", "falling", "few", "zigzag"]), min_size=1, max_size=3),
    n_parts=st.integers(2, 12),
)
def test_sketches_equal_their_definition_and_keep_their_bound(seed, sizes, kinds, n_parts):
    """Whatever is merged: the rank of every value is known up to the bound, and so are quantiles."""
    rng = np.random.default_rng(seed)
    parts = [np.column_stack([values(rng, n, kind) for kind in kinds]) for n in sizes]
    sketch = QuantileSketch(len(kinds))
    for part in parts:
        one = QuantileSketch(len(kinds))
        for piece in np.array_split(part, rng.integers(1, 5)):
            one = one.add(piece)
        sketch = sketch.merge(one)
    whole = np.concatenate(parts)
    found = sketch.quantiles(n_parts)
    assert sketch.count == len(whole)
    for j in range(len(kinds)):
        slow = SlowSketch()
        for part in parts:
            one = SlowSketch()
            for value in part[:, j]:
                one.add(value)
            slow.merge(one)
        assert [sorted(items) for items in slow.levels] == [sorted(items[j]) for items in sketch.levels]
        assert rank_error(sketch) == slow.rank_error
        assert (found[j, 0], found[j, -1]) == (whole[:, j].min(), whole[:, j].max())
        assert found[j, 1:-1].tolist() == [slow.quantile(part, n_parts) for part in range(1, n_parts)]
        ordered = sorted(whole[:, j])
        for x in whole[:: max(1, len(whole) // 50), j]:
            estimated = sum((items[j] <= x).sum() << h for h, items in enumerate(sketch.levels))
            assert abs(estimated - bisect_right(ordered, x)) <= rank_error(sketch)
        for part in range(1, n_parts):
            below, up_to = bisect_left(ordered, found[j, part]), bisect_right(ordered, found[j, part])
            target = part * len(whole) / n_parts
            assert below - rank_error(sketch) <= target <= up_to + rank_error(sketch)


def test_the_stated_bound():
    sketch = QuantileSketch(1).add(np.random.default_rng(0).normal(size=(CAPACITY - 1, 1)))
    assert rank_error(sketch) == 0
    sketch = QuantileSketch(2).add(np.random.default_rng(0).normal(size=(10_000, 2)))
    times = [10_000 // (CAPACITY << h) for h in range(6)]
    assert rank_error(sketch) == sum(math.ceil(one / 2) << h for h, one in enumerate(times)) == 124
    assert all(items.shape[1] < CAPACITY for items in sketch.levels)
    sketch = QuantileSketch(1).add(np.ones((10**5, 1)))
    assert rank_error(sketch) <= 10**5 * (math.log2(10**5 / CAPACITY) + 2) / (2 * CAPACITY)


def one_by_definition(x, edges, kind):
    """What a value becomes, given the edges of its feature."""
    x, edges = float(x), [float(edge) for edge in edges]
    if kind == "thermometer":
        return [float(x > edge) for edge in edges]
    if kind == "one-hot":
        made = [0.0] * (len(edges) + 1)
        made[sum(edge < x for edge in edges)] = 1.0
        return made
    different = sorted(set(edges))
    x = min(max(x, different[0]), different[-1])
    made = [0.0] * len(edges)
    for k, edge in enumerate(different):
        height = float(x == edge)
        if k > 0 and different[k - 1] < x < edge:
            height = (x - different[k - 1]) / (edge - different[k - 1])
        if k + 1 < len(different) and edge < x < different[k + 1]:
            height = (different[k + 1] - x) / (different[k + 1] - edge)
        made[edges.index(edge)] = height
    return made


def by_definition(stream, n_bins, kind, after):
    """Every query by the quantiles of what was seen when they were found last, while nothing was dropped."""
    made, seen, found_at, edges = [], [], 0, None
    shares = range(n_bins) if kind == "hat" else range(1, n_bins)
    n_parts = n_bins - 1 if kind == "hat" else n_bins
    for query in stream:
        if found_at < after:
            seen += list(query.X)
            if len(seen) >= min(found_at + max(1, found_at // 4), after):
                found_at = len(seen)
                ordered = np.sort(np.array(seen, dtype=float), axis=0)
                edges = ordered[[max(0, math.ceil(part * found_at / n_parts) - 1) for part in shares]].T
        made += [[one_by_definition(x, edges[j], kind) for j, x in enumerate(row)] for row in query.X]
    return np.array(made).reshape(stream.n_documents, -1), edges


@pytest.mark.kernel
@ALL_KINDS
@given(stream=streams(dtypes=EITHER_PRECISION), n_bins=st.integers(2, 9), after=st.sampled_from([1, 7, 20, 10_000]))
def test_they_equal_their_definition(kind, stream, n_bins, after):
    bins = pr.Bins(n_bins, kind, after=after)
    found = bins.learn_and_apply(stream.X, stream.offsets)
    expected, edges = by_definition(stream, n_bins, kind, after)
    assert found.dtype == stream.X.dtype
    assert found.shape[1] == bins.n_outputs(stream.n_features)
    assert np.array_equal(bins.edges, edges)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 if found.dtype == np.float32 else 1e-14)
    assert bins.frozen == (stream.n_documents >= after)
    largest = np.linalg.norm(found.astype(float), axis=1).max()
    assert largest <= bins.largest_norm(stream.n_features, 9) * (1 + 1e-6)


@given(stream=streams(dtypes=EITHER_PRECISION), n_bins=st.integers(2, 9), seed=st.integers(0, 10**6))
def test_hats_add_up_to_1_and_are_continuous(stream, n_bins, seed):
    bins = pr.Bins(n_bins).learn(stream)
    X = 3 * np.random.default_rng(seed).normal(size=(20, stream.n_features))
    whole = bins.apply(X, [0, 20]).reshape(20, stream.n_features, n_bins)
    np.testing.assert_allclose(whole.sum(axis=2), 1, rtol=1e-15)
    assert whole.min() >= 0
    beside = bins.apply(X + 1e-9, [0, 20]).reshape(whole.shape)
    gaps = np.diff(bins.edges, axis=1)
    smallest = gaps[gaps > 0].min(initial=1.0)
    np.testing.assert_allclose(beside, whole, atol=4e-9 / smallest)
    at_edges = bins.apply(np.ascontiguousarray(bins.edges.T), [0, n_bins])
    assert set(np.unique(at_edges)) <= {0.0, 1.0}


@given(
    stream=streams(dtypes=EITHER_PRECISION, max_queries=30),
    kind=st.sampled_from(KINDS),
    after=st.sampled_from([5, 40, 10_000]),
    size=st.integers(1, 500),
)
def test_blocks_and_saving_do_not_change_a_bit(stream, kind, after, size):
    whole, pieces = pr.Bins(4, kind, after=after), pr.Bins(4, kind, after=after)
    expected = whole.learn_and_apply(stream.X, stream.offsets)
    found = []
    for block in stream.blocks(size):
        found.append(pieces.learn_and_apply(block.X, block.offsets))
        pieces = from_plain(json.loads(json.dumps(as_plain(pieces))))
    assert np.array_equal(np.concatenate(found), expected)
    assert pieces == whole


def test_cutting_a_long_stream_does_not_change_a_bit():
    stream = pr.separable(900, n_documents=5, n_features=3, seed=1).stream
    whole, pieces = pr.Bins(after=4000), pr.Bins(after=4000)
    expected = whole.learn_and_apply(stream.X, stream.offsets)
    found = [pieces.learn_and_apply(block.X, block.offsets) for block in stream.blocks(7001)]
    assert np.array_equal(np.concatenate(found), expected)
    assert pieces == whole
    assert whole.frozen
    assert whole.count == 4000


@ALL_KINDS
def test_merging_equals_the_whole_while_nothing_was_dropped(kind):
    stream = pr.separable(40, n_documents=6, n_features=3, seed=2).stream
    for after in (10_000, 230):
        one, other = (pr.Bins(5, kind, after=after).learn(part) for part in (stream[:15], stream[15:]))
        whole = pr.Bins(5, kind, after=10_000).learn(stream).freeze()
        merged = one.merge(other)
        assert merged.frozen == (after == 230)
        assert np.array_equal(merged.edges, whole.edges)
        assert merged.count == whole.count == 240
    assert np.array_equal(pr.Bins(5, kind).merge(pr.Bins(5, kind).learn(stream)).edges, whole.edges)


def test_edges_that_stay_are_merged_with_equal_ones_alone():
    stream = pr.separable(10, n_features=2).stream
    one, other = pr.Bins(3).learn(stream).freeze(), pr.Bins(3).learn(stream).freeze()
    assert np.array_equal(pr.Bins(3).merge(one).edges, one.edges)
    assert one.merge(pr.Bins(3)).count == other.count
    assert one.merge(other).count == 2 * other.count
    moving, different = pr.Bins(3).learn(stream), pr.Bins(3).learn(stream[:5]).freeze()
    before = [bins.state() for bins in (one, moving)]
    for mine, given_one in ((one, different), (one, moving), (moving, one)):
        with pytest.raises(ValueError, match="edges that no longer move can be merged with equal ones alone"):
            mine.merge(given_one)
    with pytest.raises(ValueError, match="differ in their settings"):
        one.merge(pr.Bins(4))
    with pytest.raises(ValueError, match="learned from 2 features, got 3"):
        moving.merge(pr.Bins(3).learn(pr.separable(10, n_features=3).stream))
    assert [bins.state() for bins in (one, moving)] == before


def test_a_join_that_cannot_be_merged_stays_what_it_was():
    stream = pr.separable(10, n_features=2).stream
    one, other = pr.Join("running", pr.Bins(3)), pr.Join("running", pr.Bins(3))
    one.learn_and_apply(stream.X, stream.offsets)
    other.learn_and_apply(stream[:5].X, stream[:5].offsets)
    one.parts[1].freeze()
    before = one.state()
    with pytest.raises(ValueError, match="equal ones alone"):
        one.merge(other)
    assert one.state() == before


@ALL_KINDS
def test_constant_features_ties_and_one_document(kind):
    X = np.array([[4.0, 0.0], [4.0, 0.0], [4.0, 0.0], [4.0, 9.0]])
    bins = pr.Bins(3, kind).learn(pr.QueryStream.from_arrays(X, [0, 1, 0, 1]))
    made = bins.apply(np.array([[4.0, 0.0], [3.0, 3.0], [5.0, 99.0]]), [0, 3]).tolist()
    assert (
        made
        == {
            "hat": [[1, 0, 0, 1, 0, 0], [1, 0, 0, 1 - 1 / 3, 0, 1 / 3], [1, 0, 0, 0, 0, 1]],
            "one-hot": [[1, 0, 0, 1, 0, 0], [1, 0, 0, 0, 0, 1], [0, 0, 1, 0, 0, 1]],
            "thermometer": [[0, 0, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1]],
        }[kind]
    )
    one = pr.Bins(3, kind).learn_and_apply(np.array([[7.0]]), [0, 1]).tolist()
    assert one == [[0, 0]] if kind == "thermometer" else [[1, 0, 0]]


def test_the_ends_of_the_range():
    for largest in (float(np.finfo(np.float64).max), 5e-324):
        X = np.array([[-largest], [largest]])
        made = pr.Bins(2).learn_and_apply(X, [0, 2])
        assert made.tolist() == [[1, 0], [0, 1]]
    bins = pr.Bins(2).learn(pr.QueryStream.from_arrays([[-1.7e308], [1.7e308]], [0, 1]))
    assert bins.apply(np.array([[0.0]]), [0, 1]).tolist() == [[0.5, 0.5]]


def test_names_of_outputs():
    stream = pr.QueryStream.from_arrays([[1.0], [3.5], [8.0]], [0, 1, 2], feature_names=["bm25"])
    expected = {
        "hat": ("bm25 = 1", "bm25 = 3.5", "bm25 = 8"),
        "one-hot": ("bm25 <= 1", "1 < bm25 <= 3.5", "bm25 > 3.5"),
        "thermometer": ("bm25 > 1", "bm25 > 3.5"),
    }
    for kind, names in expected.items():
        bins = pr.Bins(3, kind).learn(stream)
        assert bins.output_names(("bm25",)) == tuple(f"bm25 bin {b}" for b in range(len(names)))
        assert bins.freeze().transform(stream).feature_names == names
        assert bins.output_names(None) is None
    constant = pr.Bins(3).learn(pr.QueryStream.from_arrays([[2.0]], [0])).freeze()
    assert constant.output_names(("age",)) == ("age = 2", "age = 2 (bin 1)", "age = 2 (bin 2)")


@pytest.mark.parametrize("transforms", ["bins", pr.Bins(4, "one-hot", after=100), ["missing", "bins", "running"]])
def test_learners_go_on_as_if_they_had_never_stopped(transforms, tmp_path):
    stream = pr.separable(60, n_features=4, seed=3).stream
    whole, resumed, one_by_one = (pr.ListwisePerceptron(transforms=transforms) for _ in range(3))
    whole.learn(stream)
    resumed.learn(stream[:23])
    resumed.save(tmp_path / "m.json")
    resumed = pr.load(tmp_path / "m.json")
    resumed.learn(stream[23:])
    for query in stream:
        one_by_one.learn_one(query.X, query.relevance)
    assert bits(whole) == bits(resumed) == bits(one_by_one)
    assert np.array_equal(whole.predict(stream), resumed.predict(stream))


def test_bins_learn_what_is_not_linear():
    """Grades that fall with the distance from 0: no weight of the feature itself ranks them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 1))
    grades = np.digitize(-np.abs(X[:, 0]), [-1.0, -0.3])
    stream = pr.QueryStream.from_arrays(X, grades, group=[10] * 400)
    means = {}
    for name in (None, "bins"):
        ranker = pr.ListwisePerceptron(transforms=name)
        ranker.learn(stream[:300])
        means[name] = ranker.score(stream[300:])
    assert means["bins"] > 0.95
    assert means[None] < 0.9


def test_learning_that_fails_changes_nothing():
    stream = pr.separable(10, n_features=2).stream
    bins = pr.Bins(3).learn(stream)
    before = bins.state()
    for wrong in (np.nan, np.inf, -np.inf):
        X = np.array(stream.X)
        X[17, 1] = wrong
        for attempt in (bins.learn_and_apply, bins.apply):
            with pytest.raises(ValueError, match=r"must be finite, got .* at document 17, feature 1"):
                attempt(X, stream.offsets)
    for attempt in (bins.learn_and_apply, bins.apply):
        with pytest.raises(ValueError, match="learned from 2 features, got 3"):
            attempt(np.zeros((1, 3)), [0, 1])
    assert bins.state() == before


def test_bad_settings_and_nothing_seen():
    for n_bins in (1, 0, 2.0, "8", True, 2**17):
        with pytest.raises(ValueError, match="n_bins must be a whole number from 2 to"):
            pr.Bins(n_bins)
    with pytest.raises(ValueError, match="kind must be one of 'hat', 'one-hot', 'thermometer', got 'cold'"):
        pr.Bins(kind="cold")
    with pytest.raises(ValueError, match="after must be a whole number > 0, got 0"):
        pr.Bins(after=0)
    for attempt in (
        lambda: pr.Bins().apply(np.zeros((1, 1)), [0, 1]),
        lambda: pr.Bins().freeze(),
    ):
        with pytest.raises(ValueError, match="bins have no edges before anything was seen: learn from"):
            attempt()


@pytest.mark.parametrize("transforms", ["bins", "auto+bins", ["missing", "bins"], "running"])
def test_who_has_learned_nothing_scores_all_documents_0(transforms):
    """A service that begins with such a model must rank, or it would never get an answer to learn from."""
    X = np.array([[1.0, 2.0], [3.0, 1.0]])
    for make in (lambda one: one, lambda one: pr.Sum([one]), lambda one: pr.Tournament([one, pr.SlamPerceptron()])):
        ranker = make(pr.SlamPerceptron(transforms=transforms))
        assert ranker.predict(X).tolist() == [0.0, 0.0]
        with pytest.raises(ValueError, match="got infinity at document 1, feature 0"):
            ranker.predict([[1.0, 2.0], [np.inf, 1.0]])
    missing = pr.QueryStream.from_arrays([[1.0, np.nan], [3.0, 1.0]], [0, 1], missing="keep")
    ranker = pr.SlamPerceptron(transforms=transforms)
    if transforms[0] == "missing":
        assert ranker.predict(missing).tolist() == [0.0, 0.0]
    else:
        with pytest.raises(ValueError, match="got NaN at document 0, feature 1"):
            ranker.predict(missing)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_bins": 1}, "n_bins must be"),
        ({"kind": "cold"}, "kind must be"),
        ({"count": 29}, "as many documents"),
        ({"count": 0}, "count and edges, or neither"),
        ({"count": -1}, "count must be"),
        ({"frozen": 1}, "frozen"),
        ({"frozen": True}, "sketch if and only if"),
        ({"sketch": None}, "sketch if and only if"),
        ({"edges": [[0.0, 1.0, 2.0]]}, "as many documents and features"),
        ({"edges": [[0.0, 2.0, 1.0], [0.0, 1.0, 2.0]]}, "edges must not fall"),
        ({"edges": [[0.0, 1.0], [0.0, 1.0]]}, "edges must be 3 numbers"),
        ({"sketch": {"levels": []}}, "features and levels"),
        ({"sketch": {"levels": [[[], []]]}}, "must have items"),
        ({"sketch": {"levels": [[[0.0] * 300] * 2]}}, "fewer than 256 items"),
        ({"sketch": {"levels": [[[0.0]]]}}, "fewer than 256 items of each of 2 features"),
        ({"sketch": {"levels": [[[1e9], [0.0]]]}}, "between smallest and largest"),
        ({"sketch": {"pairs": []}}, "pairs must be 1 whole numbers"),
        ({"sketch": {"unpaired": [-1]}}, "unpaired must be a whole number"),
    ],
)
def test_model_files_that_are_wrong_are_refused(change, message):
    state = as_plain(pr.Bins(3).learn(pr.separable(5, n_documents=6, n_features=2).stream))
    if isinstance(change.get("sketch"), dict):
        change = {"sketch": {**state["sketch"], **change["sketch"]}}
    with pytest.raises(ValueError, match=message):
        from_plain({**state, **change})


def test_models_whose_transform_saw_another_width_are_refused(tmp_path):
    ranker = pr.SlamPerceptron(transforms="bins")
    ranker.learn(pr.separable(5, n_features=3).stream)
    document = ranker.as_document()
    other = pr.Bins().learn(pr.separable(5, n_features=2).stream)
    with pytest.raises(ValueError, match="learned from 2 features, got 3"):
        pr.SlamPerceptron.from_document(document | {"transforms": [as_plain(other)]})


def test_on_the_command_line(tmp_path):
    stream = pr.separable(30, n_features=4, seed=1).stream
    pr.write_letor(stream, tmp_path / "train.txt")
    files = [str(tmp_path / "train.txt")]
    done = CliRunner().invoke(app, ["learn", *files, "--transform", "bins", "--save", str(tmp_path / "m.json")])
    assert done.exit_code == 0, done.output
    expected = pr.ListwisePerceptron(transforms="bins")
    expected.learn(pr.read_letor(files))
    assert bits(pr.load(tmp_path / "m.json")) == bits(expected)
    for command in (
        ["evaluate", str(tmp_path / "m.json"), *files],
        ["compare", *files, "--algorithm", "listwise", "--transform", "bins"],
    ):
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.output
    wrong = CliRunner().invoke(app, ["learn", *files, "--transform", "bin+clip", "--transform", "hashed"])
    assert wrong.exit_code == 1
    assert "'bin', 'hashed'" in wrong.output


# Sparse outputs


@pytest.mark.kernel
@ALL_KINDS
@given(
    stream=streams(dtypes=EITHER_PRECISION),
    n_bins=st.sampled_from([2, 3, 4, 9, 33, 34, 60]),
    after=st.sampled_from([1, 7, 10_000]),
    seed=st.integers(0, 10**6),
)
def test_sparse_outputs_are_the_dense_ones(kind, stream, n_bins, after, seed):
    """To the bit, without zeros: while edges move, with ties and constants, and outside the range."""
    dense, sparse = pr.Bins(n_bins, kind, after=after), pr.Bins(n_bins, kind, after=after, sparse=True)
    expected, found = (bins.learn_and_apply(stream.X, stream.offsets) for bins in (dense, sparse))
    assert found == pr.SparseFeatures.from_dense(expected)
    assert {**sparse.state(), "sparse": False} == dense.state()
    X = np.random.default_rng(seed).normal(size=(20, stream.n_features)).astype(stream.X.dtype)
    X[::2] = np.round(X[::2] * 3)
    X[5:8] = np.resize(dense.edges.T, (3, stream.n_features))
    assert sparse.apply(X, [0, 20]) == pr.SparseFeatures.from_dense(dense.apply(X, [0, 20]))


@ALL_KINDS
def test_many_bins_are_found_by_bisection(kind):
    """More edges than are compared with one by one, against the definition."""
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(200, 3)), 1)
    for n_bins in (34, 50, 65):
        bins = pr.Bins(n_bins, kind).learn(pr.QueryStream.from_arrays(X, np.zeros(200)))
        given_ones = np.concatenate([X[:20] + 0.05, X[:20], [[-99.0] * 3, [99.0] * 3]])
        expected = [[one_by_definition(x, bins.edges[j], kind) for j, x in enumerate(row)] for row in given_ones]
        found = bins.apply(given_ones, [0, len(given_ones)])
        np.testing.assert_allclose(found, np.reshape(expected, (len(given_ones), -1)), atol=1e-13)


def test_what_rounds_to_0_is_left_out():
    """Heights that round to 0, in float32 alone or in any precision."""
    fitted = pr.QueryStream.from_arrays([[0.0], [3e38]], [0, 1])
    dense, sparse = (pr.Bins(2, sparse=sparse).learn(fitted) for sparse in (False, True))
    X = np.array([[1e-45], [1e-7], [1e30], [3e38]], np.float32)
    assert sparse.apply(X, [0, 4]) == pr.SparseFeatures.from_dense(dense.apply(X, [0, 4]))
    assert np.diff(sparse.apply(X, [0, 4]).starts).tolist() == [1, 1, 2, 1]
    bins = pr.Bins(2, sparse=True).learn(pr.QueryStream.from_arrays([[-1.0], [1e-20]], [0, 1]))
    assert bins.apply(np.zeros((1, 1)), [0, 1]) == pr.SparseFeatures([1.0], [1], [0, 1], 2)


@given(
    stream=streams(dtypes=EITHER_PRECISION, max_queries=30),
    kind=st.sampled_from(KINDS),
    after=st.sampled_from([5, 40, 10_000]),
    size=st.integers(1, 500),
)
def test_sparse_blocks_and_saving_do_not_change_a_bit(stream, kind, after, size):
    whole, pieces = pr.Bins(4, kind, after=after, sparse=True), pr.Bins(4, kind, after=after, sparse=True)
    expected = whole.learn_and_apply(stream.X, stream.offsets)
    found = []
    for block in stream.blocks(size):
        found.append(pieces.learn_and_apply(block.X, block.offsets))
        pieces = from_plain(json.loads(json.dumps(as_plain(pieces))))
    assert pr.SparseFeatures.concatenate(found) == expected
    assert pieces == whole
    assert repr(pieces) == f"Bins(4, {kind!r}, after={after}, sparse=True)"


def learners_of(transforms):
    slam = pr.SlamPerceptron(transforms=transforms, average=True)
    return {
        "listwise": pr.ListwisePerceptron(transforms=transforms),
        "slam": slam,
        "adagrad": pr.AdaGrad(slam),
        "bagging": pr.Bagging(slam, n_members=3),
        "sum of its own": pr.Sum([pr.SlamPerceptron(), pr.RankNet()], transforms=transforms),
        "sum of theirs": pr.Sum([slam, pr.OnlineRidge(transforms="running")]),
        "tournament": pr.Tournament([slam, pr.PRank(transforms="running")]),
    }


@pytest.mark.kernel
@pytest.mark.parametrize("name", learners_of(None))
@pytest.mark.parametrize("before", [[], ["missing"]])
def test_learners_agree_with_dense_bins_and_resume_to_the_bit(name, before, tmp_path):
    stream = pr.separable(60, n_features=4, seed=3).stream
    dense, sparse, resumed, one_by_one = (
        learners_of([*before, pr.Bins(5, "hat", after=150, sparse=is_sparse)])[name]
        for is_sparse in (False, True, True, True)
    )
    expected, found = dense.learn(stream[:50]), sparse.learn(stream[:50])
    for measure in expected.measures:
        np.testing.assert_allclose(found.values(measure), expected.values(measure), rtol=1e-9)
    np.testing.assert_allclose(found.masses, expected.masses, rtol=1e-9, atol=1e-12)
    scores = dense.predict(stream)
    np.testing.assert_allclose(sparse.predict(stream), scores, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(sparse.predict(stream.to_sparse()), scores, rtol=1e-8, atol=1e-10)
    assert sparse.predict(stream[0].X[:0]).shape == (0,)
    assert np.array_equal(sparse.rank(stream[55].X), dense.rank(stream[55].X))
    assert sparse.n_features_in_ == dense.n_features_in_
    for part in (stream[:23], stream[23:50]):
        resumed.learn(part)
        resumed.save(tmp_path / "m.json")
        resumed = pr.load(tmp_path / "m.json")
    for query in stream[:50]:
        one_by_one.learn_one(query.X, query.relevance)
    assert bits(sparse) == bits(resumed)
    assert np.array_equal(sparse.predict(stream), resumed.predict(stream))
    if name != "bagging":  # whose mean is taken once a block
        assert bits(sparse) == bits(one_by_one)


def test_weights_of_sparse_bins_are_sparse():
    stream = pr.separable(10, n_features=2).stream
    ranker = pr.SlamPerceptron(transforms=pr.Bins(sparse=True))
    ranker.learn(stream)
    assert ranker.as_document()["state"]["weights"].keys() == {"places", "values"}
    assert ranker.coef_.shape == (16,)
    margin = {"margin": 0.1, "radius": 2.0}
    dense = pr.SlamPerceptron(transforms=pr.Bins())
    dense.learn(stream)
    for one, other in zip(ranker.certificate(**margin).promises, dense.certificate(**margin).promises, strict=True):
        assert one.bound == pytest.approx(other.bound)
    traces = pr.compare({"sparse": ranker, "dense": dense}, stream).traces
    np.testing.assert_allclose(traces["sparse"].masses, traces["dense"].masses, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(ranker.coef_, dense.coef_, rtol=1e-8, atol=1e-10)


def test_transforms_around_sparse_bins():
    """Later ones are in their sparse form, from the start; those side by side all make sparse features, or none."""
    stream = pr.separable(30, n_features=3, seed=1).stream
    bins = pr.Bins(4, sparse=True)
    for later in ("running", "clip", "signed-log", pr.Hash(8)):
        in_a_list = pr.SlamPerceptron(transforms=["query-minmax", bins, later])
        in_a_chain = pr.SlamPerceptron(transforms=pr.Chain(pr.Chain("query-minmax", bins), later))
        for ranker in (in_a_list, in_a_chain):
            ranker.learn(stream)
        assert np.array_equal(in_a_list.coef_, in_a_chain.coef_)
        restored = pr.SlamPerceptron.from_document(json.loads(json.dumps(in_a_chain.as_document())))
        assert np.array_equal(restored.predict(stream), in_a_chain.predict(stream))
    assert repr(pr.Chain(bins, "running")) == f"Chain({bins!r}, RunningSpread())"
    joined = pr.Join(bins, pr.Chain("query-minmax", pr.Bins(3, "one-hot", sparse=True)))
    dense = pr.Join(pr.Bins(4), pr.Chain("query-minmax", pr.Bins(3, "one-hot")))
    found, expected = (one.learn_and_apply(stream.X, stream.offsets) for one in (joined, dense))
    assert joined.makes_sparse
    assert not dense.makes_sparse
    assert found == pr.SparseFeatures.from_dense(expected)
    for refused in ("query-zscore", "missing", "auto", pr.Bins(), bins):
        with pytest.raises(TypeError, match="would make sparse features dense"):
            pr.SlamPerceptron(transforms=[bins, refused])
        with pytest.raises(TypeError, match="would make sparse features dense"):
            pr.Chain(bins, refused)
    message = r"all parts of a Join must be sparse, or none: QueryMinMax\(\) is dense"
    with pytest.raises(ValueError, match=message):
        pr.Join(bins, "query-minmax")
    plain = as_plain(pr.Join("query-minmax", "query-rank"))
    plain["parts"][1] = as_plain(bins)
    with pytest.raises(ValueError, match=message):
        from_plain(plain)


def test_a_stream_becomes_sparse():
    stream = pr.QueryStream.from_arrays([[1.0], [3.5], [8.0]], [0, 1, 2], feature_names=["bm25"])
    bins = pr.Bins(3, "one-hot", sparse=True).learn(stream).freeze()
    made = bins.transform(stream)
    assert made.is_sparse
    expected = pr.Bins(3, "one-hot").learn(stream).freeze().transform(stream)
    assert np.array_equal(made.to_dense().X, expected.X)
    assert np.array_equal(made.relevance, stream.relevance)
    assert made.feature_names == ("bm25 <= 1", "1 < bm25 <= 3.5", "bm25 > 3.5")
    for attempt in (
        lambda: bins.transform(stream.to_sparse()),
        lambda: pr.SlamPerceptron(transforms=bins).learn(stream.to_sparse()),
        lambda: pr.Bagging(pr.SlamPerceptron(), transforms=bins).learn(stream.to_sparse()),
    ):
        with pytest.raises(TypeError, match="bins would make sparse features dense, as zeros do not stay zeros"):
            attempt()
    with pytest.raises(TypeError, match="must be a dense array, got a sparse one"):
        bins.apply(stream.to_sparse().X, stream.offsets)
    assert pr.Bins(sparse=True).learn_and_apply(np.zeros((0, 2)), [0]).shape == (0, 16)
    assert pr.SlamPerceptron(transforms=bins).predict(stream).tolist() == [0, 0, 0]


def test_learners_of_dense_features_refuse_sparse_bins():
    stream, bins = pr.separable(10, n_features=2).stream, pr.Bins(3, sparse=True)
    for ranker, name in (
        (pr.PRank(transforms=bins), "prank"),
        (pr.OnlineRidge(transforms=bins), "ridge"),
        (pr.Sum(transforms=bins), "sum"),
        (pr.Sum([pr.OnlineRidge(transforms=bins)]), "ridge"),
        (pr.Bagging(pr.PRank(), transforms=bins), "bagging:prank"),
    ):
        with pytest.raises(TypeError, match=rf"{name} learns from dense features only, its transform Bins\(3, .*spars"):
            ranker.learn(stream)
        assert ranker.n_queries == 0
    with pytest.raises(ValueError, match="sparse must be True or False, got 1"):
        pr.Bins(sparse=1)


def test_transforms_of_others_make_what_they_say():
    class Unsaid(pr.Transform):
        name = "unsaid"

        def apply(self, X, offsets):
            return pr.SparseFeatures.from_dense(X)

    class Said(Unsaid):
        makes_sparse = True

    class Broken(Said):
        def apply(self, X, offsets):
            return X

    stream = pr.separable(10, n_features=2).stream
    with pytest.raises(TypeError, match="Unsaid must return dense features for dense ones"):
        pr.SlamPerceptron(transforms=Unsaid()).learn(stream)
    with pytest.raises(TypeError, match="Broken must return sparse features, as makes_sparse says"):
        pr.SlamPerceptron(transforms=Broken()).learn(stream)
    said, expected = pr.SlamPerceptron(transforms=Said()), pr.SlamPerceptron()
    said.learn(stream)
    expected.learn(stream.to_sparse())
    assert np.array_equal(said.coef_, expected.coef_)


def test_models_whose_weights_do_not_fit_their_bins_are_refused():
    stream = pr.separable(10, n_features=2).stream
    documents = []
    for sparse in (False, True):
        ranker = pr.SlamPerceptron(transforms=pr.Bins(3, sparse=sparse))
        ranker.learn(stream)
        documents.append(ranker.as_document())
    for one, other in (documents, documents[::-1]):
        with pytest.raises(
            (TypeError, ValueError), match=r"weights must be sparse exactly when|X must be a dense array"
        ):
            pr.SlamPerceptron.from_document(one | {"state": other["state"]})
    ensembles = []
    for given_one in (stream, stream.to_sparse()):
        ranker = pr.Sum([pr.SlamPerceptron()])
        ranker.learn(given_one)
        ensembles.append(ranker.as_document())
    for one, other in (ensembles, ensembles[::-1]):
        with pytest.raises(ValueError, match="members must have learned from sparse features if and only if"):
            pr.Sum.from_document(one | {"members": other["members"]})


def test_many_bins_take_little_memory():
    """65,536 bins of 136 features, of which a dense row alone takes 71 MB: blocks must not."""
    rng = np.random.default_rng(0)
    stream = pr.QueryStream.from_arrays(rng.normal(size=(100, 136)), rng.integers(0, 3, 100), group=[50, 50])
    bins = pr.Bins(2**16, "one-hot", after=50, sparse=True).learn(stream)
    assert bins.frozen
    tracemalloc.start()
    made = bins.apply(stream.X, stream.offsets)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert made.shape == (100, 136 * 2**16)
    assert made.n_nonzeros == 100 * 136
    assert peak < 10**6
    ranker = pr.SlamPerceptron(transforms=bins)
    ranker.learn(stream)
    assert ranker.n_queries == 2
    assert np.count_nonzero(ranker.coef_) <= made.n_nonzeros
    wide = np.zeros((1, 2**15))
    with pytest.raises(ValueError, match="32768 features become 2147483648, more than 2147483647: take fewer bins"):
        bins.learn_and_apply(wide, [0, 1])


def test_non_zeros_that_do_not_fit_into_memory_are_refused():
    bins = pr.Bins(2**16, "thermometer", sparse=True).learn(pr.QueryStream.from_arrays([[0.0], [1.0]], [0, 1]))
    n = 10**6
    with pytest.raises(MemoryError, match=r"a block of 65535000000 non-zeros of Bins\(65536, .*takes 1048.6 GB"):
        bins.apply(np.full((n, 1), 9.0, np.float32), [0, n])
