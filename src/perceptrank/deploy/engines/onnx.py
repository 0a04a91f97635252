"""An ONNX graph that scores the documents of one query, in double precision."""

import json
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from perceptrank.deploy.additive import is_rising, raw_thresholds
from perceptrank.deploy.folding import fold_function
from perceptrank.deploy.ranking_function import RankingFunction
from perceptrank.deploy.target import Export, Target
from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.stream.sparse import AnyFeatures, dense
from perceptrank.transforms.forms import Nodes
from perceptrank.transforms.transform import Transform

OPSET = 18  # the first with reductions of scattered values
IR_VERSION = 8
TREES_OPSET, TREES_IR_VERSION = 5, 10  # the first in which trees add up in double precision


@dataclass(frozen=True, kw_only=True)
class OnnxGraph(Target):
    """A graph of one query: from the raw features of its documents to their scores.

    Its operations are those of the transforms, and a product with the weights; not LinearRegressor, which knows
    float32 only.
    """

    name = "onnx"

    def export(self, function: RankingFunction) -> Export:
        nodes, width = Graph(), len(function.names)
        value = "features"
        weights, steps, bias = function.weights, merge_steps(function.transforms, width), ""
        if any(step.has_sum and not step.has_graph for step in function.transforms):
            folded, steps = fold_function(function), []
            value, weights = nodes.add("Sub", value, folded.offsets), folded.weights
            bias = nodes.constant([folded.bias])
            if folded.forest is not None:
                bias = nodes.add("Add", folded.forest.add_nodes(nodes, "features"), bias)
        for transform, before in steps:
            functions = transform.piecewise(width)
            if before and functions is not None:
                value = functions._replace(edges=raw_thresholds(before, functions.edges)).add_nodes(nodes, value)
            else:
                for leaf in transform.leaves():
                    if not leaf.has_graph:
                        raise ValueError(
                            f"{function.algorithm} ranks by features after {leaf!r}, for which there is no ONNX graph: "
                            "learn again with other transforms, such as 'auto' or 'running' (--transform of the "
                            "command learn)"
                        )
                value = transform.add_nodes(nodes, value, width)
            width = transform.n_outputs(width)
        value = nodes.product(value, weights[:, None])
        scores = nodes.add("Reshape", nodes.add("Add", value, bias) if bias else value, nodes.whole(-1))
        metadata = {"algorithm": function.algorithm, "feature_names": json.dumps(function.names)}
        notes = [
            f"the input features is a matrix of documents x {len(function.names)} in double precision (float64): all "
            "documents of one query at once, with features in the order of the metadata feature_names; the output is "
            "scores",
            "features must be finite: the graph does not check them",
        ]
        if steps and steps[0][0].accepts_missing:
            notes[-1] = "features must be finite, or NaN where they are missing: the graph does not check them"
        if any(transform.learns for transform in function.transforms):
            notes.append("statistics are those that the model has now: export it again when it has learned on")
        content = nodes.model(len(function.names), scores, metadata)
        return Export(self.name, content, (*function.notes(), *notes))

    def engine(self) -> str:
        return f"onnxruntime {_runtime().__version__}"

    def scores(self, function: RankingFunction, export: Export, X: AnyFeatures, offsets: Ints) -> Floats:
        runtime = _runtime()
        options = runtime.SessionOptions()
        options.intra_op_num_threads = 1
        session = runtime.InferenceSession(export.content, options, providers=["CPUExecutionProvider"])
        parts = []
        for start, stop in pairwise(offsets):
            features = np.ascontiguousarray(dense(X[start:stop]), np.float64)
            parts.append(session.run(["scores"], {"features": features})[0])
        return np.concatenate(parts)


def merge_steps(transforms: list[Transform], width: int) -> list[tuple[Transform, list[Transform]]]:
    """Return transforms, those of steps with the ones right before them that rise with each feature.

    For these, thresholds take the place of both: rounding then moves no document into another bin.
    """
    merged: list[tuple[Transform, list[Transform]]] = []
    for transform in transforms:
        functions, before = transform.piecewise(width), list[Transform]()
        if functions is not None and functions.has_steps:
            while merged and is_rising(merged[-1][0]):
                before.insert(0, merged.pop()[0])
        merged.append((transform, before))
        width = transform.n_outputs(width)
    return merged


