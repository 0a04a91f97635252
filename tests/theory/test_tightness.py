"""The search for counterexamples: none is found, and one that is there would be."""

import numpy as np
import pytest
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
