"""The public surface: every name is there, documented, and cheap to import."""

import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import perceptrank as pr


def test_every_public_name_is_there_and_documented():
    for name in pr.__all__:
        assert (getattr(pr, name).__doc__ or "").strip(), f"{name} has no docstring"
    assert dir(pr) == pr.__all__
    assert re.fullmatch(r"\d+\.\d+\.\d+\w*", pr.__version__)


def test_public_methods_are_documented():
    for name in pr.__all__:
        value = getattr(pr, name)
        if inspect.isclass(value):
            for attribute, member in inspect.getmembers(value):
                if not attribute.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
                    assert inspect.getdoc(member), f"{name}.{attribute} has no docstring"


def test_every_learner_is_public_and_says_what_it_does():
    for name, kind in pr.algorithms().items():
        assert kind.algorithm == name
        assert getattr(pr, kind.__name__) is kind
        assert ">>>" in kind.__doc__
        kind()


def test_modules_can_be_reached_and_take_no_public_names_place():
    """Importing a module sets it as an attribute of its package, whatever else has that name there."""
    code = (
        "import perceptrank.datasets.separable, perceptrank as pr\n"
        "assert pr.datasets()['mq2007'].n_features == 46\n"
        "pr.theory.bounds.minimax; pr.measures.NDCG(); pr.learners.algorithms(); pr.stream\n"
        "from perceptrank import *\n"
        "assert datasets is pr.datasets; datasets()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="attribute Nothing"):
        pr.Nothing  # noqa: B018


def test_importing_the_package_imports_next_to_nothing():
    code = (
        "import sys; before = set(sys.modules); import perceptrank; "
        "heavy = {'numpy', 'numba', 'typer', 'rich', 'sklearn', 'matplotlib', 'pandas'} & set(sys.modules) - before; "
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_all_modules_import():
    for module in pkgutil.walk_packages(pr.__path__, "perceptrank."):
        importlib.import_module(module.name)


def test_the_readme_example(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    readme = (Path(__file__).parents[1] / "README.md").read_text()
    code = readme.split("```python\n")[1].split("```")[0]
    exec(code, {})
    mean, ranking = capsys.readouterr().out.split(" ", 1)
    assert 0 < float(mean) < 1
    assert sorted(ranking.strip(" []\n").split()) == [str(i) for i in range(7)]
    assert pr.load("model.json").n_rounds > 0


def test_the_readme_data_example(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pr.write_letor(pr.mslr_shaped(12, n_documents=5, n_features=6), "train.txt")
    readme = (Path(__file__).parents[1] / "README.md").read_text()
    *code, public_set = readme.split("```python\n")[2].split("```")[0].strip().splitlines()
    exec("\n".join(code), {"pr": pr})
    assert len(pr.open_store("train.store")) == 22
    assert pr.read_parquet("train.parquet").n_features == 6
    with pytest.raises(FileNotFoundError, match="Obtain it from"):
        exec(public_set, {"pr": pr})


def test_documents_name_tests_and_files_that_exist():
    root = Path(__file__).parents[1]
    tests = "\n".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.rglob("test_*.py"))
    for document in [*root.glob("docs/*.md"), root / "README.md", root / "CONTRIBUTING.md"]:
        text = document.read_text(encoding="utf-8")
        for name in re.findall(r"`(test_\w+)`", text):
            assert f"def {name}(" in tests, (document.name, name)
        for target in re.findall(r"\]\(([^)#:]+)\)", text):
            assert (document.parent / target).exists(), (document.name, target)
        formulas = re.sub(r"```math.*?```", "", text, flags=re.S)
        assert formulas.count("$`") == formulas.count("`$"), document.name


@pytest.mark.parametrize(
    ("old", "name"),
    [("scaling", "QueryZScore"), ("comparison", "compare"), ("trace", "Trace"), ("surrogates", "Slam")],
)
def test_modules_that_moved_are_found_under_their_old_names(old, name):
    with pytest.warns(DeprecationWarning, match=f"perceptrank.{old} is now perceptrank"):
        module = getattr(pr, old)
    assert getattr(module, name) is getattr(pr, name)


@pytest.mark.parametrize("room", ["evaluation", "io", "measures", "stream", "transforms"])
def test_rooms_have_their_public_names(room):
    names = getattr(pr, room).__all__
    public = [name for name in names if name in pr.__all__]
    assert public
    assert all(getattr(getattr(pr, room), name) is getattr(pr, name) for name in public)
