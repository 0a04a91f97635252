"""Arrays of wrong lengths, types, orders and values, given to whatever hands arrays to compiled code.

Compiled code does not check its indices, so what is wrong has to be refused before, with an error of ours; what is
merely unusual gives the same result as the usual array of the same numbers. Run with checked indices as well.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import examples

import perceptrank as pr
from perceptrank.learners.learner import Learner

MEASURES = [kind(ties=ties) for kind in (pr.NDCG, pr.AP, pr.Precision) for ties in ("worst", "random", "expected")]
MEASURES += [pr.ReciprocalRank(k=2), pr.ERR(k=3), pr.NDCG(k=2)]
SCALINGS = [pr.QueryZScore, pr.QueryMinMax, pr.RunningStandardizer]
SURROGATES = [pr.Slam(), pr.Slam("ap"), pr.MaxPair(), pr.LevelPair(), pr.ListNet()]


def unaligned(values):
    room = np.zeros(values.nbytes + 1, np.uint8)
    made = room[1:].view(np.float64).reshape(values.shape)
    made[...] = values
    assert not made.flags.aligned
    return made


# Ways in which arrays of the same numbers differ. None makes features of single precision, which compile anew.
UNUSUAL = {
    "big-endian": lambda values: values.astype(">f8"),
    "integers": lambda values: values.astype(np.int64),
    "unsigned": lambda values: np.abs(values).astype(np.uint64),
    "objects": lambda values: values.astype(object),
    "text": lambda values: values.astype("U9"),
    "list": lambda values: values.tolist(),
    "columns": np.asfortranarray,
    "backwards": lambda values: values[::-1].copy()[::-1],
    "strided": lambda values: np.repeat(values, 2, axis=0)[::2],
    "unaligned": unaligned,
    "masked": np.ma.masked_array,
    "read-only": lambda values: np.frombuffer(values.tobytes()).reshape(values.shape),
}
WRONG = {
    "shorter": lambda values: values[:-1],
    "longer": lambda values: np.concatenate([values, values]),
    "empty": lambda values: values[:0],
    "flat": lambda values: values.reshape(-1),
    "deeper": lambda values: values[None],
    "one number": lambda values: 3.0,
    "nothing": lambda values: None,
    "words": lambda values: np.full(values.shape, "x"),
    "complex": lambda values: values + 1j,
    "moments": lambda values: values.astype("M8[s]"),
    "records": lambda values: np.zeros(values.shape, "f8,i4"),
    "ragged": lambda values: [[1.0], [1.0, 2.0]],
    "enormous": lambda values: [10**400] * len(values),
    "a value masked": lambda values: np.ma.masked_array(values, np.arange(values.size).reshape(values.shape) == 0),
    "not a number": lambda values: np.where(
        np.arange(len(values)).reshape(-1, *[1] * (values.ndim - 1)), values, np.nan
    ),
    "infinite": lambda values: np.where(np.arange(len(values)).reshape(-1, *[1] * (values.ndim - 1)), values, np.inf),
}
ENTRIES = [-1, 0, 1, 2, 3, 5, 200_000_000, 2**31, 2**40, 2**63 - 1, -(2**63)]


def arrays(values):
    """The values as they are, in an unusual form, or wrong."""
    ways = [lambda same: same, *UNUSUAL.values(), *UNUSUAL.values(), *WRONG.values()]
    return st.sampled_from(ways).map(lambda way: way(values))


def offsets(n):
    """Offsets of n documents, right ones in two of five cases."""
    right = [np.array([0, n]), np.arange(n + 1)]
    forms = st.sampled_from(
        [
            lambda one: one,
            list,
            lambda one: one.astype(np.int32),
            lambda one: one.astype(">u8"),
            lambda one: one[::-1][::-1],
        ]
    )
    wrong = [
        [],
        [0],
        None,
        0,
        "0",
        [[0, n]],
        [0.0, float(n)],
        [0, 2e8],
        [False, True],
        np.array([0, 2**64 - n], np.uint64),
    ]
    return st.one_of(
        st.builds(lambda form, one: form(one), forms, st.sampled_from(right)),
        st.builds(lambda form, one: form(one), forms, st.sampled_from(right)),
        st.sampled_from(wrong),
        st.lists(st.sampled_from([*ENTRIES, n]), max_size=5),
        st.lists(st.sampled_from([*ENTRIES, n]), max_size=4).map(lambda inner: np.array([0, *inner, n])),
    )


@st.composite
def queries(draw):
    """Valid documents, scores, grades: small whole numbers, which all forms hold exactly."""
    n = draw(st.sampled_from([1, 2, 3, 7, 70]))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    return rng.integers(0, 5, size=(n, 2)) * 1.0, rng.integers(0, 6, size=n) * 1.0, rng.integers(0, 4, size=n) * 1.0


def plain(values):
    """The same numbers, or their absolute values if unsigned, as the usual array."""
    return np.array(np.asarray(values).tolist(), np.float64).reshape(np.shape(values))


def result_or_none(call):
    """Call; None if it is refused with an error of ours. All others, and the end of the process, fail the test."""
    try:
        return call()
    except (TypeError, ValueError):
        return None


@pytest.mark.kernel
@examples(4)
@given(data=st.data(), measure=st.sampled_from(MEASURES))
def test_measures_refuse_what_is_wrong(data, measure):
    _, scores, grades = data.draw(queries())
    scores, grades, bounds = data.draw(arrays(scores)), data.draw(arrays(grades)), data.draw(offsets(len(scores)))
    first = data.draw(st.sampled_from([0, 7, np.int32(3), -1, 2**70, 1.5, None]))
    values = result_or_none(lambda: measure.per_query(scores, grades, bounds, first))
    if values is not None:
        usual = plain(scores), plain(grades).reshape(-1), np.array(bounds, np.int64)
        assert values.shape == (len(usual[2]) - 1,)
        assert np.array_equal(values, measure.per_query(*usual, first), equal_nan=True)
    value = result_or_none(lambda: measure(scores, grades))
    assert value is None or isinstance(value, float)


@pytest.mark.kernel
@examples(4)
@given(data=st.data(), kind=st.sampled_from(SCALINGS), learns=st.booleans())
def test_transforms_refuse_what_is_wrong(data, kind, learns):
    X, _, _ = data.draw(queries())
    X, bounds = data.draw(arrays(X)), data.draw(offsets(len(X)))
    call = kind.learn_and_apply if learns else kind.apply
    scaled = result_or_none(lambda: call(kind(), X, bounds))
    if scaled is not None:
        assert np.array_equal(scaled, call(kind(), plain(X), np.array(bounds, np.int64)), equal_nan=True)


@pytest.mark.kernel
@examples(4)
@given(
    data=st.data(), kind=st.sampled_from([pr.ListwisePerceptron, pr.Perceptron]), surrogate=st.sampled_from(SURROGATES)
)
def test_streams_learners_and_theory_refuse_what_is_wrong(data, kind, surrogate):
    X, scores, grades = data.draw(queries())
    usual = pr.QueryStream(X, grades, [0, len(X)])
    bounds, scores = data.draw(offsets(len(X))), data.draw(arrays(scores))
    X, grades = data.draw(arrays(X)), data.draw(arrays(grades))
    stream = result_or_none(lambda: pr.QueryStream(X, grades, bounds))
    if stream is not None:
        assert np.array_equal(stream.X, plain(X))
        assert result_or_none(lambda: kind().learn(stream)) is not None
    result_or_none(lambda: pr.QueryStream.from_arrays(X, grades, group=bounds))
    result_or_none(lambda: pr.QueryStream.from_arrays(X, grades, qid=scores))
    result_or_none(lambda: kind().learn_one(X, grades))
    ranker = kind()
    ranker.learn(usual)
    result_or_none(lambda: ranker.learn_one(X, grades))
    result_or_none(lambda: ranker.predict(X, group=bounds))
    result_or_none(lambda: ranker.rank(X))
    result_or_none(lambda: surrogate.value(scores, grades))
    result_or_none(lambda: surrogate.gradient(scores, grades))
    result_or_none(lambda: pr.theory.cumulative_surrogate(scores, usual))
    result_or_none(lambda: usual.with_features(X))
    traced = result_or_none(lambda: pr.evaluate(Returning(scores), usual, ["ndcg", "ap"]))
    assert traced is None or len(traced) == 1


class Returning:
    """A ranker whose scores are what it is made with."""

    def __init__(self, scores):
        self._scores = scores

    def scores(self, stream):
        return self._scores


class Hostile(pr.Transform):
    """A transform of another package, which does not keep to the interface."""

    name = "hostile"

    def __init__(self, way):
        self._way = way

    def apply(self, X, offsets):
        return self._way(np.array(X, np.float64))


SHAPES = {
    "shorter": lambda X: X[:1],
    "longer": lambda X: np.repeat(X, 2, axis=0),
    "narrower": lambda X: X[:, :1],
    "wider": lambda X: np.repeat(X, 50, axis=1),
    "flat": lambda X: X[:, 0],
    "nothing": lambda X: None,
    "words": lambda X: X.astype("U9").astype(object) + "x",
    "not a number": lambda X: X * np.nan,
}
STREAM = pr.QueryStream.from_arrays([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]], [1, 0, 2])


@pytest.mark.kernel
@pytest.mark.parametrize("way", SHAPES)
@pytest.mark.parametrize(
    "make",
    [
        lambda scaling: pr.ListwisePerceptron(transforms=scaling),
        lambda scaling: pr.Tournament([pr.Perceptron(), pr.ListwisePerceptron(transforms=scaling)]),
        lambda scaling: pr.Bagging(
            pr.ListwisePerceptron(transforms=None), n_members=2, transforms=["running", scaling]
        ),
    ],
    ids=["listwise", "tournament", "bagging"],
)
def test_what_a_transform_returns_is_checked(make, way):
    ranker = make(Hostile(SHAPES[way]))
    message = "must be finite|overflow" if way == "not a number" else "Hostile must return"
    kind = (TypeError, ValueError)
    with pytest.raises(kind, match=message):
        ranker.learn(STREAM)
    with pytest.raises(kind, match=message):
        ranker.learn_one(STREAM.X, STREAM.relevance)
    assert ranker.n_queries == 0


@pytest.mark.kernel
@pytest.mark.parametrize("way", [way for way in SHAPES if way != "not a number"])
def test_what_a_transform_returns_is_checked_when_ranking_too(way):
    ways = [lambda X: X]
    ranker = pr.ListwisePerceptron(transforms=Hostile(Turning(ways)))
    ranker.learn(STREAM)
    ways[0] = SHAPES[way]
    with pytest.raises((TypeError, ValueError), match="Hostile must return"):
        ranker.predict(STREAM)


class Turning:
    """A function that can be replaced, and is not copied."""

    def __init__(self, ways):
        self._ways = ways

    def __call__(self, X):
        return self._ways[0](X)

    def __deepcopy__(self, memo):
        return self


@pytest.mark.parametrize("way", UNUSUAL)
def test_a_transform_may_return_any_form_of_matrix(way):
    usual, unusual = pr.ListwisePerceptron(transforms=None), pr.ListwisePerceptron(transforms=Hostile(UNUSUAL[way]))
    for ranker in (usual, unusual):
        ranker.learn(STREAM)
    assert np.array_equal(usual.weights, unusual.weights)
    assert np.array_equal(usual.predict(STREAM), unusual.predict(STREAM))


@pytest.mark.deep
@pytest.mark.kernel
@pytest.mark.parametrize("name", pr.algorithms())
def test_no_learner_goes_on_with_what_is_not_a_number(name):
    """Neither from a transform nor from an array: passes notice it."""
    kind: type[Learner] = pr.algorithms()[name]
    X = STREAM.X.copy()
    X[1, 1] = np.nan
    with pytest.raises(ValueError, match=r"finite|overflow"):
        kind().learn_one(X, STREAM.relevance)
    with pytest.raises(ValueError, match=r"finite|overflow"):
        kind(transforms=Hostile(lambda X: X * np.nan)).learn(STREAM)


def test_messages_say_what_is_wrong():
    scores, grades = np.zeros(3), np.ones(3)
    with pytest.raises(
        ValueError, match=r"offsets must run from 0 to the number of documents \(3\), got \[0, 200000000\]"
    ):
        pr.NDCG().per_query(scores, grades, [0, 200_000_000])
    with pytest.raises(ValueError, match=r"offsets must be whole numbers, got \[0, 200000000.0\]"):
        pr.QueryZScore().apply(np.zeros((3, 2)), [0, 2e8])
    with pytest.raises(ValueError, match=r"offsets must increase, .* but not after query number 1"):
        pr.AP().per_query(scores, grades, [0, 2, 1, 3])
    with pytest.raises(ValueError, match=r"relevance must have one grade per document \(3\), got shape \(2,\)"):
        pr.AP().per_query(scores, grades[:2], [0, 3])
    with pytest.raises(ValueError, match="X must be finite, got NaN at document 1, feature 0"):
        pr.QueryZScore().apply(np.array([[1.0], [np.nan]]), [0, 2])
    with pytest.raises(ValueError, match="the ranker must score each of 3 documents, got 2 scores"):
        pr.evaluate(Returning([1.0, 2.0]), STREAM, "ndcg")
    with pytest.raises(AttributeError, match="offsets of a stream cannot be replaced"):
        STREAM.offsets = np.array([0, 200_000_000])


@pytest.mark.parametrize("order", [[0, 0], [0, 5], [0.0, 1.0], [0], None])
def test_an_order_that_is_none_is_refused_by_the_adversary(order):
    ranker = type("Ranker", (), {"rank": lambda self, X: order, "learn_one": lambda self, X, relevance: False})()
    with pytest.raises(ValueError, match="rank must return each of the 2 row numbers once"):
        pr.theory.play(ranker, margin=0.5, n_documents=2)
