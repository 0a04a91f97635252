"""An ONNX graph that scores the documents of one query, in double precision."""

import json
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from perceptrank.deploy.engines.onnx_bins import add_bins
from perceptrank.deploy.engines.onnx_nodes import Nodes
from perceptrank.deploy.engines.onnx_random import RANDOM, add_random
from perceptrank.deploy.engines.onnx_ranks import add_normal_scores, add_ranks
from perceptrank.deploy.folding import inverses
from perceptrank.deploy.ranking_function import RankingFunction
from perceptrank.deploy.target import Export, Target
from perceptrank.deploy.thresholds import RISING, raw_thresholds
from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.stream.sparse import AnyFeatures, SparseFeatures
from perceptrank.transforms.bins import Bins
from perceptrank.transforms.clip import Clip
from perceptrank.transforms.composition import Chain, Join
from perceptrank.transforms.missing import Missing
from perceptrank.transforms.query_minmax import SMALLEST_SPREAD, QueryMinMax
from perceptrank.transforms.query_normal import QueryNormal
from perceptrank.transforms.query_rank import QueryRank
from perceptrank.transforms.query_zscore import QueryZScore
from perceptrank.transforms.random.random_features import RandomFeatures
from perceptrank.transforms.running import RunningStandardizer
from perceptrank.transforms.running_spread import RunningSpread
from perceptrank.transforms.signed_log import SignedLog
from perceptrank.transforms.transform import Transform


@dataclass(frozen=True, kw_only=True)
class OnnxGraph(Target):
    """A graph of one query: from the raw features of its documents to their scores.

    Its operations are those of the transforms, and a product with the weights; not LinearRegressor, which knows
    float32 only.
    """

    name = "onnx"

    def export(self, function: RankingFunction) -> Export:
        """Return the graph as the bytes of a file; raise if a transform cannot be expressed."""
        nodes, width = Nodes(), len(function.names)
        value = "features"
        for transform, before in with_bins(function.transforms):
            if isinstance(transform, Bins) and before:
                value = add_bins(nodes, transform, value, width, raw_thresholds(before, transform.edges))
                width = transform.n_outputs(width)
            else:
                value, width = add_transform(nodes, transform, value, width, function)
        scores = nodes.add("MatMul", value, function.weights)
        metadata = {"algorithm": function.algorithm, "feature_names": json.dumps(function.names)}
        notes = [
            f"the input features is a matrix of documents x {len(function.names)} in double precision (float64): all "
            "documents of one query at once, with features in the order of the metadata feature_names; the output is "
            "scores",
            "features must be finite: the graph does not check them",
        ]
        if _takes_missing(function):
            notes[-1] = "features must be finite, or NaN where they are missing: the graph does not check them"
        if any(transform.learns for transform in function.transforms):
            notes.append("statistics are those that the model has now: export it again when it has learned on")
        content = nodes.model(len(function.names), scores, metadata)
        return Export(self.name, content, (*function.notes(), *notes))

    def engine(self) -> str:
        """Name the version of onnxruntime."""
        return f"onnxruntime {_runtime().__version__}"

    def scores(self, function: RankingFunction, export: Export, X: AnyFeatures, offsets: Ints) -> Floats:
        """Return the scores that onnxruntime gives to the documents, query by query."""
        runtime = _runtime()
        options = runtime.SessionOptions()
        options.intra_op_num_threads = 1
        session = runtime.InferenceSession(export.content, options, providers=["CPUExecutionProvider"])
        found = []
        for start, stop in pairwise(offsets):
            query = X[start:stop]
            features = query.toarray() if isinstance(query, SparseFeatures) else query
            found.append(session.run(["scores"], {"features": np.ascontiguousarray(features, np.float64)})[0])
        return np.concatenate(found)


def with_bins(transforms: list[Transform]) -> list[tuple[Transform, list[Transform]]]:
    """Return transforms, steps of bins with those right before them that rise with each feature.

    For these, thresholds take the place of both: rounding then moves no document into another bin.
    """
    made: list[tuple[Transform, list[Transform]]] = []
    for transform in transforms:
        before: list[Transform] = []
        if isinstance(transform, Bins) and type(transform) is Bins and transform.kind != "hat":
            while made and type(made[-1][0]) in RISING:
                before.insert(0, made.pop()[0])
        made.append((transform, before))
    return made


