"""Clicks in the service: lists are explored, logged, learned from and replayed; challengers are judged fairly."""

import json
import math
import shutil
import threading
import time
from itertools import count

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.answers import QUIET, abandon, document
from support.serving import send
from support.shopping import NAMES, impressions_of, learn_offline, searches, serve_searches
from typer.testing import CliRunner

import perceptrank as pr
from perceptrank.cli.app import app
from perceptrank.serve import ServedRanker, Settings, verify
from perceptrank.serve.documents import Document
from perceptrank.serve.errors import (
    EventConflictError,
    ExpiredRankingError,
    FeatureMismatchError,
    InvalidRequestError,
    OverloadedError,
)
from perceptrank.serve.exploring import Showing
from perceptrank.serve.learning import Columns
from perceptrank.serve.log.records import ImpressionEntry, ShownEntry, as_numbers, decode, encode
from perceptrank.serve.page.clicks import ClickCounts
from perceptrank.serve.replay import MANY
from perceptrank.serve.shadow.evidence import draft_teams
from perceptrank.serve.submissions import Answer


def named(m):
    """Features of documents, with their names."""
    return Columns(np.random.default_rng(m).normal(size=(m, 3)), NAMES)


def settings(**more):
    return Settings(snapshot_seconds=1e9, **more)


@pytest.fixture(autouse=True)
def coins(monkeypatch):
    """The same coins in every run: they are drawn with the secret of a log, for a start of the ranker."""
    starts = count(1)
    monkeypatch.setattr("perceptrank.serve.log.sqlite.secrets.token_hex", lambda n: "1f" * n)
    monkeypatch.setattr("perceptrank.serve.ranker.draw_start", lambda: next(starts))


@pytest.fixture
def ranker(tmp_path):
    ranker = ServedRanker(tmp_path / "r", pr.ClickPerceptron(), QUIET)
    yield ranker
    ranker.close()


@pytest.mark.parametrize(
    ("learner", "explore"),
    [
        (pr.ClickPerceptron(), "own"),
        (pr.ClickPerceptron(), "fair-pairs"),
        (pr.ClickPerceptron(production="score", transforms=[pr.ScoreOf(pr.FixedRanker({"text": 1.0})), "auto"]), "own"),
        (pr.PDGD(), "own"),
        (pr.FairPairsPerceptron(), "own"),
        (pr.ClickPerceptron(), "shuffle:4"),
    ],
)
def test_what_is_learned_is_what_the_log_says_and_a_replay_gives_it_again(tmp_path, learner, explore):
    ranker = ServedRanker(tmp_path / "r", learner, settings(explore=explore))
    serve_searches(ranker, searches(40), places=6)
    entries = impressions_of(ranker)
    assert len(entries) == ranker.current.impressions == ranker.current.answers == 40
    assert document(ranker.current.learner) == document(learn_offline(learner, entries))
    assert ranker.current.learner.n_updates > 0
    ranker.save()
    serve_searches(ranker, searches(20, seed=2), places=6)
    learned = document(ranker.current.learner)
    abandon(ranker)
    (result,) = verify(tmp_path)
    assert result.is_sound, result.problems
    again = ServedRanker(tmp_path / "r", settings=settings(explore=explore))
    assert document(again.current.learner) == learned
    again.close()


def test_the_log_has_what_was_shown_and_which_coins_drew_it(ranker):
    made = list(searches(30))
    rankings = serve_searches(ranker, made, places=5, keep=1)
    for entry, ranking in zip(impressions_of(ranker), rankings, strict=True):
        assert decode(encode(entry)) == entry
        shown = [entry.documents[row] for row in entry.order]
        assert shown == ranking.order[:5]
        assert ranking.places == 5
        assert entry.policy == ranking.policy
        base = sorted(ranking.scores, key=lambda name: -ranking.scores[name])[:5]
        assert [entry.documents[row] for row in entry.base] == base
        assert shown[0] == base[0]  # which is kept
        assert as_numbers(entry.propensities)[0] == 1
        rest = [name for name in sorted(ranking.scores, key=lambda name: -ranking.scores[name]) if name not in shown]
        assert ranking.order[5:] == rest
    assert len({entry.coins for entry in impressions_of(ranker)}) == 30
    assert any(entry.order != entry.base for entry in impressions_of(ranker))


def test_a_session_sees_the_same_list_again(tmp_path):
    ranker = ServedRanker(tmp_path / "r", pr.PDGD(), QUIET)
    serve_searches(ranker, searches(20))
    documents, _ = next(searches(1, seed=9, m=30))
    first = ranker.rank(documents, Showing(session="s", user_query="boots"))
    again = ranker.rank(documents, Showing(session="s", user_query="boots"))
    assert (again.ranking_id, again.order) == (first.ranking_id, first.order)
    others = [ranker.rank(documents, Showing(session=f"s{i}", user_query="boots")) for i in range(5)]
    assert len({tuple(one.order) for one in others}) > 1
    assert len({one.ranking_id for one in others}) == 5
    assert ranker.rank(documents[:20], Showing(session="s", user_query="boots")).ranking_id != first.ranking_id
    ranker.clicks(first.ranking_id, []).result(10)
    repeated = ranker.rank(documents, Showing(session="s", user_query="boots"))
    assert repeated.order[:10] == first.order[:10]  # an impression of its own, of which nothing is learned
    assert (repeated.ranking_id == first.ranking_id, repeated.policy) == (False, "none")
    assert ranker.rank(documents, Showing(session="s", user_query="boots")).ranking_id == repeated.ranking_id
    n_updates = ranker.current.learner.n_updates
    ranker.clicks(repeated.ranking_id, repeated.order[3:4]).result(10)
    ranker.flush()
    assert ranker.current.learner.n_updates == n_updates
    ranker.close()


