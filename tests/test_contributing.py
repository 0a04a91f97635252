"""A newcomer adds what CONTRIBUTING shows, a file and a line each, in a copy of the repository."""

import os
import re
import shutil
import subprocess
import sys

import pytest
from support.pages import PAGES, ROOT, blocks_of

PAGE = PAGES["CONTRIBUTING.md"]
FILES = {title: text for _, title, text, _ in blocks_of(PAGE) if title}
LINES = re.findall(r"`(from \.[\w.]+ import (\w+) as \2)`", PAGE)
LEARNER = "src/perceptrank/learners/published/ranknet.py"  # which the page calls a short example


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The repository with the three additions."""
    place = tmp_path_factory.mktemp("copy")
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("src", "tests", "docs"):
        shutil.copytree(ROOT / name, place / name, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "CONTRIBUTING.md", "Makefile"):
        shutil.copy(ROOT / name, place)
    for title, text in FILES.items():
        (place / title).write_text(text)
    rule = (ROOT / LEARNER).read_text().replace("RankNet(", "MyNet(").replace("ranknet", "mynet")
    (place / LEARNER.replace("ranknet", "mynet")).write_text(rule)
    stub = place / "src" / "perceptrank" / "__init__.pyi"
    own = "from .learners.published.mynet import MyNet as MyNet"
    stub.write_text("\n".join([stub.read_text(), *(line for line, _ in LINES), own, ""]))
    return place


def test_each_example_is_a_file_and_a_line():
    assert [title.split("/")[2] for title in FILES] == ["measures", "transforms"]
    assert [name for _, name in LINES] == ["Recall", "SquareRoot"]


@pytest.mark.engine
@pytest.mark.parametrize("name", ["recall", "square-root", "mynet"])
def test_the_command_checks_what_was_added(copy, name):
    settings = os.environ | {"PYTHONPATH": str(copy / "src"), "PERCEPTRANK_EXAMPLES": "3"}
    command = [sys.executable, "tests/changed.py", name]
    done = subprocess.run(command, cwd=copy, env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    if name != "recall":
        return
    file = copy / next(iter(FILES))
    file.write_text(file.read_text().replace("    0.5\n", "    0.25\n"))
    again = subprocess.run(command, cwd=copy, env=settings, capture_output=True, text=True, check=False)
    assert again.returncode == 1, "an example that is wrong was not noticed"


@pytest.mark.engine
def test_what_was_added_is_known_by_name(copy):
    pr = "import perceptrank as pr; stream = pr.separable(9, seed=1).stream\n"
    code = (
        "assert pr.parse('recall@3') == pr.Recall(3)\n"
        "learner = pr.MyNet(transforms='square-root')\n"
        "assert 0 < learner.learn(stream, ['recall@3']).mean('recall@3') < 1\n"
    )
    settings = os.environ | {"PYTHONPATH": str(copy / "src")}
    subprocess.run([sys.executable, "-c", pr + code], env=settings, check=True)