class Graph(Nodes):
    """The operations of a graph. Values are called by name; numbers and arrays become constants."""

    def __init__(self) -> None:
        try:
            import onnx
            import onnx.checker
            import onnx.helper
            import onnx.numpy_helper
        except ImportError:
            raise ImportError("ONNX graphs need onnx: pip install 'perceptrank[onnx]'") from None
        self.onnx: Any = onnx
        self.operations: list[Any] = []
        self.has_trees = False
        self.constants: dict[tuple[Any, ...], Any] = {}

    def constant(self, value: Any, kind: Any = np.float64) -> str:
        array = np.asarray(value, kind)
        key = array.dtype.str, array.shape, array.tobytes()
        if key not in self.constants:
            self.constants[key] = self.onnx.numpy_helper.from_array(array, f"c{len(self.constants)}")
        return str(self.constants[key].name)

    def add(self, operation: str, *inputs: str | float | Floats, n_outputs: int = 1, **attributes: Any) -> Any:
        names = [value if isinstance(value, str) else self.constant(value) for value in inputs]
        outputs = [f"v{len(self.operations)}_{number}" for number in range(n_outputs)]
        self.operations.append(self.onnx.helper.make_node(operation, names, outputs, **attributes))
        return outputs[0] if n_outputs == 1 else outputs

    def whole(self, *values: int) -> str:
        return self.constant(values, np.int64)

    def number(self, value: int) -> str:
        return self.constant(value, np.int64)

    def rows(self, value: str) -> str:
        shape = self.add("Shape", value)
        return str(self.add("Gather", shape, self.number(0)))

    def as_double(self, value: str) -> str:
        return str(self.add("Cast", value, to=self.onnx.TensorProto.DOUBLE))

    def as_whole(self, value: str) -> str:
        return str(self.add("Cast", value, to=self.onnx.TensorProto.INT64))

    def product(self, value: str, matrix: Floats) -> str:
        # onnxruntime moves a constant factor of MatMul's inputs, as a scale of one feature is, into a float32 attribute
        return str(self.add("Gemm", value, matrix))

    def reduce(self, operation: str, value: str) -> str:
        return str(self.add(operation, value, self.whole(0), keepdims=1))

    def slice_rows(self, value: str, first: int, last: int) -> str:
        return str(self.add("Slice", value, self.whole(first), self.whole(last), self.whole(0)))

    def trees(self, value: str, **attributes: Any) -> str:
        self.has_trees = True
        arrays = {
            name: self.onnx.numpy_helper.from_array(array) if isinstance(array, np.ndarray) else array
            for name, array in attributes.items()
        }
        return str(self.add("TreeEnsemble", value, domain="ai.onnx.ml", **arrays))

    def model(self, width: int, scores: str, metadata: dict[str, str]) -> bytes:
        """Return the graph that makes scores of features, as the bytes of a file."""
        helper, double = self.onnx.helper, self.onnx.TensorProto.DOUBLE
        graph = helper.make_graph(
            [*self.operations, helper.make_node("Identity", [scores], ["scores"])],
            "perceptrank",
            [helper.make_tensor_value_info("features", double, ["documents", width])],
            [helper.make_tensor_value_info("scores", double, ["documents"])],
            list(self.constants.values()),
            doc_string="Scores of the documents of one query, the larger the better, from their raw features.",
        )
        opsets, version = [helper.make_opsetid("", OPSET)], IR_VERSION
        if self.has_trees:
            opsets, version = [*opsets, helper.make_opsetid("ai.onnx.ml", TREES_OPSET)], TREES_IR_VERSION
        model = helper.make_model(graph, opset_imports=opsets, ir_version=version, producer_name="perceptrank")
        helper.set_model_props(model, metadata)
        self.onnx.checker.check_model(model, full_check=True)
        content: bytes = model.SerializeToString()
        return content


def _runtime() -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise ImportError("onnxruntime is not installed: pip install 'perceptrank[onnx]'") from None
    return onnxruntime
