"""The walk of docs/serve.md, run as a reader would, and the command itself."""

import json
import os
import re
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import perceptrank as pr
from perceptrank.cli.app import app
from perceptrank.serve import Service, verify
from perceptrank.serve.documents import Document

PAGE = (Path(__file__).parents[2] / "docs" / "serve.md").read_text(encoding="utf-8")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture(scope="module")
def walked(tmp_path_factory):
    """Output of the walk's commands, each block followed by a line that marks its end, and the folder."""
    folder = tmp_path_factory.mktemp("walk")
    port = str(free_port())
    blocks = re.findall(r"```bash\n(.*?)```", PAGE, re.S)
    program, shop = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    (folder / "program.py").write_text(program.replace("8080", port))
    (folder / "shop.py").write_text(shop.replace("8080", port))
    restart = next(place for place, block in enumerate(blocks) if "kill -9" in block)
    blocks[0] = blocks[0].replace("serve --data", "serve --access-log --data")
    blocks.insert(restart + 1, f"{sys.executable} program.py\n")
    (folder / "bin").mkdir()
    for name, words in (("perceptrank", "-m perceptrank"), ("python", "")):
        command = folder / "bin" / name
        command.write_text(f'#!/bin/sh\nexec {sys.executable} {words} "$@"\n')
        command.chmod(command.stat().st_mode | stat.S_IXUSR)
    script = "set -e\ntrap 'kill -9 $! 2>/dev/null || true' EXIT\n" + "echo; echo '-----'\n".join(blocks)
    result = subprocess.run(
        ["bash", "-c", script.replace("8080", port).replace("wait\n", "wait || true\n")],
        cwd=folder,
        env=os.environ | {"PATH": f"{command.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout.split("\n-----\n"), result.stderr, folder


def test_the_walk_does_what_it_says(walked):
    said, _, folder = walked
    assert json.loads(said[0])["status"] == "ok"
    first = json.loads(said[1])
    assert (first["order"], first["model_version"]) == (["d1", "d2", "d3"], 1)
    assert json.loads(said[2]) == {"event_id": "judgement-17", "sequence": 3, "duplicate": False}
    assert json.loads(said[3]) == {"event_id": "judgement-17", "sequence": 3, "duplicate": True}
    again = json.loads(said[4])
    assert again["order"][0] == "d2"
    assert set(again["contributions"]["d2"]) == {"title", "price", "clicks"}
    assert [one["sequence"] for one in json.loads(said[5])["results"]] == [4, 5, 6]
    assert "the same model" in said[6]
    assert '{"model_version":8}' in said[8]  # the program's answer was entry 7
    assert "default: 8 entries, 5 answers" in said[8]
    assert "to the bit" in said[8]
    assert verify(folder / "shop")[0].is_sound


def objects_in(text):
    """The JSON objects that a text begins with, and the rest."""
    found = []
    while text.startswith("{"):
        one, end = json.JSONDecoder().raw_decode(text)
        found.append(one)
        text = text[end:].lstrip()
    return found, text


def test_challengers_take_over_as_the_page_says(walked):
    said, _, folder = walked
    marks = ('"scores":{"d1":0.9,', '"last_promotion":{', '"name":"again"')
    ranked, standings, back = [next(one for one in said if mark in one) for mark in marks]
    assert objects_in(ranked)[0][1]["order"] == ["d1", "d3", "d2"]  # by title
    found = json.loads(standings)
    assert found["last_promotion"]["name"] == "new"
    assert found["incumbent"]["learns"]
    assert [one["name"] for one in found["challengers"]] == ["cheap"]
    (*versions, after), verified = objects_in(back)
    version = found["model_version"]
    assert [one["model_version"] for one in versions] == [version + 1, version + 2, version + 3]
    assert after["incumbent"] == {"algorithm": "fixed", "learns": False}
    assert ("again", "ap", 0) in [(one["name"], one["measure"], one["answers"]) for one in after["challengers"]]
    assert "200 answers" in verified
    assert "to the bit" in verified
    assert verify(folder / "live")[0].is_sound


def test_a_ranker_behind_an_engine_learns(walked):
    said, _, folder = walked
    told = re.search(r"like ([\d.]+) of the first five at first, and ([\d.]+) in the end", said[9])
    first, last = map(float, told.groups())
    assert last > first + 0.5
    (found,) = verify(folder / "store")
    assert (found.is_sound, found.answers) == (True, 500)


def test_clicks_are_taken_as_the_page_says(walked):
    said, _, folder = walked
    place = next(place for place, text in enumerate(said) if '"policy"' in text)
    (_, ranked), _ = objects_in(said[place])
    assert (ranked["places"], sorted(ranked["order"])) == (2, ["d1", "d2", "d3"])
    (acknowledged,), verified = objects_in(said[place + 1])
    assert acknowledged == {"event_id": "click-1", "sequence": 3, "duplicate": False}
    assert "1 answers" in verified
    assert verify(folder / "clicked")[0].is_sound


def test_the_configuration_of_the_page_is_one(tmp_path):
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, re.S)
    (tmp_path / "serve.toml").write_text(text)
    pr.ListwisePerceptron().save(tmp_path / "title.json")
    words = ["serve", "--check", "--port", "0", "--config", str(tmp_path / "serve.toml")]
    run = CliRunner().invoke(app, words)
    assert run.exit_code == 0, run.output
    assert json.loads(run.stderr)["versions"] == {"title": 1}
    assert (tmp_path / "shop" / "title").is_dir()


def test_the_access_log_is_json_without_features(walked):
    _, complaints, _ = walked
    lines = [json.loads(line) for line in complaints.splitlines() if line.startswith("{")]
    assert {"/v1/rank", "/v1/feedback", "/v1/learn", "/v1/model"} <= {line["path"] for line in lines}
    assert all(line["status"] == 200 and line["seconds"] > 0 for line in lines)
    assert "title" not in complaints
    assert "stopped; everything is logged and saved" in complaints


def test_verify_says_what_is_wrong(tmp_path):
    documents = [Document("a", [1.0, 0.0]), Document("b", [0.0, 1.0])]
    with Service(tmp_path / "data") as service:
        service.ranker("default").learn(documents, {"a": 1.0}, event_id="x").result(10)
    run = CliRunner().invoke(app, ["serve", "--verify", str(tmp_path / "data"), "--json"])
    assert run.exit_code == 0
    assert json.loads(run.stdout)["rankers"][0]["answers"] == 1
    (snapshot,) = (tmp_path / "data" / "default" / "versions").iterdir()
    snapshot.write_text("{}")
    run = CliRunner().invoke(app, ["serve", "--verify", str(tmp_path / "data")])
    assert run.exit_code == 1
    assert "the snapshot of version 3 is damaged" in run.stdout
    run = CliRunner().invoke(app, ["serve", "--verify", str(tmp_path)])
    assert run.exit_code == 1
    assert "there is no log in" in run.stderr


def test_wrong_use_of_the_command(tmp_path):
    pr.ListwisePerceptron().save(tmp_path / "m.json")

    def fail(*words):
        run = CliRunner().invoke(app, ["serve", "--data", str(tmp_path / "data"), *map(str, words)])
        assert run.exit_code == 1, run.output
        return run.stderr

    assert "others could reach 0.0.0.0, and there are no tokens; make one with" in fail("--host", "0.0.0.0")
    model = tmp_path / "m.json"
    assert "names the ranker default twice" in fail("--port", 0, "--model", model, "--model", model)
    assert "there is no file" in fail("--port", 0, "--model", tmp_path / "nothing.json")
    assert "scopes must be some of" in fail("--add-token", "engine")
    assert "--rate-limit must be a number > 0, got 0.0" in fail("--rate-limit", 0)
    assert "name of a ranker must be" in fail("--port", 0, "--model", f"../x={model}")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert "cannot listen at 127.0.0.1" in fail("--port", taken.getsockname()[1])


def test_a_token_is_printed_once(tmp_path):
    words = ["serve", "--add-token", "engine=rank,feedback"]
    run = CliRunner().invoke(app, words, env={"PERCEPTRANK_SERVE_DATA": str(tmp_path / "d")})
    assert run.exit_code == 0
    kept = json.loads((tmp_path / "d" / "tokens.json").read_text())["tokens"]
    assert [(one["name"], one["scopes"]) for one in kept] == [("engine", ["rank", "feedback"])]
    assert len(run.stdout.strip()) > 40
    assert run.stdout.strip() not in json.dumps(kept)


def test_tokens_are_listed_and_revoked(tmp_path):
    def run(*words):
        outcome = CliRunner().invoke(app, ["serve", "--data", str(tmp_path), *words])
        assert outcome.exit_code == 0, outcome.output
        return outcome.stdout

    run("--add-token", "engine=rank,feedback")
    run("--add-token", "guest=watch", "--token-days", "30")
    first, second = run("--list-tokens").splitlines()
    assert first == "engine: rank, feedback; does not expire"
    assert re.fullmatch(r"guest: watch; expires \d{4}-\d\d-\d\d \d\d:\d\d\+00:00", second)
    again = CliRunner().invoke(app, ["serve", "--data", str(tmp_path), "--add-token", "guest=admin"])
    assert again.exit_code == 1
    assert "got 'guest'; choose another, or revoke that one first with --revoke-token guest" in again.stderr
    run("--revoke-token", "engine")
    (guest,) = json.loads(run("--list-tokens", "--json"))["tokens"]
    assert (guest["name"], guest["scopes"], guest["expired"]) == ("guest", ["watch"], False)
    kept = json.loads((tmp_path / "tokens.json").read_text())
    kept["tokens"][0]["expires"] = 1e9
    (tmp_path / "tokens.json").write_text(json.dumps(kept))
    assert run("--list-tokens") == "guest: watch; expired 2001-09-09 01:46+00:00\n"
    assert json.loads(run("--list-tokens", "--json"))["tokens"][0]["expired"]
    wrong = CliRunner().invoke(app, ["serve", "--data", str(tmp_path), "--token-days", "3"])
    assert wrong.exit_code == 1
    assert "say --add-token NAME=SCOPES too" in wrong.stderr
