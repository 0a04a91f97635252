import numpy as np
import pytest

import perceptrank as pr


@pytest.fixture(scope="session")
def stream():
    """Noisy, learnable, with one-document queries, queries of equal grades, and duplicates."""
    rng = np.random.default_rng(11)
    sizes = rng.integers(1, 12, size=60)
    X = np.round(rng.normal(size=(sizes.sum(), 4)), 1)
    scores = X @ [1.0, -1.0, 0.5, 0.0] + 0.3 * rng.normal(size=len(X))
    grades = np.clip(np.round(scores), 0, 4)
    grades[: sizes[0]] = 0
    return pr.QueryStream.from_arrays(X, grades, group=sizes)
