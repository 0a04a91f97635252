"""Vectors of LANES columns, for intrinsics that work on all of them at once.

Numba does not turn loops over so few columns into vector instructions by itself; intrinsics say what is meant, and
leave little to compile. They check no index. A place is a number of elements from the beginning of an array.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import binding, ir
from numba import extending
from numba.core import cgutils

from perceptrank.kernels.fetching import emit_fetch

intrinsic: Callable[[Callable[..., Any]], Any] = extending.intrinsic
_GENERATORS: Any = cgutils

# Columns that are worked on together: eight rows of their keys fit into the registers. The number changes no result.
LANES = 16 if binding.get_host_cpu_features().get("avx512f") else 8

INT = ir.IntType(32)
INTS = ir.VectorType(INT, LANES)


class Lanes:
    """Vectors of LANES elements of an array, as code generators see them."""

    def __init__(self, context: Any, builder: Any, signature: Any, arguments: Any, number: int) -> None:
        array_type = signature.args[number]
        self._builder = builder
        self._data = context.make_array(array_type)(context, builder, arguments[number]).data
        self._size = array_type.dtype.bitwidth // 8
        self._vector = ir.VectorType(context.get_value_type(array_type.dtype), LANES)

    def at(self, place: Any) -> Any:
        """Return the address of an element."""
        return self._builder.gep(self._data, [place])

    def load(self, place: Any) -> Any:
        """Return the vector that begins at a place."""
        address = self._builder.bitcast(self.at(place), self._vector.as_pointer())
        return self._builder.load(address, align=self._size)

    def expect(self, place: Any) -> None:
        """Begin to fetch the vector at a place, in memory or not: the processor does not foresee strides like ours."""
        emit_fetch(self._builder, self.at(place))

    def store(self, place: Any, vector: Any) -> None:
        """Store a vector from a place on."""
        self._builder.store(vector, self._builder.bitcast(self.at(place), self._vector.as_pointer()), align=self._size)


def repeat(builder: Any, number: Any) -> Any:
    """Return a vector with the same number in every lane."""
    vector = ir.VectorType(number.type, LANES)
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), number, ir.Constant(INT, 0))
    return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), ir.Constant(INTS, [0] * LANES))


def constant(vector: Any, number: float) -> Any:
    """Return a vector of a type with the same constant in every lane."""
    return ir.Constant(vector, [number] * LANES)


class Carried:
    """A vector that is kept in a register from one turn of a loop to the next."""

    def __init__(self, builder: Any, vector: Any) -> None:
        self._builder = builder
        self._slot = _GENERATORS.alloca_once_value(builder, vector)

    def get(self) -> Any:
        """Return the vector as it is now."""
        return self._builder.load(self._slot)

    def set(self, vector: Any) -> None:
        """Replace the vector."""
        self._builder.store(vector, self._slot)


def count_to(builder: Any, number: Any) -> Any:
    """Return a context whose code runs so many times; the `index` of what it gives counts from 0."""
    return _GENERATORS.for_range(builder, number)


def call_on_lanes(builder: Any, name: str, *vectors: Any, returned: Any = None) -> Any:
    """Return what a function of LLVM's, such as "sqrt", returns for vectors: another one, unless a type is given."""
    kind = vectors[0].type
    size = str(kind.element).replace("float", "f32").replace("double", "f64")
    function = ir.FunctionType(returned or kind, [kind] * len(vectors))
    name = f"llvm.{name}.v{LANES}{size}"
    return builder.call(_GENERATORS.get_or_insert_function(builder.module, function, name), vectors)
