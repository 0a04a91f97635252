"""Random numbers that depend on nothing but a seed and a place: any of them can be had at once, in any order."""

import math

import numpy as np

from perceptrank.kernels.arrays import Ints
from perceptrank.kernels.compiled import compiled

_MOST = 20  # beyond it, chances are below rounding


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


@compiled
def draw_repeats(seed: int, first: int, n: int, n_members: int) -> Ints:
    """For n queries from number `first` on and every member, a draw of the Poisson distribution of mean 1."""
    repeats = np.zeros((n, n_members), np.int64)
    for q in range(n):
        for member in range(n_members):
            left = noise(seed, first + q, member)
            chance = math.exp(-1.0)
            while left >= chance and repeats[q, member] < _MOST:
                left -= chance
                repeats[q, member] += 1
                chance /= repeats[q, member]
    return repeats
