"""Hill climbing for counterexamples: small arrays are changed at random as long as a ratio grows."""

import math
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from perceptrank.stream.validation import ParameterError

State = dict[str, Any]
N_STARTS = 8  # of which the best is climbed from


class Inequality(NamedTuple):
    """A statement of docs/theory/ about a learner, as the ratio of its two sides, which should not be above 1.

    `start` draws a small problem: arrays of floats and of whole numbers, which the search changes, and settings, which
    it leaves alone. `ratio` is the measured side over the bound, 0 where the statement says nothing.
    """

    theorem: str
    learner: str
    start: Callable[[np.random.Generator], State]
    ratio: Callable[[State], float]


class Found(NamedTuple):
    """The largest ratio that was found, where, and how many problems were tried."""

    ratio: float
    state: State
    n_tried: int


def quotient(measured: float, bound: float) -> float:
    """Measured / bound; 0 / 0 is 0, and rounding of what should be 0 is forgiven."""
    if bound > 0:
        return float(measured / bound)
    return 0.0 if measured <= 1e-12 else math.inf


def moved(rng: np.random.Generator, state: State) -> State:
    """A neighbour: one or more arrays with some entries moved, equal to others, rounded, or scaled."""
    found = dict(state)
    names = [name for name, value in state.items() if isinstance(value, np.ndarray) and value.size]
    for name in rng.choice(names, size=rng.integers(1, len(names) + 1), replace=False):
        value = state[name].copy()
        chosen = rng.random(value.shape) < rng.choice([0.1, 0.3, 1.0])
        if value.dtype.kind == "i":  # grades
            if rng.random() < 0.3:
                chosen = rng.random(value.shape) < 1.5 / value.size
                value = np.where(chosen, rng.integers(0, 3, size=value.shape), value)
        else:
            kind, size = rng.random(), 10.0 ** rng.uniform(-4, 0)
            if kind < 0.7:
                value = value + chosen * rng.normal(size=value.shape) * size
            elif kind < 0.8:
                value = value * np.exp(size * rng.normal())
            elif kind < 0.9:
                value = np.where(chosen, np.round(value, int(rng.integers(0, 3))), value)
            elif len(value) > 1:
                value[rng.integers(len(value))] = value[rng.integers(len(value))]
        found[name] = value
    return found


def ratio_of(inequality: Inequality, state: State) -> float:
    """The ratio; what is no number is no less than a counterexample."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of features on scales that differ
        found = inequality.ratio(state)
    return math.inf if math.isnan(found) else found


def climb(inequality: Inequality, rng: np.random.Generator, n_steps: int, until: float = math.inf) -> Found:
    """Climb from the best of a few random starts; stop after some steps, at a time, or at a counterexample."""
    starts = [inequality.start(rng) for _ in range(N_STARTS)]
    ratios = [ratio_of(inequality, one) for one in starts]
    best, tried = max(ratios), N_STARTS
    state = starts[ratios.index(best)]
    while tried < n_steps and time.perf_counter() < until and not best > 1 + 1e-6:
        other = moved(rng, state)
        tried += 1
        try:
            ratio = ratio_of(inequality, other)
        except ParameterError:  # such as a radius of 0; of the start it would be an error
            continue
        if ratio >= best:
            best, state = ratio, other
    return Found(best, state, tried)


def search(inequality: Inequality, seconds: float, seed: int = 0, n_steps: int = 200) -> Found:
    """Climb from random starts, again and again, then on from the best; at least once, whatever the time."""
    rng, start = np.random.default_rng(seed), time.perf_counter()
    best, n_tried = Found(-math.inf, {}, 0), 0
    while not n_tried or (time.perf_counter() < start + 0.6 * seconds and best.ratio <= 1 + 1e-6):
        found = climb(inequality, rng, n_steps, start + 0.6 * seconds)
        n_tried += found.n_tried
        best = max(best, found, key=lambda one: one.ratio)
    again = inequality._replace(start=lambda _: best.state)
    found = climb(again, rng, 10**9, start + seconds)
    return Found(max(best.ratio, found.ratio), found.state, n_tried + found.n_tried)
