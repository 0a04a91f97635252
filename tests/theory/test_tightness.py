"""The search for counterexamples: none is found, and one that is there would be."""

import json
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from support import inequalities as searched
from support.climbing import Inequality, search
from support.inequalities import MOVED, inequalities, listwise, of_learner
from support.small_problems import any_stream, separable_stream

from perceptrank.theory import Theorem

INEQUALITIES = inequalities()


@pytest.mark.deep
@pytest.mark.parametrize("inequality", INEQUALITIES, ids=[f"{one.theorem}-{one.learner}" for one in INEQUALITIES])
def test_no_counterexample_is_found_by_climbing(inequality):
    found = search(inequality, seconds=3.0, seed=1)
    print(f"{inequality.theorem}, {inequality.learner}: {found.ratio:.3f} of {found.n_tried}")
    assert 0 < found.ratio <= 1 + 1e-6, found.state


@pytest.mark.parametrize("inequality", INEQUALITIES, ids=[f"{one.theorem}-{one.learner}" for one in INEQUALITIES])
def test_inequalities_hold_at_random_starts(inequality):
    for seed in range(3):
        assert inequality.ratio(inequality.start(np.random.default_rng(seed))) <= 1 + 1e-6


def test_a_constant_that_is_too_small_is_found_out():
    """A bound of Theorem B with nine tenths of the constant is broken, with a margin and against u, within seconds."""

    smaller = Theorem("loss ≤ .9 D²/γ²", "D²", "D²", factor=0.9, surrogate="slam")
    for start, separable in ((separable_stream, True), (any_stream, False)):
        wrong = of_learner(listwise("uniform", 0.0), MOVED, separable=separable, theorem=lambda _: smaller)
        assert search(Inequality("B", "too small", start, wrong), seconds=10.0).ratio > 1 + 1e-6


def run_benchmark(monkeypatch, ratio, *options):
    """Run benchmarks/tightness.py on one inequality of this ratio; return its exit code."""
    made = Inequality("Z", "nobody", lambda rng: {"x": rng.random(2)}, lambda _: ratio)
    monkeypatch.setattr(searched, "inequalities", lambda: [made])
    monkeypatch.setattr(sys, "argv", ["tightness.py", "--seconds", "0.01", *options])
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(SystemExit) as caught:
        runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "tightness.py"), run_name="__main__")
    return caught.value.code


@pytest.mark.parametrize(("ratio", "code"), [(0.5, 0), (1.0, 0), (1.1, 1), (np.inf, 1), (np.nan, 1)])
def test_a_counterexample_is_an_error(monkeypatch, capsys, ratio, code):
    assert run_benchmark(monkeypatch, ratio) == code
    said = capsys.readouterr()
    assert f"| Z | nobody | {np.inf if np.isnan(ratio) else ratio:.3f} |" in said.out
    assert ("Z, nobody" in said.err) == bool(code)
    assert run_benchmark(monkeypatch, ratio, "--json") == code
    (row,) = json.loads(capsys.readouterr().out)
    assert row["theorem"] == "Z"
    assert "no theorem's name" in run_benchmark(monkeypatch, ratio, "--only", "Y")
