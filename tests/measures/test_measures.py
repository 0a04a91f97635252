import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import twins
from support.strategies import judged_scores

import perceptrank as pr
from perceptrank.measures import parse_all

KINDS = {"ndcg": pr.NDCG, "ap": pr.AP, "p": pr.Precision, "rr": pr.ReciprocalRank, "err": pr.ERR}


def build(name, k, gain, ties):
    options = {"ties": ties}
    if name != "ap":
        options["k"] = k
    if name == "ndcg":
        options["gain"] = gain
    return KINDS[name](**options)


@pytest.mark.kernel
@pytest.mark.parametrize("ties", ["worst", "stable", "reverse"])
@given(
    query=judged_scores(max_size=70),
    name=st.sampled_from(list(KINDS)),
    k=st.sampled_from([None, 1, 2, 3, 10, 30, 100]),
    gain=st.sampled_from(["exp2", "linear"]),
)
def test_measures_equal_their_definitions(ties, query, name, k, gain):
    scores, grades = query
    expected = twins.measure(name, scores, grades, ties, k=k, gain=gain)
    assert build(name, k, gain, ties)(scores, grades) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.kernel
@given(
    query=judged_scores(max_size=6),
    name=st.sampled_from(list(KINDS)),
    k=st.sampled_from([None, 1, 2, 3, 10]),
    gain=st.sampled_from(["exp2", "linear"]),
)
def test_expected_ties_are_the_mean_over_all_orders(query, name, k, gain):
    scores, grades = query
    scores = np.round(scores / 4)
    expected = twins.measure(name, scores, grades, "expected", k=k, gain=gain)
    assert build(name, k, gain, "expected")(scores, grades) == pytest.approx(expected, rel=1e-10, abs=1e-12)


@pytest.mark.kernel
def test_many_levels_and_long_queries_take_the_general_paths():
    rng = np.random.default_rng(0)
    grades = rng.permutation(400) / 100
    for scores in (rng.normal(size=400), rng.integers(20, size=400).astype(float), np.zeros(400)):
        for name in ("ndcg", "ndcg@10", "ndcg@50", "ap", "p@5", "rr", "err@20"):
            base, _, k = name.partition("@")
            expected = twins.measure(base, scores, grades, "worst", **({"k": int(k)} if k else {}))
            assert pr.parse(name)(scores, grades) == pytest.approx(expected, rel=1e-12)


def test_values_worked_by_hand():
    assert pr.NDCG()([3, 2, 1], [0, 1, 0]) == 1 / math.log2(3)
    assert pr.NDCG(k=1)([3, 2, 1], [1, 2, 0]) == pytest.approx(1 / 3)
    assert pr.NDCG(k=1, gain="linear")([3, 2, 1], [1, 2, 0]) == 1 / 2
    assert pr.AP()([3, 2, 1], [0, 1, 2]) == pytest.approx((1 / 2 + 2 / 3) / 2)
    assert pr.Precision(k=5)([3, 2, 1], [0, 1, 2]) == 2 / 5
    assert pr.ReciprocalRank()([3, 2, 1], [0, 1, 2]) == 1 / 2
    assert pr.ReciprocalRank(k=1)([3, 2, 1], [0, 1, 2]) == 0
    assert pr.ERR(max_grade=2)([3, 2], [1, 2]) == pytest.approx(1 / 4 + (3 / 4) * (3 / 4) / 2)


def test_a_perfect_ranking_is_exactly_one():
    rng = np.random.default_rng(0)
    for m in (1, 2, 9, 30, 200):
        grades = rng.integers(1, 5, size=m)
        assert pr.NDCG()(grades, grades) == pr.NDCG(k=7)(grades, grades) == pr.AP()(grades, grades) == 1.0