def test_a_session_sees_the_same_list_after_a_restart_and_in_other_processes(tmp_path):
    asked, shown = next(searches(1, seed=9, m=30))[0], Showing(session="s", user_query="boots")
    ranker = ServedRanker(tmp_path / "r", pr.PDGD(), QUIET)
    serve_searches(ranker, searches(20))
    first = ranker.rank(asked, shown)
    twin = ServedRanker(tmp_path / "twin", pr.PDGD(), QUIET)  # a process that knows the secret, as workers do
    twin._explorer, twin.thread._current = ranker._explorer, ranker.current
    other = twin.rank(asked, shown)
    assert other.order[:10] == first.order[:10]
    twin.close()
    ranker.close()
    ranker = ServedRanker(tmp_path / "r", settings=QUIET)
    again = ranker.rank(asked, shown)
    assert (again.ranking_id, again.order[:10]) == (first.ranking_id, first.order[:10])
    ranker.clicks(first.ranking_id, first.order[2:3]).result(10)
    # The other process logs it under an id of its own: nothing is learned twice from the same coins.
    (entry,) = [entry for entry in impressions_of(ranker) if entry.ranking_id == first.ranking_id]
    ranker.flush()
    n_updates = ranker.current.learner.n_updates
    copied = msgspec.structs.replace(entry, ranking_id="other", event_id="other")
    ranker.thread.submit([answer := Answer(copied, None)])
    assert not answer.future.result(10).duplicate
    ranker.flush()
    (logged,) = [entry for entry in impressions_of(ranker) if entry.ranking_id == "other"]
    assert (logged.policy, logged.order, logged.base) == ("none", entry.order, entry.order)
    assert ranker.current.learner.n_updates == n_updates
    ranker.close()
    result = next(result for result in verify(tmp_path) if result.ranker == "r")
    assert result.is_sound, result.problems


def test_a_list_that_nobody_clicked_is_learned_from_when_it_expires(tmp_path):
    ranker = ServedRanker(tmp_path / "r", pr.ClickPerceptron(), settings(ranking_seconds=0.5))
    documents, _ = next(searches(1))
    shown = ranker.rank(documents)
    ranker.rank(documents, Showing(explore=False))  # neither explored nor said to be shown
    also = ranker.rank(documents, Showing(explore=False, shown=True))
    deadline = time.monotonic() + 10
    while ranker.current.impressions < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    entries = impressions_of(ranker)
    assert {entry.ranking_id for entry in entries} == {shown.ranking_id, also.ranking_id}
    assert all(not as_numbers(entry.clicks).any() for entry in entries)
    with pytest.raises(ExpiredRankingError, match="clicks come too late"):
        ranker.clicks(shown.ranking_id, ["d1"])
    assert ranker.status()["dropped_impressions"] == 0
    ranker.close()


def test_clicks_one_by_one_are_learned_together(tmp_path):
    ranker = ServedRanker(tmp_path / "r", pr.ClickPerceptron(), QUIET)
    documents, _ = next(searches(1))
    ranked = ranker.rank(documents)
    a, b = ranked.order[:2]
    first = ranker.clicks(ranked.ranking_id, [a], more=True).result(10)
    assert ranker.clicks(ranked.ranking_id, [a], more=True).result(10).duplicate
    ranker.flush()
    assert (ranker.current.impressions, ranker.current.notes) == (0, 1)
    assert not first.duplicate
    abandon(ranker)  # a kill: the click and its list are in the log
    again = ServedRanker(tmp_path / "r", settings=QUIET)
    last = again.clicks(ranked.ranking_id, {b: 0.5}, examined=3).result(10)
    assert again.clicks(ranked.ranking_id, {b: 0.5}, examined=3).result(10) == last.__class__(
        last.event_id, last.sequence, True
    )
    assert again.clicks(ranked.ranking_id, [a], more=True).result(10).duplicate
    with pytest.raises(EventConflictError, match="already has its final clicks"):
        again.clicks(ranked.ranking_id, [a], event_id="other").result(10)
    with pytest.raises(EventConflictError, match="another answer"):
        again.clicks(ranked.ranking_id, [a]).result(10)
    again.flush()
    (entry,) = impressions_of(again)
    assert as_numbers(entry.clicks)[:3].tolist() == [1.0, 0.5, 0.0]
    assert as_numbers(entry.examined).tolist() == [1, 1, 1, 0, 0, 0, 0, 0]
    assert not again.current.open
    again.close()


def test_a_note_of_a_list_is_closed_once(tmp_path):
    ranker = ServedRanker(tmp_path / "r", pr.ClickPerceptron(), settings(ranking_seconds=1.0))
    documents, _ = next(searches(1))
    graded, unshown = ranker.rank(documents), ranker.rank(documents, Showing(explore=False))
    for ranked in (graded, unshown):
        ranker.clicks(ranked.ranking_id, [ranked.order[0]], more=True).result(10)
    ranker.feedback(graded.ranking_id, {"d1": 2.0}).result(10)
    deadline = time.monotonic() + 10
    while ranker.current.impressions < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not ranker.current.open
    entries = impressions_of(ranker)  # grades say nothing of clicks that were noted before
    assert {entry.ranking_id for entry in entries} == {graded.ranking_id, unshown.ranking_id}
    assert all(as_numbers(entry.clicks).sum() == 1 for entry in entries)
    ranker.close()
    (result,) = verify(tmp_path)
    assert result.is_sound, result.problems


def test_a_restart_remembers_the_lists_that_may_be_clicked(tmp_path):
    ranker = ServedRanker(tmp_path / "r", pr.ClickPerceptron(), QUIET)
    serve_searches(ranker, searches(5))
    documents, _ = next(searches(1, seed=5))
    waiting = [ranker.rank(documents) for _ in range(3)]
    ranker.clicks(waiting[0].ranking_id, []).result(10)
    ranker.close()
    again = ServedRanker(tmp_path / "r", settings=QUIET)
    assert set(again.current.open) == {one.ranking_id for one in waiting[1:]}
    again.clicks(waiting[1].ranking_id, [waiting[1].order[0]]).result(10)
    again.flush()
    entry = impressions_of(again)[-1]
    assert [entry.documents[row] for row in entry.order] == waiting[1].order
    again.close()
    third = ServedRanker(tmp_path / "r", settings=settings(ranking_seconds=0.3))
    deadline = time.monotonic() + 10
    while third.current.open and time.monotonic() < deadline:
        time.sleep(0.05)
    assert third.current.impressions == 8
    third.close()
    (result,) = verify(tmp_path)
    assert result.is_sound, result.problems


