"""Static figures: text that can be edited, and at most nine curves with names."""

import re

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from perceptrank.evaluation.plots import MOST_NAMED, draw_for_print, draw_means


@pytest.mark.parametrize("n_curves", [3, MOST_NAMED, MOST_NAMED + 1, MOST_NAMED + 3])
def test_the_best_curves_have_names_and_others_are_grey(tmp_path, n_curves):
    curves = {f"learner {k}": np.linspace(0, 0.1 + 0.05 * k, 50) for k in range(n_curves)}
    path = tmp_path / "curves.svg"
    draw_means(path, curves, "mean")
    drawing = path.read_text(encoding="utf-8")
    named = [name for name in curves if f">{name}  " in drawing]
    assert named == list(curves)[-MOST_NAMED:]
    n_others = n_curves - len(named)
    assert re.findall(r"\d+ others?", drawing) == [[], ["1 other"], [], ["3 others"]][n_others]
    assert ("#bbbbbb" in drawing.lower()) == (n_others > 0)


@pytest.mark.parametrize("draw", ["screen", "print"])
def test_fonts_are_text_in_pdf(tmp_path, draw):
    path = tmp_path / "curves.pdf"
    if draw == "screen":
        draw_means(path, {"a": np.linspace(0, 1, 9)}, "mean")
    else:
        draw_for_print(path, np.arange(1, 10), {"a": np.ones((2, 9))}, "mean")
    content = path.read_bytes()
    assert b"/Type0" in content  # TrueType, not the outlines of Type 3
    assert b"/Type3" not in content


def test_long_names_leave_room_for_the_curves(tmp_path):
    names = ["long" * 40 + end for end in (" one", "\ntwo")]
    draw_for_print(tmp_path / "c.svg", np.arange(1, 10), {name: np.ones((2, 9)) for name in names}, "mean")
    draw_means(tmp_path / "d.svg", {name: np.linspace(0, 1, 9) for name in names}, "mean")
    for path in tmp_path.iterdir():
        drawing = path.read_text(encoding="utf-8")
        assert all(f"…longlong {end}  1.00" in drawing for end in ("one", "two"))
