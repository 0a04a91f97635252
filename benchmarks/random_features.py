"""Random features: time per document as ratios measured side by side in one run, single thread, best of several.

OPENBLAS_NUM_THREADS=1 python benchmarks/random_features.py [--repeats 30] [--json]
The plain projection is NumPy's matrix product of documents with a matrix of directions, and its sines and cosines. As
many documents at a time as learners transform: those whose random features take 2 MiB.
"""

import argparse
import os
import sys

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from ratios import best_of, row, show

import perceptrank as pr

N_FEATURES = 136


def documents(n_random: int, n_features: int, dtype: type) -> np.ndarray:
    rng = np.random.default_rng(0)
    n = max(8, 2**21 // (n_random * np.dtype(dtype).itemsize) // 8 * 8)
    return rng.normal(size=(n, n_features)).astype(dtype)


def times(n_random: int, n_features: int, dtype: type, repeats: int) -> list[float]:
    """Seconds per document: a matrix product alone, then with sines and cosines, fastfood."""
    X = documents(n_random, n_features, dtype)
    offsets = np.array([0, len(X)])
    fast = pr.Fastfood(n_random, width=12.0, beside=False)
    matrix = (np.random.default_rng(1).normal(size=(n_features, n_random // 2)) / 12.0).astype(dtype)
    angles, made = np.empty((len(X), n_random // 2), dtype), np.empty((len(X), n_random), dtype)

    def project() -> None:
        np.matmul(X, matrix, out=angles)

    def numpy_features() -> None:
        project()
        np.sin(angles, out=made[:, : n_random // 2])
        np.cos(angles, out=made[:, n_random // 2 :])

    found = best_of(repeats, project, numpy_features, lambda: fast.apply(X, offsets))
    return [one / len(X) for one in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = []
    for dtype in (np.float32, np.float64):
        product, plain, fast = times(8192, N_FEATURES, dtype, arguments.repeats)
        what = f"fastfood, {dtype.__name__}, D = 8192, d = {N_FEATURES}"
        rows += [
            row(f"{what}, against the plain projection with NumPy", plain / fast, ">= 3", fast),
            row(f"{what}, against its matrix product alone", product / fast, "", fast),
        ]
    for n_features in (46, N_FEATURES, 700):
        print(f"d = {n_features}, float32; microseconds a document", file=sys.stderr)
        print(f"{'D':>8} {'product':>8} {'+ NumPy':>8} {'fastfood':>8}", file=sys.stderr)
        for n_random in (32, 128, 512, 2048, 8192, 32768):
            found = times(n_random, n_features, np.float32, arguments.repeats)
            print(f"{n_random:>8} " + " ".join(f"{1e6 * one:8.2f}" for one in found), file=sys.stderr)
    show(rows, as_json=arguments.json)


if __name__ == "__main__":
    main()
