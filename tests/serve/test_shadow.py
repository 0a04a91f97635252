"""Shadow mode: challengers learn silently, are compared, and take over; all of it the same in a replay."""

import json
import math
import re
import time

import msgspec
import numpy as np
import pytest
from support.answers import NAMES, QUIET, abandon, answer, document, offline
from support.shadows import compare_offline
from typer.testing import CliRunner

import perceptrank as pr
from perceptrank.cli.app import app
from perceptrank.serve import ServedRanker, Service, Settings, verify
from perceptrank.serve.documents import Document
from perceptrank.serve.errors import (
    FeatureMismatchError,
    ForbiddenError,
    InvalidRequestError,
    LearningOffError,
    TooLargeError,
    UnknownError,
)
from perceptrank.serve.http.access import Access
from perceptrank.serve.learning import Columns
from perceptrank.serve.log.log import Addition
from perceptrank.serve.log.records import PromotionEntry, encode
from perceptrank.serve.log.sqlite import SqliteLog
from perceptrank.serve.shadow.shadow import Promotion
from perceptrank.serve.warm_up import warm_up

WEIGHTS = {"title": -1.0}  # poor, and of one feature only


def judged(n, seed=1, m=5):
    """Queries whose grades follow from title and clicks, every tenth without a relevant document."""
    rng = np.random.default_rng(seed)
    found = []
    for i in range(n):
        X = rng.normal(size=(m, 3))
        grades = np.digitize(X[:, 0] + X[:, 2], [0.5, 1.5]) * (i % 10 != 9)
        documents = [Document(f"d{j}", dict(zip(NAMES, row, strict=True))) for j, row in enumerate(X.tolist())]
        found.append((documents, {f"d{j}": float(grade) for j, grade in enumerate(grades)}))
    return found


def rounds_of(made, weight=1.0):
    return [
        (
            np.array([[one.features[name] for name in NAMES] for one in documents]),
            NAMES,
            np.array(list(grades.values())),
            weight,
        )
        for documents, grades in made
    ]


def n_relevant(made):
    """The number of queries with a relevant document; measures leave others out."""
    return sum(any(grades.values()) for _, grades in made)


def bits(ranker):
    current = ranker.current
    return document(current.learner), current.version, current.names, current.answers, current.shadow.as_plain()


def shadowed(folder, challengers=None, settings=QUIET, **more):
    challengers = {"new": pr.ListwisePerceptron(), "slow": pr.SlamPerceptron()} if challengers is None else challengers
    return ServedRanker(folder, pr.FixedRanker(WEIGHTS), settings, fixed=True, challengers=challengers, **more)


def test_challengers_learn_silently_and_are_compared(tmp_path):
    made = judged(90)
    ranker = shadowed(tmp_path / "r")
    now = pr.FixedRanker(WEIGHTS)
    for documents, _ in (made[0], made[50]):
        X = np.array([[one.features[name] for name in NAMES] for one in documents])
        assert list(ranker.rank(documents).scores.values()) == (-X[:, 0]).tolist()  # other features may come with them
        answer(ranker, made[:60])
    ranker.flush()
    learned = made[:60] * 2
    assert ranker.rank(made[0][0]).order == [f"d{i}" for i in now.rank(Columns(rounds_of(made)[0][0], NAMES))]
    found = ranker.current.shadow.challengers
    for name, model in (("new", pr.ListwisePerceptron()), ("slow", pr.SlamPerceptron())):
        expected = compare_offline(rounds_of(learned), pr.FixedRanker(WEIGHTS), model, fixed=True)
        assert found[name].compared == expected
        assert document(found[name].learner) == document(model)
        assert document(model) == document(offline(learned, type(model)()))
    standing = ranker.standings()
    assert standing["incumbent"] == {"algorithm": "fixed", "learns": False}
    one = standing["challengers"][0]
    assert (one["name"], one["answers"], one["measure"]) == ("new", n_relevant(learned), "ndcg@10")
    assert one["interval"][0] < one["difference"] < one["interval"][1]
    assert one["mean"] - one["incumbent_mean"] == pytest.approx(one["difference"])
    assert json.loads(json.dumps(standing)) == standing
    ranker.close()
    assert verify(tmp_path)[0].problems == ()


