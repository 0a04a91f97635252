"""Random features in ONNX operations: a product with a matrix, and a function of each number."""

from typing import Any

import numpy as np

from perceptrank.deploy.engines.onnx_nodes import Nodes
from perceptrank.transforms.random.fastfood import Fastfood
from perceptrank.transforms.random.fourier_features import FourierFeatures
from perceptrank.transforms.random.random_fourier import RandomFourier
from perceptrank.transforms.random.random_relu import RandomRelu

RANDOM = (RandomFourier, Fastfood, RandomRelu)
_MOST_BYTES = 2**30  # of a matrix: a file of ONNX has at most twice that


def add_random(nodes: Nodes, transform: Any, X: str, width: int) -> Any:
    """Return the random features of a transform, behind the features if it keeps those."""
    n_rows = transform.n_features // 2 if isinstance(transform, FourierFeatures) else transform.n_features
    if 8 * n_rows * width > _MOST_BYTES:
        raise ValueError(
            f"{transform!r} of {width} features is a matrix of {8e-9 * n_rows * width:.1f} GB in a graph, which "
            "files of ONNX have no room for: take fewer random features"
        )
    add = _add_waves if isinstance(transform, FourierFeatures) else _add_cut_off
    return nodes.add("Concat", *([X] if transform.beside else []), *add(nodes, transform, X, width), axis=1)


def _add_waves(nodes: Nodes, transform: Any, X: str, width: int) -> list[Any]:
    matrix = np.ascontiguousarray(transform.directions(width).T) / (transform.width_ or 1.0)
    angles = nodes.add("MatMul", X, matrix)
    factor = transform.norm_for(width) / np.sqrt(transform.n_features // 2)
    return [nodes.add("Mul", nodes.add(function, angles), factor) for function in ("Sin", "Cos")]


def _add_cut_off(nodes: Nodes, transform: Any, X: str, width: int) -> list[Any]:
    rows, factor = transform.directions(width).rows, transform.factor_for(width)
    matrix = np.ascontiguousarray(rows[:, :-1].T) * (factor / np.sqrt(width))
    heights = nodes.add("Add", nodes.add("MatMul", X, matrix), factor * transform.bias * rows[:, -1])
    return [nodes.add("Max", heights, 0.0)]
