"""The examples, run as a user would run them, and the outputs that the pages of the cookbook show."""

import contextlib
import importlib
import io
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from support.pages import PAGES, ROOT, blocks_of
from support.shop import make_shop

import perceptrank as pr

EXAMPLES = ROOT / "examples"
SHOWN = [name for name in PAGES if name in ("docs/start.md", "docs/clicks.md") or name.startswith("docs/cookbook/")]


def run(name, folder, *words):
    """Run a script in a folder; return what it prints, without borders of tables."""
    command = [sys.executable, str(EXAMPLES / name), *words]
    result = subprocess.run(
        command, cwd=folder, env=os.environ | {"PYTHONIOENCODING": "utf-8"}, capture_output=True, check=False
    )
    assert result.returncode == 0, result.stderr.decode()
    assert not result.stderr, result.stderr.decode()
    return re.sub(r" +", " ", re.sub(r"[│┃]", "", result.stdout.decode()))


@pytest.mark.engine
def test_the_daily_cycle_goes_live_when_it_is_better(tmp_path):
    pytest.importorskip("duckdb")
    said = run("daily_cycle.py", tmp_path, "--out", "here")
    days = re.findall(r"^ (\d) (.*?) (the old weights|model-\d\.json) $", said, re.M)
    assert [int(day) for day, _, _ in days] == [1, 2, 3, 4, 5, 6, 7]
    live = [name for _, _, name in days]
    assert live[0] == "the old weights"
    for day, (_, found, name) in enumerate(days[1:], 2):  # what went live is what was learned up to the day before
        assert name == (f"model-{day - 1}.json" if found.endswith("yes") else live[day - 2])
    old, is_live, new = re.search(r"weights have ([\d.]+), and what is live, (\S+), has ([\d.]+)\.", said).groups()
    assert float(new) > float(old) + 0.1
    assert is_live == live[-1] != "the old weights"
    assert len(set(live)) == 3  # once before the sale, and once in it
    assert pr.load(tmp_path / "here" / "model-7.json").n_queries == 7 * 150
    expected = pr.deploy.export(pr.load(tmp_path / "here" / is_live), "sql")
    assert (tmp_path / "here" / "live.sql").read_text() == expected.text


@pytest.mark.engine
def test_what_is_picked_is_beaten_by_none(tmp_path):
    said = run("compare_and_pick.py", tmp_path, "--save", "mine.json")
    rows = re.findall(r"^ ([a-f]) (.+?) (0\.\d+) ± [\d.]+ [\d.]+ to [\d.]+ (.*?) $", said, re.M)
    names = {letter: name for letter, name, _, _ in rows}
    beaten = {names[letter] for _, _, _, beats in rows for letter in beats.split() if letter != "–"}
    (picked,) = re.findall(r"No other beats (.*?),", said)
    assert picked not in beaten
    assert {"minimax", "no scaling"} <= beaten
    means = {name: float(mean) for _, name, mean, _ in rows}
    assert max(means.values()) - means[picked] < 0.01
    ranker = pr.load(tmp_path / "mine.json")
    assert ranker.name == {"both": "sum", "curves": "listwise"}.get(picked, picked)
    assert ranker.n_queries == 500


@pytest.mark.engine
def test_clicks_decide_and_the_debiased_ones_win(tmp_path):
    said = run("learn_from_clicks.py", tmp_path, "--save", "clicks.json")
    rows = re.findall(r"^ (\d) [\d,]+ (clicks as grades|debiased clicks) (\S+) \(.*?\) (\S+) (0\.\d+) $", said, re.M)
    assert [(int(week), name) for week, name, *_ in rows] == [
        (week, name) for week in (1, 2, 3) for name in ("clicks as grades", "debiased clicks")
    ]
    for naive, debiased in zip(rows[::2], rows[1::2], strict=True):
        assert float(debiased[2]) > float(naive[2])  # as the clicks see it
        assert float(debiased[4]) > float(naive[4])  # and in truth
    assert rows[1][3] == "yes"
    old, name, new = re.search(r"ranker has (0\.\d+), and the live one, (\S+), has (0\.\d+)\.", said).groups()
    assert float(new) > float(old) + 0.2
    assert pr.load(tmp_path / name).n_queries > 0