def test_an_incumbent_may_learn_too(tmp_path):
    made = judged(40)
    ranker = ServedRanker(tmp_path / "r", pr.SlamPerceptron(), QUIET, challengers={"new": pr.ListwisePerceptron()})
    futures = [ranker.learn(*one, event_id=str(i), weight=2.0) for i, one in enumerate(made)]
    assert [one.result(10).sequence for one in futures] == list(range(4, 44))
    ranker.flush()
    incumbent, challenger = pr.SlamPerceptron(), pr.ListwisePerceptron()
    expected = compare_offline(rounds_of(made, 2.0), incumbent, challenger, fixed=False)
    assert ranker.current.shadow.challengers["new"].compared == expected
    assert document(ranker.current.learner) == document(incumbent)
    assert document(ranker.current.shadow.challengers["new"].learner) == document(challenger)
    assert ranker.standings()["incumbent"] == {"algorithm": "slam", "learns": True}
    ranker.close()
    assert verify(tmp_path)[0].problems == ()


def test_weights_need_their_features(tmp_path):
    ranker = shadowed(tmp_path / "r")
    wrong = [Document("a", {"price": 1.0}), Document("b", {"price": 2.0})]
    with pytest.raises(InvalidRequestError, match="title"):
        ranker.rank(wrong)
    with pytest.raises(FeatureMismatchError, match="title"):  # else nothing could be ranked ever after
        ranker.learn(wrong, {"a": 1.0}, event_id="x").result(10)
    answer(ranker, judged(3))
    ranker.close()
    assert verify(tmp_path)[0].problems == ()


@pytest.mark.parametrize("fixed", [True, False])
def test_any_model_may_stay_as_it_is(tmp_path, fixed):
    made = judged(30)
    model = offline(made[:10], pr.ListwisePerceptron(transforms="running"))
    before = document(model)
    ranker = ServedRanker(tmp_path / "r", model, QUIET, fixed=fixed, challengers={"new": pr.SlamPerceptron()})
    answer(ranker, made[10:])
    ranker.flush()
    assert (document(ranker.current.learner) == before) is fixed
    expected = compare_offline(rounds_of(made[10:]), model, pr.SlamPerceptron(), fixed=fixed)
    assert ranker.current.shadow.challengers["new"].compared == expected
    ranker.close()
    again = ServedRanker(tmp_path / "r", settings=QUIET)
    assert bits(again) == bits(ranker)
    again.close()
    assert verify(tmp_path)[0].problems == ()


@pytest.mark.parametrize("snapshot_at", [None, 0, 30])
def test_a_start_replays_challengers_to_the_same_bits(tmp_path, snapshot_at):
    made = judged(100)
    ranker = shadowed(tmp_path / "r")
    answer(ranker, made[: snapshot_at or 0])
    if snapshot_at is not None:
        ranker.flush()
        ranker.save()
    answer(ranker, made[snapshot_at or 0 :])
    ranker.flush()
    expected = bits(ranker)
    abandon(ranker)
    again = shadowed(tmp_path / "r")  # the same flags as before: nothing is added again
    assert bits(again) == expected
    answer(again, judged(5, seed=3))
    again.close()
    (found,) = verify(tmp_path)
    assert (found.problems, found.snapshots) == ((), 1 + (snapshot_at is not None))


def test_promotion_by_hand_and_rollback(tmp_path):
    made = judged(60)
    ranker = shadowed(tmp_path / "r")
    answer(ranker, made[:30])
    before = ranker.promote_challenger("new").result(10) - 1
    assert document(ranker.current.learner) == document(offline(made[:30]))
    standing = ranker.standings()
    assert standing["last_promotion"] == {"model_version": before + 1, "name": "new", "error": None}
    assert [(one["name"], one["answers"]) for one in standing["challengers"]] == [("slow", 0)]  # begins anew
    answer(ranker, made[30:45])
    ranker.flush()
    assert document(ranker.current.learner) == document(offline(made[:45]))  # it learns on
    assert document(ranker.current.shadow.challengers["slow"].learner) == document(
        offline(made[:45], pr.SlamPerceptron())
    )
    version = ranker.roll_back(before).result(10)
    scores = ranker.rank(made[0][0]).scores
    assert list(scores.values()) == [-one.features["title"] for one in made[0][0]]
    assert not ranker.standings()["incumbent"]["learns"]
    answer(ranker, made[45:])
    assert ranker.rank(made[0][0]).scores == scores  # fixed again
    ranker.add_challenger("once", before + 10).result(10)  # a version as a challenger
    assert document(ranker.current.shadow.challengers["once"].learner) == document(offline(made[:39]))
    ranker.remove_challenger("once").result(10)
    answer(ranker, judged(3, seed=7))
    ranker.flush()
    expected = bits(ranker)
    assert [one["since_version"] for one in ranker.standings()["challengers"]] == [version]
    abandon(ranker)
    again = shadowed(tmp_path / "r")
    assert bits(again) == expected
    again.close()
    assert verify(tmp_path)[0].problems == ()


