"""Explanations: contributions that add up to scores to the bit, importance by its definition, changes and words."""

import math
import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import perceptrank as pr
from perceptrank.deploy.explanation.contributions import _rounding
from perceptrank.deploy.explanation.effects import FROM_OTHER, FROM_STREAM, UNKNOWN
from perceptrank.deploy.explanation.text import query_text, why_text
from perceptrank.deploy.explanation.text_layout import width_of
from perceptrank.learners.model import Model

TRANSFORMS = {
    "none": None,
    "auto": "auto",
    "running": "running",
    "running twice": ["running", "running-spread"],
    "ranks": ["missing", "query-rank+query-minmax"],
    "clipped logarithms": ["signed-log", "query-zscore", "clip"],
    "indicators": [pr.Missing(indicator=True), "auto"],
    "hats": "bins",
    "hats, scaled": ["bins", "running"],
    "hats of ranks": ["query-rank", "bins"],
    "one-hot": pr.Bins(4, "one-hot"),
    "sparse bins": pr.Bins(6, "thermometer", sparse=True),
    "hash": pr.Hash(8),
    "hash, scaled": [pr.Hash(8), "running"],
}


def ensembles():
    members = [pr.ListwisePerceptron(), pr.ListwisePerceptron("ap"), pr.OnlineRidge(transforms="running")]
    return {
        "sum": pr.Sum(members),
        "sum of one transform": pr.Sum([pr.RankNet(), pr.OnlineRidge()], transforms="auto"),
        "tournament": pr.Tournament(members),
        "tournament of sums": pr.Tournament([pr.Sum(members)], transforms="query-rank"),
        "bagging": pr.Bagging(pr.RankNet(transforms="running"), n_members=2),
        "adagrad": pr.AdaGrad(pr.RankNet(transforms="running")),
        "committee": pr.CommitteePerceptron(3, transforms="running"),
        "prank": pr.PRank(transforms="running"),
    }


@pytest.fixture(scope="module", params=[*TRANSFORMS, *ensembles()])
def ranker(request, stream, learned):
    if request.param in TRANSFORMS:
        return learned(TRANSFORMS[request.param])
    made = ensembles()[request.param]
    made.learn(stream)
    return made


def check_exact(found, expected):
    """Contributions and rounding are the scores, in any order of adding up, and documents are in their order."""
    assert sorted(found.places.tolist()) == list(range(len(expected)))
    assert (found.scores == expected[found.places]).all()
    assert (np.diff(found.scores) <= 0).all()
    for rank, score in enumerate(found.scores.tolist()):
        assert found.total(rank) == score
        exact = sum(map(Fraction, [*found.values[rank].tolist(), *found.rounding[rank].tolist()]))
        assert float(exact) == score


def test_contributions_add_up_to_the_score_whatever_the_model(ranker, stream):
    explained = pr.deploy.explain(ranker, stream)
    for number in (0, 1, 2, 5):
        query = stream[number : number + 1]
        found = explained.contributions(stream.qids[number])
        check_exact(found, ranker.predict(query))
        sizes = np.abs(found.values).sum(axis=1)
        assert (np.abs(found.rounding).max(axis=1) <= 1e-13 * sizes + 1e-300).all()
        assert all(name in stream.feature_names or name.startswith("place") for name in found.features)


@pytest.mark.deep
@pytest.mark.parametrize("name", sorted(set(pr.algorithms()) - {"kernel"}))  # which has no weights of features
def test_every_learner_is_explained(name, stream):
    ranker, stream = pr.algorithms()[name](), pr.QueryZScore().transform(stream)
    ranker.learn(stream)
    explained = pr.deploy.explain(ranker, stream)
    assert name in str(explained)
    assert name in ranker._repr_html_()
    for number in range(len(stream)):
        check_exact(explained.contributions(stream.qids[number]), ranker.predict(stream[number : number + 1]))


numbers = st.floats(-1e30, 1e30) | st.floats(-1, 1) | st.integers(-3, 3).map(float)


@given(
    st.lists(st.tuples(numbers, numbers, numbers), min_size=1, max_size=9), st.sampled_from([np.float32, np.float64])
)
def test_contributions_add_up_for_weights_and_features_of_any_size(rows, dtype):
    weights, *columns = np.array(rows).T
    with np.errstate(over="ignore"):
        X = np.array(columns).astype(dtype)
    if not weights.any() or not np.isfinite(X).all():
        return
    stream = pr.QueryStream.from_arrays(X, [0, 1])
    ranker = pr.FixedRanker(weights)
    check_exact(pr.deploy.explain(ranker, stream).contributions(), ranker.predict(stream))


