"""Backups: whole or not there, made while the service runs, with everything that was acknowledged before."""

import json
import sqlite3
import threading
import time
from contextlib import closing

import pytest
from typer.testing import CliRunner

import perceptrank as pr
from perceptrank.cli.app import app
from perceptrank.serve import Service, verify
from perceptrank.serve.backup import back_up
from perceptrank.serve.documents import Document
from perceptrank.serve.errors import DamagedLogError, InvalidRequestError
from perceptrank.serve.http.access import Access
from perceptrank.serve.log.log import last_acknowledged, note_acknowledged
from perceptrank.serve.settings import Settings

DOCUMENTS = [Document("a", {"title": 1.0, "price": 0.5}), Document("b", {"title": 0.0, "price": 2.0})]


def teach(ranker, first, last):
    for future in [ranker.learn(DOCUMENTS, {"ab"[i % 2]: 1.0}, event_id=f"e{i}") for i in range(first, last)]:
        future.result()
    ranker.flush()


def test_a_backup_under_load_has_all_that_was_acknowledged_before(tmp_path):
    acknowledged, stop = [], threading.Event()
    folder, copy = tmp_path / "data", tmp_path / "new" / "backup"
    with Service(folder, {"default": None, "slow": pr.SlamPerceptron()}, Settings(snapshot_answers=50)) as service:
        ranker = service.ranker("default")

        def work():
            while not stop.is_set():
                event_id = f"e{len(acknowledged)}"
                ranker.learn(DOCUMENTS, {"b": 1.0}, event_id=event_id).result()
                acknowledged.append(event_id)

        thread = threading.Thread(target=work)
        thread.start()
        while len(acknowledged) < 100:
            time.sleep(0.005)
        before = list(acknowledged)
        ends = back_up(folder, copy)
        stop.set()
        thread.join()
        with closing(ranker.thread.log.reader()) as log:
            secret = log.secret
    assert set(ends) == {"default", "slow"}
    assert len(before) + 2 <= ends["default"] <= len(acknowledged) + 2
    assert last_acknowledged(copy / "default")[0] == ends["default"]
    assert [(one.ranker, one.problems) for one in verify(copy)] == [("default", ()), ("slow", ())]
    with Service(copy) as service:  # which goes on
        ranker = service.ranker("default")
        assert ranker.messages == []
        assert ranker.thread.log.secret == secret
        assert len(ranker.thread.log.find_events(before)) == len(before)
        assert ranker.learn(DOCUMENTS, {"b": 1.0}, event_id=before[0]).result().duplicate
        teach(ranker, 100_000, 100_010)
    assert all(one.is_sound for one in verify(copy))


def test_a_backup_has_the_newest_snapshots_and_no_tokens(tmp_path):
    folder = tmp_path / "data"
    with Service(folder, settings=Settings(snapshot_seconds=1e6)) as service:
        ranker = service.ranker("default")
        for i in range(4):
            teach(ranker, 10 * i, 10 * (i + 1))
            ranker.save()
        newest = ranker.versions()
        ranker.snapshots.path(newest[0]).write_text("{}")  # damaged
        Access(folder).add("one", ["rank"])
        back_up(folder, tmp_path / "copy")
    names = sorted(path.relative_to(tmp_path / "copy").as_posix() for path in (tmp_path / "copy").rglob("*.*"))
    versions = [f"default/versions/{version:012d}.json" for version in sorted(newest[1:3])]
    assert names == ["default/log.sqlite", *versions]


def test_what_cannot_be_backed_up_is_left_alone(tmp_path):
    folder, copy = tmp_path / "data", tmp_path / "copy"
    with pytest.raises(FileNotFoundError, match="there is no log in"):
        back_up(folder, copy)
    with Service(folder) as service:
        teach(service.ranker("default"), 0, 10)
    copy.mkdir()
    with pytest.raises(FileExistsError, match="exists already: name a folder that does not"):
        back_up(folder, copy)
    copy.rmdir()
    end, link = last_acknowledged(folder / "default")
    note_acknowledged(folder / "default", end + 1, link)
    with pytest.raises(DamagedLogError, match=f"lacks entry {end + 1}, which was acknowledged"):
        back_up(folder, copy)
    note_acknowledged(folder / "default", end, link)
    with sqlite3.connect(folder / "default" / "log.sqlite") as log:
        log.execute("UPDATE entries SET record = x'00' WHERE sequence = ?", (end,))
    log.close()
    with pytest.raises(DamagedLogError, match=f"is damaged, from entry {end} on"):
        back_up(folder, copy)
    (folder / "default" / "log.sqlite").rename(folder / "default" / "log.sqlite.moved")
    with pytest.raises(InvalidRequestError, match="was moved to a database"):
        back_up(folder, copy)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]  # nothing half-done


def test_the_command_backs_up(tmp_path):
    with Service(tmp_path / "data") as service:
        teach(service.ranker("default"), 0, 3)
        words = ["serve", "--data", str(tmp_path / "data"), "--backup"]
        run = CliRunner().invoke(app, [*words, str(tmp_path / "one")])
        assert (run.exit_code, run.stdout) == (0, "default: 5 entries\n")
        run = CliRunner().invoke(app, [*words, str(tmp_path / "two"), "--json"])
        assert json.loads(run.stdout) == {"backup": str(tmp_path / "two"), "entries": {"default": 5}}
        run = CliRunner().invoke(app, [*words, str(tmp_path / "one")])
        assert run.exit_code == 1
        assert "exists already" in run.stderr
        run = CliRunner().invoke(app, [*words, str(tmp_path / "three"), "--database", "postgresql://x"])
        assert run.exit_code == 1
        assert "use pg_dump" in run.stderr
    assert not (tmp_path / "three").exists()
    assert CliRunner().invoke(app, ["serve", "--verify", str(tmp_path / "one")]).exit_code == 0