def test_a_better_challenger_is_promoted_by_itself(tmp_path):
    made = judged(400)
    ranker = shadowed(tmp_path / "r", settings=Settings(snapshot_seconds=1e9, promote_at=0.05))
    n = 0
    while ranker.current.shadow.promotion is None and n < 400:
        answer(ranker, made[n : n + 1])
        ranker.flush()
        n += 1
    found = compare_offline(rounds_of(made[:n]), pr.FixedRanker(WEIGHTS), pr.ListwisePerceptron(), fixed=True)
    before = compare_offline(rounds_of(made[: n - 1]), pr.FixedRanker(WEIGHTS), pr.ListwisePerceptron(), fixed=True)
    version, name, error = msgspec.structs.astuple(ranker.current.shadow.promotion)
    assert 10 < n < 400
    assert (name, error) == ("new", 0.05)
    assert before.log_evidence < math.log(2 / 0.05) <= found.log_evidence  # right after the answer that showed it
    assert version == 4 + n + 1
    answer(ranker, made[n:])
    ranker.flush()
    assert document(ranker.current.learner) == document(offline(made))
    expected = bits(ranker)
    abandon(ranker)
    again = shadowed(tmp_path / "r")  # without --promote-at: what was promoted stays so
    assert bits(again) == expected
    again.close()
    assert verify(tmp_path)[0].problems == ()


def test_a_promotion_that_a_kill_has_prevented_is_made_at_the_start(tmp_path):
    ranker = shadowed(tmp_path / "r", {"new": pr.ListwisePerceptron()})
    answer(ranker, judged(400))
    ranker.flush()
    assert ranker.standings()["challengers"][0]["better"]
    version = ranker.current.version
    abandon(ranker)
    again = shadowed(tmp_path / "r", {}, settings=Settings(snapshot_seconds=1e9, promote_at=0.05))
    again.flush()
    assert again.current.shadow.promotion == Promotion(version + 1, "new", 0.05)
    again.close()
    assert verify(tmp_path)[0].problems == ()


def test_a_promotion_that_the_log_does_not_show_is_found(tmp_path):
    ranker = shadowed(tmp_path / "r")
    answer(ranker, judged(5))
    ranker.close()
    log = SqliteLog(tmp_path / "r" / "log.sqlite")
    log.append([Addition(encode(PromotionEntry(1, "new", 0.05)))])
    log.close()
    assert verify(tmp_path)[0].problems == ("entry 10 promotes 'new', which the log does not show better",)


def test_a_damaged_comparison_in_a_snapshot_is_found(tmp_path):
    ranker = shadowed(tmp_path / "r")
    answer(ranker, judged(5))
    ranker.flush()
    one = ranker.current.shadow.challengers["new"]
    object.__setattr__(one, "compared", one.compared.after(0.25, 0.5))
    ranker.close()
    assert "differs from the log's replay" in verify(tmp_path)[0].problems[0]


def test_later_comparisons_need_more_evidence(tmp_path):
    ranker = shadowed(tmp_path / "r", {f"c{i}": pr.Perceptron() for i in range(3)})
    ranker.remove_challenger("c0").result(10)
    ranker.add_challenger("c0", pr.Perceptron()).result(10)
    needed = {one["name"]: one["needed_evidence"] for one in ranker.standings()["challengers"]}
    assert needed == {"c1": 6 / 0.05, "c2": 12 / 0.05, "c0": 20 / 0.05}
    assert sum(1 / (n * (n + 1)) for n in range(1, 10_000)) < 1  # however many
    ranker.promote_challenger("c2").result(10)
    needed = {one["name"]: one["needed_evidence"] for one in ranker.standings()["challengers"]}
    assert needed == {"c1": 2 / 0.05, "c0": 6 / 0.05}  # another model that ranks, another family
    ranker.close()