@given(numbers, st.lists(numbers, max_size=8))
def test_rounding_makes_any_numbers_add_up_to_any_other(score, values):
    assert math.fsum([*values, *_rounding(score, values)]) == score


def test_a_feature_contributes_by_all_that_is_made_of_it(stream, learned):
    ranker = learned("auto")
    found = pr.deploy.explain(ranker, stream).contributions(stream.qids[2])
    query = stream[2:3]
    z, normal = pr.QueryZScore().transform(query).X, pr.QueryNormal().transform(query).X
    n = stream.n_features
    expected = z * ranker.coef_[:n] + normal * ranker.coef_[n:]
    assert "constant" not in found.features
    for j, name in enumerate(found.features):
        column = expected[found.places, stream.feature_names.index(name)]
        np.testing.assert_allclose(found.values[:, j], column, rtol=1e-13)


def test_sparse_features_contribute_as_dense_ones_and_zeros_do_not(stream):
    rng = np.random.default_rng(1)
    X = np.where(rng.random((stream.n_documents, 40)) < 0.1, rng.normal(size=(stream.n_documents, 40)), 0.0)
    dense = pr.QueryStream.from_arrays(X, stream.relevance, group=np.diff(stream.offsets))
    sparse = dense.to_sparse()
    ranker, same = (pr.ListwisePerceptron(transforms="running-spread") for _ in range(2))
    ranker.learn(sparse)
    same.learn(dense)
    explained, other = pr.deploy.explain(ranker, sparse), pr.deploy.explain(same, dense)
    for name, importance in other.importance.items():
        assert explained.importance[name] == pytest.approx(importance, rel=1e-9)
    found = explained.contributions(2)
    check_exact(found, ranker.predict(sparse[2:3]))
    here = np.flatnonzero(X[sparse.offsets[2] : sparse.offsets[3]].any(axis=0))
    assert set(found.features) <= {f"f{j + 1}" for j in here}
    assert len(found.features) == len(here)
    assert all(value != 0.0 for rank in range(len(found)) for _, value in found.largest(rank))


@pytest.mark.parametrize("transforms", [None, "running", ["running", "running-spread"], ["missing", "running"]])
def test_weights_in_raw_units_are_the_folded_ones(stream, learned, transforms):
    ranker = learned(transforms)
    explained = pr.deploy.explain(ranker)
    raw = {one.feature: one.per_unit for one in explained.features}
    if transforms == ["missing", "running"]:  # which `fold` refuses, as it does not know of missing values
        ranker = learned("running")
    folded = pr.deploy.fold(ranker)
    for name, weight in zip(folded.names, folded.weights, strict=True):
        assert raw.get(name, 0.0) == pytest.approx(weight, rel=1e-12)
    assert {one.per_unit for one in pr.deploy.explain(learned("auto")).features} == {None}


def test_importance_is_the_spread_of_contributions_within_queries(stream, learned):
    for transforms in ("auto", "running", "bins", None):
        ranker = learned(transforms)
        explained = pr.deploy.explain(ranker, stream)
        assert explained.importance_is == FROM_STREAM
        squares = dict.fromkeys(stream.feature_names, 0.0)
        for qid in stream.qids.tolist():
            query = explained.contributions(qid)
            for j, name in enumerate(query.features):
                values = query.values[:, j]
                squares[name] += float(((values - values.mean()) ** 2).sum())
        for name, importance in explained.importance.items():
            assert importance == pytest.approx(math.sqrt(squares[name] / stream.n_documents), rel=1e-6, abs=1e-12)
        shares = [one.share for one in explained.features]
        assert shares == sorted(shares, reverse=True)
        assert sum(shares) == pytest.approx(1)
        blocks = pr.deploy.explain(ranker, (stream[k : k + 7] for k in range(0, len(stream), 7)))
        assert blocks.importance == pytest.approx(explained.importance)


