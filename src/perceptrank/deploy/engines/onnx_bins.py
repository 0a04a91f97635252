"""Bins in ONNX operations."""

import numpy as np

from perceptrank.deploy.engines.onnx_nodes import Nodes
from perceptrank.kernels.arrays import Floats
from perceptrank.transforms.bins import Bins

_MOST_BYTES = 2**30  # of constants: a file of ONNX has at most twice that


def add_bins(nodes: Nodes, bins: Bins, X: str, width: int, edges: Floats) -> str:
    """Return the outputs of bins: those of a feature side by side, features one after the other; edges are given."""
    n_each = bins.n_outputs(1)
    if 8 * 3 * width * n_each > _MOST_BYTES:
        raise ValueError(f"{bins!r} of {width} features has more edges than files of ONNX have room for: take fewer")
    values = nodes.add("Unsqueeze", X, nodes.whole(2))
    if bins.kind == "hat":
        parts = _differences(nodes, _shares(nodes, values, edges))
    else:
        parts = nodes.as_double(nodes.add("Greater", values, edges))
    if bins.kind == "one-hot":
        parts = _differences(nodes, parts)
    return str(nodes.add("Reshape", parts, nodes.whole(-1, width * n_each)))


def _shares(nodes: Nodes, values: str, edges: Floats) -> str:
    """Return for all edges but the last how much of the way to the next higher one a value has gone, from 0 to 1.

    Equal edges have equal shares, so that all the difference is made by the first; those of the last ones are 0.
    """
    following = edges.copy()
    for place in range(edges.shape[1] - 2, -1, -1):
        is_equal = edges[:, place] == edges[:, place + 1]
        following[:, place] = np.where(is_equal, following[:, place + 1], edges[:, place + 1])
    lows, gaps = edges[:, :-1], following[:, :-1] - edges[:, :-1]
    if not np.isfinite(gaps).all():
        raise ValueError("edges of bins are further apart than double precision holds: scale the features")
    shares = nodes.add("Div", nodes.add("Sub", values, lows), np.where(gaps > 0.0, gaps, 1.0))
    return str(nodes.add("Mul", nodes.add("Clip", shares, 0.0, 1.0), (gaps > 0.0).astype(np.float64)))


def _differences(nodes: Nodes, parts: str) -> str:
    """Return 1 minus the first part, the first minus the second, ..., and the last."""
    padding = nodes.whole(0, 0, 1, 0, 0, 0)
    before = nodes.add("Pad", parts, padding, nodes.constant(1.0))
    after = nodes.add("Pad", parts, nodes.whole(0, 0, 0, 0, 0, 1), nodes.constant(0.0))
    return str(nodes.add("Sub", before, after))