def add_transform(nodes: Nodes, transform: Transform, X: str, width: int, function: RankingFunction) -> tuple[str, int]:
    """Add what a transform does to so many features; return the result, and its number of features."""
    kind = type(transform)
    if isinstance(transform, Chain) and kind is Chain:
        for part in transform.parts:
            X, width = add_transform(nodes, part, X, width, function)
        return X, width
    if isinstance(transform, Join) and kind is Join:
        made = [add_transform(nodes, part, X, width, function) for part in transform.parts]
        return nodes.add("Concat", *(value for value, _ in made), axis=1), sum(one for _, one in made)
    if isinstance(transform, Bins) and kind is Bins:
        return add_bins(nodes, transform, X, width, transform.edges), transform.n_outputs(width)
    if kind is Missing:
        return _add_missing(nodes, transform, X, width)
    if isinstance(transform, RandomFeatures) and kind in RANDOM:
        return add_random(nodes, transform, X, width), transform.n_outputs(width)
    return _add_columns(nodes, transform, X, width, function), width


def _add_columns(nodes: Nodes, transform: Any, X: str, width: int, function: RankingFunction) -> Any:
    """Add a transform that keeps the number of features."""
    match transform:
        case RunningStandardizer() if type(transform) is RunningStandardizer:
            if not transform.count:
                return nodes.add("Mul", X, np.zeros(width))
            return nodes.add("Mul", nodes.add("Sub", X, transform.mean), inverses(transform.deviation))
        case RunningSpread() if type(transform) is RunningSpread:
            if not transform.count:
                return nodes.add("Mul", X, np.zeros(width))
            deviation = transform.deviation
            scaled = nodes.add("Div", X, np.where(deviation > 0.0, deviation, 1.0))
            return nodes.add("Mul", scaled, (deviation > 0.0).astype(np.float64))
        case QueryZScore() if type(transform) is QueryZScore:
            return _add_zscores(nodes, X)
        case QueryMinMax() if type(transform) is QueryMinMax:
            low = nodes.reduce("ReduceMin", X)
            spread = nodes.add("Sub", nodes.reduce("ReduceMax", X), low)
            is_spread = nodes.add("GreaterOrEqual", spread, SMALLEST_SPREAD)
            return nodes.add("Mul", nodes.add("Sub", X, low), _inverse(nodes, spread, is_spread))
        case QueryRank() if type(transform) is QueryRank:
            return add_ranks(nodes, X, width)
        case QueryNormal() if type(transform) is QueryNormal:
            return add_normal_scores(nodes, X, width)
        case Clip() if type(transform) is Clip:
            return nodes.add("Clip", X, -transform.limit, transform.limit)
        case SignedLog() if type(transform) is SignedLog:
            return nodes.add("Mul", nodes.add("Sign", X), _add_log1p(nodes, nodes.add("Abs", X)))
    raise ValueError(
        f"{function.algorithm} ranks by features after {transform!r}, for which there is no ONNX graph: learn again "
        "with other transforms, such as 'auto' or 'running' (--transform of the command learn)"
    )


def _add_zscores(nodes: Nodes, X: str) -> Any:
    """Standardise columns; values are taken relative to the first row, so that a constant column becomes exactly 0."""
    first = nodes.slice_rows(X, 0, 1)
    gaps = nodes.add("Sub", X, first)
    mean = nodes.reduce("ReduceMean", gaps)
    centred = nodes.add("Sub", gaps, mean)
    deviation = nodes.add("Sqrt", nodes.reduce("ReduceMean", nodes.add("Mul", centred, centred)))
    inverse = _inverse(nodes, deviation, nodes.add("Greater", deviation, 0.0))
    return nodes.add("Mul", nodes.add("Sub", X, nodes.add("Add", mean, first)), inverse)


def _inverse(nodes: Nodes, value: str, where: str) -> Any:
    """Return 1 over a value where a condition holds, 0 elsewhere."""
    return nodes.add("Where", where, nodes.add("Div", 1.0, value), 0.0)


def _add_log1p(nodes: Nodes, y: str) -> Any:
    """Return log(1 + y) for y >= 0, exact also for small y: log(u) y / (u - 1), with u = 1 + y as it is rounded."""
    u = nodes.add("Add", y, 1.0)
    above = nodes.add("Sub", u, 1.0)
    is_zero = nodes.add("Equal", above, 0.0)
    ratio = nodes.add("Div", y, nodes.add("Where", is_zero, 1.0, above))
    return nodes.add("Where", is_zero, y, nodes.add("Mul", nodes.add("Log", u), ratio))


def _add_missing(nodes: Nodes, transform: Any, X: str, width: int) -> tuple[str, int]:
    fill = transform.means if transform.learns else np.full(width, 0.0 if transform.fill == "zero" else transform.fill)
    is_missing = nodes.add("IsNaN", X)
    filled = nodes.add("Where", is_missing, fill if len(fill) else np.zeros(width), X)
    if not transform.indicator:
        return filled, width
    return nodes.add("Concat", filled, nodes.as_double(is_missing), axis=1), 2 * width


def _takes_missing(function: RankingFunction) -> bool:
    return bool(function.transforms) and function.transforms[0].accepts_missing


def _runtime() -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise ImportError("onnxruntime is not installed: pip install 'perceptrank[onnx]'") from None
    return onnxruntime
