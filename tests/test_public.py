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
        "pr.theory.bounds.lower; pr.measures.NDCG(); pr.learners.algorithms(); pr.stream\n"
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


@pytest.mark.parametrize("room", ["evaluation", "io", "measures", "stream", "transforms"])
def test_rooms_have_their_public_names(room):
    names = getattr(pr, room).__all__
    public = [name for name in names if name in pr.__all__]
    assert public
    assert all(getattr(getattr(pr, room), name) is getattr(pr, name) for name in public)
