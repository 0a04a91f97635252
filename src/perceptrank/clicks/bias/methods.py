"""The estimates without features: swaps, all pairs of places, each place against the first, and documents (EM)."""

from collections.abc import Callable

import numpy as np
from scipy.sparse import csr_array

from perceptrank.clicks.bias import conditional
from perceptrank.clicks.bias.coins import Coin, CoinCounts, as_cells, outer_scores
from perceptrank.clicks.bias.conditional import Cells, Estimate, blank, link_places, unseen
from perceptrank.clicks.bias.documents import DocumentCounts
from perceptrank.kernels.arrays import Floats, Ints

_SWAP = "random swap or shuffle that was clicked"
_DOCUMENT = "clicked document that changed places"
_FAR = 3.0  # standard errors between two methods that should agree
_STEPS, _TOLERANCE = 200, 1e-9  # of EM
_LEAST = 0.02  # probability of no click, for the weight of a document that is clicked always


def estimate_swaps(counts: dict[Coin, CoinCounts], totals: Floats) -> Estimate:
    """Estimate from what policies have swapped or shuffled; `totals` tells how often each place was shown."""
    estimate, cells, _ = link_places(as_cells(counts, len(totals)), _SWAP, totals)
    if estimate.identified.sum() > 1:
        log_examination, _, information = conditional.solve(cells)
        estimate.fill(log_examination, information, outer_scores(counts, log_examination, estimate.identified))
    return estimate


def sum_outer(clusters: Ints, places: Ints, residuals: Floats, n_places: int) -> Floats:
    """Sum the outer products of the residuals of each cluster, added up by place."""
    sums = csr_array((residuals, (clusters, places)), shape=(int(clusters.max()) + 1, n_places))
    return np.asarray((sums.T @ sums).toarray())


def estimate_pairs(counts: DocumentCounts, totals: Floats) -> Estimate:
    """Estimate from documents seen at several places, all pairs of places at once; queries are clusters."""
    return _estimate_documents(conditional.solve, counts, totals)


def _estimate_documents(
    fit: Callable[[Cells], tuple[Floats, Floats, Floats]], counts: DocumentCounts, totals: Floats
) -> Estimate:
    """Estimate by what `fit` returns: logarithms of examination, residuals of the cells, information."""
    estimate, cells, kept = link_places(counts.cells(len(totals)), _DOCUMENT, totals)
    if estimate.identified.sum() > 1:
        log_examination, residuals, information = fit(cells)
        scores = sum_outer(counts.clusters()[kept], cells.place, residuals, len(totals))
        estimate.fill(log_examination, information, scores)
    return estimate


def estimate_pivot(counts: DocumentCounts, totals: Floats) -> Estimate:
    """Estimate each place from the documents seen both there and at place 1.

    The ratio Σ c_k n_1 / (n_1 + n_k)  /  Σ c_1 n_k / (n_1 + n_k) over documents is that of Mantel and Haenszel: it
    holds for many documents that were seen a few times, and for a few that were seen often.
    """
    n = len(totals)
    cells, queries = counts.cells(n), counts.clusters()
    at_first = cells.place == 0
    shown = np.bincount(cells.group[at_first], cells.shown[at_first], cells.n_groups)[cells.group]
    clicks = np.bincount(cells.group[at_first], cells.clicks[at_first], cells.n_groups)[cells.group]
    both = (shown > 0) & ~at_first
    share = np.where(both, 1 / np.where(both, shown + cells.shown, 1.0), 0.0)
    here, there = share * shown * cells.clicks, share * cells.shown * clicks
    upper, lower = cells.per_place(here), cells.per_place(there)
    n_both = cells.per_place(both.astype(float))
    reason = [unseen(totals, k) for k in range(n)]
    for k in range(1, n):
        if not reason[k] and n_both[k] == 0:
            reason[k] = "no document was seen both here and at place 1"
        elif not reason[k] and not (upper[k] > 0 and lower[k] > 0):
            reason[k] = "documents seen both here and at place 1 have no clicks at one of the two"
    estimate = blank(reason, np.array([text == "" for text in reason]))
    used = np.flatnonzero(estimate.identified)[1:]
    if len(used):
        estimate.log_examination[used] = np.log(upper[used] / lower[used])
        kept = both & estimate.identified[cells.place]
        group, place, cluster = cells.group[kept], cells.place[kept], queries[kept]
        ours, theirs = here[kept] / upper[place], there[kept] / lower[place]
        shares = (share * cells.shown)[kept] / lower[place]
        # Clicks at place 1 are shared by all places; those at a place are its own.
        model = sum_outer(group, place, shares * np.sqrt(clicks[kept]), n)
        model += np.diag(np.bincount(place, ((share * shown)[kept] / upper[place]) ** 2 * cells.clicks[kept], n))
        robust = sum_outer(cluster, place, ours - theirs, n)
        inside = np.ix_(used, used)
        estimate.covariance[inside] = conditional.widest(model[inside], robust[inside])
    return estimate


def estimate_em(counts: DocumentCounts, totals: Floats) -> Estimate:
    """Estimate examination and the attractiveness of each document that changed places; queries are clusters.

    The EM algorithm (Wang et al. 2018) takes turns between the two, needs thousands of rounds where clicks are rare,
    and is biased, because it fits an attractiveness a to each document. Here it is a regression of ln p = ln θ_k + ln a
    by a few steps of Newton's method; Firth's correction, half a click per document that its places share in proportion
    to their information, removes the first term of the bias.
    """
    return _estimate_documents(_fit_em, counts, totals)


def _fit_em(cells: Cells) -> tuple[Floats, Floats, Floats]:
    """Return the logarithms of examination, the residuals of the cells, and the information on examination."""
    log_examination, free = conditional.solve(cells)[0], np.unique(cells.place)[1:]
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


def choose(swaps: Estimate, pairs: Estimate, n_random: int) -> tuple[str, str]:
    """Choose the narrower estimate if both agree, else that from swaps, which assumes less; and say why."""
    if n_random == 0:
        return "pairs", "Pairs was chosen: no impression has a policy whose random choices are known."
    if (n_more := int(swaps.identified.sum()) - int(pairs.identified.sum())) != 0:
        method = "swaps" if n_more > 0 else "pairs"
        return method, f"{method.capitalize()} was chosen: it identifies more places."
    common = np.flatnonzero(swaps.identified & pairs.identified)
    variances = np.diag(swaps.covariance)[common], np.diag(pairs.covariance)[common]
    apart = np.abs(swaps.log_examination - pairs.log_examination)[common]
    if (apart > _FAR * np.sqrt(variances[0] + variances[1])).any():
        return "swaps", "Swaps was chosen: documents seen at several places disagree, as if their appeal had changed."
    if variances[1].sum() < variances[0].sum():
        return "pairs", "Pairs was chosen: it agrees with swaps, and its intervals are narrower."
    return "swaps", "Swaps was chosen: it needs the fewest assumptions."