def test_a_challenger_that_cannot_learn_harms_nobody(tmp_path):
    made = judged(80)
    plain = pr.ListwisePerceptron(transforms=None)
    ranker = shadowed(tmp_path / "r", {"plain": plain, "prank": pr.algorithms()["prank"]()})
    made[70][0][0].features["title"] = 1e250  # too large without transforms
    futures = [ranker.learn(*one, event_id=str(i), weight=2.0 if i == 20 else 1.0) for i, one in enumerate(made)]
    assert all(one.result(10) for one in futures)
    ranker.flush()
    assert ranker.current.refused == 0
    found = ranker.current.shadow.challengers
    assert (found["plain"].refused, "overflow" in found["plain"].refusal) == (1, True)
    assert found["prank"].refused >= 1
    assert found["plain"].compared.n_rounds == found["prank"].compared.n_rounds == n_relevant(made)
    expected = bits(ranker)
    abandon(ranker)
    again = ServedRanker(tmp_path / "r", settings=QUIET)
    assert bits(again) == expected
    again.close()
    assert verify(tmp_path)[0].problems == ()


@pytest.mark.parametrize(
    "slow",
    [
        pr.algorithms()["structured-ndcg"],
        lambda: pr.Bagging(pr.algorithms()["structured-ndcg"](), n_members=2),
        lambda: pr.Tournament([pr.algorithms()["structured-ndcg"](), pr.SlamPerceptron()]),
        pr.algorithms()["committee"],
    ],
)
def test_queries_that_are_too_long_for_a_challenger_keep_nobody_waiting(tmp_path, slow):
    """An hour of assignments, or a gigabyte of pairs: the other models learn, also after a restart."""
    ranker = shadowed(tmp_path / "r", {"slow": slow()})
    answer(ranker, judged(3))
    documents = [Document(f"d{i}", {"title": 1.0, "price": 1.0, "clicks": float(i)}) for i in range(6000)]
    answer(ranker, [(documents, {"d7": 1.0})])
    answer(ranker, judged(3, seed=5))
    ranker.flush()
    assert (ranker.current.answers, ranker.current.refused) == (7, 0)
    slow_one = ranker.current.shadow.challengers["slow"]
    assert (slow_one.refused, slow_one.is_stopped) == (1, False)
    assert re.search("at most [14],000 documents here, got 6,000", slow_one.refusal)
    expected = bits(ranker)
    abandon(ranker)
    again = ServedRanker(tmp_path / "r", settings=QUIET)
    assert bits(again) == expected
    again.close()


def test_learners_that_grow_without_end_are_not_served(tmp_path):
    kernel = pr.KernelPerceptron(policy="exact", budget=None)
    grows = "must not grow with every answer, got kernel without a budget; give it one"
    with pytest.raises(InvalidRequestError, match=f"the model {grows}"):
        ServedRanker(tmp_path / "refused", kernel, QUIET)
    kernel.learn_one(pd_like(judged(1)[0], NAMES), list(judged(1)[0][1].values()))
    ServedRanker(tmp_path / "fixed", kernel, QUIET, fixed=True).close()
    ranker = shadowed(tmp_path / "r")
    with pytest.raises(InvalidRequestError, match=f"the challenger 'k' {grows}"):
        ranker.add_challenger("k", kernel).result(10)
    with pytest.raises(InvalidRequestError, match="the model must not grow with every answer, got tournament"):
        ranker.promote(pr.Tournament([kernel, pr.SlamPerceptron()])).result(10)
    ranker.add_challenger("k", pr.KernelPerceptron(budget=10)).result(10)
    ranker.close()


