"""Position bias with attractiveness from features: a logistic regression, fitted together with examination."""

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import csr_array
from scipy.special import expit

from perceptrank.clicks.bias import conditional
from perceptrank.clicks.bias.conditional import Cells, Estimate, blank, unseen
from perceptrank.clicks.bias.documents import DocumentCounts
from perceptrank.kernels.arrays import Floats, Ints

_RIDGE = 1e-9  # times the impressions: keeps weights finite that clicks say nothing about
_NULL = 1e-9  # share of the largest information below which there is none
_SURE = -1e-12  # logarithm of the largest probability: at 1, the absence of a click would be impossible
_LEAST = -50.0  # least logarithm of examination
_SETTINGS = {"maxiter": 1000, "maxfun": 2000, "maxcor": 20, "ftol": 1e-13, "gtol": 1e-8}


def estimate_regression(counts: DocumentCounts, totals: Floats) -> Estimate:
    """Estimate examination, and attractiveness as a logistic function of the features; queries are clusters."""
    n = len(totals)
    cells = Cells(np.arange(len(counts.keys)), counts.places, counts.shown, counts.clicks, n)
    clicks = cells.per_place(cells.clicks)
    Z = _standardized(counts)
    reason = [unseen(totals, k) for k in range(n)]
    for k in range(n):
        if Z.shape[1] == 1:
            reason[k] = reason[k] or ("the features are the same for all documents" if k else "")
        elif clicks[k] == 0 or clicks[0] == 0:
            reason[k] = reason[k] or ("" if k == 0 else "no clicks here" if clicks[0] else "place 1 has no clicks")
    identified = np.array([text == "" for text in reason])
    if identified.sum() < 2:
        return blank(reason, identified)
    rows = identified[cells.place]
    cells = Cells(np.arange(int(rows.sum())), cells.place[rows], cells.shown[rows], cells.clicks[rows], n)
    parameters = _fit(cells, Z[rows])
    information, scores = _information(cells, Z[rows], parameters, counts.clusters()[rows])
    inverse, null = _invert(information)
    contrasts = np.eye(n, len(parameters)) - np.eye(1, len(parameters))
    # What the features determine entirely cannot be told apart from the bias of the place.
    scale = np.sqrt(np.diag(information))
    scaled = contrasts / np.where(scale > 0, scale, 1.0)
    hidden = np.linalg.norm(scaled @ null, axis=1) > 1e-4 * np.linalg.norm(scaled, axis=1)
    reason = [text or ("the features tell the place" if hidden[k] else "") for k, text in enumerate(reason)]
    estimate = blank(reason, np.array([text == "" for text in reason]))
    used = np.flatnonzero(estimate.identified)[1:]
    if len(used):
        chosen = contrasts[used] @ inverse
        estimate.log_examination[used] = parameters[used] - parameters[0]
        model, robust = chosen @ contrasts[used].T, chosen @ scores @ chosen.T
        estimate.covariance[np.ix_(used, used)] = conditional.widest(model, robust)
    return estimate


def _standardized(counts: DocumentCounts) -> Floats:
    """Return a column of ones, and the features that vary, with mean 0 and variance 1."""
    mean = np.average(counts.X, axis=0, weights=counts.shown)
    deviations = np.sqrt(np.average((counts.X - mean) ** 2, axis=0, weights=counts.shown))
    varies = deviations > 1e-12 * np.maximum(np.abs(mean), 1e-300)
    return np.column_stack([np.ones(len(counts.X)), (counts.X[:, varies] - mean[varies]) / deviations[varies]])


def _fit(cells: Cells, Z: Floats) -> Floats:
    """Return the logarithms of examination, then the weights of the features, that make the clicks most likely."""
    n = cells.n_places
    size = max(cells.shown.sum(), 1.0)
    ridge = _RIDGE * size

    def loss(parameters: Floats) -> tuple[float, Floats]:
        weights = parameters[n:]
        margins = Z @ weights
        logs = parameters[:n][cells.place] - np.logaddexp(0.0, -margins)
        value, slope = _click_likelihood(logs, cells)
        down = Z.T @ (slope * expit(-margins)) - ridge * weights
        gradient = np.concatenate([cells.per_place(slope), down])
        return (ridge / 2 * weights @ weights - value) / size, -gradient / size

    shown, clicks = cells.per_place(cells.shown), cells.per_place(cells.clicks)
    rates = np.where(shown > 0, clicks / np.where(shown > 0, shown, 1.0), 0.0)
    start = np.zeros(n + Z.shape[1])
    start[:n] = np.log(np.clip(rates / max(rates.max(), 1e-300), 1e-6, 0.9))
    start[n] = np.log(max(rates.max(), 1e-6) / max(1 - rates.max(), 1e-6))
    bounds = [(_LEAST, 0.0)] * n + [(None, None)] * Z.shape[1]
    return np.asarray(minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=_SETTINGS).x)


def _click_likelihood(logs: Floats, cells: Cells) -> tuple[float, Floats]:
    """Return the likelihood of logarithms of click probabilities, and its derivatives."""
    logs = np.minimum(logs, _SURE)
    misses = cells.shown - cells.clicks
    rest = -np.expm1(logs)
    return float(cells.clicks @ logs + misses @ np.log(rest)), cells.clicks - misses * np.exp(logs) / rest


def _information(cells: Cells, Z: Floats, parameters: Floats, clusters: Ints) -> tuple[Floats, Floats]:
    """Return the expected information on all parameters, and the sum of outer products of the queries' scores."""
    n = cells.n_places
    margins = Z @ parameters[n:]
    logs = parameters[:n][cells.place] - np.logaddexp(0.0, -margins)
    _, slope = _click_likelihood(logs, cells)
    chance = np.minimum(np.exp(logs), 1 - 1e-12)
    weight = cells.shown * chance / (1 - chance)
    down = expit(-margins)[:, None] * Z
    rows = np.arange(len(slope))
    by_place = csr_array((np.ones(len(rows)), (rows, cells.place)), shape=(len(rows), n))
    cross = by_place.T @ (weight[:, None] * down)
    information = np.block([[np.diag(cells.per_place(weight)), cross], [cross.T, (down * weight[:, None]).T @ down]])
    by_query = csr_array((slope, (clusters, rows)), shape=(int(clusters.max(initial=-1)) + 1, len(rows)))
    sums = np.hstack([(by_query @ by_place).toarray(), by_query @ down])
    return information, sums.T @ sums


def _invert(information: Floats) -> tuple[Floats, Floats]:
    """Return the pseudo-inverse, and directions without information, both for parameters of equal information."""
    scale = np.sqrt(np.diag(information))
    scale = np.where(scale > 0, scale, 1.0)
    values, axes = np.linalg.eigh(information / np.outer(scale, scale))
    is_null = values < _NULL * values.max()
    kept = axes[:, ~is_null]
    return (kept / values[~is_null]) @ kept.T / np.outer(scale, scale), axes[:, is_null]
