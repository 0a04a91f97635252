"""The files that put the service into a container, under systemd, and at its settings: they say what is so."""

import re
import shutil
import subprocess
import tomllib
from dataclasses import fields
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import typer.main
import yaml
from typer.testing import CliRunner

from perceptrank.cli.app import app
from perceptrank.serve import Settings
from perceptrank.serve.config import PREFIX
from perceptrank.serve.http.app import ENDPOINTS
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
    assert settings.pop("challenger_share") == Settings(promote_at=0.05).shown_challengers
    options_too = {"promote_at", "explore", "explore_share", "challenger_share"}
    known = {one.name: getattr(Settings(), one.name) for one in fields(Settings) if one.name not in options_too}
    assert settings == known
    known = {one.name: getattr(Limits(), one.name) for one in fields(Limits)}
    assert {name: value for name, value in limits.items() if name != "burst"} == {
        name: value for name, value in known.items() if name not in ("burst", "rate_limit")
    }
    assert "burst" in limits
    once = {"config", "add_token", "token_days", "list_tokens", "revoke_token", "verify", "backup", "check", "as_json"}
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
    assert any("perceptrank warm-up" in rest for word, rest in found[: stages[1]] if word == "RUN")
    copied = {one for word, rest in found if word == "COPY" and "--from" not in rest for one in rest.split()[:-1]}
    ignored = (FOLDER / "Dockerfile.dockerignore").read_text(encoding="utf-8").split()
    assert copied == {line[1:] for line in ignored if line.startswith("!")}
    assert all((FOLDER.parent / one).exists() for one in copied)


def pods():
    """Workloads of the manifest, each with its pod."""
    documents = list(yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text(encoding="utf-8")))
    assert all({"apiVersion", "kind", "metadata"} <= one.keys() for one in documents)
    return {
        one["kind"]: (one["spec"], one["spec"]["template"]["spec"]) for one in documents if "template" in one["spec"]
    }


@pytest.mark.parametrize("kind", ["StatefulSet", "Deployment"])
def test_the_manifest_uses_what_there_is(kind):
    spec, pod = pods()[kind]
    (container,), (cache,) = pod["containers"], pod["initContainers"]
    flags = {one for word in options().values() for one in word.opts}
    assert {word for word in container.get("args", []) if word.startswith("--")} <= flags
    variables = {one["name"]: one.get("value") for one in container["env"]}
    assert all(not name.startswith(PREFIX) or name[len(PREFIX) :].lower() in options() for name in variables)
    paths = {path for one in ENDPOINTS for path in one.paths}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["path"] in paths
        assert container[probe]["httpGet"]["port"] == container["ports"][0]["name"]
    found = dict(instructions())  # the last one of each
    assert found["EXPOSE"] == str(container["ports"][0]["containerPort"])
    user = pod["securityContext"]
    assert found["USER"] == f"{user['runAsUser']}:{user['runAsGroup']}"
    assert user["fsGroup"] == user["runAsGroup"]  # or a volume could not be written
    assert f"--uid {user['runAsUser']} --user-group" in (FOLDER / "Dockerfile").read_text(encoding="utf-8")
    for one in (container, cache):
        assert one["securityContext"]["readOnlyRootFilesystem"]
        assert one["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert one["resources"]["requests"].keys() == {"cpu", "memory"}
    mounted = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
    assert {variables["PERCEPTRANK_CACHE_DIR"], found["VOLUME"], f"{found['VOLUME']}/tokens.json"} <= mounted.keys()
    claims = {one["metadata"]["name"] for one in spec.get("volumeClaimTemplates", [])}
    volumes = {one["name"]: one for one in pod["volumes"]}
    assert set(mounted.values()) == claims | volumes.keys()
    assert "emptyDir" not in volumes.get("cache", {})  # which everyone can write to
    assert "/opt/perceptrank/cache" in cache["command"][-1]
    assert "PERCEPTRANK_CACHE_DIR=/opt/perceptrank/cache" in (FOLDER / "Dockerfile").read_text(encoding="utf-8")
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    assert not pod["enableServiceLinks"]


def test_services_and_budgets_of_the_manifest_find_their_pods():
    documents = list(yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text(encoding="utf-8")))
    labels = [spec["selector"]["matchLabels"] for spec, _ in pods().values()]
    assert [one["spec"]["selector"] for one in documents if one["kind"] == "Service"] == labels
    (budget,) = [one["spec"] for one in documents if one["kind"] == "PodDisruptionBudget"]
    assert budget["selector"]["matchLabels"] == labels[1]
    (primary,) = [one["spec"] for one in documents if one["kind"] == "StatefulSet"]
    assert primary["replicas"] == 1
    _, replica = pods()["Deployment"]
    names = {one["metadata"]["name"] for one in documents if one["kind"] == "Service"}
    assert urlsplit(replica["containers"][0]["args"][1]).hostname in names


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