def test_features_of_challengers_are_found_by_name(tmp_path):
    made = judged(20)
    turned = pr.ListwisePerceptron()
    turned.learn_one(pd_like(made[0], ("clicks", "title", "price")), list(made[0][1].values()))
    other = pr.ListwisePerceptron()
    other.learn_one(np.eye(2), [1, 0])
    ranker = ServedRanker(tmp_path / "r", settings=QUIET)
    answer(ranker, made[:1])
    with pytest.raises(FeatureMismatchError, match="challenger 'other' has other features than the ranker"):
        ranker.add_challenger("other", other).result(10)
    ranker.add_challenger("turned", turned).result(10)
    answer(ranker, made[1:])
    for documents, grades in made[1:]:
        turned.learn_one(pd_like((documents, grades), ("clicks", "title", "price")), list(grades.values()))
    ranker.flush()
    assert ranker.current.shadow.challengers["turned"].refused == 0
    assert document(ranker.current.shadow.challengers["turned"].learner) == document(turned)
    waiting = ranker.rank(made[0][0]).ranking_id
    ranker.promote_challenger("turned").result(10)
    assert ranker.current.names == ("clicks", "title", "price")
    ranker.feedback(waiting, made[0][1]).result(
        10
    )  # of a ranking by the model before, whose features had another order
    ranker.flush()
    turned.learn_one(pd_like(made[0], ("clicks", "title", "price")), list(made[0][1].values()))
    assert document(ranker.current.learner) == document(turned)
    ranker.close()
    assert verify(tmp_path)[0].problems == ()


def pd_like(query, names):
    return Columns(np.array([[one.features[name] for name in names] for one in query[0]]), names)


def test_challengers_are_not_lost_with_the_end_of_a_log(tmp_path):
    ranker = shadowed(tmp_path / "r")
    answer(ranker, judged(20))
    ranker.close()
    log = SqliteLog(tmp_path / "r" / "log.sqlite")
    log._connection.execute("UPDATE entries SET record = zeroblob(9) WHERE sequence > 15")
    log.close()
    again = ServedRanker(tmp_path / "r", settings=QUIET)
    assert "goes on from the model of that snapshot" in again.messages[1]
    found = again.current.shadow.challengers
    assert document(found["new"].learner) == document(offline(judged(20)))
    assert document(found["slow"].learner) == document(offline(judged(20), pr.SlamPerceptron()))
    expected = bits(again)
    abandon(again)
    third = ServedRanker(tmp_path / "r", settings=QUIET)
    assert bits(third) == expected
    third.close()


def wide(n_features=60_000):
    """Two documents of so many features, and their grades."""
    row = [0.0] * (n_features - 1)
    return [Document("a", [1.0, *row]), Document("b", [2.0, *row])], {"b": 1.0}


@pytest.mark.parametrize(
    ("model", "challengers", "message"),
    [
        (None, {"r": pr.OnlineRidge()}, r"challenger 'r' .*matrix of 60000 features takes 28\.8 GB"),
        (pr.OnlineRidge(), {}, r"the model that ranks .*matrix of 60000 features takes 28\.8 GB"),
        (pr.Bagging(pr.SolarII(covariance="full")), {}, "covariance of 60000 features"),
        (pr.Sum([pr.Perceptron(), pr.OnlineRidge()]), {}, "matrix of 60000 features"),
    ],
)
def test_features_too_many_for_a_model_are_refused_before_they_are_logged(tmp_path, model, challengers, message):
    ranker = ServedRanker(tmp_path / "r", model, QUIET, challengers=challengers)
    version = ranker.current.version
    with pytest.raises(TooLargeError, match=message):
        ranker.learn(*wide(), event_id="wide").result(10)
    assert (ranker.current.version, ranker.problem) == (version, "")
    answer(ranker, judged(3))
    ranker.flush()
    assert ranker.current.answers == 3
    assert all(each.refused == 0 for each in ranker.current.shadow.challengers.values())
    ranker.close()
    assert verify(tmp_path)[0].problems == ()


def test_a_challenger_of_too_many_features_is_refused(tmp_path):
    ranker = ServedRanker(tmp_path / "r", settings=QUIET)
    ranker.learn(*wide(), event_id="wide").result(10)
    with pytest.raises(TooLargeError, match=r"challenger 'r' .*28\.8 GB of memory, and a model may take 0\.5 GB"):
        ranker.add_challenger("r", pr.OnlineRidge()).result(10)
    assert ranker.problem == ""
    ranker.close()