def test_importance_without_queries_is_by_what_transforms_know(stream, learned):
    ranker = learned("running")
    explained = pr.deploy.explain(ranker)
    for one in explained.features:
        j = stream.feature_names.index(one.feature)
        assert one.importance == abs(ranker.coef_[j]) == abs(one.weights["deviation"])
        assert one.sign == "+-"[int(ranker.coef_[j] < 0)]
        assert one.per_unit == pytest.approx(one.weights["deviation"] / stream.X[:, j].std())
    both = pr.deploy.explain(learned("auto"))
    assert all(one.importance == pytest.approx(abs(sum(one.weights.values()))) for one in both.features)
    assert all(one.sign == "±" for one in both.features if len({weight > 0 for weight in one.weights.values()}) > 1)
    nothing = pr.deploy.explain(learned(None))
    assert nothing.importance_is == UNKNOWN
    assert all(math.isnan(one) for one in nothing.importance.values())
    assert [abs(one.per_unit) for one in nothing.features] == sorted(map(abs, nothing._terms.parts[0].weights))[::-1]


@pytest.mark.parametrize("kind", ["hat", "one-hot", "thermometer"])
def test_curves_are_what_bins_add_to_the_score(stream, learned, kind):
    ranker = learned(pr.Bins(5, kind))
    explained = pr.deploy.explain(ranker, stream)
    known = pr.deploy.explain(ranker).importance
    (bins,) = ranker.transforms_
    weights = ranker.coef_.reshape(stream.n_features, -1)
    for name, (curve,) in explained.curves.items():
        j = stream.feature_names.index(name)
        X = np.repeat(np.median(stream.X, axis=0)[None], stream.n_documents, axis=0)
        X[:, j] = stream.X[:, j]
        outputs = bins.apply(X, [0, len(X)]).reshape(len(X), stream.n_features, -1)[:, j]
        added = outputs @ weights[j]
        if curve.is_linear:
            expected = np.interp(stream.X[:, j], *_distinct(curve))
        else:
            expected = curve.values[np.searchsorted(curve.edges, stream.X[:, j], side="left")]
        np.testing.assert_allclose(added, expected, rtol=1e-9, atol=1e-12)
        # Between quantiles, documents need not be spread evenly.
        assert known[name] == pytest.approx(added.std(), rel=0.35, abs=1e-12)


def _distinct(curve):
    edges, places = np.unique(curve.edges, return_index=True)
    return edges, curve.values[places]


def test_hashed_columns_are_explained_by_name_in_any_order(stream, learned):
    ranker = learned(pr.Hash(8))
    query = stream[2:3]
    order = [4, 1, 0, 5]
    other = query.with_features(query.X[:, order], feature_names=[stream.feature_names[j] for j in order])
    explained = pr.deploy.explain(ranker, other)
    check_exact(explained.contributions(), ranker.predict(other))
    assert any("share the place" in note for note in pr.deploy.explain(ranker).notes)
    with pytest.raises(ValueError, match="columns of the stream change"):
        pr.deploy.explain(ranker, [query, other])


def test_changes_compare_whatever_the_scale_of_weights():
    names = ["same", "bigger", "smaller", "turned", "gone", "new", "never"]
    rng = np.random.default_rng(0)
    stream = pr.QueryStream.from_arrays(rng.normal(size=(60, 7)), [0, 1] * 30, group=[6] * 10, feature_names=names)
    old = pr.FixedRanker(dict(zip(names, [2.0, 1.0, 3.0, 1.0, 1.0, 0.0, 0.0], strict=True)))
    new = pr.FixedRanker(
        {name: 10 * one for name, one in zip(names, [2.0, 2.0, 2.0, -1.0, 0.0, 1.0, 0.0], strict=True)}
    )
    changes = pr.deploy.explain(new, stream, since=old).changes
    kinds = {one.feature: one.kind for one in changes}
    assert kinds["bigger"] == "grew"
    assert kinds["smaller"] == "shrank"
    assert kinds["turned"] == "changed sign"
    assert kinds["gone"] == "disappeared"
    assert kinds["new"] == "appeared"
    assert "never" not in kinds
    for shares in ([one.before for one in changes], [one.now for one in changes]):
        assert sum(map(abs, shares)) == pytest.approx(1)
    gaps = [abs(one.difference) for one in changes]
    assert gaps == sorted(gaps, reverse=True)
    assert {one.kind for one in pr.deploy.explain(new, stream, since=new).changes} == {"kept"}


