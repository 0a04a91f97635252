"""The public surface: every name is there, documented, and cheap to import."""

import importlib
import inspect
import pkgutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import perceptrank as pr


def test_every_public_name_is_there_and_documented():
    for name in pr.__all__:
        value = getattr(pr, name)
        if name != "__version__":
            assert (value.__doc__ or "").strip(), f"{name} has no docstring"
    assert set(pr._HOME) | {"__version__"} == set(pr.__all__)
    assert sorted(pr.__all__) == sorted(dir(pr))


def test_no_public_name_is_also_a_module():
    """Else importing the module would replace the name."""
    modules = {module.name for module in pkgutil.iter_modules(pr.__path__)}
    assert not modules & set(pr.__all__)


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


def test_modules_can_be_reached_from_the_package():
    code = "import perceptrank as pr; pr.surrogates.Slam(); pr.measures.NDCG(); pr.learners.algorithms(); pr.data"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
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


def test_kernels_work_where_nothing_can_be_written():
    """Numba raises at import where it finds no place for its cache; we go on without one."""
    code = (
        "import numba.core.caching as caching\n"
        "getattr(caching, 'CacheImpl', getattr(caching, '_CacheImpl', None))._locator_classes = []\n"
        "import perceptrank as pr; print(pr.NDCG()([1, 2], [1, 0]))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert float(found.stdout) == pytest.approx(1 / np.log2(3))
