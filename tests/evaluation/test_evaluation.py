"""Several rankers on the same queries: differences, the verdict, slices, and the queries that lost most."""

import math
from itertools import pairwise

import numpy as np
import pytest

import perceptrank as pr
from perceptrank.evaluation.decision import decide, n_needed
from perceptrank.evaluation.differences import Difference
from perceptrank.evaluation.slices import grouped

RNG = np.random.default_rng(8)
SIZES = RNG.integers(1, 14, size=130)
X = np.round(RNG.normal(size=(SIZES.sum(), 3)), 1)  # with ties
GRADES = np.clip(np.round(X @ [1.0, 0.5, 0.0] + RNG.normal(size=len(X))), 0, 3)
NAMES = ("title", "body", "price")
STREAM = pr.QueryStream.from_arrays(
    X, GRADES, group=SIZES, feature_names=NAMES, docids=[f"d{i}" for i in range(len(X))]
)
NOW, NEW, OTHER = (pr.FixedRanker(weights) for weights in ([0.2, 0.0, 1.0], [1.0, 0.5, 0.0], [0.2, 0.02, 1.0]))
MEASURES = ["ndcg@5", "ap"]


@pytest.fixture(scope="module")
def result():
    return pr.evaluate({"now": NOW, "new": NEW, "other": OTHER}, STREAM, MEASURES, by="length", worst=7)


def test_one_ranker_is_a_trace_as_ever(result):
    for name, ranker in (("now", NOW), ("new", NEW), ("other", OTHER)):
        alone = pr.evaluate(ranker, STREAM, MEASURES)
        assert isinstance(alone, pr.Trace)
        for measure in MEASURES:
            np.testing.assert_array_equal(result.traces[name].values(measure), alone.values(measure))


def test_differences_are_those_of_the_queries(result):
    assert [(one.model, one.measure) for one in result.differences] == [
        (model, measure) for model in ("new", "other") for measure in MEASURES
    ]
    for one in result.differences:
        changes = [
            new - old
            for old, new in zip(
                result.traces["now"].values(one.measure), result.traces[one.model].values(one.measure), strict=True
            )
            if not math.isnan(old)
        ]
        assert 0 < len(changes) < len(STREAM)
        assert one.n_queries == len(changes)
        assert one.difference == pytest.approx(sum(changes) / len(changes))
        assert one.new - one.old == pytest.approx(one.difference)
        assert one.n_better == sum(change > 0 for change in changes)
        assert one.n_worse == sum(change < 0 for change in changes)
        assert one.deviation == pytest.approx(np.std(changes, ddof=1))
        if one.model == "new":  # the other ranks too few queries differently
            half = one.critical * one.deviation / math.sqrt(len(changes))
            assert (one.low, one.high) == pytest.approx((one.difference - half, one.difference + half))
        assert one.new == pytest.approx(result.mean(one.model, one.measure))


def test_blocks_make_no_difference(result):
    blocks = (STREAM[start : start + 17] for start in range(0, 130, 17))
    again = pr.evaluate({"now": NOW, "new": NEW, "other": OTHER}, blocks, MEASURES, by="length", worst=7)
    assert repr(again.as_plain()) == repr(result.as_plain())  # NaN is not itself
    assert again.qids.tolist() == result.qids.tolist()


def test_queries_count_by_their_weights():
    weights = np.random.default_rng(0).integers(0, 3, size=130).astype(float)
    heavy = pr.QueryStream.from_arrays(X, GRADES, group=SIZES, query_weights=weights)
    found = pr.evaluate([NOW, NEW], heavy, "ndcg@5").differences[0]
    changes = pr.evaluate(NEW, STREAM, "ndcg@5").values("ndcg@5") - pr.evaluate(NOW, STREAM, "ndcg@5").values("ndcg@5")
    counted = ~np.isnan(changes) & (weights > 0)
    assert found.n_queries == counted.sum()
    assert found.difference == pytest.approx(np.average(changes[counted], weights=weights[counted]))
    assert found.new - found.old == pytest.approx(found.difference)
    for unit in (2.0**-700, 2.0**700):  # whose squares are not numbers
        other = pr.evaluate([NOW, NEW], heavy.with_query_weights(weights * unit), "ndcg@5").differences[0]
        assert other == found
    kept = {one.number for one in pr.evaluate([NOW, NEW], heavy, "ndcg@5", worst=130).worst()}
    assert kept == set(np.flatnonzero((weights > 0) & (changes < 0)).tolist())