def test_tie_policies():
    tied, grades = [0, 0], [1, 0]
    assert pr.NDCG(ties="stable")(tied, grades) == 1
    assert pr.NDCG()(tied, grades) == pr.NDCG(ties="reverse")(tied, grades) == 1 / math.log2(3)
    assert pr.NDCG(ties="expected")(tied, grades) == pytest.approx((1 + 1 / math.log2(3)) / 2)
    drawn = {pr.NDCG(ties="random", seed=seed)(tied, grades) for seed in range(30)}
    assert drawn == {1.0, 1 / math.log2(3)}


def quarter_pass(settings, ranked, values, scratch):
    values[:] = 0.25


def test_expected_values_of_an_unknown_measure_are_refused():
    """Also of one that borrows everything but the kernel from another."""

    class Quarter(pr.Measure):
        name, code, kernel = "quarter", 7, quarter_pass

    class OtherReciprocalRank(pr.ReciprocalRank):
        kernel = quarter_pass

    for kind in (Quarter, OtherReciprocalRank):
        assert kind()([2.0, 1.0], [0, 1]) == 0.25
        rule = f"ties of {kind.__name__} must be one of 'worst', 'stable', 'reverse', 'random', as its mean over all"
        with pytest.raises(ValueError, match=rule):
            kind(ties="expected")([2.0, 1.0], [0, 1])

    class Renamed(pr.ReciprocalRank):
        name = "mrr"

    assert Renamed(ties="expected")([1.0, 1.0], [0, 1]) == 0.75


def test_random_ties_are_fair_and_depend_on_seed_and_round_alone():
    measure = pr.NDCG(k=1, ties="random")
    offsets = np.arange(4001) * 2
    scores, grades = np.zeros(8000), np.tile([1.0, 0.0], 4000)
    whole = measure.per_query(scores, grades, offsets)
    assert 0.45 < whole.mean() < 0.55
    tail = measure.per_query(scores[2000:], grades[2000:], offsets[:3001], first_round=1000)
    assert np.array_equal(whole[1000:], tail)
    assert not np.array_equal(whole, pr.NDCG(k=1, ties="random", seed=1).per_query(scores, grades, offsets))


@pytest.mark.parametrize("name", ["ndcg", "ndcg@3", "ap", "p@3", "rr", "err"])
def test_queries_without_relevant_documents(name):
    for policy, expected in {"one": 1.0, "zero": 0.0}.items():
        assert pr.parse(f"{name}:empty={policy}")([1, 2], [0, 0]) == expected
    assert math.isnan(pr.parse(name)([1, 2], [0, 0]))


def test_queries_that_cannot_be_ranked_wrongly_count_fully():
    for measure in (pr.NDCG(), pr.NDCG(k=10), pr.AP(), pr.ReciprocalRank()):
        assert measure([0.3], [2]) == measure([1, 5, 1], [1, 1, 1]) == 1.0


@pytest.mark.parametrize("grades", [[0, 31, 40], [0.5, 0.25, 0], [1000, 900, 0], [5000, 4999, 0], [1e-17, 0, 0]])
def test_unusual_grades(grades):
    best_first = sorted(range(3), key=lambda i: -grades[i])
    scores = np.empty(3)
    scores[best_first] = [3, 2, 1]
    for measure in (pr.NDCG(), pr.NDCG(k=2), pr.AP(), pr.NDCG(gain="linear")):
        assert measure(scores, grades) == pytest.approx(1.0)
        assert 0 <= measure(-scores, grades) < 1


@pytest.mark.parametrize("gain", ["exp2", "linear"])
@pytest.mark.parametrize("grades", [[9e18, 5e18, 0], [1e19, 5e18, 0], [1e300, 5e299, 0], [1.7e308, 1.7e308, 0]])
def test_grades_of_any_size(gain, grades):
    assert pr.NDCG(gain=gain)([3, 2, 1], grades) == 1
    assert 0 < pr.NDCG(gain=gain)([1, 2, 3], grades) < 0.9


def test_large_grades_keep_their_proportions():
    assert pr.NDCG()([1, 2], [600, 598]) == pytest.approx(
        (0.25 + 1 / math.log2(3)) / (1 + 0.25 / math.log2(3)), rel=1e-12
    )