def test_an_answer_sent_again_after_a_restart_is_a_duplicate(tmp_path, monkeypatch):
    ranker = ServedRanker(tmp_path / "r", pr.ClickPerceptron(), settings(explore="fair-pairs"))
    documents, _ = next(searches(1))
    clicked, graded = (ranker.rank(documents, Showing(places=3)) for _ in range(2))
    first, second = clicked.order[:2]
    sent = [
        ranker.clicks(clicked.ranking_id, [first], examined=2).result(10),
        ranker.feedback(graded.ranking_id, {"d1": 1.0}, event_id="judged", omit=True).result(10),
    ]
    ranker.close()
    ranker = ServedRanker(tmp_path / "r", settings=settings(explore="fair-pairs"))
    again = [
        ranker.clicks(clicked.ranking_id, [first], examined=2).result(10),
        ranker.feedback(graded.ranking_id, {"d1": 1.0}, event_id="judged", omit=True).result(10),
    ]
    assert [one.sequence for one in again] == [one.sequence for one in sent]
    assert all(one.duplicate for one in again)
    with pytest.raises(EventConflictError, match="was used for another answer"):
        ranker.clicks(clicked.ranking_id, [second]).result(10)
    with pytest.raises(EventConflictError, match="was used for another answer"):
        ranker.feedback(graded.ranking_id, {"d1": 2.0}, event_id="judged").result(10)
    for ranking_id, event_id in (
        (clicked.ranking_id, "new"),
        (graded.ranking_id, "new"),
        (graded.ranking_id, "judged"),
    ):
        with pytest.raises(ExpiredRankingError):
            ranker.clicks(ranking_id, [first], event_id=event_id)
    monkeypatch.setattr(ranker.thread.log, "reader", lambda: 1 / 0)  # the log is out of reach
    with pytest.raises(ExpiredRankingError):
        ranker.clicks(clicked.ranking_id, [first])
    assert ranker.current.answers == 2
    ranker.close()


def test_an_answer_that_cannot_be_logged_may_be_sent_again(ranker, monkeypatch):
    documents, _ = next(searches(1))
    ranked, append = ranker.rank(documents), ranker.thread.log.append

    def fail(additions):
        raise OSError("no space left")

    monkeypatch.setattr(ranker.thread.log, "append", fail)
    with pytest.raises(OSError, match="no space left"):
        ranker.clicks(ranked.ranking_id, [ranked.order[0]], event_id="a").result(10)
    monkeypatch.setattr(ranker.thread.log, "append", append)
    assert not ranker.clicks(ranked.ranking_id, [ranked.order[0]], event_id="b").result(10).duplicate
    ranker.flush()
    assert ranker.current.impressions == 1


def test_how_much_is_explored(tmp_path):
    ranker = ServedRanker(
        tmp_path / "r", pr.FixedRanker({"text": 1.0}), settings(explore="fair-pairs", explore_share=0.5), fixed=True
    )
    documents, _ = next(searches(1, m=12))
    lists = [ranker.rank(documents, Showing(places=10)) for _ in range(200)]
    kinds = [one.policy for one in lists]
    assert 60 < kinds.count("none") < 140
    assert {"fair-pairs:1", "fair-pairs:2"} < set(kinds)
    best = sorted(lists[0].scores, key=lambda name: -lists[0].scores[name])
    assert all((one.order == best) or one.policy != "none" for one in lists)
    assert all(ranker._rankings.find(one.ranking_id).listed.is_shown for one in lists)
    assert ranker.rank(documents, Showing(explore=False)).order == best
    kept = [ranker.rank(documents, Showing(keep=3)).order[:3] for _ in range(20)]
    assert kept == [best[:3]] * 20
    ranker.close()


def test_temperature_is_in_units_of_the_spread_of_scores(tmp_path):
    """Scores of any scale are explored alike."""
    shares = []
    for scale in (1e-6, 1e6):
        model = pr.FixedRanker({"text": scale})
        ranker = ServedRanker(tmp_path / f"r{scale}", model, settings(explore="plackett-luce:0.5"), fixed=True)
        lists = [ranker.rank(documents) for documents, _ in searches(200)]
        changed = [one.order != sorted(one.scores, key=lambda name: -one.scores[name]) for one in lists]
        shares.append(np.mean(changed))
        ranker.close()
    assert 0.3 < shares[0] < 1
    assert abs(shares[0] - shares[1]) < 0.1


@pytest.mark.parametrize(
    ("clicks", "more", "message"),
    [
        (["nobody"], {}, "'nobody' was not ranked"),
        ({"nobody": 0.0}, {}, "'nobody' was not ranked"),
        (None, {}, "was ranked, but not shown among the first 5"),
        ({"d0": 2.0}, {}, "clicks must be numbers from 0 to 1, got 2.0"),
        ({"d0": math.nan}, {}, "clicks must be numbers from 0 to 1, got nan"),
        ([], {"examined": 6}, "examined must be ids, or a whole number from 0 to 5, .* got 6"),
        ([], {"examined": -1}, "examined must be ids, or a whole number from 0 to 5, .* got -1"),
        ([], {"examined": ["nobody"]}, "examined must be of documents that were shown"),
    ],
)
def test_bad_clicks_are_refused_and_nothing_is_lost(ranker, clicks, more, message):
    documents, _ = next(searches(1))
    ranked = ranker.rank(documents, Showing(places=5, explore=False))
    with pytest.raises(InvalidRequestError, match=message):
        ranker.clicks(ranked.ranking_id, [ranked.order[5]] if clicks is None else clicks, **more)
    assert not ranker.clicks(ranked.ranking_id, [ranked.order[0]]).result(10).duplicate


def test_one_document_ties_and_constant_features(ranker):
    serve_searches(ranker, searches(3))
    one = [Document("only", dict.fromkeys(NAMES, 0.0))]
    ranked = ranker.rank(one)
    assert (ranked.order, ranked.places) == (["only"], 1)
    ranker.clicks(ranked.ranking_id, ["only"]).result(10)
    same = [Document(f"d{i}", dict.fromkeys(NAMES, 1.0)) for i in range(4)]
    ranked = ranker.rank(same)
    ranker.clicks(ranked.ranking_id, ranked.order).result(10)
    ranker.flush()
    assert ranker.current.refused == 0
    assert ranker.current.impressions == 5