def test_queries_that_a_few_outweigh_are_few():
    weights = np.where(np.arange(130) < 5, 1e6, 1.0)
    (decision,) = pr.evaluate([NOW, NEW], STREAM.with_query_weights(weights), "ndcg@5").decisions
    assert decision.answer == "undecided"
    assert decision.needed is None
    assert "an interval needs 30 or more, of weights that differ less." in decision.sentence


# The rule


def difference(low, high, *, measure="ndcg@10", deviation=0.2, n=100, better=50, worse=20):
    middle = (low + high) / 2
    return Difference("new", measure, 0.5, 0.5 + middle, middle, low, high, deviation, 2.0, n, better, worse)


@pytest.mark.parametrize(
    ("intervals", "margin", "answer", "said"),
    [
        ([(0.01, 0.03)], 0, "yes", "Yes: new may replace now: ndcg@10 rises by 0.0200 (95 % interval +0.0100 to"),
        ([(-0.03, -0.01)], 0, "no", "No: new must not replace now: ndcg@10 falls by 0.0200 ("),
        ([(-0.01, 0.03)], 0, "undecided", "Not decided: ndcg@10 of new differs from that of now by +0.0100"),
        ([(-0.004, 0.01)], 0.005, "yes", "changes by +0.0030, and falls by less than 0.005 if at all"),
        ([(-0.004, -0.001)], 0.005, "yes", "falls by 0.0025, which is less than 0.005"),
        ([(-0.006, 0.01)], 0.005, "undecided", "To see that this is above or below −0.005"),
        ([(-0.03, -0.01)], 0.005, "no", "falls by 0.0200, by more than 0.005"),
        ([(0.01, 0.03), (-0.03, -0.01)], 0, "no", "No: new must not replace now: measure 1 falls by 0.0200"),
        ([(0.01, 0.03), (-0.03, 0.01)], 0, "yes", "ndcg@10 rises by"),
        ([(-0.01, 0.03), (0.01, 0.03)], 0, "undecided", "Not decided"),
        (
            [(math.nan, math.nan)],
            0,
            "undecided",
            "100 queries cannot tell new from now by ndcg@10; an interval needs 30",
        ),
        ([(0.0, 0.02)], 0, "undecided", "Not decided"),
        ([(-0.02, 0.0)], 0, "undecided", "Not decided"),
    ],
)
def test_the_rule(intervals, margin, answer, said):
    found = [
        difference(low, high, measure=f"measure {k}" if k else "ndcg@10") for k, (low, high) in enumerate(intervals)
    ]
    decision = decide("now", found, margin, 0.95)
    assert decision.answer == answer
    assert said in decision.sentence


def test_how_many_queries_would_be_needed():
    """An interval of c errors excludes 0 in 80 % of samples if 0 is c + 0.84 errors from the truth."""
    found = difference(-0.01, 0.03)
    exact = ((2.0 + 0.8416) * 0.2 / 0.01) ** 2
    assert exact <= n_needed(found, 0.0) <= 1.1 * exact
    assert n_needed(found, 0.01) < n_needed(found, 0.0)
    assert n_needed(difference(-0.02, 0.02), 0.0) is None
    assert n_needed(difference(-1e-3, 2e-3, deviation=1e-4, n=500), 0.0) > 500
    exactly_at_the_bar = difference(-0.5, -0.5, deviation=0.0)
    assert n_needed(exactly_at_the_bar, 0.5) is None
    assert decide("now", [exactly_at_the_bar], 0.5, 0.95).answer == "undecided"
    assert "a billion queries or more" in decide("now", [difference(-0.02, 0.02)], 0.0, 0.95).sentence


@pytest.mark.deep
def test_so_many_queries_decide_in_four_of_five_samples():
    rng = np.random.default_rng()
    found = difference(-0.004, 0.02, deviation=0.1)._replace(critical=1.96)
    needed = n_needed(found, 0.0)
    decided = 0
    for _ in range(1000):
        sample = rng.normal(0.008, 0.1, size=needed)
        decided += sample.mean() > 1.96 * sample.std() / math.sqrt(needed)
    assert decided / 1000 == pytest.approx(0.8, abs=0.06)


def test_the_verdict_on_several(result):
    assert result.answer == "yes"
    assert result.may_go_live
    assert result.verdict.startswith("1 of 2 may go live; the best of these is new. Yes: new may replace now")
    assert [one.answer for one in result.decisions] == ["yes", "undecided"]
    reverse = pr.evaluate({"new": NEW, "now": NOW, "other": OTHER}, STREAM, MEASURES)
    assert (reverse.answer, reverse.may_go_live) == ("no", False)
    assert reverse.verdict.startswith("None of 2 may go live. No: now must not replace new")
    assert str(reverse) == reverse.verdict
    assert repr(reverse) == "Evaluation(3 models, 130 queries: no)"


