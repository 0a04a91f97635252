"""The log in PostgreSQL, against a server that the tests start, stop and damage."""

import json
import os
import subprocess
import sys
import time

import psycopg
import pytest
from support.answers import QUIET, abandon, answer, document, offline, queries
from support.postgresql import PostgreSQL
from typer.testing import CliRunner

import perceptrank as pr
from perceptrank.cli.app import app
from perceptrank.serve import ServedRanker, Service, verify
from perceptrank.serve.errors import DamagedLogError, EventConflictError, InvalidRequestError, LearningOffError
from perceptrank.serve.log.log import Addition
from perceptrank.serve.log.postgres import DatabaseGoneError, PostgresLog
from perceptrank.serve.log.sqlite import SqliteLog


def execute(database, *statements):
    with psycopg.connect(database, autocommit=True) as connection:
        for one in statements:
            connection.execute(one)


@pytest.mark.parametrize("snapshot_at", [None, 7])
def test_a_start_replays_to_the_same_bits(tmp_path, database, snapshot_at):
    made = queries(30)
    ranker = ServedRanker(tmp_path / "r", settings=QUIET, database=database)
    assert ranker.messages == []
    acknowledged = answer(ranker, made[:7])
    assert [one.sequence for one in acknowledged] == list(range(3, 10))
    ranker.flush()
    if snapshot_at is not None:
        ranker.save()
    answer(ranker, made[7:20])
    abandon(ranker)
    again = ServedRanker(tmp_path / "r", settings=QUIET, database=database)
    assert document(again.current.learner) == document(offline(made[:20]))
    answer(again, made[20:])
    assert again.roll_back(9).result(10) == 33
    assert document(again.current.learner) == document(offline(made[:7]))
    again.close()
    assert not (tmp_path / "r" / "log.sqlite").exists()
    (found,) = verify(tmp_path, database)
    assert (found.ranker, found.answers, found.problems) == ("r", 30, ())
    assert found.snapshots == 1 + (snapshot_at is not None)


def test_both_logs_do_the_same(tmp_path, database):
    """The same calls to SQLite's log and to PostgreSQL's have the same results."""
    logs = [SqliteLog(tmp_path / "log.sqlite"), PostgresLog(database, "r")]
    answers = [Addition(bytes([i]) * (i * 1000), (f"e{i}\0'é",), bytes([i])) for i in range(1, 8)]
    for log in logs:
        log.secret_before = log.secret
    calls = [
        lambda log: log.end(),
        lambda log: (log.link_of(0), log.link_of(1)),
        lambda log: log.append([]),
        lambda log: log.append([Addition(b"first")]),
        lambda log: log.append(answers),
        lambda log: log.append([Addition(b"x", ("y",), b""), Addition(b"more")]),
        lambda log: log.find_events(["e1\0'é", "e2", "y", "e7\0'é"]),
        lambda log: log.find_events([]),
        lambda log: (
            log.end(),
            log.link_of(4),
            log.link_of(99),
            log.count("events"),
            log.count("cut"),
            log.first_bad(),
        ),
        lambda log: list(log.rows()),
        lambda log: list(log.rows(5)),
        lambda log: (log.make_room(100_000), log.ping(), log.reopen(), log.end()),
        lambda log: log.cut_from(7),
        lambda log: (log.end(), log.count("events"), log.count("cut"), log.first_bad(), log.first_bad(3)),
        lambda log: (log.append([Addition(b"on", "e7\0'é", b"")]), log.secret == log.secret_before, log.size > 0),
    ]
    for number, call in enumerate(calls):
        assert call(logs[0]) == call(logs[1]), number
    for log in logs:
        with pytest.raises(Exception, match=r"UNIQUE|duplicate key"):
            log.append([Addition(b"a"), Addition(b"b", "e1\0'é", b"")])
        log.reopen()
        assert log.end()[0] == 7  # all or none
        log.close()


def test_large_groups_are_sent_in_parts(tmp_path, database, monkeypatch):
    monkeypatch.setattr("perceptrank.serve.log.postgres._BYTES", 1000)
    monkeypatch.setattr("perceptrank.serve.log.postgres._ROWS", 3)
    log, twin = PostgresLog(database, "r"), SqliteLog(tmp_path / "log.sqlite")
    answers = [Addition(bytes([i]) * (i * 400), (f"e{i}",), b"") for i in range(10)]
    assert log.append(answers) == twin.append(answers)
    assert list(log.rows()) == list(twin.rows())
    with pytest.raises(DatabaseGoneError, match="duplicate key"):
        log.append([Addition(b"x" * 900, "new"), Addition(b"y" * 900, "e9")])
    assert log.end()[0] == 10
    assert log.find_events(["new"]) == {}
    log.close()
    twin.close()