def test_a_policy_that_the_learner_cannot_use_is_refused_at_the_start(tmp_path):
    with pytest.raises(InvalidRequestError, match="set explore to own"):
        ServedRanker(tmp_path / "r", pr.FairPairsPerceptron(), settings(explore="plackett-luce"))
    ServedRanker(tmp_path / "r", pr.ClickPerceptron(), QUIET).close()  # no log was begun
    for share in (1.5, 0, True, "0.5"):
        with pytest.raises(ValueError, match="explore_share must be a probability"):
            settings(explore_share=share)
    for share in (0.6, -1, False, "0.1"):
        with pytest.raises(ValueError, match="challenger_share must be a number from 0 to"):
            settings(challenger_share=share)
    with pytest.raises(ValueError, match="rankings must be"):
        settings(rankings=0.5)
    with pytest.raises(ValueError, match="explore must be own, none, fair-pairs"):
        settings(explore="nonsense")


def test_a_list_ends_once_whoever_says_so(tmp_path):
    """Threads that answer the same lists, and a stop in between."""
    ranker = ServedRanker(tmp_path / "r", pr.ClickPerceptron(), QUIET)
    documents, _ = next(searches(1))
    lists = [ranker.rank(documents) for _ in range(60)]
    refused = []

    def answer(who):
        for ranked in lists:
            for more in (True, False):
                try:
                    event_id = f"{ranked.ranking_id}/{who}/{more}"
                    ranker.clicks(ranked.ranking_id, [ranked.order[who]], more=more, event_id=event_id).result(10)
                except (EventConflictError, OverloadedError) as error:
                    refused.append(error)

    threads = [threading.Thread(target=answer, args=(who,)) for who in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(0.05)
    ranker.close()
    for thread in threads:
        thread.join()
    again = ServedRanker(tmp_path / "r", settings=settings(ranking_seconds=0.3))
    deadline = time.monotonic() + 20
    while again.current.impressions < len(lists) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert refused
    assert sorted(entry.ranking_id for entry in impressions_of(again)) == sorted(one.ranking_id for one in lists)
    assert not again.current.open
    again.close()
    (result,) = verify(tmp_path)
    assert result.is_sound, result.problems


def test_clicks_that_were_refused_are_not_learned(ranker):
    documents, _ = next(searches(1))
    ranked = ranker.rank(documents)
    a, b, c = ranked.order[:3]
    ranker.clicks(ranked.ranking_id, [a], more=True, event_id="e").result(10)
    with pytest.raises(EventConflictError, match="another answer"):
        ranker.clicks(ranked.ranking_id, [b], more=True, event_id="e").result(10)
    ranker.clicks(ranked.ranking_id, [c]).result(10)
    ranker.flush()
    (entry,) = impressions_of(ranker)
    assert as_numbers(entry.clicks)[:4].tolist() == [1, 0, 1, 0]


def test_clicks_that_were_refused_are_not_learned_with_the_others(ranker):
    documents, _ = next(searches(1))
    ranked, together = ranker.rank(documents), []
    first, second, third = ranked.order[:3]
    sent = [ranker.clicks(ranked.ranking_id, [first], more=True, event_id="e1", together=together)]
    with pytest.raises(EventConflictError, match="the event_id 'e1' was used for another answer"):
        ranker.clicks(ranked.ranking_id, [second], more=True, event_id="e1", together=together)
    sent.append(ranker.clicks(ranked.ranking_id, [third], event_id="e2", together=together))
    ranker.submit(together)
    assert [one.result(10).duplicate for one in sent] == [False, False]
    entry = impressions_of(ranker)[-1]
    clicked = [entry.documents[row] for row, value in zip(entry.order, as_numbers(entry.clicks), strict=True) if value]
    assert sorted(clicked) == sorted([first, third])


@pytest.mark.parametrize("ending", ["::end", ":expired", ":open:7"])
def test_event_ids_of_the_service_itself_are_refused(ranker, ending):
    documents, _ = next(searches(1))
    ranked = ranker.rank(documents)
    for answer in (ranker.clicks, lambda key, ids, event_id: ranker.feedback(key, {"d1": 1}, event_id=event_id)):
        with pytest.raises(InvalidRequestError, match="event_id must not have ::end"):
            answer(ranked.ranking_id, [], event_id=f"{ranked.ranking_id}{ending}")
    ranker.clicks(ranked.ranking_id, []).result(10)


def test_what_was_clicked_was_examined(ranker):
    documents, _ = next(searches(1))
    ranked = ranker.rank(documents)
    ranker.clicks(ranked.ranking_id, ranked.order[2:3], examined=1).result(10)
    assert as_numbers(impressions_of(ranker)[-1].examined).tolist()[:4] == [1, 0, 1, 0]


def test_features_of_a_note_keep_their_names(tmp_path):
    """A model with another order of features takes over while a list waits, and then comes a kill."""
    ranker = ServedRanker(tmp_path / "r", pr.ClickPerceptron(), QUIET)
    serve_searches(ranker, searches(3))
    documents, _ = next(searches(1, seed=8))
    ranked = ranker.rank(documents)
    ranker.clicks(ranked.ranking_id, [ranked.order[0]], more=True).result(10)
    other = pr.ClickPerceptron()
    X = np.random.default_rng(1).normal(size=(4, 3))
    other.learn_clicks(other.show(Columns(X, NAMES[::-1]), rng=1), [1, 0, 0, 0])
    ranker.promote(other).result(10)
    shutil.copytree(tmp_path / "r", tmp_path / "killed")
    again = ServedRanker(tmp_path / "killed", settings=QUIET)
    again.clicks(ranked.ranking_id, []).result(10)
    again.flush()
    expected = [[document.features[name] for name in NAMES[::-1]] for document in documents]
    assert impressions_of(again)[-1].X.tolist() == expected
    again.close()
    ranker.close()


@pytest.mark.parametrize("showing", [{"places": 0}, {"places": 101}, {"places": 2.5}, {"keep": -1}, {"keep": 101}])
def test_bad_numbers_of_places(ranker, showing):
    documents, _ = next(searches(1))
    with pytest.raises(InvalidRequestError, match="must be a whole number from"):
        ranker.rank(documents, Showing(**showing))


# Grades that look like clicks


def click_like(n):
    for documents, relevance in searches(n):
        yield documents, {max(relevance, key=relevance.get): 1.0}


def test_grades_that_look_like_clicks_earn_a_warning_and_promote_nobody(tmp_path, caplog):
    ranker = ServedRanker(
        tmp_path / "r",
        pr.FixedRanker({"text": -1.0, "sales": -1.0}),
        settings(promote_at=0.05),
        fixed=True,
        challengers={"new": pr.FixedRanker({"text": 1.0, "sales": 1.0})},
    )
    warnings = []
    for i, (documents, grades) in enumerate(click_like(MANY + 200)):
        warnings.append(ranker.learn(documents, grades, event_id=str(i)).result(10).warning)
        if i < MANY:
            ranker.flush()
    assert warnings[0] == ""
    assert "/v1/clicks" in warnings[-1]
    ranker.flush()
    standings = ranker.standings()
    (standing,) = standings["challengers"]
    assert standing["better"]
    assert "look like clicks" in standings["withheld"]
    assert "look like clicks" in ranker.status()["warning"]
    for i, (documents, _) in enumerate(searches(MANY)):  # a few grades of 2 may be purchases
        ranker.learn(documents, {"d0": 2.0}, event_id=f"judged-{i}").result(10)
        ranker.flush()
        is_doubtful = i < MANY // 2
        assert ("look like clicks" in ranker.status()["warning"]) == is_doubtful
        assert (ranker.current.shadow.promotion is None) == is_doubtful
    ranker.close()


def test_whoever_says_that_they_are_judgements_is_not_warned(tmp_path):
    ranker = ServedRanker(tmp_path / "r", settings=settings(judged=True))
    for i, (documents, grades) in enumerate(click_like(MANY + 10)):
        assert ranker.learn(documents, grades, event_id=str(i)).result(10).warning == ""
    ranker.flush()
    assert ranker.current.looks_like_clicks
    assert ranker.status()["warning"] == ""
    ranker.close()


def test_clicks_on_lists_that_are_not_explored_earn_a_warning(tmp_path):
    ranker = ServedRanker(tmp_path / "r", pr.ClickPerceptron(), settings(explore="none"))
    ranked = ranker.rank(next(searches(1))[0], Showing(shown=True))
    assert "lists are not explored" in ranker.clicks(ranked.ranking_id, []).result(10).warning
    ranker.close()


def test_clicks_for_a_learner_of_grades_are_logged_with_a_warning(tmp_path):
    ranker = ServedRanker(tmp_path / "r", settings=QUIET)
    documents, grades = next(searches(1))
    ranked = ranker.rank(documents)
    assert "nothing is learned from clicks" in ranker.clicks(ranked.ranking_id, ["d1"]).result(10).warning
    ranker.learn(documents, grades, event_id="graded").result(10)
    ranker.flush()
    assert ranker.current.learner.n_queries == 1
    assert ranker.current.answers == 2
    ranker.close()


# Evidence


def fair_duel(entry, scores):
    """The value of a ranker from the definition: the fair preferences that it agrees with, per pair."""
    places, clicks, chances = entry.order, as_numbers(entry.clicks), as_numbers(entry.propensities)
    kind, _, number = entry.policy.partition(":")
    values, n_pairs = 0.0, 0
    for p in range(len(places) - 1):
        if kind == "fair-pairs":
            if p + 1 < int(number) or (p + 1 - int(number)) % 2 or chances[p] == 1:
                n_pairs += p + 1 >= int(number) and not (p + 1 - int(number)) % 2
                continue
            chance = chances[p]
        else:  # Plackett-Luce: the two draws in either order
            first, second = chances[p], chances[p + 1]
            other = second * (1 - first)
            chance = 1 / (1 + other * (first / (1 - other)) / (first * second))
        n_pairs += 1
        above, below = places[p], places[p + 1]
        preferred = clicks[p] - clicks[p + 1]
        agreement = np.sign(scores[above] - scores[below])
        values += (abs(preferred) + preferred * agreement) / 2 * min(chance, 1 - chance) / chance
    return values / n_pairs if n_pairs else math.nan


@pytest.mark.parametrize("explore", ["fair-pairs", "plackett-luce:0.7"])
def test_challengers_are_compared_by_fair_preferences(tmp_path, explore):
    incumbent, challenger = pr.FixedRanker({"noise": 1.0}), pr.FixedRanker({"text": 1.0, "sales": 1.0})
    ranker = ServedRanker(
        tmp_path / "r",
        incumbent,
        settings(explore=explore, challenger_share=0.25),
        fixed=True,
        challengers={"new": challenger},
    )
    serve_searches(ranker, searches(400), places=6)
    (standing,) = ranker.standings()["challengers"]
    assert standing["measure"] == "preferences"
    values = []
    for entry in impressions_of(ranker):
        X = {name: entry.X[:, j] for j, name in enumerate(NAMES)}
        scores = {"": X["noise"], "new": X["text"] + X["sales"]}
        if not entry.chances:  # half of the lists are for the comparison
            assert entry.by == ""
            continue
        assert entry.chances == {"": 0.5, "new": 0.5}
        assert entry.policy.startswith("fair-pairs")
        assert entry.base == np.argsort(-scores[entry.by], kind="stable")[:6].tolist()
        pair = [fair_duel(entry, scores[""]), fair_duel(entry, scores["new"]), entry.by == "new"]
        if not math.isnan(pair[0]):
            values.append(pair)
    first, second, by_challenger = np.transpose(values)
    assert standing["answers"] == len(values)
    assert 60 < by_challenger.sum() < 140
    assert standing["incumbent_mean"] == pytest.approx(first.mean(), abs=1e-12)
    assert standing["mean"] == pytest.approx(second.mean(), abs=1e-12)
    assert standing["wins"] == (second > first).sum()
    assert standing["losses"] == (second < first).sum()
    assert standing["difference"] > 0.02
    ranker.close()
    (result,) = verify(tmp_path)
    assert result.is_sound, result.problems


def test_clipped_clicks_never_promise_too_much(tmp_path):
    """`clicks@k:clip=C` of a challenger is compared with what is clicked now, as shown."""
    model = pr.FixedRanker({"noise": 1.0})
    ranker = ServedRanker(tmp_path / "r", model, settings(explore="plackett-luce:2"), fixed=True)
    ranker.add_challenger("new", pr.FixedRanker({"text": 1.0, "sales": 1.0}), "clicks@1:clip=20").result(10)
    serve_searches(ranker, searches(300, m=4), places=3, user="perfect")
    (standing,) = ranker.standings()["challengers"]
    values = []
    for entry in impressions_of(ranker):
        clicked, chance = as_numbers(entry.clicks)[0], as_numbers(entry.propensities)[0]
        tops = [int(np.argmax(scores)) for scores in (entry.X[:, 2], entry.X[:, 0] + entry.X[:, 1])]
        weights = [min((entry.order[0] == top) / chance, 20.0) for top in tops]
        values.append([1 - weights[0] * (1 - clicked), weights[1] * clicked])
    assert [standing["incumbent_mean"], standing["mean"]] == pytest.approx(np.mean(values, axis=0).tolist())
    assert standing["mean"] > standing["incumbent_mean"]
    with pytest.raises(InvalidRequestError, match="have a largest weight"):
        ranker.add_challenger("bad", model, "clicks@2")
    ranker.close()


@pytest.mark.parametrize("explore", ["shuffle:5", "plackett-luce:1"])
def test_a_copy_is_not_better_by_clicks(tmp_path, explore):
    """Not even with a price of exploration, and what is not told by fair preferences promotes nobody."""
    weights = {"text": 1.0, "sales": 1.0}
    ranker = ServedRanker(
        tmp_path / "r", pr.FixedRanker(weights), settings(explore=explore, promote_at=0.05), fixed=True
    )
    for name, worse in (("same", 1.0), ("worse", 0.3)):
        ranker.add_challenger(name, pr.FixedRanker(weights | {"sales": worse}), "clicks@3:clip=10").result(10)
    serve_searches(ranker, searches(1000))
    for standing in ranker.standings()["challengers"]:
        low, _ = standing["interval"]
        assert low < 0
        assert not standing["better"]
        assert standing["answers"] == 1000
    assert "clicks@3:clip=10, which never promotes" in ranker.standings()["withheld"]
    ranker.close()


def test_a_better_challenger_is_promoted_by_clicks_alone(tmp_path):
    ranker = ServedRanker(
        tmp_path / "r",
        pr.FixedRanker({"noise": 1.0}),
        settings(explore="fair-pairs", promote_at=0.05, challenger_share=0.5),
        fixed=True,
        challengers={"good": pr.FixedRanker({"text": 1.0, "sales": 1.0}), "bad": pr.FixedRanker({"text": -1.0})},
    )
    serve_searches(ranker, searches(1000), user="perfect")
    assert ranker.current.shadow.promotion.name == "good"
    (left,) = ranker.standings()["challengers"]
    assert left["name"] == "bad"
    ranker.close()


def test_a_worse_challenger_that_knows_other_things_is_not_better(tmp_path):
    """It often corrects neighbours in the model's lists, and the model corrects its lists much more often."""
    ranker = ServedRanker(
        tmp_path / "r",
        pr.FixedRanker({"text": 1.0, "sales": 0.6}),
        settings(explore="fair-pairs", challenger_share=0.5),
        fixed=True,
        challengers={"worse": pr.FixedRanker({"sales": 1.0}), "unseen": pr.FixedRanker({"sales": 1.0})},
    )
    ranker.remove_challenger("unseen").result(10)
    serve_searches(ranker, searches(800))
    (standing,) = ranker.standings()["challengers"]
    assert standing["difference"] < -0.01
    lists = [entry for entry in impressions_of(ranker) if entry.by == ""]
    local = [fair_duel(entry, entry.X[:, 1]) - fair_duel(entry, entry.X @ [1.0, 0.6, 0.0]) for entry in lists]
    assert np.nanmean(local) > standing["difference"]
    ranker.close()


def test_lists_of_challengers_that_cannot_learn_from_the_policy_are_shown_all_the_same(tmp_path):
    challenger = pr.FairPairsPerceptron()
    challenger.learn_clicks(challenger.show(named(3), rng=1), [0, 1, 0])
    ranker = ServedRanker(
        tmp_path / "r",
        pr.FixedRanker({"text": 1.0}),
        settings(explore="plackett-luce", challenger_share=0.5),
        fixed=True,
        challengers={"pairs": challenger},
    )
    serve_searches(ranker, searches(20))
    assert {entry.by for entry in impressions_of(ranker)} == {"", "pairs"}
    ranker.close()


def test_a_challenger_can_be_interleaved(tmp_path):
    good = {"text": 1.0, "sales": 1.0}
    ranker = ServedRanker(
        tmp_path / "r",
        pr.FixedRanker({"noise": 1.0}),
        settings(explore="fair-pairs", promote_at=0.05, challenger_share=0.5),
        fixed=True,
        challengers={"other": pr.FixedRanker({"text": -1.0})},
    )
    ranker.add_challenger("new", pr.FixedRanker(good), "team-draft").result(10)
    serve_searches(ranker, searches(400), user="perfect", places=5, keep=1)
    shares, lists = [], [entry for entry in impressions_of(ranker) if entry.chances]
    for entry in lists:
        assert entry.chances == {"": 0.25, "other": 0.25, "new": 0.5}
        is_interleaved = entry.policy.startswith("team-draft:")
        assert is_interleaved == (entry.by == "new")
        if not is_interleaved:
            continue
        wanted = [np.argsort(-entry.X[:, 2]).tolist(), np.argsort(-entry.X @ [1.0, 1.0, 0.0]).tolist()]
        teams, clicks = entry.policy.partition(":")[2], as_numbers(entry.clicks)
        assert teams[0] == "-"
        assert entry.order[0] == wanted[0][0]
        assert {*teams[1:3]} == {*teams[3:5]} == {"0", "1"}
        for place, team in enumerate(teams[1:], start=1):  # each has chosen the best that was left
            left = [row for row in wanted[int(team)] if row not in entry.order[:place]]
            assert entry.order[place] == left[0]
        own = [sum(clicks[place] for place, team in enumerate(teams) if team == side) for side in "01"]
        if sum(own):
            shares.append([each / sum(own) for each in own])
    _, standing = ranker.standings()["challengers"]
    assert standing["answers"] == len(shares) > 50
    assert [standing["incumbent_mean"], standing["mean"]] == pytest.approx(np.mean(shares, axis=0).tolist())
    assert standing["mean"] > 0.6
    assert standing["better"]
    assert ranker.current.shadow.promotion is None  # it is biased, so that nobody is promoted by it
    assert "new is compared by team-draft, which never promotes" in ranker.standings()["withheld"]
    ranker.close()
    (result,) = verify(tmp_path)
    assert result.is_sound, result.problems


@given(st.integers(1, 6), st.integers(1, 8), st.integers(0, 3), st.integers(0, 2**32))
def test_teams_draft_all_documents_once_and_fairly(m, n, keep, seed):
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 3, m).astype(float)
    shown = draft_teams(scores, scores, n, keep, rng)
    assert shown.order.tolist() == np.argsort(-scores, kind="stable")[:n].tolist()  # two that are equal show theirs
    teams = shown.policy.partition(":")[2]
    if keep >= min(n, m):
        assert shown.policy == "none"
        return
    assert len(teams) == len(shown.order) == min(n, m)
    assert abs(teams.count("0") - teams.count("1")) <= 1
    assert teams.count("-") == min(keep, n, m)


