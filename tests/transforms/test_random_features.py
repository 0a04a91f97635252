"""Random features against their definition, the kernel that they approximate, and what learners make of them."""

import copy
import functools
import json
import math
import pickle

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.learners import bits
from support.strategies import EITHER_PRECISION, streams
from typer.testing import CliRunner

import perceptrank as pr
from perceptrank.cli.app import app
from perceptrank.kernels.lanes import LANES
from perceptrank.transforms.median_distance import MedianDistance
from perceptrank.transforms.random import draws
from perceptrank.transforms.random.fastfood import block_size
from perceptrank.transforms.random.waves import store_waves
from perceptrank.transforms.registry import as_plain, from_plain, make_transforms


@functools.cache
def hadamard(n):
    """H_ij = -1 to the number of bits that i and j have in common."""
    return np.array([[(-1.0) ** (i & j).bit_count() for j in range(n)] for i in range(n)])


def fastfood_directions(transform, n_features):
    """S H G P H B, written out."""
    n = block_size(n_features)
    H, blocks = hadamard(n), []
    for signs, order, numbers, lengths in zip(*transform._draw(n_features, np.float64), strict=True):
        P = np.eye(n)[order]
        blocks.append(np.diag(lengths) @ H @ np.diag(numbers) @ P @ H @ np.diag(signs))
    return np.concatenate(blocks)[: transform.n_features // 2, :n_features]


def by_definition(transform, X):
    """Random features of a document at a time, in double precision; the width must be known."""
    d = X.shape[1]
    made, rows = [], fastfood_directions(transform, d)
    for x in X.astype(float):
        angles = [float(w @ x) / transform.width_ for w in rows]
        random = [function(angle) / math.sqrt(len(rows)) for function in (math.sin, math.cos) for angle in angles]
        made.append([*(x if transform.beside else ()), *(transform.norm_for(d) * one for one in random)])
    return np.array(made)


@pytest.mark.kernel
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("d", "n_features", "m"), [(1, 2, 1), (3, 32, 7), (8, 50, 50), (20, 206, 3), (40, 128, 9), (130, 600, 13)]
)
def test_they_equal_their_definition(dtype, d, n_features, m):
    """Whatever the numbers of documents, features and random features are, beside those that kernels like."""
    rng = np.random.default_rng(d)
    X = rng.normal(size=(m, d)).astype(dtype)
    for beside in (False, True):
        transform = pr.Fastfood(n_features, width=2.5, beside=beside, seed=d)
        made = transform.apply(X, [0, m])
        assert made.dtype == dtype
        assert made.shape == (m, transform.n_outputs(d))
        tolerance = 2e-5 if dtype == np.float32 else 1e-12  # of sums of as many products as there are features
        np.testing.assert_allclose(made, by_definition(transform, X), rtol=0, atol=tolerance)


@pytest.mark.kernel
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sines_and_cosines_are_exact_to_the_precision_of_numbers(dtype):
    """Of angles of any size: in turns, what is left after whole ones is known exactly."""
    turns = np.concatenate([np.linspace(-3, 3, 60_001), np.geomspace(1e-30, 1e6, 5000), [0.25, 0.5, 0.75, 1e30]])
    turns = np.append(turns, np.zeros(-len(turns) % LANES)).astype(dtype)
    waves = np.empty((2, len(turns)), dtype)
    write_waves(turns, dtype(1.0), waves)
    rest = (turns - np.rint(turns)).astype(float)
    bound = 3e-7 if dtype == np.float32 else 1e-15
    assert np.abs(waves[0] - np.sin(2 * np.pi * rest)).max() < bound
    assert np.abs(waves[1] - np.cos(2 * np.pi * rest)).max() < bound