def test_events_count_once(tmp_path, database):
    documents, grades = queries(1)[0]
    for expected in (False, True):
        ranker = ServedRanker(tmp_path / "r", settings=QUIET, database=database)
        futures = [ranker.learn(documents, grades, event_id="e\0'") for _ in range(3)]
        assert [one.result(10).duplicate for one in futures] == [expected, True, True]
        with pytest.raises(EventConflictError, match="another answer, entry 3"):
            ranker.learn(documents, {"d0": 9.0}, event_id="e\0'").result(10)
        ranker.close()


def test_one_service_at_a_time(tmp_path, database, monkeypatch):
    monkeypatch.setattr("perceptrank.serve.log.postgres._LOCK_SECONDS", 0.1)
    with Service(tmp_path / "a", {"one": None}, QUIET, database=database) as service:
        answer(service.ranker("one"), queries(2))
        who = rf"perceptrank serve, .*, process {os.getpid()}"
        with pytest.raises(BlockingIOError, match=rf"log of 'one' in postgresql://.* another service \({who}\): stop"):
            Service(tmp_path / "b", {"two": None}, QUIET, database=database)
        assert [one.is_sound for one in verify(tmp_path / "a", database)] == [True]  # while it runs
    with Service(tmp_path / "b", settings=QUIET, database=database) as service:  # without any snapshot
        assert document(service.ranker("one").current.learner) == document(offline(queries(2)))


def test_a_service_whose_lock_was_taken_does_not_write(tmp_path, database, server):
    """A connection that breaks gives the lock back; whoever has it then is the one that writes."""
    made = queries(9)
    ranker = ServedRanker(tmp_path / "r", settings=QUIET, database=database)
    answer(ranker, made[:3])
    server.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'perceptrank%'")
    other = ServedRanker(tmp_path / "other" / "r", settings=QUIET, database=database)
    answer(other, made[3:5])
    with pytest.raises(LearningOffError, match=r"cannot be written: .*; ranking goes on"):
        ranker.learn(*made[5], event_id="a").result(10)
    with pytest.raises(LearningOffError, match="used by another service"):
        ranker.learn(*made[5], event_id="a").result(10)
    assert ranker.rank(made[0][0]).model_version == 5
    other.close()
    deadline = time.monotonic() + 20
    while ranker.problem and time.monotonic() < deadline:
        time.sleep(0.02)
    assert document(ranker.current.learner) == document(offline(made[:5]))  # it has learned what the other has logged
    answer(ranker, made[5:])
    ranker.close()
    assert document(ranker.current.learner) == document(offline(made))
    assert verify(tmp_path, database)[0].is_sound


@pytest.fixture
def own_server():
    made = PostgreSQL()
    yield made
    made.close()


@pytest.mark.engine
def test_a_server_that_goes_away_turns_learning_off_and_on_again(tmp_path, own_server):
    made, database = queries(40), own_server.new_database()
    ranker = ServedRanker(tmp_path / "r", settings=QUIET, database=database)
    done = 0
    for at_once in (False, True):
        answer(ranker, made[done : done + 10])
        done += 10
        own_server.stop(at_once=at_once)
        if at_once:
            with pytest.raises(LearningOffError, match=r"cannot be written: the log of 'r' in postgresql://") as caught:
                ranker.learn(*made[done], event_id="again").result(20)
            assert caught.value.advice.startswith("see that PostgreSQL runs")
        deadline = time.monotonic() + 20
        while not ranker.problem and time.monotonic() < deadline:  # noticed even if no answer comes
            time.sleep(0.02)
        assert not ranker.status()["learning"]
        ranked = ranker.rank(made[0][0])
        assert ranked.model_version == ranker.current.version
        own_server.start()
        while ranker.problem and time.monotonic() < deadline + 20:  # without another answer
            time.sleep(0.02)
        assert ranker.status()["learning"]
    ranker.learn(*made[done], event_id="again").result(10)
    answer(ranker, made[done + 1 :])
    ranker.close()
    assert document(ranker.current.learner) == document(offline(made))
    assert verify(tmp_path, database)[0].is_sound


def test_a_database_that_has_lost_answers_is_not_written_to(tmp_path, database, server):
    made = queries(6)
    ranker = ServedRanker(tmp_path / "r", settings=QUIET, database=database)
    answer(ranker, made)
    ranker.flush()
    execute(database, "DELETE FROM perceptrank.entries WHERE sequence > 6")
    server.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'perceptrank%'")
    for message in ("cannot be written", "lacks answers that were acknowledged"):
        with pytest.raises(LearningOffError, match=message):
            ranker.learn(*made[0], event_id="a").result(10)
    ranker.close()
    again = ServedRanker(tmp_path / "r", settings=QUIET, database=database)
    lost, continued = again.messages
    assert "has lost entries that were acknowledged: it ends at entry 6" in lost
    assert "goes on from the model of that snapshot" in continued
    assert document(again.current.learner) == document(offline(made))
    again.close()