@pytest.mark.parametrize("model", [None, pr.OnlineRidge()])
def test_features_too_many_that_the_log_has_harm_nobody(tmp_path, monkeypatch, model):
    """As a log of an earlier version may have them, or one whose main model was replaced by a wide one."""
    with monkeypatch.context() as earlier:
        earlier.setattr("perceptrank.serve.log_thread._check_features", lambda *_: None)
        ranker = ServedRanker(tmp_path / "r", model, QUIET, challengers={"r": pr.OnlineRidge()})
        for i in range(3):
            ranker.learn(*wide(), event_id=str(i)).result(10)
        ranker.flush()
    assert (ranker.problem, ranker.current.answers) == ("", 3)
    assert ranker.current.refused == (0 if model is None else 3)
    refused = ranker.current.shadow.challengers["r"]
    assert (refused.refused, refused.is_stopped) == (3, False)
    expected = bits(ranker)
    abandon(ranker)
    monkeypatch.setattr("perceptrank.stream.memory.free_memory", lambda: 1e15)  # what is free changes nothing
    again = ServedRanker(tmp_path / "r", settings=QUIET)
    warm_up(again.current)
    assert bits(again) == expected
    again.learn(*wide(), event_id="more").result(10)
    again.close()
    assert verify(tmp_path)[0].problems == ()


def test_what_fits_does_not_depend_on_free_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("perceptrank.stream.memory.free_memory", lambda: 0.0)
    ranker = ServedRanker(tmp_path / "r", pr.OnlineRidge(), QUIET, challengers={"o": pr.Opauc()})
    answer(ranker, judged(5))
    ranker.flush()
    assert (ranker.problem, ranker.current.refused) == ("", 0)
    assert ranker.current.shadow.challengers["o"].refused == 0
    ranker.save()
    expected = bits(ranker)
    abandon(ranker)
    again = ServedRanker(tmp_path / "r", settings=QUIET)
    assert bits(again) == expected
    again.close()


def test_a_bug_in_a_challenger_stops_it_and_nobody_else(tmp_path, monkeypatch, caplog):
    made = judged(12)
    ranker = ServedRanker(tmp_path / "r", settings=QUIET, challengers={"new": pr.SlamPerceptron()})
    answer(ranker, made[:5])
    ranker.flush()
    before = ranker.current.shadow.challengers["new"]
    learn = pr.SlamPerceptron.learn

    def break_down(learner, stream, measures):
        if (np.asarray(stream.X) == 1000.0).any():
            raise TypeError("a bug")
        return learn(learner, stream, measures)

    made[5][0][0].features[NAMES[0]] = 1000.0
    monkeypatch.setattr(pr.SlamPerceptron, "learn", break_down)
    answer(ranker, made[5:])
    ranker.flush()
    stopped = ranker.current.shadow.challengers["new"]
    assert "challenger new stopped at entry 9: TypeError: a bug" in caplog.text
    assert "Traceback" in caplog.text
    assert (stopped.is_stopped, stopped.refused) == (True, 1)
    assert (stopped.learner, stopped.compared) == (before.learner, before.compared)
    assert (ranker.problem, ranker.current.answers) == ("", 12)
    assert document(ranker.current.learner) == document(offline(made))
    (standing,) = ranker.standings()["challengers"]
    assert (standing["better"], standing["last_refusal"]) == (False, "stopped at entry 9: TypeError: a bug")
    with pytest.raises(InvalidRequestError, match="'new' stopped at entry 9"):
        ranker.promote_challenger("new").result(10)
    expected = bits(ranker)
    abandon(ranker)
    again = ServedRanker(tmp_path / "r", settings=QUIET)  # the replay stops it at the same answer
    assert (bits(again), again.problem) == (expected, "")
    again.close()
    monkeypatch.undo()
    (result,) = verify(tmp_path)  # where it goes on learning
    assert (result.problems, result.snapshots) == ((), 1)
    from_snapshot = ServedRanker(tmp_path / "r", settings=QUIET)
    assert bits(from_snapshot) == expected
    from_snapshot.remove_challenger("new").result(10)
    from_snapshot.close()


