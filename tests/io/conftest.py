import numpy as np
import pytest

import perceptrank as pr


@pytest.fixture
def stream():
    """Three queries of ten documents, with text ids, names and comments."""
    rng = np.random.default_rng(0)
    return pr.QueryStream.from_arrays(
        rng.normal(size=(30, 3)).astype(np.float32),
        rng.integers(3, size=30),
        qid=np.repeat(["a", "bé", "c c"], 10),
        feature_names=["x", "y", "ž"],
        comments=[f"document {i}" if i % 4 else "" for i in range(30)],
    )
