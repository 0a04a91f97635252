"""What OpenSearch and Elasticsearch make of the scores of clauses, against definitions that go score by score."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import perceptrank as pr
from perceptrank.transforms.registry import as_plain, from_plain, make_transforms

F = np.float32
NAN = math.nan
KINDS = [(engine, which) for engine in ("opensearch", "elasticsearch") for which in ("min_max", "l2", "rrf")]
KINDS.append(("opensearch", "z_score"))


def by_definition(hits, engine, which, constant=60):
    """What becomes of the scores of a clause, best first; every operation on float32 or on Python's doubles."""
    hits = [F(score) for score in hits]
    if which == "min_max":
        low, high = hits[0], F(1e-45)
        for score in hits:
            low, high = min(low, score), max(high, score)
        if engine == "elasticsearch":
            return [F(1) if high - low < F(1e-6) else (score - low) / (high - low) for score in hits]
        scaled = [F(1) if high == low else (score - low) / (high - low) for score in hits]
        return [F(0.001) if score == 0 else score for score in scaled]
    if which == "l2" and engine == "opensearch":
        total = F(0)
        for score in hits:
            total = total + score * score
        norm = F(math.sqrt(total))
        return [score / norm if norm > 0 else F(0) for score in hits]
    if which == "l2":
        total = 0.0
        for score in hits:
            total += float(score * score)
        norm = math.sqrt(total)
        return [score if norm < float(F(1e-6)) else F(float(score) / norm) for score in hits]
    if which == "rrf" and engine == "elasticsearch":
        return [F(1) / F(constant + rank) for rank in range(1, len(hits) + 1)]
    if which == "rrf":
        exact = [Fraction(10**10, constant + rank) + Fraction(1, 2) for rank in range(1, len(hits) + 1)]
        return [F(math.floor(share) / 10**10) for share in exact]
    n = len(hits)
    total = correction = squares = gaps = 0.0
    for score in hits:
        total += float(score)
    for score in hits:
        correction += float(score) - total / n
    mean = total / n + correction / n
    for score in hits:
        gap = float(score) - mean
        squares, gaps = squares + gap * gap, gaps + gap
    deviation = F(math.sqrt((squares - gaps * gaps / n) / (n - 1))) if n > 1 else F(0)
    values = []
    for score in hits:
        if score == F(mean):
            values.append(max(hits))
        elif deviation == 0:
            values.append(min(hits))
        else:
            values.append(max((score - F(mean)) / deviation, F(0.001)) if score > F(mean) else F(0.001))
    return values


def normalized(column, engine="opensearch", which="min_max", dtype=np.float32, **settings):
    """What the transform makes of one clause in one query, whose scores NaN marks as not returned."""
    X = np.array(column, dtype)[:, None]
    return pr.HybridScores(engine, which, **settings).apply(X, np.array([0, len(X)]))[:, 0]


SCORES = st.one_of(
    st.floats(0.0, 30.0, width=32),
    st.sampled_from([0.0, 1.0, 1.0 + 2.0**-22, 1e-7, 0.5]),
    st.floats(0.0, 2.0**40, width=32),
)


