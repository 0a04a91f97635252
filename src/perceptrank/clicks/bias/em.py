"""Examination together with the attractiveness of each document: the likelihood that EM climbs, without its bias.

A document of attractiveness a at place k is clicked with probability p = θ_k a. The EM algorithm (Wang et al. 2018)
takes turns between the two, with P(examined | no click) = θ(1 - a) / (1 - θa) and P(attractive | no click) =
(1 - θ)a / (1 - θa). It needs thousands of rounds where clicks are rare, and is biased however many documents there are,
because it fits an attractiveness to each of them. Here it is a regression of ln p = ln θ_k + ln a, and takes a few
steps of Newton's method; Firth's correction, half a click per document that its places share in proportion to their
information, removes the first term of the bias.
"""

from __future__ import annotations

import numpy as np

from perceptrank.clicks.bias import conditional
from perceptrank.clicks.bias.conditional import Cells, Estimate, link_places
from perceptrank.clicks.bias.documents import DocumentCounts
from perceptrank.clicks.bias.methods import DOCUMENT, sum_outer
from perceptrank.kernels.arrays import Floats

_STEPS = 200
_TOLERANCE = 1e-9
_LEAST = 0.02  # probability of no click, for the weight of a document that is clicked always


def estimate_em(counts: DocumentCounts, totals: Floats) -> Estimate:
    """Estimate examination and the attractiveness of each document that changed places; queries are clusters."""
    estimate, cells, kept = link_places(counts.cells(len(totals)), DOCUMENT, totals)
    if estimate.identified.sum() > 1:
        log_examination, residuals, information = fit(cells, conditional.solve(cells)[0])
        scores = sum_outer(counts.clusters()[kept], cells.place, residuals, len(totals))
        estimate.fill(log_examination, information, scores)
    return estimate


def fit(cells: Cells, log_examination: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the logarithms of examination, the residuals of the cells, and the information on examination."""
    free = np.unique(cells.place)[1:]
    exposure = cells.per_group(cells.shown * np.exp(log_examination)[cells.place])
    log_attraction = np.log((cells.per_group(cells.clicks) + 0.5) / (exposure + 1.0))
    for _ in range(_STEPS):
        chance = np.exp(log_examination[cells.place] + log_attraction[cells.group])
        rest = np.maximum(1 - chance, _LEAST)
        weight = cells.shown * chance / rest
        sums = cells.per_group(weight)
        share = weight / sums[cells.group]
        residuals = (cells.clicks - cells.shown * chance) / rest + share / 2
        information = np.diag(cells.per_place(weight)) - (cells.table(weight).T @ cells.table(share)).toarray()
        lack = cells.per_group(residuals)
        step = np.zeros(cells.n_places)
        gradient = cells.per_place(residuals - share * lack[cells.group])
        step[free] = np.linalg.solve(information[np.ix_(free, free)], gradient[free])
        change = (lack - cells.per_group(weight * step[cells.place])) / sums
        log_examination = log_examination + np.clip(step, -1, 1)
        log_attraction = log_attraction + np.clip(change, -1, 1)
        if np.abs(step).max() < _TOLERANCE:
            break
    return log_examination, residuals - share * lack[cells.group], information