@pytest.mark.parametrize("error", [TypeError, MemoryError])
def test_a_bug_in_the_main_model_turns_learning_off_also_after_a_restart(tmp_path, monkeypatch, caplog, error):
    def fail(*_):
        raise error("a bug")

    made = judged(12)
    ranker = ServedRanker(tmp_path / "r", pr.ListwisePerceptron(), QUIET)
    answer(ranker, made[:5])
    ranker.flush()
    before = ranker.current
    with monkeypatch.context() as broken:
        broken.setattr(pr.ListwisePerceptron, "learn", fail)
        broken.setattr(pr.ListwisePerceptron, "learn_one", fail)
        answer(ranker, made[5:6])  # it is on disk
        ranker.flush()
        assert ranker.problem == f"learning failed: {error.__name__}: a bug"
        assert f"{error.__name__}: a bug" in caplog.text
        assert "Traceback" in caplog.text
        assert ranker.current == before
        ranking = ranker.rank(made[6][0])
        with pytest.raises(LearningOffError, match="learning failed"):
            ranker.feedback(ranking.ranking_id, made[6][1]).result(10)
        abandon(ranker)
        again = ServedRanker(tmp_path / "r", settings=QUIET)
        assert again.problem == f"learning failed: {error.__name__}: a bug"
        assert len(again.rank(made[6][0]).order) == len(made[6][0])
        with pytest.raises(LearningOffError, match="learning failed"):
            again.learn(*made[6], event_id="6").result(10)
    answer(again, made[6:])
    again.flush()
    assert again.problem == ""
    assert document(again.current.learner) == document(offline(made))
    again.close()
    assert verify(tmp_path)[0].problems == ()


def test_wrong_challengers_are_refused(tmp_path):
    ranker = shadowed(tmp_path / "r")
    with pytest.raises(InvalidRequestError, match="name of a challenger must be"):
        ranker.add_challenger("../x", pr.Perceptron())
    with pytest.raises(InvalidRequestError, match="a challenger 'new' already"):
        ranker.add_challenger("new", pr.Perceptron()).result(10)
    for wrong in ("nix", "err", "ndcg@10:ties=random"):
        with pytest.raises(InvalidRequestError, match=r"measure|nix"):
            ranker.add_challenger("x", pr.Perceptron(), wrong)
    for change in (ranker.remove_challenger, ranker.promote_challenger):
        with pytest.raises(UnknownError, match="there is no challenger 'nix'; there are 'new', 'slow'"):
            change("nix").result(10)
    with pytest.raises(UnknownError, match="no version 99"):
        ranker.add_challenger("x", 99).result(10)
    for i in range(14):
        ranker.add_challenger(f"c{i}", pr.Perceptron()).result(10)
    with pytest.raises(TooLargeError, match="16 challengers"):
        ranker.add_challenger("more", pr.Perceptron()).result(10)
    ranker.close()
    with pytest.raises(InvalidRequestError, match="began with another model"):
        ServedRanker(tmp_path / "r", pr.FixedRanker(WEIGHTS), QUIET)  # which would learn
    with pytest.raises(InvalidRequestError, match="no ranker 'x' to challenge"):
        Service(tmp_path / "other", challengers={"x": {}})
    for name, value in (("promote_at", 1.0), ("promote_at", 0), ("shadow_error", 2.0)):
        with pytest.raises(ValueError, match=f"{name} must be"):
            Settings(**{name: value})


def test_the_same_in_postgresql(tmp_path, database):
    made = judged(60)
    ranker = shadowed(tmp_path / "r", database=database)
    answer(ranker, made[:40])
    ranker.promote_challenger("slow").result(10)
    answer(ranker, made[40:])
    ranker.flush()
    expected = bits(ranker)
    abandon(ranker)
    again = shadowed(tmp_path / "elsewhere" / "r", database=database)  # from the log alone
    assert bits(again) == expected
    again.close()
    assert verify(tmp_path / "elsewhere", database)[0].problems == ()


DOCUMENTS = {"d1": {"title": 1.0, "price": 0.5}, "d2": {"title": 0.0, "price": 2.0}}