def test_interleaving_is_biased():
    """Users want the last document alone. The challenger has it second, the model third: each gets half the clicks."""
    rng, clicks = np.random.default_rng(1), [0, 0]
    for _ in range(4000):
        shown = draft_teams(np.array([3.0, 2.0, 1.0]), np.array([1.0, 3.0, 2.0]), 3, 0, rng)
        clicks[int(shown.policy[-3:][shown.order.tolist().index(2)])] += 1
    assert clicks[0] == pytest.approx(2000, abs=150)


def test_a_challenger_that_cannot_rank_is_refused(tmp_path):
    ranker = ServedRanker(tmp_path / "r", pr.FixedRanker({"text": 1.0}), settings(explore="fair-pairs"), fixed=True)
    early = pr.FixedRanker({"nothing": 1.0})
    ranker.add_challenger("early", early).result(10)
    serve_searches(ranker, searches(5))
    with pytest.raises(FeatureMismatchError, match="no weights for the ranker"):
        ranker.add_challenger("late", early).result(10)
    with pytest.raises(FeatureMismatchError, match="no weights for the ranker"):
        ranker.promote_challenger("early").result(10)
    ranker.close()


@pytest.mark.parametrize(
    ("more", "measure", "reason"),
    [
        ({"explore": "own"}, "preferences", "lists are not explored"),
        ({"explore": "none"}, "team-draft", "lists are not explored"),
        ({"explore": "fair-pairs", "challenger_share": 0.1}, "clicks@3:clip=10", "swaps of neighbours do not tell"),
        ({"explore": "fair-pairs", "challenger_share": 0.1}, "preferences", ""),
    ],
)
def test_comparisons_that_cannot_be_made_say_why(tmp_path, more, measure, reason):
    ranker = ServedRanker(tmp_path / "r", pr.FixedRanker({"text": 1.0}), settings(**more), fixed=True)
    ranker.add_challenger("new", pr.FixedRanker({"sales": 1.0}), measure).result(10)
    assert reason in ranker.standings()["withheld"]
    assert bool(reason) == bool(ranker.standings()["withheld"])
    ranker.close()


