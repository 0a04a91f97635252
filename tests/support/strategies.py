"""Hypothesis strategies for queries and streams."""

import os

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

import perceptrank as pr

GRADES = st.one_of(
    st.integers(0, 4).map(float),
    st.sampled_from([0.0, 0.5, 1.0, 1.75, 3.25]),
)
# Sums and differences of such scores, and of margins that are powers of two, are exact: a gap that equals a margin does
# so in whatever order a kernel adds, so that it is the definition that decides, never the rounding.
SCORES = st.one_of(
    st.integers(-3, 3).map(float),  # many ties
    st.integers(-10 * 2**20, 10 * 2**20).map(lambda n: n / 2**20),
)


@st.composite
def judged_scores(draw, min_size=1, max_size=8, relevant=True, grades=GRADES):
    """(scores, grades) of one query, with a relevant document unless told otherwise."""
    m = draw(st.integers(min_size, max_size))
    labels = draw(st.lists(grades, min_size=m, max_size=m))
    if relevant and not any(labels):
        labels[draw(st.integers(0, m - 1))] = draw(grades.filter(bool))
    return np.array(draw(st.lists(SCORES, min_size=m, max_size=m))), np.array(labels)


def examples(times, suite=None):
    """Draw so many times the number of examples of the profile, for tests that are cheap or that see little in each.

    With `suite`, so many times that of the suite, and `times` in deep runs only.
    """
    if suite is not None and settings.default.derandomize:
        times = suite
    return settings(max_examples=max(1, round(times * settings.default.max_examples)))


# Each precision compiles kernels anew, and the indices that they take do not depend on it: one is enough to check them.
EITHER_PRECISION = (np.float64,) if os.environ.get("PERCEPTRANK_PRECISION") == "double" else (np.float32, np.float64)


@st.composite
def streams(draw, max_queries=12, max_documents=9, max_features=5, grades=5, dtypes=(np.float64,)):
    """Noisy streams with queries of one document and with equal grades among them.

    Every type of features compiles kernels anew, so that those of single precision must be asked for.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = rng.integers(1, max_documents + 1, size=draw(st.integers(1, max_queries)))
    d = draw(st.integers(1, max_features))
    dtype = draw(st.sampled_from(dtypes))
    X = rng.normal(size=(sizes.sum(), d))
    if draw(st.booleans()):
        X = np.round(X)  # ties, and documents that are the same
    return pr.QueryStream.from_arrays(X.astype(dtype), rng.integers(grades, size=sizes.sum()), group=sizes)


@st.composite
def separable_streams(draw):
    """Small streams with a known separator."""
    return pr.separable(
        draw(st.integers(5, 60)),
        n_documents=draw(st.integers(2, 12)),
        n_features=draw(st.integers(2, 8)),
        n_grades=draw(st.integers(2, 5)),
        margin=draw(st.sampled_from([0.1, 0.5, 2.0])),
        noise=draw(st.sampled_from([0.1, 1.0, 3.0])),
        seed=draw(st.integers(0, 10_000)),
    )
