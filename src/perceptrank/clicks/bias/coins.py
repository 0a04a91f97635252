"""Swaps and shuffles: counts of places that a policy has drawn at random, whatever the documents are.

Within the slot of a swap, or the first places of a shuffle, every place shows the same documents on average: its clicks
are in proportion to its examination.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from perceptrank.clicks.bias.conditional import Cells
from perceptrank.clicks.policies import KINDS, SHUFFLED, policy_kind
from perceptrank.kernels.arrays import Bools, Floats, Ints
from perceptrank.stream.texts import Texts


class Coin(NamedTuple):
    """A policy that is known to be random: swaps from a place on, or a shuffle of the first places."""

    kind: str
    number: int

    def slots(self, n_places: int) -> Ints:
        """Return for each place the slot within which it is random; -1 if it is not."""
        places = np.arange(n_places)
        if self.kind == "shuffle":
            return np.where(places < self.number, 0, -1)
        return np.where(places >= self.number - 1, (places - self.number + 1) // 2, -1)

    @property
    def propensity(self) -> float:
        """Probability of each place, where the log does not have it."""
        return 0.5 if self.kind == "fair-pairs" else 1 / self.number


class CoinCounts(NamedTuple):
    """Sums of one policy: impressions and clicks per place, and clicks of pairs of places in the same impression."""

    shown: Floats
    clicks: Floats
    together: Floats


def padded_sum(a: Floats, b: Floats) -> Floats:
    """Add vectors, or square matrices, of which one may have fewer places."""
    n = max(len(a), len(b))
    return np.pad(a, (0, n - len(a))) + np.pad(b, (0, n - len(b)))


def add_counts(a: Mapping[Coin, CoinCounts], b: Mapping[Coin, CoinCounts]) -> dict[Coin, CoinCounts]:
    """Add the sums of two logs."""
    both = {coin: CoinCounts(*map(padded_sum, a[coin], b[coin])) for coin in a.keys() & b.keys()}
    return {**a, **b, **both}


def count_coins(
    policy: Texts, impression: Ints, place: Ints, clicked: Floats, propensity: Floats | None
) -> tuple[dict[Coin, CoinCounts], int]:
    """Count documents that were shown (at places from 0 on), by policy; and the impressions of policies that are known.

    Clicks are weighted by the inverse of their propensity, relative to that of a fair coin.
    """
    _, first, codes = np.unique(policy.hashes(), return_index=True, return_inverse=True)
    counts: dict[Coin, CoinCounts] = {}
    n_known = 0
    for code, i in enumerate(first.tolist()):
        kind, number = policy_kind(policy[i])
        if kind > SHUFFLED:
            continue
        is_ours = codes == code
        n_known += int(is_ours.sum())
        rows = is_ours[impression]
        row_of = np.cumsum(is_ours) - 1
        at = row_of[impression[rows]], place[rows]
        n, width = int(is_ours.sum()), int(place[rows].max(initial=0)) + 1
        shown, clicks = np.zeros((n, width), bool), np.zeros((n, width))
        shown[at], clicks[at] = True, clicked[rows]
        chances = np.full((n, width), np.nan)
        if propensity is not None:
            chances[at] = propensity[rows]
        lengths = width - np.argmax(shown[:, ::-1], axis=1)
        for coin, chosen in _coins(KINDS[kind], number, lengths):
            counts = add_counts(counts, {coin: _count(coin, shown[chosen], clicks[chosen], chances[chosen])})
    return counts, n_known


def _coins(kind: str, number: int, lengths: Ints) -> list[tuple[Coin, Bools]]:
    """Split impressions of a policy by what is random: a shuffle of few documents is one of these."""
    if kind == "fair-pairs":
        return [(Coin(kind, number), np.ones(len(lengths), bool))]
    sizes = np.minimum(lengths, number)
    return [(Coin(kind, int(size)), sizes == size) for size in np.unique(sizes) if size > 1]


def _count(coin: Coin, shown: Bools, clicks: Floats, chances: Floats) -> CoinCounts:
    slots = coin.slots(shown.shape[1])
    # A place that is certain is not random, whatever the policy is called.
    counted = shown & (slots >= 0) & ~(chances >= 1)
    if coin.kind == "fair-pairs":  # half a pair says nothing: the other document may be the better one
        counted &= counted.astype(float) @ (slots[:, None] == slots) == 2
    weights = np.where(np.isnan(chances), 1.0, coin.propensity / chances)
    weighted = np.where(counted, clicks * weights, 0.0)
    return CoinCounts(counted.sum(axis=0).astype(float), weighted.sum(axis=0), weighted.T @ weighted)


def as_cells(counts: dict[Coin, CoinCounts], n_places: int) -> Cells:
    """Return the slots of all policies as groups of cells."""
    n_groups, columns = 0, [(np.zeros(0, int), np.zeros(0, int), np.zeros(0), np.zeros(0))]
    for coin in sorted(counts):
        sums = counts[coin]
        n = min(n_places, len(sums.shown))
        slots = coin.slots(n)
        used = np.flatnonzero((slots >= 0) & (sums.shown[:n] > 0))
        columns.append((n_groups + slots[used], used, sums.shown[used], sums.clicks[used]))
        n_groups += int(slots.max(initial=-1)) + 1
    group, place, shown, clicks = map(np.concatenate, zip(*columns, strict=True))
    return Cells(np.unique(group, return_inverse=True)[1], place, shown, clicks, n_places)


def outer_scores(counts: dict[Coin, CoinCounts], log_examination: Floats, identified: Bools) -> Floats:
    """Sum the outer products of the impressions' scores: clicks at each place, less those expected in its slot."""
    n_places = len(log_examination)
    total = np.zeros((n_places, n_places))
    for coin, sums in counts.items():
        n = min(n_places, len(sums.shown))
        slots = np.where(identified[:n] & (sums.shown[:n] > 0), coin.slots(n), -1)
        weights = np.where(slots >= 0, sums.shown[:n] * np.exp(np.where(identified, log_examination, 0.0)[:n]), 0.0)
        same = (slots[:, None] == slots) & (slots >= 0)
        sizes = same @ weights
        scores = np.eye(n) * (slots >= 0) - same * (weights / np.where(sizes > 0, sizes, 1.0))[:, None]
        total[:n, :n] += scores @ sums.together[:n, :n] @ scores.T
    return total
