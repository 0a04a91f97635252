"""Building an ONNX graph, one operation after the other."""

from typing import Any

import numpy as np

from perceptrank.kernels.arrays import Floats

OPSET = 18  # the first with reductions of scattered values
IR_VERSION = 8


def load_onnx() -> Any:
    """Import onnx; raise with the name of the extra if it is not installed."""
    try:
        import onnx
        import onnx.checker
        import onnx.helper
        import onnx.numpy_helper
    except ImportError:
        raise ImportError("ONNX graphs need onnx: pip install 'perceptrank[onnx]'") from None
    return onnx


class Nodes:
    """The operations of a graph. Values are called by name; numbers and arrays become constants."""

    def __init__(self) -> None:
        self.onnx = load_onnx()
        self.made: list[Any] = []
        self.constants: dict[tuple[Any, ...], Any] = {}

    def constant(self, value: Any, kind: Any = np.float64) -> str:
        """Return the name of a constant."""
        array = np.asarray(value, kind)
        key = array.dtype.str, array.shape, array.tobytes()
        if key not in self.constants:
            self.constants[key] = self.onnx.numpy_helper.from_array(array, f"c{len(self.constants)}")
        return str(self.constants[key].name)

    def add(self, operation: str, *inputs: str | float | Floats, n_outputs: int = 1, **attributes: Any) -> Any:
        """Add an operation; return the name of what it makes, or the names if there are several."""
        names = [one if isinstance(one, str) else self.constant(one) for one in inputs]
        outputs = [f"v{len(self.made)}_{number}" for number in range(n_outputs)]
        self.made.append(self.onnx.helper.make_node(operation, names, outputs, **attributes))
        return outputs[0] if n_outputs == 1 else outputs

    def whole(self, *values: int) -> str:
        """Return the name of a constant vector of whole numbers."""
        return self.constant(values, np.int64)

    def number(self, value: int) -> str:
        """Return the name of a constant whole number."""
        return self.constant(value, np.int64)

    def rows(self, value: str) -> str:
        """Return the number of rows, a whole number."""
        shape = self.add("Shape", value)
        return str(self.add("Gather", shape, self.number(0)))

    def as_double(self, value: str) -> str:
        """Convert to double precision."""
        return str(self.add("Cast", value, to=self.onnx.TensorProto.DOUBLE))

    def as_whole(self, value: str) -> str:
        """Convert to whole numbers."""
        return str(self.add("Cast", value, to=self.onnx.TensorProto.INT64))

    def reduce(self, operation: str, value: str) -> str:
        """Reduce each column to one row."""
        return str(self.add(operation, value, self.whole(0), keepdims=1))

    def slice_rows(self, value: str, first: int, last: int) -> str:
        """Return the rows from first to before last, which may count from the end."""
        return str(self.add("Slice", value, self.whole(first), self.whole(last), self.whole(0)))

    def model(self, width: int, scores: str, metadata: dict[str, str]) -> bytes:
        """Return the graph that makes scores of features, as the bytes of a file."""
        helper, double = self.onnx.helper, self.onnx.TensorProto.DOUBLE
        graph = helper.make_graph(
            [*self.made, helper.make_node("Identity", [scores], ["scores"])],
            "perceptrank",
            [helper.make_tensor_value_info("features", double, ["documents", width])],
            [helper.make_tensor_value_info("scores", double, ["documents"])],
            list(self.constants.values()),
            doc_string="Scores of the documents of one query, the larger the better, from their raw features.",
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="perceptrank",
        )
        helper.set_model_props(model, metadata)
        self.onnx.checker.check_model(model, full_check=True)
        content: bytes = model.SerializeToString()
        return content