@pytest.mark.parametrize("with_snapshot", [False, True])
@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE perceptrank.entries SET record = substr(record, 1, 20) WHERE sequence = 12",
        "DELETE FROM perceptrank.entries WHERE sequence = 11",
    ],
)
def test_a_damaged_end_is_cut_with_a_message(tmp_path, database, damage, with_snapshot):
    ranker = ServedRanker(tmp_path / "r", settings=QUIET, database=database)
    answer(ranker, queries(10))
    ranker.close() if with_snapshot else abandon(ranker)
    execute(database, damage)
    n_left = 8 if "DELETE" in damage else 9
    again = ServedRanker(tmp_path / "r", settings=QUIET, database=database)
    assert "the end of the log was damaged" in again.messages[0]
    expected = offline(queries(10 if with_snapshot else n_left))
    assert document(again.current.learner) == document(expected)
    answer(again, queries(3, seed=5))
    again.close()
    assert document(again.current.learner) == document(offline(queries(3, seed=5), expected))
    (found,) = verify(tmp_path, database)
    assert "cut off earlier" in found.problems[0]


def test_a_damaged_middle_refuses_to_start(tmp_path, database):
    ranker = ServedRanker(tmp_path / "r", settings=QUIET, database=database)
    answer(ranker, queries(10))
    ranker.close()
    execute(database, "UPDATE perceptrank.entries SET link = 'x' WHERE sequence = 5")
    with pytest.raises(DamagedLogError, match=r"entry 5 is damaged, and entry \d+ after it is not; keep a copy"):
        ServedRanker(tmp_path / "r", settings=QUIET, database=database)
    assert not verify(tmp_path, database)[0].is_sound


def test_a_log_moves_from_its_folder_to_a_database(tmp_path, database, monkeypatch):
    monkeypatch.setattr("perceptrank.serve.log.opening._COPIED", 7)
    made = queries(30)
    with Service(tmp_path, {"a": None, "b": pr.SlamPerceptron()}, QUIET) as service:
        answer(service.ranker("a"), made[:20])
        secret = service.ranker("a").thread.log.secret
    log = SqliteLog(tmp_path / "a" / "log.sqlite")
    kept = list(log.rows())
    log.close()
    with Service(tmp_path, settings=QUIET, database=database) as service:
        ranker = service.ranker("a")
        assert list(ranker.thread.log.rows()) == kept
        assert ranker.thread.log.secret == secret
        assert ranker.learn(*made[0], event_id="once").result(10).sequence == 23
        ranker.flush()
        assert document(ranker.current.learner) == document(offline([*made[:20], made[0]]))
    with pytest.raises(InvalidRequestError, match="was moved to a database; name it with --database"):
        Service(tmp_path, settings=QUIET)
    (tmp_path / "a" / "log.sqlite.moved").rename(tmp_path / "a" / "log.sqlite")  # killed before it was set aside
    with Service(tmp_path, settings=QUIET, database=database) as service:
        assert service.ranker("a").learn(*made[0], event_id="once").result(10).duplicate
    assert (tmp_path / "a" / "log.sqlite.moved").exists()
    assert [one.problems for one in verify(tmp_path, database)] == [(), ()]
    with Service(tmp_path / "other", {"a": None}, QUIET) as service:
        answer(service.ranker("a"), made[3:5])
    with pytest.raises(InvalidRequestError, match="have different logs"):
        Service(tmp_path / "other", settings=QUIET, database=database)


def test_wrong_addresses_are_told_without_their_password(tmp_path):
    for wrong in ("mysql://u:hidden@h/x", "postgresql://u:hidden%zz@h/x", "hidden"):
        with pytest.raises(InvalidRequestError, match="must be an address like postgresql://") as caught:
            Service(tmp_path, database=wrong)
        assert "hidden" not in str(caught.value)
    with pytest.raises(DatabaseGoneError, match=r"^postgresql://127\.0\.0\.1:1/x: .*refused") as caught:
        Service(tmp_path, database="postgresql://u:hidden@127.0.0.1:1/x")
    assert "hidden" not in str(caught.value)
    run = CliRunner().invoke(app, ["serve", "--data", str(tmp_path), "--port", "0", "--database", "x"])
    assert run.exit_code == 1
    assert "must be an address like" in run.stderr


def test_the_command_verifies_a_database(tmp_path, database):
    run = CliRunner().invoke(app, ["serve", "--verify", str(tmp_path)], env={"PERCEPTRANK_SERVE_DATABASE": database})
    assert run.exit_code == 1
    assert "there is no log in the database" in run.stderr
    with Service(tmp_path, settings=QUIET, database=database) as service:
        answer(service.ranker("default"), queries(3))
    run = CliRunner().invoke(app, ["serve", "--verify", str(tmp_path), "--database", database, "--json"])
    assert run.exit_code == 0
    assert json.loads(run.stdout)["rankers"][0]["answers"] == 3


def test_the_extra_is_named_if_it_is_not_there():
    code = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from perceptrank.serve.log.opening import ranker_names\nfrom pathlib import Path\n"
        "ranker_names(Path('.'), 'postgresql://x')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'perceptrank[serve-postgres]'" in done.stderr
