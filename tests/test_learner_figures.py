"""The pages on learners: figures that are what their script draws today, and a section for every learner."""

import html
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import perceptrank as pr
from perceptrank.learners.registry import wrappers

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "learners"
PAGES = {path.name: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.md"))}
DRAWN = sorted(path.stem for path in (FOLDER / "figures").glob("*.svg"))
OFTEN = ("kernel", "prank", "clicks", "tournament", "sum")  # one of each kind; the others are drawn in `make deep`


@pytest.fixture(scope="module")
def script():
    pytest.importorskip("matplotlib", reason="figures are drawn by matplotlib, which is not installed")
    sys.path.insert(0, str(FOLDER / "figures"))
    import draw

    yield draw
    sys.path.remove(str(FOLDER / "figures"))
    for name in ("draw", "updates", "lists", "streams", "plots"):
        sys.modules.pop(name, None)


def numbers(data):
    """All numbers of a figure in the order of their names; whatever else there is, as it is."""
    if isinstance(data, dict):
        return [(key, numbers(value)) for key, value in sorted(data.items())]
    if isinstance(data, list) and data and not isinstance(data[0], str):
        return np.concatenate([np.ravel(numbers(one)) for one in data])
    return data


def same(one, other):
    if isinstance(one, list) and one and isinstance(one[0], tuple):
        return len(one) == len(other) and all(
            a[0] == b[0] and same(a[1], b[1]) for a, b in zip(one, other, strict=True)
        )
    if isinstance(one, np.ndarray | float):
        return np.shape(one) == np.shape(other) and np.allclose(one, other, rtol=1e-6, atol=1.1e-3)
    return one == other


def test_every_figure_is_drawn_by_the_script(script):
    assert sorted(script.FIGURES) == DRAWN


@pytest.mark.engine
@pytest.mark.parametrize("name", DRAWN)
def test_figures_show_what_the_learners_do_today(script, name):
    text = (FOLDER / "figures" / f"{name}.svg").read_text(encoding="utf-8")
    (shown,) = re.findall(r"<dc:description>(.*?)</dc:description>", text, re.S)
    assert same(numbers(json.loads(html.unescape(shown))), numbers(script.compute(name)))


@pytest.mark.parametrize(
    "name", [name if name in OFTEN else pytest.param(name, marks=pytest.mark.deep) for name in DRAWN]
)
def test_figures_are_the_same_bytes(script, name, tmp_path):
    kept = (FOLDER / "figures" / f"{name}.svg").read_bytes()
    if f"matplotlib {script.mpl.__version__}<".encode() not in kept:
        pytest.skip("the figures were drawn by another version of matplotlib")
    script.draw(name, script.compute(name), tmp_path)
    assert (tmp_path / f"{name}.svg").read_bytes() == kept
    assert len(kept) < 40_000


@pytest.mark.parametrize("name", [*pr.algorithms(), *wrappers()])
def test_every_learner_has_a_section(name):
    """With a figure, and what is promised; a learner is also in the table of all."""
    (section,) = (
        text
        for page in PAGES.values()
        for text in re.split(r"^## ", page, flags=re.M)
        if text.startswith(f"`{name}`\n")
    )
    assert f"](figures/{name}.svg)" in section
    assert re.search(r"promise", section, re.I)
    if name in pr.algorithms():
        assert f"[`{name}`](" in PAGES["index.md"].split("## All learners")[1]


def test_every_figure_is_shown():
    shown = {path for page in PAGES.values() for path in re.findall(r"\]\(figures/([\w-]+)\.svg\)", page)}
    assert shown == set(DRAWN)