def test_a_model_against_itself_is_never_better():
    for margin, answer in ((0.0, "undecided"), (0.01, "undecided"), (0.05, "yes")):
        result = pr.evaluate([NEW, NEW], STREAM, "ndcg@5", margin=margin)
        assert result.answer == answer
        assert result.worst() == []
    same = pr.evaluate([NEW, NEW], STREAM, "ndcg@5").verdict
    assert "have the same ndcg@5 in each of" in same


# The queries that lost most


def places_by_definition(scores, grades, ties):
    """Sort by score, then as the tie policy says, in plain Python."""
    keys = {"worst": lambda i: grades[i], "stable": lambda i: i, "expected": lambda i: i, "reverse": lambda i: -i}
    order = sorted(range(len(scores)), key=lambda i: (-scores[i], keys[ties](i), i))
    return [order.index(i) + 1 for i in range(len(scores))]


@pytest.mark.parametrize("ties", ["worst", "stable", "reverse", "expected"])
def test_worst_is_a_sort_of_all_queries(ties):
    measure = f"ndcg@5:ties={ties}"
    found = pr.evaluate({"now": NOW, "new": NEW}, STREAM.blocks(2000), measure, worst=7).worst()
    old, new = (pr.evaluate(one, STREAM, measure).values(measure) for one in (NOW, NEW))
    losses = sorted((b - a, q) for q, (a, b) in enumerate(zip(old, new, strict=True)) if b < a)
    assert len(losses) > 7
    assert [(one.difference, one.number) for one in found] == losses[:7]
    for one in found:
        query, first = STREAM[one.number], int(STREAM.offsets[one.number])
        assert (one.qid, one.old, one.new) == (query.qid, old[one.number], new[one.number])
        before, after = (
            places_by_definition(list(query.X @ weights), query.relevance, ties)
            for weights in ([0.2, 0.0, 1.0], [1.0, 0.5, 0.0])
        )
        expected = sorted(
            (before[i], after[i], f"d{first + i}", first + i, query.relevance[i])
            for i in range(len(query.X))
            if min(before[i], after[i]) <= 5
        )
        assert [
            (each.old_place, each.new_place, each.docid, each.row, each.grade) for each in one.documents
        ] == expected


def test_worst_of_random_ties_are_the_places_that_were_measured():
    measure = "p@1:ties=random,seed=3"
    flat = pr.FixedRanker([0.0, 0.0, 0.0])
    found = pr.evaluate([NEW, flat], STREAM, measure, worst=50).worst()
    assert found
    for one in found:  # it is 1 if the first document is relevant
        assert [each.grade > 0 for each in one.documents if each.old_place == 1] == [True]
        assert [each.grade > 0 for each in one.documents if each.new_place == 1] == [False]


def test_worst_of_each_challenger_and_measure(result):
    for model in ("new", "other"):
        for measure in MEASURES:
            changes = result.traces[model].values(measure) - result.traces["now"].values(measure)
            found = result.worst(3, model=model, measure=measure)
            assert [one.difference for one in found] == sorted(changes[changes < 0].tolist())[:3]
    with pytest.raises(ValueError, match="n must be at most 7; call evaluate with worst=8 to keep more, got 8"):
        result.worst(8)
    with pytest.raises(ValueError, match="model must be one of 'new', 'other', got 'now'"):
        result.worst(model="now")
    with pytest.raises(KeyError, match="was not recorded"):
        result.worst(measure="rr")


def test_documents_without_ids_have_rows():
    plain = pr.QueryStream.from_arrays(X, GRADES, group=SIZES)
    one = pr.evaluate([NOW, NEW], plain, "ndcg@5").worst(1)[0]
    assert {each.docid for each in one.documents} == {None}
    rows = {each.row for each in one.documents}
    assert rows <= set(range(plain.offsets[one.number], plain.offsets[one.number + 1]))


# Slices