def test_models_of_different_features_are_compared_on_a_stream_that_has_all(stream):
    fewer = ["back\\slash'", "title bm25"]
    old, new = (pr.ListwisePerceptron() for _ in range(2))
    old.learn(stream.select(fewer))
    new.learn(stream)
    explained = pr.deploy.explain(new, stream, since=old)
    kinds = {one.feature: one.kind for one in explained.changes}
    assert {name for name, kind in kinds.items() if kind == "appeared"} == set(kinds) - set(fewer)
    before = pr.deploy.explain(old, stream)
    assert before.importance == pr.deploy.explain(old, stream.select(fewer)).importance
    check_exact(before.contributions(2), old.predict(stream[2:3].select(fewer)))
    with pytest.raises(ValueError, match="lacks"):
        pr.deploy.explain(new, stream.select(fewer))


def test_an_engine_s_weights_are_compared_by_the_spreads_that_the_new_model_knows(stream, learned):
    new = learned("running")
    folded = pr.deploy.fold(new)
    same = pr.FixedRanker(dict(zip(folded.names, (7 * folded.weights).tolist(), strict=True)))
    same.learn(stream)
    assert {one.kind for one in pr.deploy.explain(new, since=same).changes} == {"kept"}
    explained = pr.deploy.explain(same, since=new)
    assert explained.importance_is == FROM_OTHER
    assert explained.importance == pytest.approx(
        {one.feature: 7 * one.importance for one in pr.deploy.explain(new).features}
    )
    notes = pr.deploy.explain(learned("auto"), since=same).notes
    assert any("weights alone" in note for note in notes)
    assert any("different kinds" in note for note in pr.deploy.explain(learned("auto"), since=new).notes)


def test_history_says_what_was_seen_and_no_margin_is_larger_than_certified():
    data = pr.separable(300)
    ranker = pr.ListwisePerceptron(transforms=None)
    trace = ranker.learn(data.stream, "ndcg")
    history = pr.deploy.explain(ranker).history
    assert (history.queries, history.updates) == (300, trace.n_updates)
    assert history.moved == pytest.approx(trace.masses.sum())
    assert history.losses["used"] == pytest.approx(ranker.used_loss)
    assert "300 queries" in str(pr.deploy.explain(ranker))
    best = pr.theory.margin(data.stream).lower
    certified = 0
    for learner in (
        ranker,
        pr.SlamPerceptron(),
        pr.MinimaxPerceptron(average=True),
        pr.CategoryRanking(),
        pr.RankNet(),
    ):
        learner.learn(data.stream)
        margin = pr.deploy.explain(learner).history.largest_margin
        certified += margin is not None
        assert margin is None or best <= margin
    assert certified == 4


def test_of_clicks_the_weight_moved_is_not_said_to_bound_the_loss():
    ranker = pr.ExaminedPerceptron(transforms=None)
    shown = ranker.show([[1.0, 0.0], [0.0, 1.0]], rng=0)
    assert ranker.learn_clicks(shown, [0, 1])
    said = str(pr.deploy.explain(ranker))
    assert "it has moved the weight 1, so that no ranker has a margin above" in " ".join(said.split())
    assert "at least what its current weights have lost" not in said


def test_what_an_ensemble_ranks_by_is_said(stream):
    found = {name: one for name, one in ensembles().items() if name in ("sum", "tournament", "bagging", "prank")}
    for one in found.values():
        one.learn(stream)
    said = {name: str(pr.deploy.explain(one)) for name, one in found.items()}
    assert "is a sum: listwise / " in said["sum"]
    assert "listwise: z-score" in said["sum"]
    assert "listwise (2): z-score" in said["sum"]
    assert f"ranked by {found['tournament'].leader.name}" in said["tournament"]
    assert "mean of those of 2 members" in said["bagging"]
    assert f"{found['prank'].thresholds[0]:.4g}" in said["prank"]


class BackwardsModel(Model):
    """A model that ranks in a way of its own."""

    def linear_scores(self, X, names=None):
        """Return the scores, the other way round."""
        return -super().linear_scores(X, names)


class RanksBackwards(pr.NumpyLearner):
    """A learner that ranks in a way of its own."""

    algorithm = "backwards"
    model_class = BackwardsModel

    def update(self, scores, X, relevance):
        """Return the grades."""
        return relevance