@pytest.mark.parametrize(("engine", "which"), KINDS)
@given(
    columns=st.lists(st.lists(st.one_of(st.just(NAN), SCORES), min_size=1, max_size=12), min_size=1, max_size=3),
    constant=st.integers(1, 10_000),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_transforms_equal_their_definitions_to_the_bit(engine, which, columns, constant, dtype):
    X = np.array([value for column in columns for value in column], dtype)[:, None]
    offsets = np.cumsum([0, *map(len, columns)])
    transform = pr.HybridScores(engine, which, rank_constant=constant)
    found = transform.apply(np.hstack([X, X[::-1]]), offsets)
    assert found.dtype == dtype
    for start, stop in itertools.pairwise(offsets):
        column = X[start:stop, 0]
        places = [i for i in range(len(column)) if not math.isnan(column[i])]
        places.sort(key=lambda i: -column[i])  # stable: equal scores as they stand
        expected = np.zeros(len(column), np.float32)
        if places:
            expected[places] = by_definition(column[places], engine, which, constant)
        assert np.array_equal(found[start:stop, 0], expected)
    limit = transform.largest_norm(2, 12)
    assert (np.linalg.norm(found, axis=1) <= limit).all()


@pytest.mark.parametrize(
    ("engine", "which", "column", "expected"),
    [
        # a clause that returns one document, or equal scores, or nothing
        ("opensearch", "min_max", [7.0, NAN], [1, 0]),
        ("opensearch", "min_max", [2.0, 2.0], [1, 1]),
        ("opensearch", "min_max", [0.0, 0.0], [0.001, 0.001]),  # as its maximum starts above 0
        ("opensearch", "min_max", [NAN, NAN], [0, 0]),
        ("opensearch", "min_max", [1.0, 2.0, 5.0, NAN], [0.001, 0.25, 1, 0]),
        ("opensearch", "min_max", [1.0, 1.0001, 2.0], [0.001, (F(1.0001) - F(1)), 1]),  # behind the lowest
        ("elasticsearch", "min_max", [7.0, NAN], [1, 0]),
        ("elasticsearch", "min_max", [0.0, 0.0], [1, 1]),
        ("elasticsearch", "min_max", [1.0, 2.0, 5.0, NAN], [0, 0.25, 1, 0]),
        ("elasticsearch", "min_max", [1e-7, 5e-7], [1, 1]),  # less than 0.000001 apart
        ("opensearch", "l2", [3.0, 4.0, NAN], [F(0.6), F(0.8), 0]),
        ("opensearch", "l2", [0.0, 0.0], [0, 0]),
        ("elasticsearch", "l2", [3.0, 4.0, NAN], [F(0.6), F(0.8), 0]),
        ("elasticsearch", "l2", [0.0, 0.0], [0, 0]),
        ("elasticsearch", "l2", [5e-7, 0.0], [F(5e-7), 0]),  # left as they are
        ("elasticsearch", "l2", [7.0710672e-07, 7.071068e-07], [F(7.0710672e-07), F(7.071068e-07)]),  # in double, too
        ("opensearch", "z_score", [7.0, NAN], [7, 0]),  # equal to the mean: the largest score as it is
        ("opensearch", "z_score", [2.0, 2.0], [2, 2]),
        ("opensearch", "z_score", [1.0, 2.0, 3.0], [0.001, 3, 1]),  # the middle one is the mean
        ("opensearch", "z_score", [0.0, 0.0, 3.0], [0.001, 0.001, F(2 / math.sqrt(3))]),
        ("opensearch", "rrf", [1.0, NAN, 9.0, 1.0], [1 / 62, 0, 1 / 61, 1 / 63]),
        ("elasticsearch", "rrf", [1.0, NAN, 9.0, 1.0], [1 / 62, 0, 1 / 61, 1 / 63]),
        # negative scores, which Lucene does not return
        ("opensearch", "min_max", [-1.0, -3.0], [F(2 / 3), 0.001]),  # the maximum is not below 0
        ("elasticsearch", "min_max", [-1.0, -3.0], [F(2 / 3), 0]),
        ("opensearch", "l2", [-3.0, 4.0], [F(-0.6), F(0.8)]),
        ("elasticsearch", "l2", [-3.0, 4.0], [F(-0.6), F(0.8)]),
        ("opensearch", "z_score", [-1.0, 1.0], [0.001, F(1 / F(math.sqrt(2)))]),
        ("opensearch", "rrf", [-3.0, 4.0], [1 / 62, 1 / 61]),
    ],
)
def test_special_cases(engine, which, column, expected):
    np.testing.assert_allclose(normalized(column, engine, which), np.array(expected, F), rtol=2e-7, atol=1e-10)


def test_opensearch_rounds_ranks_to_ten_digits():
    column = np.arange(300.0, 0.0, -1.0)
    found = normalized(column, "opensearch", "rrf")
    for rank, value in enumerate(found.tolist(), 61):
        digits = Fraction(math.floor(Fraction(10**10, rank) + Fraction(1, 2)), 10**10)
        near = [F(value), np.nextafter(F(value), F(0)), np.nextafter(F(value), F(1))]
        assert min(near, key=lambda each: abs(Fraction(float(each)) - digits)) == F(value)


def test_sums_go_from_the_best_hit_down():
    """In float32, the order of a sum matters."""
    column = [1.0, *[2.0**-13] * 50]
    down, up = normalized(column, "opensearch", "l2"), normalized(column[::-1], "opensearch", "l2")
    assert np.array_equal(down, up[::-1])
    total = F(0)
    for score in sorted(column):
        total = total + F(score) * F(score)
    assert F(math.sqrt(total)) != F(1) == 1 / down[0]


def test_scores_must_be_finite_in_float32():
    for column in ([1e39, 1.0], [math.inf, 1.0]):
        with pytest.raises(ValueError, match="scores of clauses must be finite in float32"):
            normalized(column, dtype=np.float64)
    with pytest.raises(ValueError, match="what the engine makes of them"):
        normalized([3e38, -3e38, 0.0])  # as far apart as float32 does not hold


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"engine": "solr"}, "engine must be one of 'opensearch', 'elasticsearch', got 'solr'"),
        (
            {"engine": "elasticsearch", "normalization": "z_score"},
            "must be one of 'min_max', 'l2', 'rrf', got 'z_score'",
        ),
        ({"normalization": "minmax"}, "normalization must be one of 'min_max', 'l2', 'z_score', 'rrf', got 'minmax'"),
        ({"rank_constant": 0}, "rank_constant must be a whole number from 1 to 10000, got 0"),
        ({"rank_constant": 60.5}, "rank_constant must be a whole number"),
    ],
)
def test_bad_settings_are_refused(arguments, said):
    with pytest.raises(ValueError, match=said):
        pr.HybridScores(**arguments)


def test_by_name_and_in_files():
    (made,) = make_transforms("hybrid:engine=elasticsearch,normalization=rrf,rank_constant=20")
    assert made == pr.HybridScores("elasticsearch", "rrf", rank_constant=20) == from_plain(as_plain(made))
    assert repr(made) == "HybridScores('elasticsearch', 'rrf', rank_constant=20)"
    assert repr(pr.HybridScores()) == "HybridScores('opensearch', 'min_max')"


def test_learners_take_clauses_that_did_not_return_a_document():
    X = np.array([[3.0, NAN], [1.0, 2.0], [NAN, 5.0]])
    model = pr.ListwisePerceptron(transforms=pr.HybridScores(), positive=[0, 1])
    model.learn(pr.QueryStream.from_arrays(X, [1, 0, 0], missing="keep"))
    assert (model.coef_ >= 0.0).all()
    assert model.coef_[0] > 0.0
    expected = [[1.0, 0.0], [F(0.001), F(0.001)], [0.0, 1.0]] @ model.coef_
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-12)
    assert model.rank(X)[0] == 0