def test_slices_are_evaluations_of_their_queries():
    labels = np.random.default_rng(2).choice(["head", "tail", "rare"], p=[0.5, 0.4, 0.1], size=130)
    result = pr.evaluate({"now": NOW, "new": NEW}, STREAM, MEASURES, by=labels)
    sizes = {label: int((labels == label).sum()) for label in ("head", "tail", "rare")}
    assert [(one.label, one.n_queries) for one in result.slices] == sorted(
        sizes.items(), key=lambda one: one[1], reverse=True
    )
    whole = result.differences[0]
    for one in result.slices:
        alone = pr.evaluate([NOW, NEW], STREAM[labels == one.label], "ndcg@5").differences[0]
        (found,) = one.differences
        assert found.difference == pytest.approx(alone.difference)
        assert (found.n_queries, found.n_better, found.n_worse) == (alone.n_queries, alone.n_better, alone.n_worse)
        assert one.is_small == (one.label == "rare")
        if not one.is_small:
            assert found.critical > max(whole.critical, alone.critical) - 0.05, "wider, for there are two of them"
            assert found.low < alone.low
            assert found.high > alone.high
        else:
            assert math.isnan(found.low)
    by_measure = result.sliced(labels, "ap")
    assert by_measure[0].differences[0].measure == "ap"
    assert repr(result.sliced(labels.tolist())) == repr(result.slices)
    mapping = dict(zip(STREAM.qids.tolist(), labels.tolist(), strict=True))
    assert repr(result.sliced(mapping)) == repr(result.slices)
    in_blocks = pr.evaluate({"now": NOW, "new": NEW}, STREAM.blocks(999), MEASURES, by=mapping)
    assert repr(in_blocks.slices) == repr(result.slices)


def test_slices_by_length_and_by_feature(result):
    groups = {one.label: one.n_queries for one in result.slices}
    assert sum(groups.values()) == 130
    for label, n_queries in groups.items():
        low, *high = map(int, label.split(" to "))
        assert n_queries == ((low <= SIZES) & (max([low, *high]) >= SIZES)).sum()
    assert repr(result.sliced("length")) == repr(result.slices)
    means = [query.X[:, 2].mean() for query in STREAM]
    by_price = pr.evaluate([NOW, NEW], STREAM.blocks(999), "ndcg@5", by="feature:price").slices
    assert repr(by_price) == repr(pr.evaluate([NOW, NEW], STREAM, "ndcg@5", by=np.array(means)).slices)
    sparse = pr.evaluate([NOW, NEW], STREAM.to_sparse(), "ndcg@5", by="feature:price").slices
    assert [one.n_queries for one in sparse] == [one.n_queries for one in by_price] == [33, 32, 32, 33]


def test_quarters_of_numbers():
    values = np.random.default_rng(0).integers(0, 30, size=200)
    found = grouped(values)
    assert len(found) == 4
    assert (np.sum([part for _, part in found], axis=0) == 1).all()
    for (label, part), (_, following) in pairwise(found):
        assert label == f"{values[part].min()} to {values[part].max()}"
        assert values[part].max() < values[following].min()
        assert abs(part.sum() - 50) <= (values == values[part].max()).sum()
    few = grouped(np.array([2.5, 1.0, 2.5, np.nan]))
    assert [(label, part.tolist()) for label, part in few] == [
        ("2.5", [True, False, True, False]),
        ("1", [False, True, False, False]),
        ("(none)", [False, False, False, True]),
    ]
    mixed = grouped(np.array([None, *range(20)], dtype=object))
    assert mixed[-1][0] == "(none)"
    assert grouped(np.array([1, 1, 1, 7, 8, *range(10, 17)]))[0][0] == "1"


def test_numbers_that_look_alike_are_different_slices():
    """Identifiers that are missing in places come as floats, or as objects."""
    for values, labels in [
        ([1234567.0, 1234568.0, np.nan], ["1234567", "1234568", "(none)"]),
        ([0.12345678, 0.12345679], ["0.12345678", "0.12345679"]),
        (np.array([1234567, 1234568, None], dtype=object), ["1234567", "1234568", "(none)"]),
        (np.array([2**53 + 1, 2**53, None], dtype=object), [str(2**53 + 1), str(2**53), "(none)"]),
        (np.array([10**30, 1], dtype=object), [str(10**30), "1"]),
    ]:
        assert [label for label, _ in grouped(np.asarray(values))] == labels
    quarters = [label for label, _ in grouped(np.arange(1234567.0, 1234587.0))]
    assert quarters[0] == "1234567 to 1234571"


# Features by name