@numba.njit
def write_waves(turns, scale, waves):
    store_waves(turns, 0, len(turns) // LANES, scale, waves, 0, len(turns))


@pytest.mark.kernel
@given(stream=streams(dtypes=EITHER_PRECISION), size=st.integers(1, 500))
def test_blocks_do_not_change_a_bit(stream, size):
    whole, pieces = pr.Fastfood(18), pr.Fastfood(18)
    expected = whole.learn_and_apply(stream.X, stream.offsets)
    found = [pieces.learn_and_apply(block.X, block.offsets) for block in stream.blocks(size)]
    assert np.array_equal(np.concatenate(found), expected)
    assert pieces == whole
    joined = pr.Join("query-rank", pr.Fastfood(18)).learn_and_apply(stream.X, stream.offsets)
    assert np.array_equal(joined[:, stream.n_features :], expected)


def test_what_is_drawn_is_the_same_everywhere():
    """Written down, so that no other machine or version draws anything else: models would be worth nothing there."""
    assert [hex(word) for word in draws.draw_words(7, 3, 0, 2).tolist()] == WORDS
    assert draws.draw_normal(0, 1, 0, 4).tolist() == NORMAL
    assert draws.draw_lengths(0, 5, 0, 3, 16).tolist() == LENGTHS
    assert draws.draw_order(0, 3, 0, 6).tolist() == ORDER
    assert pr.Fastfood(4).directions(2).tolist() == FASTFOOD


WORDS = ["0x95e8a2e04f865f32", "0x50b9907610f286d3"]
NORMAL = [-0.25843917634068997, 1.1096228633127754, 0.14404299895438186, 0.28809309398555333]
LENGTHS = [3.4424752574285855, 3.7878573051102578, 4.323454475410945]
ORDER = [5, 1, 2, 3, 0, 4]
FASTFOOD = [[0.26911841166977274, -0.03623837482821605], [-1.014099468913231, 1.0125647900358112]]


def test_numbers_are_distributed_as_they_should_be():
    n = 200_000
    normal = draws.draw_normal(5, 1, 0, n)
    for power, moment in ((1, 0), (2, 1), (3, 0), (4, 3), (6, 15)):
        values = normal**power
        assert abs(values.mean() - moment) < 4 * values.std() / math.sqrt(n)
    assert abs(np.corrcoef(normal[:-1], normal[1:])[0, 1]) < 4 / math.sqrt(n)
    uniform = draws.draw_uniform(5, 1, 0, n)
    assert 0 < uniform.min() < 1e-4
    assert 1 - 1e-4 < uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 4 * math.sqrt(1 / 12 / n)
    assert abs(draws.draw_signs(5, 1, 0, n).mean()) < 4 / math.sqrt(n)
    for dimension in (2, 3, 64):
        squares = draws.draw_lengths(5, 9, 0, n, dimension) ** 2  # chi-squared
        assert abs(squares.mean() - dimension) < 4 * math.sqrt(2 * dimension / n)
        assert abs(squares.var() / (2 * dimension) - 1) < 0.05
    assert sorted(draws.draw_order(5, 2, 0, 50)) == list(range(50))
    assert np.array_equal(draws.draw_normal(5, 1, 100, 10), normal[100:110])
    assert not np.array_equal(draws.draw_normal(6, 1, 0, 10), normal[:10])


def test_logarithms_and_sines_are_those_of_numpy():
    x = np.concatenate([np.geomspace(1e-17, 1e17, 10_000), [0.5, 1.0, math.sqrt(0.5)]])
    np.testing.assert_allclose(draws._log(x), np.log(x), rtol=1e-14, atol=1e-15)
    turns = np.linspace(-2, 2, 10_001)
    np.testing.assert_allclose(draws._sine(turns), np.sin(2 * np.pi * turns), atol=4e-15)
    np.testing.assert_allclose(draws._cosine(turns), np.cos(2 * np.pi * turns), atol=4e-15)


def test_more_directions_begin_with_the_same():
    assert np.array_equal(pr.Fastfood(24, seed=3).directions(10), pr.Fastfood(50, seed=3).directions(10)[:12])


def gaussian(X, width):
    gaps = X[:, None] - X
    return np.exp(-np.square(gaps).sum(axis=2) / (2 * width**2))


def features(n, width, seed, X):
    return pr.Fastfood(n, width=width, beside=False, seed=seed).apply(X, [0, len(X)])


def mean_error(make, kernel, seeds=6):
    made = [make(seed) for seed in range(seeds)]
    return math.sqrt(np.mean([np.square(one @ one.T - kernel).mean() for one in made]))


def test_products_approximate_the_kernel_as_one_over_the_root():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(30, 10))
    kernel, sizes = gaussian(X, 3.0), (128, 512, 2048, 8192)
    errors = [mean_error(lambda seed, n=n: features(n, 3.0, seed, X), kernel) for n in sizes]
    for n, error in zip(sizes, errors, strict=True):
        assert error * math.sqrt(n) < 1.1
        assert error * math.sqrt(n) > 0.1
    assert 2**1.5 < errors[0] / errors[3] < 2**4.5