def test_names_and_values_are_the_same_thing():
    assert pr.parse("ndcg@10") == pr.NDCG(10) == pr.NDCG(k=10) != pr.NDCG()
    assert pr.parse("map") == pr.AP()
    assert pr.parse("mrr@5") == pr.ReciprocalRank(5)
    assert pr.parse("P@5") == pr.Precision(5)
    for measure in (
        pr.NDCG(),
        pr.NDCG(10, gain="linear", ties="expected", empty="zero"),
        pr.AP(ties="random", seed=3),
        pr.ERR(20, max_grade=2),
        pr.Precision(3),
    ):
        assert pr.parse(str(measure)) == measure
        assert eval(repr(measure), vars(pr) | {name: getattr(pr, name) for name in pr.__all__}) == measure
        assert hash(pr.parse(str(measure))) == hash(measure)


def test_numbers_of_numpy_and_large_seeds():
    assert pr.NDCG(np.uint64(2), seed=np.int32(3), ties="random") == pr.NDCG(2, seed=3, ties="random")
    assert pr.NDCG(np.uint64(2), seed=np.uint8(3))([3, 2, 1], [0, 1, 2]) == pr.NDCG(2)([3, 2, 1], [0, 1, 2])
    for seed in (2**53 + 1, 2**63 - 1):
        measure = pr.AP(ties="random", seed=seed)
        assert pr.parse(str(measure)) == measure
    with pytest.raises(ValueError, match="seed"):
        pr.AP(seed=True)


def test_all_bad_names_are_reported_at_once():
    with pytest.raises(
        ValueError, match=r"'foo'.*'bar@3'.*ndcg@0.*Known measures: ap, clicks@k, err@k, ndcg@k, p@k, "
    ) as error:
        parse_all(["foo", "ndcg", "bar@3", "ndcg@0"])
    assert "'ndcg'" not in str(error.value)


@pytest.mark.parametrize(
    "wrong",
    ["ndcg@-1", "ndcg@1.5", "ndcg@", "ap@3", "ndcg:ties=best", "ndcg:colour=red", "ndcg:seed=x", "ndcg:gain", "", 3],
)
def test_wrong_names(wrong):
    with pytest.raises(ValueError, match="Known measures"):
        pr.parse(wrong)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (pr.NDCG, {"k": 0}),
        (pr.NDCG, {"k": 2.5}),
        (pr.NDCG, {"k": 10**20}),
        (pr.AP, {"seed": 2**63}),
        (pr.ERR, {"max_grade": "4"}),
        (pr.NDCG, {"gain": "log"}),
        (pr.AP, {"ties": "best"}),
        (pr.AP, {"empty": "two"}),
        (pr.AP, {"seed": -1}),
        (pr.ERR, {"max_grade": 0}),
    ],
)
def test_wrong_options(kind, options):
    with pytest.raises(ValueError, match=next(iter(options))):
        kind(**options)


@pytest.mark.parametrize(
    ("scores", "grades", "message"),
    [
        ([1, float("nan")], [1, 0], "scores must be finite"),
        ([1, float("inf")], [1, 0], "scores must be finite"),
        ([1, 2], [1, -1], "not negative, got -1.0 at document 1"),
        ([1, 2], [1, float("nan")], "relevance must be finite"),
        ([1, 2], [1], r"one grade per document \(2\)"),
        ([[1, 2]], [1, 2], "vector"),
        ([], [], "at least one document"),
        (["a", "b"], [1, 0], "scores must hold numbers"),
        ([1j, 0], [1, 0], "scores must hold real numbers"),
    ],
)
def test_bad_input(scores, grades, message):
    with pytest.raises(ValueError, match=message):
        pr.NDCG()(scores, grades)


def test_err_says_how_to_allow_higher_grades():
    with pytest.raises(ValueError, match=r"max_grade=4, got 5; ERR\(k=3, max_grade=5\) allows it"):
        pr.ERR(3)([1, 2], [5, 0])