def test_without_lists_of_challengers_there_is_no_evidence(tmp_path):
    ranker = ServedRanker(
        tmp_path / "r",
        pr.FixedRanker({"noise": 1.0}),
        settings(explore="fair-pairs"),
        fixed=True,
        challengers={"new": pr.FixedRanker({"text": 1.0})},
    )
    serve_searches(ranker, searches(20))
    (standing,) = ranker.standings()["challengers"]
    assert standing["answers"] == 0
    assert "challenger_share" in ranker.standings()["withheld"]
    ranker.close()


def test_clicks_on_what_is_shown_high_are_no_evidence(tmp_path):
    """Users who click the first place, whatever it is: the naive value favours the incumbent, the fair one nobody."""
    ranker = ServedRanker(
        tmp_path / "r",
        pr.FixedRanker({"text": 1.0}),
        settings(explore="fair-pairs", challenger_share=0.1),
        fixed=True,
        challengers={"new": pr.FixedRanker({"noise": 1.0})},
    )
    serve_searches(ranker, searches(300), user=pr.clicks.only_place(1))
    (standing,) = ranker.standings()["challengers"]
    assert standing["incumbent_clicked"] > standing["clicked"] + 0.2
    low, high = standing["interval"]
    assert low < 0 < high
    assert not standing["better"]
    ranker.close()