@pytest.mark.parametrize("d", [1, 5, 9])
def test_products_are_the_kernel_in_expectation(d):
    """The mean over many seeds of as few directions as there can be, and of one block of them and a part of another."""
    check_expectation(d, n_features=2, n_seeds=400)
    check_expectation(d, n_features=2 * d + 4, n_seeds=100)


@pytest.mark.deep
def test_products_of_many_seeds_are_the_kernel_in_expectation():
    for d in (2, 3, 8, 16, 17):
        check_expectation(d, n_features=4 * d, n_seeds=20_000)


def check_expectation(d, n_features, n_seeds):
    X = np.random.default_rng(d).normal(size=(4, d)) * np.array([[0.1], [0.5], [1.0], [2.0]])
    kernel = gaussian(X, 1.5)
    made = [features(n_features, 1.5, seed, X) for seed in range(n_seeds)]
    products = np.stack([one @ one.T for one in made])
    errors = products.std(axis=0) / math.sqrt(n_seeds)
    assert (np.abs(products.mean(axis=0) - kernel) <= 5 * errors + 1e-12).all()


@pytest.mark.parametrize("d", [3, 16, 64])
@pytest.mark.parametrize("relative_width", [0.5, 1.0, 2.0])
def test_directions_that_depend_on_each_other_are_nearly_as_good_as_independent_ones(d, relative_width):
    X = np.random.default_rng(2).normal(size=(30, d))
    width = relative_width * math.sqrt(2 * d)
    kernel = gaussian(X, width)

    def of_independent_directions(seed):
        angles = X @ np.random.default_rng(seed).normal(size=(d, 200)) / width
        return np.hstack([np.sin(angles), np.cos(angles)]) / math.sqrt(200)

    error = mean_error(lambda seed: features(400, width, seed, X), kernel, seeds=40)
    assert error < 1.5 * mean_error(of_independent_directions, kernel, seeds=40)


def test_norms_are_known_before():
    stream = pr.separable(30, n_features=6, seed=3).stream
    for beside in (False, True):
        for norm in (None, 3.0):
            chain = pr.Chain("auto", pr.Fastfood(64, beside=beside, norm=norm))
            made = chain.learn_and_apply(stream.X, stream.offsets)
            bound = chain.largest_norm(6, np.diff(stream.offsets).max())
            norms = np.linalg.norm(made, axis=1)
            assert norms.max() <= bound * (1 + 1e-12)
            if not beside:
                np.testing.assert_allclose(norms, norm or 1.0, rtol=1e-14)
                assert bound == (norm or 1.0)
            ranker = pr.ListwisePerceptron(transforms=["auto", pr.Fastfood(64, beside=beside, norm=norm)])
            ranker.learn(stream)
            assert ranker.model.largest_norm(6, np.diff(stream.offsets).max()) == bound
    assert pr.Fastfood(8).largest_norm(3, 5) == math.inf
    assert pr.Fastfood(8, beside=False, norm=2.0).largest_norm(3, 5) == 2.0


