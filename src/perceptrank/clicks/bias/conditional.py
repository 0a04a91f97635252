"""Likelihood of the places that a group's clicks come from: attractiveness cancels.

A group is something whose attractiveness a does not depend on the place: a document of a query, or the slot of a swap.
Shown n_k times at place k it is clicked about n_k θ_k a times there. Given its clicks c, c_k of them at place k,

    p_k = n_k θ_k / Σ_j n_j θ_j   and   Σ_groups (c_k - c p_k) = 0   for each place k

are the maximum of a concave likelihood, and hold on average whatever a is. If all groups have two adjacent places, the
solution is the chain of θ_{k+1} / θ_k = C_{k+1} / C_k, with variance 1/C_k + 1/C_{k+1} of the logarithm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from perceptrank.kernels.arrays import Bools, Floats, Ints

_STEPS = 200
_TOLERANCE = 1e-12
_HALVINGS = 40


@dataclass(frozen=True)
class Cells:
    """Groups by places: one cell for each place, from 0 on, at which a group was shown; sorted by group."""

    group: Ints
    place: Ints
    shown: Floats
    clicks: Floats
    n_places: int

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return int(self.group[-1]) + 1 if len(self.group) else 0

    def table(self, values: Any) -> csr_array:
        """Return values of the cells as groups × places."""
        return csr_array((values, (self.group, self.place)), shape=(self.n_groups, self.n_places))

    def per_group(self, values: Floats) -> Floats:
        """Sum values of the cells over places."""
        return np.bincount(self.group, values, self.n_groups).astype(np.float64, copy=False)

    def per_place(self, values: Floats) -> Floats:
        """Sum values of the cells over groups."""
        return np.bincount(self.place, values, self.n_places).astype(np.float64, copy=False)

    def select(self, rows: Bools) -> tuple[Cells, Bools]:
        """Return the cells of these rows that compare places, and which they are: groups have clicks and two places."""
        counts = np.bincount(self.group[rows], minlength=self.n_groups)
        clicks = np.bincount(self.group[rows], self.clicks[rows], self.n_groups)
        kept = rows & ((counts > 1) & (clicks > 0))[self.group]
        _, group = np.unique(self.group[kept], return_inverse=True)
        return Cells(group, self.place[kept], self.shown[kept], self.clicks[kept], self.n_places), kept


class Estimate(NamedTuple):
    """Logarithms of examination relative to place 1, and their covariance; NaN where they are not identified."""

    log_examination: Floats
    covariance: Floats
    reason: tuple[str, ...]

    @property
    def identified(self) -> Bools:
        """Tell which places are identified."""
        return ~np.isnan(self.log_examination)

    def fill(self, log_examination: Floats, information: Floats, scores: Floats) -> None:
        """Set the identified places, of which there are several; see `covariance`."""
        used = np.flatnonzero(self.identified)
        inside = np.ix_(used, used)
        self.log_examination[used] = log_examination[used] - log_examination[0]
        self.covariance[inside] = covariance(information[inside], scores[inside])


def blank(reason: list[str], identified: Bools) -> Estimate:
    """Return an estimate that is 1 and certain at identified places, to be filled in."""
    unknown = ~identified
    log_examination = np.where(unknown, np.nan, 0.0)
    return Estimate(log_examination, np.where(unknown[:, None] | unknown, np.nan, 0.0), tuple(reason))


def link_places(cells: Cells, linked_by: str, totals: Floats) -> tuple[Estimate, Cells, Bools]:
    """Return a blank estimate of places that the cells identify, the cells that compare them, and which they are.

    `totals` tells how often each place was shown in all.

    θ_k / θ_1 is finite and unique if and only if clicks lead from each of the two places to the other: from k to j if a
    group with clicks at k was also shown at j. Else the likelihood grows without end.
    """
    compared, _ = cells.select(np.ones(len(cells.group), bool))
    was_shown = compared.table(np.ones(len(compared.group)))
    was_clicked = compared.table((compared.clicks > 0).astype(float))
    _, strong = connected_components(was_clicked.T @ was_shown, directed=True, connection="strong")
    _, weak = connected_components(was_shown.T @ was_shown, directed=False)
    clicks = compared.per_place(compared.clicks)
    identified = (strong == strong[0]) & (totals > 0) & (totals[0] > 0)
    reason = []
    for k in range(cells.n_places):
        if identified[k] or unseen(totals, k):
            reason.append(unseen(totals, k))
        elif weak[k] != weak[0]:
            reason.append(f"no {linked_by} links it to place 1")
        elif clicks[k] == 0:
            reason.append(f"no clicks here on any {linked_by}, which would link it to place 1")
        else:
            reason.append("too few clicks: none on one side of what links it to place 1")
    return blank(reason, identified), *cells.select(identified[cells.place])


def unseen(totals: Floats, place: int) -> str:
    """Say why a place cannot be compared with the first in any case; nothing if it can."""
    if totals[place] == 0:
        return "never shown"
    return "" if totals[0] > 0 else "place 1, to which places are compared, was never shown"


def solve(cells: Cells) -> tuple[Floats, Floats, Floats]:
    """Maximize the likelihood by Newton's method; all places of the cells must be linked.

    Returns the logarithms of examination, the clicks of each cell less those expected given its group's, and the
    information on examination: places × places, each row adds up to 0.
    """
    places = np.unique(cells.place)
    totals = cells.per_group(cells.clicks)
    clicks = cells.per_place(cells.clicks)
    log_examination = np.zeros(cells.n_places)
    value, expected = _likelihood(cells, totals, clicks, log_examination)
    free = places[1:]
    for _ in range(_STEPS):
        information = _information(cells, totals, expected)
        gradient = clicks - cells.per_place(expected)
        step = np.zeros(cells.n_places)
        step[free] = np.linalg.solve(information[np.ix_(free, free)], gradient[free])
        for _ in range(_HALVINGS):
            new_value, expected = _likelihood(cells, totals, clicks, log_examination + step)
            if new_value >= value - 1e-12 * abs(value):
                break
            step /= 2
        log_examination, value = log_examination + step, new_value
        if np.abs(step).max() < _TOLERANCE:
            break
    return log_examination, cells.clicks - expected, _information(cells, totals, expected)


def _likelihood(cells: Cells, totals: Floats, clicks: Floats, log_examination: Floats) -> tuple[float, Floats]:
    weights = cells.shown * np.exp(log_examination - log_examination.max())[cells.place]
    sums = cells.per_group(weights)
    value = clicks @ (log_examination - log_examination.max()) - totals @ np.log(sums)
    return float(value), weights * (totals / sums)[cells.group]


def _information(cells: Cells, totals: Floats, expected: Floats) -> Floats:
    table = cells.table(expected)
    scaled = cells.table(expected / totals[cells.group])
    return np.asarray(np.diag(cells.per_place(expected)) - (table.T @ scaled).toarray())


def covariance(information: Floats, scores: Floats) -> Floats:
    """Return the covariance of logarithms relative to the first place: at least what independent clicks have.

    `information` is that of the model, in which all clicks are independent; each row adds up to 0. `scores` is the sum
    of outer products of the scores of clusters: what the clicks themselves say of their variance.
    """
    wide = np.zeros_like(information)
    model = np.linalg.inv(information[1:, 1:])
    wide[1:, 1:] = widest((model + model.T) / 2, model @ scores[1:, 1:] @ model)
    return wide


def widest(model: Floats, robust: Floats) -> Floats:
    """Return the smallest covariance, along the axes that both share, that is at least each of two covariances."""
    if len(model) == 0:
        return model
    root = np.linalg.cholesky(model)
    half = np.linalg.solve(root, robust)
    values, axes = np.linalg.eigh(np.linalg.solve(root, half.T))
    side = root @ axes
    return np.asarray((side * np.maximum(values, 1.0)) @ side.T)
