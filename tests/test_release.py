"""What a release consists of: versions that agree, true metadata, files that are whole, a workflow that can run."""

import json
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib import util
from pathlib import Path

import pytest
import yaml
from support.pages import PAGES
from trove_classifiers import classifiers
from typer.testing import CliRunner

import perceptrank as pr
from perceptrank.cli.app import app

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PYTHONS = sorted(re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"])))


def test_every_place_has_the_same_version_and_date():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["version"] == pr.__version__
    heading = f"## [{pr.__version__}] - {cited['date-released']}"
    headings = [line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if line.startswith("## ")]
    assert headings[:2] == ["## [Unreleased]", heading]
    result = CliRunner().invoke(app, ["cite"])
    assert f"version = {{{pr.__version__}}}" in result.output
    assert f"year    = {{{str(cited['date-released'])[:4]}}}" in result.output
    assert result.output.count("@") == 2
    assert result.output.count("{") == result.output.count("}")


def test_the_metadata_are_true():
    assert set(PROJECT["classifiers"]) <= classifiers
    assert PROJECT["requires-python"] == f">={PYTHONS[0]}"
    assert PYTHONS[0] == "3.11"
    assert all((ROOT / one).is_file() for one in PROJECT["license-files"])
    extras = PROJECT["optional-dependencies"]
    every = {name for name in extras if name not in ("all", "dev", "docs")}
    assert extras["all"] == [f"perceptrank[{','.join(sorted(every))}]"]


PLACEHOLDER = re.compile(
    r"example\.(com|org|net)|your[-_](name|org|user)|<(owner|user|org)>|/(owner|user|org)/|todo|fixme|changeme",
    re.IGNORECASE,
)


@pytest.mark.parametrize(
    "path",
    ["pyproject.toml", "CITATION.cff", "README.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", ".github"],
)
def test_no_address_is_a_placeholder(path):
    files = [ROOT / path] if (ROOT / path).is_file() else [one for one in (ROOT / path).rglob("*") if one.is_file()]
    for file in files:
        found = PLACEHOLDER.search(file.read_text())
        assert found is None, f"{file}: {found}"


def test_there_are_no_project_urls_before_there_is_an_address():
    """The project has no public address: whoever gives it one says so here, and in CITATION.cff."""
    assert "urls" not in PROJECT
    assert not {"url", "repository-code", "repository"} & set(yaml.safe_load((ROOT / "CITATION.cff").read_text()))


def test_the_wheel_has_the_files_of_the_package_and_nothing_else(tmp_path):
    build = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
    command = [sys.executable, "-c", build, str(tmp_path)]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    with zipfile.ZipFile(tmp_path / said.stdout.split()[-1]) as wheel:
        found = {name for name in wheel.namelist() if ".dist-info/" not in name}
        about = f"perceptrank-{pr.__version__}.dist-info/METADATA"
        metadata = wheel.read(about).decode()
    made = {".pyc", ".nbi", ".nbc"}  # by Python and Numba, beside the source
    package = [path for path in (ROOT / "src" / "perceptrank").rglob("*") if path.is_file() and path.suffix not in made]
    assert found == {path.relative_to(ROOT / "src").as_posix() for path in package}
    assert {path.suffix or path.name for path in package} == {".py", ".pyi", ".typed", ".css", ".js", ".html", ".toml"}
    assert f"\nName: perceptrank\nVersion: {pr.__version__}\n" in metadata


def builder():
    spec = util.spec_from_file_location("builder", ROOT / "packaging" / "build.py")
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_packages_are_tried_with_every_python_that_the_metadata_name():
    build = builder()
    assert build.named_versions() == PYTHONS
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert build.find_python(running) == sys.executable
    assert build.find_python("3.99") is None


def test_a_launcher_that_starts_nothing_is_not_taken_for_a_python(tmp_path, monkeypatch):
    launcher = tmp_path / "python3.98"
    launcher.write_text("#!/bin/sh\necho 'python3.98: command not found' >&2\nexit 127\n")
    launcher.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert builder().find_python("3.98") is None


def test_a_folder_of_pythons_that_may_not_be_read_is_passed_over(tmp_path, monkeypatch):
    def refuse(folder):
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setattr(Path, "iterdir", refuse)
    assert builder().find_python("3.98") is None


REGULAR_EXPRESSION = r"""\bre\.\w+\(\s*(?:rb|br|[rbf])?("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"""
POSSESSIVE = r"(?<!\\)(?:[*+?}]\+|\(\?>)"


def test_no_regular_expression_is_possessive_or_atomic():
    """CPython before 3.11.5 matches these wrongly, and Debian 12 has 3.11.2."""
    assert re.search(POSSESSIVE, r"\s*+#")
    patterns = [
        (path.name, pattern)
        for path in (ROOT / "src").rglob("*.py")
        for pattern in re.findall(REGULAR_EXPRESSION, path.read_text())
    ]
    assert len(patterns) > 20
    assert [(name, pattern) for name, pattern in patterns if re.search(POSSESSIVE, pattern)] == []


# Workflow, templates and hooks


def documents(pattern):
    found = {path: yaml.safe_load(path.read_text()) for path in sorted(ROOT.glob(pattern))}
    assert found
    return found.items()


def targets():
    return set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_the_workflow_has_every_python_and_only_commands_that_there_are():
    for _, workflow in documents(".github/workflows/*.yml"):
        jobs = workflow["jobs"]
        for job in jobs.values():
            matrix = job.get("strategy", {}).get("matrix", {})
            assert sorted(matrix.get("python", PYTHONS)) == PYTHONS
            assert set(job.get("needs", [])) <= set(jobs)
            for step in job["steps"]:
                words = step.get("run", "").split()
                assert words[:1] != ["make"] or words[1] in targets(), step
                assert words[:1] != [".ci/run"] or (ROOT / ".ci" / "run").is_file()
        assert {"test", "docs", "package", "release"} <= set(jobs)
        assert set(jobs["release"]["needs"]) == {"test", "docs", "package"}


def test_issue_forms_have_what_github_asks_for():
    for path, form in documents(".github/ISSUE_TEMPLATE/*.yml"):
        if path.name == "config.yml":
            assert set(form) == {"blank_issues_enabled"}
            continue
        assert {"name", "description", "body"} <= set(form)
        ids = [one["id"] for one in form["body"] if one["type"] != "markdown"]
        assert len(ids) == len(set(ids)) > 0
        for one in form["body"]:
            assert "label" in one["attributes"] or one["type"] == "markdown"


def test_hooks_are_commands_of_the_development_extra():
    wanted = " ".join(PROJECT["optional-dependencies"]["dev"])
    assert "pre-commit" in wanted
    for _, config in documents(".pre-commit-config.yaml"):
        for repository in config["repos"]:
            assert repository["repo"] == "local"  # nothing is fetched
            for hook in repository["hooks"]:
                command = hook["entry"].split()[0]
                assert {"lint-imports": "import-linter"}.get(command, command) in wanted


def test_the_history_of_figures_compares_those_of_one_machine_and_marks_missed_bars(tmp_path):
    for day, (ratio, machine) in enumerate([(2.0, "a"), (1.0, "b"), (3.0, "a")]):
        rows = [{"what": "a pass", "ratio": ratio, "unit": "x", "bar": "<= 2.5", "seconds": 1.0}]
        record = {"script": "speed", "commit": f"c{day}", "date": "", "machine": machine, "rows": rows}
        (tmp_path / f"2026010{day}-speed.json").write_text(json.dumps(record))
    command = [sys.executable, "-W", "error", str(ROOT / "benchmarks" / "history.py"), "--folder", str(tmp_path)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert said[1].split() == ["a", "pass", "2", "2", "3", "!", "+50%", "<=", "2.5", "c2"]
    assert (tmp_path / "history.png").stat().st_size > 0


def test_pages_install_what_is_there():
    """Nothing is published: extras are installed from a checkout or a wheel, and exist."""
    texts = PAGES | {"lecture.ipynb": (ROOT / "examples" / "lecture.ipynb").read_text()}
    extras = set(PROJECT["optional-dependencies"])
    for name, text in texts.items():
        for line in re.findall(r"pip install [^\n`]*\[[\w,-]+\]", text):
            assert "perceptrank[" not in line, f"{name}: {line}"
            assert set(re.search(r"\[([\w,-]+)\]$", line)[1].split(",")) <= extras, f"{name}: {line}"