def median_by_definition(queries):
    gaps = [
        math.dist(x, y)
        for X in queries
        for i, x in enumerate(X[:64].tolist())
        for y in X[i + 1 : 64].tolist()
        if x != y
    ]
    return sorted(gaps)[-(-len(gaps) // 2) - 1] if gaps else 0.0


def test_the_width_is_the_median_of_distances_within_queries():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(24, 3))
    X[4] = X[5]
    offsets = np.array([0, 1, 6, 14, 24])
    transform = pr.Fastfood(8, after=10, relative_width=0.5)
    assert transform.width_ == 0.0
    seen = []
    for start, stop, is_frozen in ((0, 1, False), (1, 6, False), (6, 14, True)):
        seen.append(X[start:stop])
        made = transform.learn_and_apply(X[start:stop], [0, stop - start])
        expected = 0.5 * median_by_definition(seen) or 1.0
        assert transform.width_ == pytest.approx(expected, rel=1e-14)
        assert transform.frozen == is_frozen
        np.testing.assert_allclose(made, by_definition(transform, X[start:stop]), atol=1e-12)
    before = transform.state()
    transform.learn_and_apply(X[14:], [0, 10])
    assert transform.state() == before
    assert pr.Fastfood(8, after=10).learn(pr.QueryStream(X, np.zeros(24), offsets)).state() == before
    assert pr.Fastfood(8).learn(pr.QueryStream(X, np.zeros(24), offsets)).freeze().frozen


def test_the_width_follows_the_scale_of_features_however_small():
    """Squares of such gaps are 0 in double precision; a power of 2 changes no bit of what comes out."""
    X = np.random.default_rng(0).normal(size=(20, 3))
    X[:, 2] = 0.0
    usual, small = pr.Fastfood(16, beside=False), pr.Fastfood(16, beside=False)
    expected = usual.learn_and_apply(X, [0, 20])
    for power in (-700, -300, 300):
        small = pr.Fastfood(16, beside=False)
        assert np.array_equal(small.learn_and_apply(np.ldexp(X, power), [0, 20]), expected)
        assert small.width_ == math.ldexp(usual.width_, power)


def test_only_some_documents_of_a_long_query_are_compared():
    X = np.random.default_rng(0).normal(size=(300, 2))
    median = MedianDistance().add(X)
    assert median.n_documents == 300
    assert median.value == MedianDistance().add(X[:64]).value
    ranks = sorted(math.dist(x, y) for i, x in enumerate(X[:64]) for y in X[i + 1 : 64])
    assert abs(np.searchsorted(ranks, median.value) - len(ranks) / 2) <= 124


def test_widths_are_merged_while_they_move():
    stream = pr.separable(30, n_features=4, seed=1).stream
    one, other = pr.Fastfood(8, after=10_000), pr.Fastfood(8, after=10_000)
    one.learn(stream[:10])
    other.learn(stream[10:])
    merged = copy.deepcopy(one).merge(other)
    whole = pr.Fastfood(8, after=10_000).learn(stream)
    assert merged.width_ == pytest.approx(whole.width_, rel=0.05)
    assert copy.deepcopy(pr.Fastfood(8, after=10_000)).merge(one) == one
    assert copy.deepcopy(one).merge(pr.Fastfood(8, after=10_000)) == one
    frozen = copy.deepcopy(one).freeze()
    assert copy.deepcopy(frozen).merge(frozen) == frozen
    with pytest.raises(ValueError, match="widths that no longer move can be merged with equal ones alone"):
        copy.deepcopy(frozen).merge(other)
    with pytest.raises(ValueError, match="differ in their settings"):
        copy.deepcopy(one).merge(pr.Fastfood(10, after=10_000))
    assert pr.Fastfood(8, width=1.0).merge(pr.Fastfood(8, width=1.0)) == pr.Fastfood(8, width=1.0)


@pytest.mark.parametrize("n_before", [3, 40])
def test_models_go_on_as_if_they_had_never_stopped(n_before, tmp_path):
    """The file has a seed and a shape, no matrix."""
    stream = pr.separable(60, n_features=5, seed=3).stream
    transforms = ["auto", pr.Fastfood(4096, after=200, seed=8)]
    make = lambda: pr.ListwisePerceptron(transforms=transforms)  # noqa: E731
    whole, resumed, one_by_one = make(), make(), make()
    whole.learn(stream)
    resumed.learn(stream[:n_before])
    resumed.save(tmp_path / "m.json")
    saved = json.loads((tmp_path / "m.json").read_text())["transforms"][1]
    assert len(json.dumps(saved)) < 20_000
    assert saved["seed"] == 8
    resumed = pr.load(tmp_path / "m.json")
    resumed.learn(stream[n_before:])
    for query in stream:
        one_by_one.learn_one(query.X, query.relevance)
    assert bits(resumed) == bits(whole) == bits(one_by_one)
    assert np.array_equal(resumed.predict(stream), whole.predict(stream))
    again = pickle.loads(pickle.dumps(whole))
    assert np.array_equal(again.predict(stream), whole.predict(stream))
    assert whole.transforms_[1] is not transforms[1]
    assert make_transforms(transforms)[1] == transforms[1]


@pytest.mark.parametrize(
    "make",
    [
        lambda transforms: pr.SlamPerceptron(transforms=transforms),
        lambda transforms: pr.OnlineRidge(transforms=transforms),
        lambda transforms: pr.AdaGrad(pr.OnlineListNet(transforms=transforms)),
        lambda transforms: pr.Bagging(pr.SlamPerceptron(transforms=transforms), n_members=2),
        lambda transforms: pr.Sum([pr.SlamPerceptron(), pr.OnlineRidge()], transforms=transforms),
        lambda transforms: pr.Tournament([pr.SlamPerceptron(), pr.SlamPerceptron(transforms=transforms)]),
    ],
    ids=["slam", "ridge", "adagrad", "bagging", "sum", "tournament"],
)
def test_any_learner_learns_behind_them(make, tmp_path):
    stream = pr.separable(30, n_features=5, seed=1).stream
    whole, one_by_one = (make(["auto", pr.Fastfood(32)]) for _ in range(2))
    whole.learn(stream)
    for query in stream:
        one_by_one.learn_one(query.X, query.relevance)
    assert bits(one_by_one) == bits(whole)
    whole.save(tmp_path / "m.json")
    assert np.array_equal(pr.load(tmp_path / "m.json").predict(stream), one_by_one.predict(stream))


def test_certificates_hold_on_random_features():
    """The theorems are about transformed features: radius and comparator are those of a ranker of these."""
    stream = pr.separable(150, n_features=4, seed=5).stream
    transform = pr.Chain("auto", pr.Fastfood(64, width=2.0))
    made = transform.transform(stream)
    other = pr.SlamPerceptron("ndcg@10")
    other.learn(made)
    loss = pr.theory.cumulative_surrogate(other.weights, made, "ndcg@10", surrogate="level-pair")
    ranker = pr.ListwisePerceptron("ndcg@10", transforms=transform, average=False)
    ranker.learn(stream)
    radius = ranker.model.largest_norm(4, np.diff(stream.offsets).max())
    found = ranker.certificate(comparator=(float(np.linalg.norm(other.weights)), loss), radius=radius)
    assert [promise.name for promise in found.promises] == ["a posteriori", "from the steps", "a priori"]
    assert found.holds
    assert found.mass > 0


def test_a_curve_that_no_linear_ranker_knows_is_learned():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12_000, 3))
    grades = np.digitize(-np.abs(X[:, 0] - 0.3) + 0.3 * X[:, 1] * X[:, 2], [-1.2, -0.5])
    stream = pr.QueryStream.from_arrays(X, grades, group=[20] * 600)
    linear, curved = (
        pr.ListwisePerceptron("ndcg@10", transforms=transforms).learn(stream).values("ndcg@10")[-200:].mean()
        for transforms in ("running", ["running", "fastfood:n_features=512"])
    )
    assert 1 - curved < 0.5 * (1 - linear)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pr.Fastfood(7), "n_features must be even, as sines and cosines come in pairs, got 7"),
        (lambda: pr.Fastfood(0), "n_features must be a whole number > 0, got 0"),
        (lambda: pr.Fastfood(width=0.0), "width must be a number > 0, got 0.0"),
        (lambda: pr.Fastfood(relative_width=math.inf), "relative_width must be a number > 0, got inf"),
        (lambda: pr.Fastfood(beside="yes"), "beside must be True or False, got 'yes'"),
        (lambda: pr.Fastfood(norm=0), "norm must be a number > 0, got 0"),
        (lambda: pr.Fastfood(seed=-1), "seed must be a whole number >= 0"),
        (lambda: pr.Fastfood(after=0), "after must be a whole number > 0, got 0"),
        (lambda: pr.Fastfood().apply(np.ones((2, 2)), [0, 2]), "fastfood has no width before anything was seen: learn"),
        (
            lambda: pr.Fastfood(2, width=1e-310).apply(np.ones((2, 2)), [0, 2]),
            "cannot divide float64 features by a width of 1e-310: scale the features first",
        ),
        (
            lambda: pr.Fastfood(2, width=1e-40).apply(np.ones((2, 2), np.float32), [0, 2]),
            "cannot divide float32 features by a width of 1e-40",
        ),
        (
            lambda: pr.Fastfood(2).learn_and_apply(np.array([[1e300], [-1e300]]), [0, 2]),
            "distances of documents overflow, as features are too large: scale them first",
        ),
        (lambda: pr.Fastfood(2).learn_and_apply(np.array([[1.0], [np.nan]]), [0, 2]), "got NaN at document 1"),
        (
            lambda: pr.Fastfood(2, relative_width=1e-200).learn_and_apply(np.eye(2) * 1e-200, [0, 2]),
            "cannot have a width of 1e-200 times the median distance of documents, 1.41421e-200: scale the features",
        ),
        (
            lambda: pr.Fastfood(2, relative_width=1e200).learn(pr.QueryStream(np.eye(2) * 1e120, [0, 1], [0, 2])),
            "cannot have a width of 1e+200 times the median distance of documents, 1.41421e+120: scale the features",
        ),
        (
            lambda: pr.Fastfood(2, width=1.0, norm=1e300).apply(np.ones((2, 2), np.float32), [0, 2]),
            "fastfood cannot multiply float32 features by 1e+300: take another norm than 1e+300",
        ),
        (
            lambda: pr.Fastfood(2, width=1.0, norm=1e-300).apply(np.ones((2, 2), np.float32), [0, 2]),
            "fastfood cannot multiply float32 features by 1e-300: take another norm than 1e-300",
        ),
    ],
)
def test_errors_say_what_is_wrong(make, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(").replace("+", r"\+")):
        make()


def test_bad_input_changes_nothing():
    stream = pr.separable(5, n_features=3).stream
    ranker = pr.ListwisePerceptron(transforms=pr.Fastfood(16))
    ranker.learn(stream)
    before = bits(ranker)
    for value in (np.nan, np.inf):
        X = np.ones((3, 3))
        X[1, 2] = value
        with pytest.raises(ValueError, match="at document 1, feature 2"):
            ranker.learn_one(X, [0, 1, 2])
    with pytest.raises(ValueError, match="expecting 3 features"):
        ranker.learn_one(np.ones((3, 4)), [0, 1, 2])
    assert bits(ranker) == before
    transform = ranker.transforms_[0]
    with pytest.raises(ValueError, match="the transform was learned from 3 features, got 2"):
        transform.apply(np.ones((2, 2)), [0, 2])
    for name, wrong in (("n_inputs", 0), ("width_now", -1.0), ("frozen", 1), ("median", None), ("n_features", 3)):
        with pytest.raises((ValueError, TypeError)):
            from_plain(as_plain(transform) | {name: wrong})
    sparse = pr.SparseFeatures.from_dense(np.eye(3))
    with pytest.raises(TypeError, match=r"makes dense features of all features at once.*to_dense\(\)"):
        pr.ListwisePerceptron(transforms=pr.Fastfood(16)).learn_one(sparse, [0, 1, 2])
    with pytest.raises(TypeError, match="takes no sparse ones"):
        pr.ListwisePerceptron(transforms=[pr.Bins(4, sparse=True), pr.Fastfood(16)])
    with pytest.raises(ValueError, match="so that none can be constrained"):
        pr.ListwisePerceptron(transforms=pr.Fastfood(16), positive=[0]).learn(stream)


def test_too_much_for_the_memory_is_refused():
    with pytest.raises(MemoryError, match="random numbers of 500000000000 directions takes"):
        pr.Fastfood(10**12).directions(3)
    with pytest.raises(MemoryError, match=r"Fastfood\(1000000000000, .* of 3 features takes"):
        pr.ListwisePerceptron(transforms=pr.Fastfood(10**12)).learn_one(np.eye(3), [0, 1, 2])


def test_names_of_outputs():
    names = ("a", "b")
    assert pr.Fastfood(4).output_names(names) == ("a", "b", "sine 0", "sine 1", "cosine 0", "cosine 1")
    assert pr.Fastfood(2, beside=False).output_names(names) == ("sine 0", "cosine 0")
    assert pr.Fastfood(4).output_names(None) is None


def test_settings_follow_names():
    (one,) = make_transforms("fastfood:n_features=64,relative_width=1,beside=false")
    assert one == pr.Fastfood(64, relative_width=1, beside=False)
    (joined,) = make_transforms("query-rank+clip:limit=2")
    assert joined == pr.Join("query-rank", pr.Clip(2))
    assert make_transforms("bins:n-bins=4,kind=one-hot") == [pr.Bins(4, "one-hot")]
    with pytest.raises(ValueError, match="settings like name:setting=value, and clip has limit, got 'clip:high=2'"):
        make_transforms("clip:high=2")
    with pytest.raises(ValueError, match=r"query-rank has no settings, got 'query-rank:a=1'"):
        pr.SlamPerceptron(transforms="query-rank:a=1")
    with pytest.raises(ValueError, match="limit must be"):
        make_transforms("clip:limit=-2")
    with pytest.raises(ValueError, match=r"transforms must be one of 'auto'.*got 'klip:limit=2'"):
        make_transforms("klip:limit=2")


def test_blocks_are_small_where_features_become_many():
    """So that 8,192 random features of a stream take no more memory than those of a few queries."""
    stream = pr.QueryStream.from_arrays(np.zeros((20_000, 2), np.float32), np.zeros(20_000), group=[20] * 1000)
    ranker = pr.ListwisePerceptron(transforms=pr.Fastfood(8192))
    most = max(block.n_documents for block in ranker.model.blocks(stream))
    assert 20 <= most <= 600
    plain = pr.ListwisePerceptron()
    assert max(block.n_documents for block in plain.model.blocks(stream)) == 20_000


def test_the_whole_recipe_on_the_command_line(tmp_path):
    stream = pr.separable(30, n_features=4, seed=2).stream
    pr.write_letor(stream, tmp_path / "train.txt")
    transform, model = "fastfood:n_features=32,seed=5", tmp_path / "model.json"
    given = ["learn", str(tmp_path / "train.txt"), "--transform", "auto", "--transform", transform]
    done = CliRunner().invoke(app, [*given, "--save", str(model)])
    assert done.exit_code == 0, done.output
    expected = pr.ListwisePerceptron(transforms=["auto", transform])
    expected.learn(pr.read_letor(tmp_path / "train.txt"))
    assert bits(pr.load(model)) == bits(expected)
    done = CliRunner().invoke(app, ["evaluate", str(model), str(tmp_path / "train.txt")])
    assert done.exit_code == 0, done.output
    done = CliRunner().invoke(app, [*given[:-1], "fastfood:pairs=3"])
    assert done.exit_code != 0
    assert "fastfood has n_features, width" in " ".join(done.output.split())