def test_challengers_over_http(nursery, tmp_path):
    access = Access(tmp_path)
    admin, rank = access.add("all", ["rank", "feedback", "admin"]), access.add("few", ["rank", "feedback"])
    running = nursery.start(tmp_path, models={"default": "listwise", "other": "slam"})
    with pr.Client(running.url, token=admin) as client:
        for i in range(3):
            client.learn(DOCUMENTS, {"d2": 1}, event_id=str(i))
        assert client.add_challenger("slam", "slam") == 6
        assert client.add_challenger("own", pr.FixedRanker({"price": 1.0}), measure="ap") == 7
        assert client.add_challenger("then", 3) == 8
        assert client._request("POST", "/challengers/add", {"name": "o", "ranker": "other"}) == {"model_version": 9}
        for i in range(4):
            client.learn(DOCUMENTS, {"d2": 1}, event_id=f"b{i}")
        while client.versions()["model_version"] < 13:
            time.sleep(0.01)
        found = client.challengers()
        assert [(one["name"], one["algorithm"], one["answers"]) for one in found["challengers"]] == [
            ("slam", "slam", 4),
            ("own", "fixed", 4),
            ("then", "listwise", 4),
            ("o", "slam", 4),
        ]
        assert found["challengers"][1]["measure"] == "ap"
        assert found["challengers"][1]["mean"] == 1.0
        assert client.remove_challenger("then") == 14
        assert client.promote_challenger("own") == 15
        assert client.model().name == "fixed"
        assert client.rank(DOCUMENTS)["scores"] == {"d1": 0.5, "d2": 2.0}
        with pytest.raises(InvalidRequestError, match="exactly one of algorithm, model, ranker and version"):
            client._request("POST", "/challengers/add", {"name": "x"})
        with pytest.raises(UnknownError, match="no algorithm 'nix'; there are"):
            client.add_challenger("x", "nix")
        with pytest.raises(InvalidRequestError, match="not a model"):
            client._request("POST", "/challengers/add", {"name": "x", "model": {}})
        with pytest.raises(UnknownError, match="no challenger 'then'"):
            client.promote_challenger("then")
        body = {"ranker": "other", "fixed": True}
        assert client._request("POST", "/model/promote", body) == {"model_version": 16}
        assert client.challengers()["incumbent"] == {"algorithm": "slam", "learns": False}
    with pr.Client(running.url, token=admin, ranker="other") as other:
        assert other.challengers()["challengers"] == []
    with pr.Client(running.url, token=rank) as few:
        for call in (few.challengers, lambda: few.add_challenger("x", "slam"), lambda: few.remove_challenger("o")):
            with pytest.raises(ForbiddenError, match="lacks the scope 'admin'"):
                call()
    running.end()
    assert [one.problems for one in verify(tmp_path)] == [(), ()]


def test_wrong_use_of_the_command(tmp_path):
    model = tmp_path / "m.json"
    pr.ListwisePerceptron().save(model)

    def fail(*words):
        run = CliRunner().invoke(app, ["serve", "--data", str(tmp_path / "data"), "--port", "0", *map(str, words)])
        assert run.exit_code == 1, run.output
        return run.stderr

    assert "both name the ranker default" in fail("--model", model, "--incumbent", model)
    assert "must be NAME=FILE or NAME=ALGORITHM, got listwise" in fail("--challenger", "listwise")
    assert "names a twice" in fail("--challenger", "a=slam", "--challenger", "a=listwise")
    assert "no ranker 'x' to challenge" in fail("--challenger", "x/a=slam")
    assert "algorithm must be one of" in fail("--challenger", "a=nix")
    assert "--promote-at must be" in fail("--promote-at", 2)


def test_weights_that_are_promoted_may_know_fewer_features(tmp_path):
    made = judged(12)
    with Service(tmp_path, settings=QUIET) as service:
        ranker = service.ranker("default")
        answer(ranker, made[:5])
        ranker.add_challenger("new", pr.SlamPerceptron()).result(10)
        ranker.promote(pr.FixedRanker(WEIGHTS)).result(10)
        answer(ranker, made[5:])
        ranker.flush()
        assert (ranker.current.names, ranker.current.refused) == (NAMES, 0)
        assert ranker.standings()["challengers"][0]["answers"] == n_relevant(made[5:])
    assert [one.problems for one in verify(tmp_path)] == [()]
