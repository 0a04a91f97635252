"""Policies of a budget: which supports go when those of another update would be too many.

An update adds the documents of one query, its unit, and units go as a whole: a theorem about a budget is about the
updates that are kept, and coefficients of a unit add up to 0, which half of one would not. `docs/theory/` has the
proofs.
"""

import math

import numpy as np

from perceptrank.kernels.arrays import FloatRows, Floats, Ints
from perceptrank.kernels.chance import noise
from perceptrank.learners.kernel.supports import KernelModel
from perceptrank.learners.tally import MASS, UPDATES

SPENDING = 15 / 32  # of the weight moved, at most, may the Forgetron spend on removals
SMALLEST_ALLOWED = 1e-100  # where rounding leaves nothing to spend


def make_room_by_chance(state: KernelModel, needed: int, budget: int, seed: int, decay: float) -> None:
    """Remove units at random until there is room; multiply the others by (k - decay) / (k - 1), k being their number.

    decay = 1 is the randomised budget perceptron, which leaves the others as they are. Otherwise it is bounded gradient
    descent: k / (k - 1) makes up, on average, for what was removed, and 1 - decay / k is the decay.
    """
    supports, number = state.supports, 0
    while len(supports) + needed > budget:
        k = supports.n_units
        count_removals(state)
        supports.remove(min(k - 1, int(noise(seed, int(state.tally[UPDATES]), number) * k)))
        supports.shrink(max(0.0, (k - decay) / (k - 1)) if k > 1 else 1.0)
        number += 1


def merge_into_nearest(
    state: KernelModel,
    moved: Ints,
    values: FloatRows,
    lengths: Floats | None,
    added: Floats,
    own: float,
) -> None:
    """Project the images of new documents onto those of the nearest supports, whose coefficients change.

    `values` are those of the kernel, a row per document of the query, `moved` the rows of those with coefficients,
    which are `added`, `own` the squared length of what these add, and `lengths` the squared lengths of the images of
    supports, None if they are 1. What the projection of their sum loses is measured: certificates need it.
    """
    supports = state.supports
    nearest = np.argmax(values if lengths is None else values * (values / lengths), axis=1)[moved]
    shares = values[moved, nearest] if lengths is None else values[moved, nearest] / lengths[nearest]
    merged, near, norms = added * shares, supports.X[nearest], supports.norms[nearest]
    across = float(added @ (values[moved[:, None], nearest] @ merged))
    kept = float(merged @ (state.values(near, norms, near, norms) @ merged))
    state.lost += math.sqrt(max(0.0, own - 2 * across + kept))
    coefficients = supports.coefficients.copy()
    np.add.at(coefficients, nearest, merged)
    supports.coefficients = coefficients


def forget_oldest(state: KernelModel, needed: int, beside: Floats, own: float, budget: int, constant: float) -> float:
    """Remove the oldest units until there is room for another, after shrinking everything as far as that needs.

    This is the self-tuned Forgetron, called after the new unit was counted in the mass; it needs so many supports, and
    has the inner products `beside` with the others and `own` with itself. With f the ranking function, new unit
    included, r the sum of the units that go, V their masses and s their factors, the factor is the largest p in (0, 1]
    with p² (|r|² - 2 <f, r>) / constant + 2 p sum(s V) at most 15/32 of the weight moved so far, minus what was
    spent.
    Returns the factor, which the new unit shrinks by as well.
    """
    supports = state.supports
    excess = len(supports) + needed - budget
    if excess <= 0:
        return 1.0
    n_units = int(np.searchsorted(np.cumsum(supports.sizes), excess)) + 1
    gone, products = slice(0, n_units), supports.products
    product = float(products[gone].sum() + beside[gone].sum())
    square = (float(products[gone, gone].sum()) - 2 * product) / constant
    linear = float(2 * (supports.scales[gone] @ supports.masses[gone]))
    allowed = max(SPENDING * float(state.tally[MASS]) - state.spent, SMALLEST_ALLOWED)
    factor = 1.0
    if square + linear > allowed:
        factor = min(1.0, 2 * allowed / (linear + math.sqrt(max(0.0, linear**2 + 4 * square * allowed))))
    gone_length, rest = float(products[gone, gone].sum()), 1.0 - factor
    length = factor**2 * gone_length + 2 * factor * rest * product
    if rest > 0.0:
        length += rest**2 * float(products.sum() + 2 * beside.sum() + own)
    state.lost += math.sqrt(max(0.0, length))
    state.spent += factor * (factor * square + linear)
    state.shrunk -= math.log(factor)
    count_removals(state, n_units)
    supports.remove(0, n_units)
    supports.shrink(factor)
    return factor


def count_removals(state: KernelModel, n: int = 1) -> None:
    """Count removals, and the number of units that there were."""
    k = state.supports.n_units
    state.fewest = k if state.removals == 0 else min(k, state.fewest)
    state.removals += n
