"""The files that put the service into a container, under systemd, and at its settings: they say what is so."""

import re
import shutil
import subprocess
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest
import typer.main
from typer.testing import CliRunner

from perceptrank.cli.app import app
from perceptrank.serve import Settings
from perceptrank.serve.config import PREFIX
from perceptrank.serve.settings import Limits

FOLDER = Path(__file__).parents[2] / "packaging"
if not FOLDER.is_dir():
    pytest.skip("packaging/ is not part of an installed package", allow_module_level=True)


def options():
    """Options of the command, by name."""
    return {one.name: one for one in typer.main.get_command(app).commands["serve"].params}


def uncommented(text):
    """The example with every setting that stands in a comment, without what is said about it."""
    return re.sub(r"^# (?=\w+ = )", "", text, flags=re.M)


def test_the_example_names_every_setting_and_its_default(tmp_path):
    text = (FOLDER / "serve.toml").read_text(encoding="utf-8")
    assert tomllib.loads(text) == {"settings": {}, "limits": {}}
    found = tomllib.loads(uncommented(text))
    settings, limits = found.pop("settings"), found.pop("limits")
    known = {one.name: getattr(Settings(), one.name) for one in fields(Settings) if one.name != "promote_at"}
    assert settings == known  # and --promote-at, which is an option
    known = {one.name: getattr(Limits(), one.name) for one in fields(Limits)}
    assert {name: value for name, value in limits.items() if name != "burst"} == {
        name: value for name, value in known.items() if name not in ("burst", "rate_limit")
    }
    assert "burst" in limits
    once = {"config", "add_token", "token_days", "list_tokens", "revoke_token", "verify", "check", "as_json"}
    defaults = {name: one.default for name, one in options().items() if name not in once}
    assert set(found) == set(defaults)
    for name, default in defaults.items():
        assert default is None or str(found[name]) == str(default), name
    path = tmp_path / "serve.toml"
    path.write_text(text.replace("# port = 8080", "port = 0"), encoding="utf-8")
    run = CliRunner().invoke(app, ["serve", "--config", str(path), "--check", "--data", str(tmp_path / "data")])
    assert run.exit_code == 0, run.output


def instructions():
    """Instructions of the Dockerfile, each a word and the rest."""
    text = (FOLDER / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    return [tuple(line.split(None, 1)) for line in text.splitlines() if line.strip() and not line.startswith("#")]


def test_the_image_has_stages_no_root_and_known_settings():
    found = instructions()
    stages = [place for place, (word, _) in enumerate(found) if word == "FROM"]
    assert len(stages) == 2
    last = found[stages[1] :]
    assert ("USER", "10001:10001") in last
    assert ("ENTRYPOINT", '["perceptrank", "serve"]') in last
    assert not any(word == "RUN" and "pip" in rest for word, rest in last)
    assert not any(word == "ADD" for word, _ in found)
    variables = set(re.findall(rf"{PREFIX}(\w+)=", (FOLDER / "Dockerfile").read_text(encoding="utf-8")))
    assert variables
    assert variables <= {name.upper() for name in options()}
    assert any("serve --check" in rest for word, rest in found[: stages[1]] if word == "RUN")
    copied = {one for word, rest in found if word == "COPY" and "--from" not in rest for one in rest.split()[:-1]}
    ignored = (FOLDER / "Dockerfile.dockerignore").read_text(encoding="utf-8").split()
    assert copied == {line[1:] for line in ignored if line.startswith("!")}
    assert all((FOLDER.parent / one).exists() for one in copied)


def test_the_unit_is_one_that_systemd_takes(tmp_path):
    text = (FOLDER / "perceptrank.service").read_text(encoding="utf-8")
    variables = set(re.findall(rf"{PREFIX}(\w+)=", text))
    assert variables <= {name.upper() for name in options()}
    assert "DynamicUser=yes" in text
    assert "ProtectSystem=strict" in text
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze is installed")
    unit = tmp_path / "perceptrank.service"
    unit.write_text(text.replace("/opt/perceptrank/bin/perceptrank", shutil.which("true")), encoding="utf-8")
    run = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, timeout=60, check=False)
    assert (run.returncode, run.stderr) == (0, "")