def test_what_cannot_be_explained_is_refused(stream, learned):
    backwards = RanksBackwards()
    backwards.learn_one([[1.0], [2.0]], [0, 1])
    with pytest.raises(ValueError, match="ranks in a way of its own"):
        pr.deploy.explain(backwards)
    with pytest.raises(ValueError, match="has not learned anything yet"):
        pr.deploy.explain(pr.ListwisePerceptron())
    with pytest.raises(TypeError, match="must be a learner of perceptrank, got dict"):
        pr.deploy.explain({"title": 1.0})
    explained = pr.deploy.explain(learned("auto"))
    with pytest.raises(ValueError, match="has no stream"):
        explained.contributions(3)
    with pytest.raises(ValueError, match="one query, got 2"):
        explained.contributions(stream[:2])
    explained = pr.deploy.explain(learned("auto"), stream)
    with pytest.raises(ValueError, match="no query 'nothing'"):
        explained.contributions("nothing")
    with pytest.raises(ValueError, match="expecting 6 features"):
        pr.deploy.explain(learned("auto"), pr.QueryStream.from_arrays([[1.0]], [0]))
    found = explained.contributions("2")
    with pytest.raises(ValueError, match="has no document 'x'"):
        found.why("x", "1")
    with pytest.raises(ValueError, match="no queries"):
        pr.deploy.explain(learned("auto"), iter([]))


def test_why_is_the_difference_of_contributions(stream, learned):
    found = pr.deploy.explain(learned("auto"), stream).contributions(2)
    first, second = found.documents[0], found.documents[4]
    rows = found.why(first, second)
    rounding = [*found.rounding[0].tolist(), *(-found.rounding[4]).tolist()]
    total = math.fsum([one.first for one in rows] + [-one.second for one in rows] + rounding)
    assert total == pytest.approx(found.scores[0] - found.scores[4], rel=1e-14)
    sizes = [abs(one.difference) for one in rows]
    assert sizes == sorted(sizes, reverse=True)
    text = why_text(found, first, second, top=2)
    assert f"{first} (rank 1) is above {second} (rank 5)" in text
    assert f"({len(rows) - 2} more)" in text
    assert "(rank 5) is below" in why_text(found, second, first)
    assert "No feature tells them apart" in why_text(found, first, first)


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_text_fits_the_terminal_and_lines_up(ranker, stream, width):
    explained = pr.deploy.explain(ranker, stream)
    text = explained.text(width=width, top=4)
    assert max(width_of(line) for line in text.splitlines()) <= width
    head, *rows = re.search(r"^.*feature .*importance.*\n(?:.+\n)+", text, re.M)[0].splitlines()
    ends = {width_of(row[: row.index("%") + 1]) for row in rows if "%" in row}
    assert ends == {head.index("importance") + len("importance")}
    if width >= 60:
        shown = query_text(explained.contributions(2), width=width, documents=3)
        assert max(width_of(line) for line in shown.splitlines()) <= width
        assert len(shown.splitlines()) == 5


def test_names_are_shown_safely(stream, learned):
    names = ["<script>alert(1)</script>", "a\x1b[31mb", "x\ny", "q&a", "e", "f"]
    ranker = pr.ListwisePerceptron(transforms="running")
    risky = stream.with_features(stream.X, feature_names=names)
    trace = ranker.learn(risky)
    explained = pr.deploy.explain(ranker, risky, since=ranker)
    query = explained.contributions(2)
    for text in (str(explained), str(query)):
        assert "\x1b" not in text
        assert "x\ny" not in text
    for html in (explained._repr_html_(), query._repr_html_(), ranker._repr_html_(), trace._repr_html_()):
        assert "<script>" not in html
        assert "\x1b" not in html
    assert "&lt;script&gt;" in explained._repr_html_()
    assert "&lt;script&gt;" in ranker._repr_html_()


def test_a_query_in_a_notebook_adds_up(stream, learned):
    html = pr.deploy.explain(learned("auto"), stream).contributions(2)._repr_html_()
    assert "contributions add up to the score" in html
    assert html.count("<tr>") == 1 + 10


def test_frames_and_plain_values(stream, learned):
    pandas = pytest.importorskip("pandas")
    explained = pr.deploy.explain(learned("auto"), stream)
    frame = explained.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.columns) == ["feature", "sign", "importance", "share", "z-score", "normal score", "per unit"]
    assert frame["feature"].tolist() == [one.feature for one in explained.features]
    query = explained.contributions(2)
    frame = query.to_frame()
    np.testing.assert_allclose(frame[[*query.features, "(rounding)"]].sum(axis=1), frame["score"], rtol=1e-12)
    plain = query.as_plain(3)
    assert len(plain["documents"]) == 3
    best = plain["documents"][0]
    assert math.fsum([*best["contributions"].values(), *best["rounding"]]) == best["score"]
    assert len(explained.weights) == len(explained.features) * 2
    assert {one.form for one in explained.weights} == {"z-score", "normal score"}