@pytest.mark.engine
def test_trees_win_late_and_their_leaves_follow_users(tmp_path):
    pytest.importorskip("lightgbm")
    said = run("grow_trees.py", tmp_path, "--save", "trees.json")
    found = re.findall(r"^ (linear|linear with trees) (0\.\d+) (0\.\d+) (0\.\d+) $", said, re.M)
    values = {name: np.array(means, float) for name, *means in found}
    gained = values["linear with trees"] - values["linear"]
    assert gained[0] == 0  # before the first fit
    assert 0.02 < gained[1] < gained[2]
    old, new = (re.search(rf"^ {name} (0\.\d+) (0\.\d+) $", said, re.M) for name in ("trees as .*?", "leaves that .*?"))
    assert float(new[1]) > float(old[1]) + 0.1
    assert float(new[2]) > float(new[1])
    assert pr.load(tmp_path / "trees.json").n_queries == 2000


@pytest.mark.engine
def test_the_perceptron_keeps_its_promise(tmp_path):
    pytest.importorskip("matplotlib")
    said = run("teach_the_perceptron.py", tmp_path, "--rounds", "120", "--plot", "lesson.svg")
    taught = re.findall(r"^ (\d+) ([012 ]{9}) \S+ \S+ (\d+)° (\d+) $", said, re.M)
    assert [int(one[3]) for one in taught] == list(range(1, len(taught) + 1))
    for _, ranked, _, _ in taught:
        grades = [int(one) for one in ranked.split()]
        assert grades != sorted(grades, reverse=True)
    n_rounds, mistakes, bound = re.search(r"(\d+) rounds, (\d+) mistakes.*D² / γ² = (\d+) ", said, re.S).groups()
    assert int(n_rounds) == 120
    assert len(taught) == int(mistakes) <= int(bound)
    suffered, rounds, possible = map(int, re.search(r"(\d+) mistakes in (\d+) rounds, at most (\d+)", said).groups())
    assert possible - 1 == suffered == rounds == 399
    ElementTree.parse(tmp_path / "lesson.svg")


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_scripts_are_short_and_say_what_they_do(name, tmp_path):
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    assert len(text.splitlines()) < 120
    assert f"python {name}" in text.split('"""')[1]
    assert {"--seed", "--help"} <= set(re.findall(r"--\w+", run(name, tmp_path, "--help")))


@pytest.mark.parametrize(
    ("name", "option", "value", "said"),
    [
        ("daily_cycle.py", "--days", "0", "--days must be a whole number >= 1, got 0"),
        ("daily_cycle.py", "--confidence", "2", "--confidence must be between 0 and 1, got 2.0"),
        ("learn_from_clicks.py", "--lists", "99", "--lists must be a whole number >= 100, got 99"),
        ("grow_trees.py", "--queries", "1999", "--queries must be a whole number >= 2000, got 1999"),
        ("compare_and_pick.py", "--queries", "-5", "--queries must be a whole number >= 1, got -5"),
        ("compare_and_pick.py", "--save", "nowhere/x.json", "--save must be a file of a folder that exists, got"),
        ("teach_the_perceptron.py", "--documents", "1", "--documents must be a whole number >= 2, got 1"),
        ("teach_the_perceptron.py", "--margin", "nan", "--margin must be a number > 0, got nan"),
    ],
)
def test_wrong_options_are_named(name, option, value, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [name, option, value])
    with pytest.raises(SystemExit) as stopped:
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def texts_of(notebook):
    """What each cell of code prints."""
    return [
        "".join(output.get("text", "") for output in cell.outputs)
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def test_the_notebook_has_outputs_and_is_small():
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    notebook = nbformat.read(EXAMPLES / "lecture.ipynb", as_version=nbformat.NO_CONVERT)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) >= (4, 5)
    assert len({cell.id for cell in notebook.cells}) == len(notebook.cells)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))  # from top to bottom, once
    assert sum("image/png" in output.get("data", {}) for cell in code for output in cell.outputs) == 7
    assert not [output for cell in code for output in cell.outputs if output.get("name") == "stderr"]
    assert (EXAMPLES / "lecture.ipynb").stat().st_size < 250_000


@pytest.mark.engine
def test_the_notebook_runs_and_prints_what_it_shows(tmp_path, monkeypatch):
    """Words are the same, and numbers to three digits; python docs/tools/run_notebook.py writes it anew."""
    for name in ("nbformat", "nbclient", "ipykernel", "matplotlib", "scipy"):
        pytest.importorskip(name, reason=f"{name} is not installed")
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))  # nothing is written to the user's folders
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    tool = runpy.run_path(str(ROOT / "docs" / "tools" / "run_notebook.py"))
    shown = texts_of(importlib.import_module("nbformat").read(EXAMPLES / "lecture.ipynb", as_version=4))
    ran = texts_of(tool["execute"](tmp_path))
    assert any("mistakes in 400 rounds" in text for text in ran)
    number = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
    assert [number.sub("#", text) for text in ran] == [number.sub("#", text) for text in shown]
    for new, old in zip(ran, shown, strict=True):
        values = [[float(value) for value in number.findall(text)] for text in (new, old)]
        assert values[0] == pytest.approx(values[1], rel=1e-3)