def test_a_click_learner_challenges_a_fixed_incumbent(tmp_path):
    ranker = ServedRanker(
        tmp_path / "r",
        pr.FixedRanker({"noise": 1.0}),
        settings(explore="fair-pairs"),
        fixed=True,
        challengers={"new": pr.ClickPerceptron(), "graded": pr.ListwisePerceptron()},
    )
    serve_searches(ranker, searches(200))
    challengers = ranker.current.shadow.challengers
    assert challengers["new"].learner.n_updates > 50
    assert not challengers["graded"].learner.model.has_begun
    assert document(challengers["new"].learner) == document(learn_offline(pr.ClickPerceptron(), impressions_of(ranker)))
    ranker.close()
    (result,) = verify(tmp_path)
    assert result.is_sound, result.problems


# The live page


@pytest.mark.parametrize("explore", ["fair-pairs", "plackett-luce:1", "shuffle:5"])
def test_the_page_tells_position_bias_and_the_price_of_exploration(tmp_path, explore):
    examination = [1.0, 0.6, 0.4, 0.3, 0.2]
    user = pr.clicks.position_based(examination, attraction=[0.2, 0.4, 0.6, 0.8, 1.0])
    model = pr.FixedRanker({"text": 1.0, "sales": 1.0})
    ranker = ServedRanker(tmp_path / "r", model, settings(explore=explore, explore_share=0.8), fixed=True)
    counts = ClickCounts()
    assert counts.as_plain() is None
    ranker.thread.watch = lambda before, after, entries: counts.watch(entries)
    serve_searches(ranker, searches(1500), user=user, places=5)
    counts.digest()
    found, entries = json.loads(json.dumps(counts.as_plain())), impressions_of(ranker)
    explored = [entry.policy != "none" for entry in entries]
    clicks = np.array([as_numbers(entry.clicks).sum() for entry in entries])
    assert found["explored"] == sum(explored)
    assert found["explored_clicks"] == pytest.approx(clicks[explored].mean())
    assert found["price"] == pytest.approx(clicks[~np.array(explored)].mean() - clicks[explored].mean())
    assert found["changed"] == np.mean([entry.order != entry.base for entry in entries])
    by_place = np.mean([as_numbers(entry.clicks) for entry in entries], axis=0)
    assert found["rates"] == pytest.approx(by_place.tolist())
    assert found["examination"] == pytest.approx(examination, rel=0.3)
    assert found["rates"][1] / found["rates"][0] < examination[1]  # which are worse documents, too
    ranker.close()