@pytest.mark.parametrize("transforms", ["auto", pr.Bins(4, "one-hot")])
def test_plots_are_drawn_again_to_the_bit(stream, learned, tmp_path, transforms):
    pytest.importorskip("matplotlib")
    explained = pr.deploy.explain(learned(transforms))
    for name in ("a.svg", "b.svg"):
        explained.plot(tmp_path / name, top=3)
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert text == (tmp_path / "b.svg").read_text(encoding="utf-8")
    assert "title bm25" in text
    with pytest.raises(ValueError, match="must end with one of"):
        explained.plot(tmp_path / "a.txt")


@pytest.mark.parametrize("transforms", ["bins", "bins:kind=one-hot,n_bins=24"])
def test_curves_are_drawn_so_that_they_can_be_read(learned, tmp_path, transforms):
    """The fifth feature has a long tail; after `running`, edges are in deviations."""
    pytest.importorskip("matplotlib")
    pr.deploy.explain(learned([transforms])).plot(tmp_path / "raw.svg", top=6)
    text = (tmp_path / "raw.svg").read_text(encoding="utf-8")
    assert "edges evenly spaced" in text
    assert "its deviation" not in text
    pr.deploy.explain(learned(["running", transforms])).plot(tmp_path / "scaled.svg", top=6)
    assert "its deviation, edges evenly spaced" in (tmp_path / "scaled.svg").read_text(encoding="utf-8")


def test_learners_and_traces_have_cards(stream, learned):
    assert "has not learned anything yet" in pr.ListwisePerceptron()._repr_html_()
    html = learned("auto")._repr_html_()
    assert "title bm25 query-zscore" in html
    assert f"{len(stream):,} queries" in html
    apart = pr.Sum([pr.ListwisePerceptron(), pr.OnlineRidge(transforms="running")])
    apart.learn(stream)
    assert "members: listwise, ridge" in apart._repr_html_()
    trace = apart.learn(stream, ["ndcg@10", "ap"])
    assert "ndcg@10" in trace._repr_html_()
    assert f"{trace.mean('ap'):.4g}" in trace._repr_html_()


def test_a_stream_lends_its_names_to_a_model_without(stream):
    ranker = pr.ListwisePerceptron()
    ranker.learn(pr.QueryStream.from_arrays(stream.X, stream.relevance, group=np.diff(stream.offsets)))
    without, explained = pr.deploy.explain(ranker), pr.deploy.explain(ranker, stream)
    assert {one.feature for one in without.features} == {"f1", "f2", "f4", "f5", "f6"}
    assert any("have no names" in note for note in without.notes)
    assert {one.feature for one in explained.features} == set(stream.feature_names) - {"constant"}
    check_exact(explained.contributions(2), ranker.predict(stream[2:3]))


def test_documents_go_by_their_ids_or_comments(stream, learned):
    ranker = learned("auto")
    query = stream[2:3]
    comments = [f"d{k} of query" if k % 2 else "" for k in range(query.n_documents)]
    named = pr.QueryStream.from_arrays(query.X, query.relevance, feature_names=query.feature_names, comments=comments)
    found = pr.deploy.explain(ranker, named).contributions()
    expected = [f"d{k}" if k % 2 else str(k + 1) for k in range(query.n_documents)]
    assert [expected[k] for k in found.places] == list(found.documents)
    ids = [f"id {k}" for k in range(query.n_documents)]
    named = pr.QueryStream.from_arrays(query.X, query.relevance, feature_names=query.feature_names, docids=ids)
    found = pr.deploy.explain(ranker, named).contributions()
    assert [ids[k] for k in found.places] == list(found.documents)


def test_another_model_that_does_not_know_the_queries_is_said(stream, learned):
    """Which of the two lacks features is told, and the way out."""
    unlike = pr.FixedRanker({"of another shop": 1.0})
    with pytest.raises(
        ValueError, match=r"the other model cannot rank the queries .*'of another shop'.*without queries"
    ):
        pr.deploy.explain(learned(), stream, since=unlike)
    kinds = {one.feature: one.kind for one in pr.deploy.explain(learned(), since=unlike).changes}
    assert kinds["of another shop"] == "disappeared"