def test_every_example_is_listed():
    listed = re.findall(r"\]\((\S+?)\)", (EXAMPLES / "README.md").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".ipynb"))


@pytest.mark.engine
@pytest.mark.parametrize("name", SHOWN)
@pytest.mark.filterwarnings("ignore:.*columns of text are no features")  # the category of the shop's queries
def test_what_a_page_shows_is_what_it_prints(name, tmp_path, monkeypatch):
    """A block of text that follows one of Python is its output."""
    make_shop(tmp_path)
    monkeypatch.chdir(tmp_path)
    names, printed, before = {"__name__": "__main__"}, io.StringIO(), ""
    for kind, title, text, _ in blocks_of(PAGES[name]):
        if title:
            Path(title).write_text(text, encoding="utf-8")
        elif kind == "python":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(text, names)
        elif kind == "text" and before == "python":
            assert printed.getvalue() == text
        before = kind


@pytest.mark.engine
def test_the_figures_of_the_start_are_those_of_its_code(tmp_path):
    """They are drawn again: the same figures, with the same words and numbers."""
    pytest.importorskip("matplotlib")
    figures = ROOT / "docs" / "figures"
    runpy.run_path(str(figures / "draw_start.py"))["main"](tmp_path)
    drawn = sorted(path.name for path in tmp_path.iterdir())
    shown = PAGES["docs/index.md"] + PAGES["docs/start.md"]
    assert drawn == sorted(re.findall(r"figures/(start-\S+\.svg)", shown))
    for name in drawn:
        assert words_of(tmp_path / name) == words_of(figures / name), name


@pytest.mark.engine
@pytest.mark.parametrize(("script", "name"), [("draw_clicks.py", "clicks.svg"), ("draw_debiased.py", "debiased.svg")])
def test_the_figures_of_clicks_are_those_of_its_code(script, name, tmp_path, monkeypatch):
    """They are drawn again: the same words, and the same dots, lines and intervals."""
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(sys, "path", list(sys.path))
    runpy.run_path(str(ROOT / "docs" / "figures" / script))["main"](tmp_path)
    kept = ROOT / "docs" / "figures" / name
    assert f"](figures/{name})" in PAGES["docs/clicks.md"]
    assert words_of(tmp_path / name) == words_of(kept)
    drawn, shown = (
        re.findall(r'<(?:use|path)[^>]*? (?:x|d)="[^"]*"', path.read_text(encoding="utf-8"))
        for path in (tmp_path / name, kept)
    )
    assert len(drawn) == len(shown) > 50
    for one, other in zip(drawn, shown, strict=True):
        a, b = ([float(number) for number in re.findall(r"-?\d+\.?\d*", text)] for text in (one, other))
        assert a == pytest.approx(b, abs=0.1)


def words_of(path):
    return [one.text for one in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.engine
def test_the_daily_script(tmp_path):
    """A day on which it goes live, the same day again, and a day without a file."""
    make_shop(tmp_path)
    (script,) = (block for block in blocks_of(PAGES["docs/cookbook/daily.md"]) if block.title == "daily.sh")
    (tmp_path / "daily.sh").write_text(script.text, encoding="utf-8")
    (tmp_path / "now.json").rename(tmp_path / "live.json")
    (tmp_path / "new.json").rename(tmp_path / "1.json")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

    def daily(*words):
        command = ["sh", "daily.sh", *words]
        return subprocess.run(command, cwd=tmp_path, env=os.environ | {"PATH": path}, capture_output=True, check=False)

    for _ in range(2):
        done = daily("day2.parquet", "1.json", "2.json")
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "live.json").read_bytes() == (tmp_path / "1.json").read_bytes()
        assert pr.load(tmp_path / "2.json").n_queries == 80  # and not 120
    assert (tmp_path / "solr-model.json").exists()
    before = (tmp_path / "live.json").read_bytes()
    assert daily("gone.parquet", "2.json", "3.json").returncode == 1
    assert (tmp_path / "live.json").read_bytes() == before
    assert not (tmp_path / "3.json").exists()