# Over HTTP, and on the command line


def test_over_http(nursery, tmp_path):
    running = nursery.start(tmp_path / "own", models={"default": "clicks"})
    documents, _ = next(searches(1))
    features = {one.id: one.features for one in documents}
    with pr.Client(running.url) as client:
        ranked = client.rank(features, places=3, keep=1, session="s", user_query="boots")
        assert client.rank(features, places=3, keep=1, session="s", user_query="boots")["order"] == ranked["order"]
        assert ranked["places"] == 3
        assert ranked["policy"].startswith("plackett-luce")
        shown, ranking_id = ranked["order"][:3], ranked["ranking_id"]
        answer = {"examined": shown[:2], "event_id": "e"}
        assert client.clicks(ranking_id, {shown[1]: 1}, **answer) == {
            "event_id": "e",
            "sequence": 3,
            "duplicate": False,
        }
        assert client.clicks(ranking_id, {shown[1]: 1}, **answer)["duplicate"]
        with pytest.raises(EventConflictError, match="already has its final clicks"):
            client.clicks(ranking_id, [], event_id="f")
        with pytest.raises(InvalidRequestError, match="places"):
            client.rank(features, places=0)
        second = client.rank(features)["ranking_id"]
        assert client.clicks(second, [], more=True, examined=2)["sequence"] == 4
        several = [{"ranking_id": second, "clicks": []}, {"ranking_id": ranking_id, "clicks": ["nobody"]}]
        status, _, content = send(running, "POST", "/v1/clicks", json.dumps(several))
        results = json.loads(content)["results"]
        assert status == 207
        assert not results[0]["duplicate"]
        assert results[1]["error"]["kind"] == "invalid_request"
        assert client.rank(features, explore=False).keys() == {"ranking_id", "order", "scores", "model_version"}
        assert "/v1/clicks" in json.loads(send(running, "GET", "/openapi.json")[2])["paths"]
    running.end()
    (result,) = verify(tmp_path / "own")
    assert result.is_sound, result.problems


def test_a_service_starts_as_the_incumbent(tmp_path):
    weights, data = tmp_path / "now.json", tmp_path / "data"
    weights.write_text(json.dumps({"text": 1.0, "sales": 0.5}))
    arguments = ["serve", "--algorithm", "clicks", "--incumbent", str(weights), "--data", str(data), "--check"]
    run = CliRunner().invoke(app, [*arguments, "--port", "0"])
    assert run.exit_code == 0, run.output
    ranker = ServedRanker(data / "default", settings=QUIET)
    for documents, _ in searches(20):
        by_hand = sorted(documents, key=lambda one: -(one.features["text"] + 0.5 * one.features["sales"]))
        assert ranker.rank(documents, Showing(explore=False)).order == [one.id for one in by_hand]
    ranker.close()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--algorithm", "listwise", "--incumbent", "FILE"], "learns from grades"),
        (["--algorithm", "clicks", "--model", "MODEL"], "give one of them"),
        (["--explore", "nonsense"], "--explore must be own, none"),
        (["--explore-share", "2"], "--explore-share must be a probability"),
        (["--algorithm", "nothing"], "algorithm must be one of"),
    ],
)
def test_bad_options(tmp_path, more, message):
    weights, model = tmp_path / "now.json", tmp_path / "model.json"
    weights.write_text(json.dumps({"text": 1.0}))
    pr.ListwisePerceptron().save(model)
    files = {"FILE": str(weights), "MODEL": str(model)}
    more = [files.get(word, word) for word in more]
    run = CliRunner().invoke(app, ["serve", "--data", str(tmp_path / "d"), "--port", "0", "--check", *more])
    assert run.exit_code != 0
    assert message in " ".join(run.output.split()), run.output


def test_entries_of_lists_are_checked():
    entry = ImpressionEntry(
        1,
        "e",
        "r",
        ["a", "b"],
        bytes(16),
        b"x",
        [1],
        [0],
        "none",
        bytes(8),
        5,
        bytes(8),
        bytes(8),
        None,
        "",
        {},
        1,
        None,
    )
    assert decode(encode(entry)) == entry
    assert encode(entry)[0] == 2
    for wrong in ({"order": [2]}, {"order": []}, {"base": [0, 1]}, {"clicks": bytes(16)}, {"order": [0, 0]}):
        fields = {name: getattr(entry, name) for name in entry.__struct_fields__} | wrong
        with pytest.raises(ValueError, match=r"the list \[|documents shown"):
            encode(ShownEntry(**fields))
