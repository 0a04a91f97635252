"""What a release consists of agrees about its version."""

import re
import tomllib
from pathlib import Path

from typer.testing import CliRunner

import perceptrank as pr
from perceptrank.cli.app import app

ROOT = Path(__file__).parents[1]


def test_every_place_has_the_same_version():
    cited = re.search(r'^version: "(.*)"$', (ROOT / "CITATION.cff").read_text(), re.M)
    assert cited is not None
    assert cited.group(1) == pr.__version__
    result = CliRunner().invoke(app, ["cite"])
    assert f"version = {{{pr.__version__}}}" in result.output
    assert result.output.count("@") == 2
    assert result.output.count("{") == result.output.count("}")


def test_the_workflow_tests_every_python_that_the_metadata_names():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = sorted(re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"])))
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text()
    for versions in re.findall(r"python: \[(.*)\]", workflow):
        assert sorted(re.findall(r"3\.\d+", versions)) == named
