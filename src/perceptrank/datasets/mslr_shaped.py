"""Simulated streams with the shape of MSLR-WEB, for benchmarks and tests."""

import numpy as np

from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.validation import check_not_negative, check_positive_whole, check_seed

_GRADE_SHARES = [0.52, 0.32, 0.13, 0.02, 0.01]
_MAX_RELATIVE_LENGTH = 8.0


def mslr_shaped(
    n_queries: int, *, n_documents: int = 120, n_features: int = 136, noise: float = 1.0, seed: int = 0
) -> QueryStream:
    """Simulate queries like those of MSLR-WEB10K: unscaled counts, lengths and scores, five grades.

    Query lengths are log-normal. About half of the features are small counts, one in sixteen is a length, the others
    are scores with six decimals, two in seven of these negative. Grades follow a random linear function of the features
    before they are rounded and scaled, plus Gaussian noise; their frequencies are those of MSLR-WEB10K. Other
    parameters are those of `separable`.

    Parameters
    ----------
    n_documents : int
        Mean number of documents per query.
    noise : float
        Standard deviation of the noise, relative to that of the linear function.

    Examples
    --------
    >>> mslr_shaped(10, seed=1)
    QueryStream(10 queries, 1238 documents, 136 features)
    """
    for name, value in {"n_queries": n_queries, "n_documents": n_documents, "n_features": n_features}.items():
        check_positive_whole(name, value)
    check_not_negative("noise", noise)
    check_seed(seed)
    rng = np.random.default_rng(seed)
    spread = 0.5
    drawn = n_documents * rng.lognormal(-(spread**2) / 2, spread, size=n_queries)
    sizes = np.clip(np.rint(drawn), 1, _MAX_RELATIVE_LENGTH * n_documents).astype(np.int64)
    X = np.empty((int(sizes.sum()), n_features), dtype=np.float32)
    heights = rng.normal(size=len(X)).astype(np.float32) * np.float32(noise * np.sqrt(n_features))
    for column in range(n_features):
        draws = rng.normal(size=len(X)).astype(np.float32)
        heights += draws * np.float32(rng.normal())
        kind = column % 16
        if kind < 8:
            X[:, column] = np.maximum(0, np.rint(draws * 1.5)) + 0.0
        elif kind == 8:
            X[:, column] = np.rint(np.exp(4 + 1.5 * draws))
        elif kind < 14:
            X[:, column] = np.abs(np.round(8 + 6 * draws, 6))
        else:
            X[:, column] = np.minimum(0, np.round(-12 + 6 * draws, 6)) + 0.0
    grades = np.searchsorted(np.quantile(heights, np.cumsum(_GRADE_SHARES)[:-1]), heights)
    return QueryStream.from_arrays(X, grades, group=sizes)
