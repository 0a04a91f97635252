"""Counter-based random numbers: each depends on a seed and its place alone, so they can be drawn in any order."""

import numpy as np

from perceptrank.kernels.compiled import compiled


@compiled
def noise(seed: int, round_number: int, index: int) -> float:
    """A number in [0, 1) that depends on its arguments alone (three rounds of splitmix64's mixer)."""
    mixed = np.uint64(0)
    for word in (seed, round_number, index):
        mixed = (mixed ^ np.uint64(word)) + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed = mixed ^ (mixed >> np.uint64(31))
    return float(mixed >> np.uint64(11)) * 2.0**-53