def test_rankers_find_their_columns_by_name():
    learned = pr.ListwisePerceptron()
    narrow = pr.QueryStream.from_arrays(X[:, [1, 0]], GRADES, group=SIZES, feature_names=["body", "title"])
    learned.learn(narrow)
    expected = pr.evaluate(learned, narrow, "ndcg@5").values("ndcg@5")
    engine = pr.FixedRanker({"price": 1.0, "title": 0.2})
    for stream in (STREAM, STREAM.to_sparse()):
        result = pr.evaluate({"engine": engine, "learned": learned}, stream.blocks(500), "ndcg@5")
        np.testing.assert_array_equal(pr.evaluate(learned, stream, "ndcg@5").values("ndcg@5"), expected)
        np.testing.assert_allclose(result.traces["learned"].values("ndcg@5"), expected, atol=1e-12)
        np.testing.assert_allclose(
            result.traces["engine"].values("ndcg@5"), pr.evaluate(NOW, STREAM, "ndcg@5").values("ndcg@5"), atol=1e-12
        )
    other = pr.QueryStream.from_arrays(X, GRADES, group=SIZES, feature_names=["title", "age", "price"])
    with pytest.raises(ValueError, match="learned: the data has no column 'body'; it has 'title', 'age', 'price'"):
        pr.evaluate({"engine": engine, "learned": learned}, other, "ndcg@5")
    with pytest.raises(ValueError, match="learned: X has 3 features, but"):
        pr.evaluate({"now": NOW, "learned": learned}, pr.QueryStream.from_arrays(X, GRADES, group=SIZES), "ndcg@5")


# What else it gives


def test_frames_and_plain_values(result):
    for library in ("pandas", "polars"):
        frame = result.to_frame(library)
        assert list(frame.columns)[:4] == ["qid", "documents", "ndcg@5, now", "ndcg@5, new"]
        np.testing.assert_array_equal(frame["ap, other"].to_numpy(), result.traces["other"].values("ap"))
        assert frame["documents"].to_list() == SIZES.tolist()
    plain = result.as_plain()
    assert plain["answer"] == "yes"
    assert plain["models"][1]["ap"] == result.mean("new", "ap")
    assert plain["worst"]["new"][0]["documents"][0]["docid"].startswith("d")
    assert sum(one["queries"] for one in plain["slices"]) == 130


def test_bad_input():
    both = [NOW, NEW]
    with pytest.raises(ValueError, match="give two or more, got 1"):
        pr.evaluate([NOW], STREAM, "ap")
    with pytest.raises(TypeError, match="each must be a learner, a model with"):
        pr.evaluate(3, STREAM, "ap")
    with pytest.raises(TypeError, match="got str for 'b'"):
        pr.evaluate({"a": NOW, "b": "model.json"}, STREAM, "ap")
    with pytest.raises(ValueError, match="at least one measure"):
        pr.evaluate(both, STREAM, [])
    with pytest.raises(ValueError, match="margin must be a number >= 0, got -1"):
        pr.evaluate(both, STREAM, "ap", margin=-1)
    with pytest.raises(ValueError, match="margin must be a number >= 0, got 'half'"):
        pr.evaluate(both, STREAM, "ap", margin="half")
    for confidence in (95, "0.95"):
        with pytest.raises(ValueError, match="confidence must be between 0 and 1"):
            pr.evaluate(both, STREAM, "ap", confidence=confidence)
    with pytest.raises(ValueError, match="names of rankers must differ as text, got 1, '1'"):
        pr.evaluate({1: NOW, "1": NEW}, STREAM, "ap")
    with pytest.raises(ValueError, match="worst must be a whole number >= 0"):
        pr.evaluate(both, STREAM, "ap", worst=-1)
    with pytest.raises(ValueError, match="by applies to several rankers"):
        pr.evaluate(NOW, STREAM, "ap", by="length")
    with pytest.raises(ValueError, match="by must be 'length', 'feature:NAME'"):
        pr.evaluate(both, STREAM, "ap", by="category")
    with pytest.raises(ValueError, match="by must name a feature, one of title, body, price"):
        pr.evaluate(both, STREAM, "ap", by="feature:age")
    with pytest.raises(ValueError, match="one label for each of the 130 queries, got '3'"):
        pr.evaluate(both, STREAM, "ap", by=["a", "b", "c"])
    with pytest.raises(ValueError, match="by must have a label for query 1"):
        pr.evaluate(both, STREAM, "ap", by={0: "a"})
    with pytest.raises(ValueError, match="features are not kept, give them to evaluate"):
        pr.evaluate(both, STREAM, "ap").sliced("feature:price")
    with pytest.raises(ValueError, match="no query counts for ap"):
        pr.evaluate(both, pr.QueryStream.from_arrays(X, 0 * GRADES, group=SIZES), "ap")
    with pytest.raises(ValueError, match="no query counts for ap: all that it does not leave out have weight 0"):
        pr.evaluate(both, STREAM.with_query_weights(np.zeros(130)), "ap")
    with pytest.raises(ValueError, match="no queries"):
        pr.evaluate(both, [], "ap")
