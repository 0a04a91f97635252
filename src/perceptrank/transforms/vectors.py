"""Operations of the processor on vectors of LANES numbers that llvmlite has no name for."""

from typing import Any

from llvmlite import ir
from numba.core import cgutils

from perceptrank.kernels.lanes import LANES

_GENERATORS: Any = cgutils


def _call(builder: Any, name: str, *vectors: Any) -> Any:
    kind = vectors[0].type
    bits = 32 if isinstance(kind.element, ir.FloatType) else 64
    function = ir.FunctionType(kind, [kind] * len(vectors))
    named = _GENERATORS.get_or_insert_function(builder.module, function, f"llvm.{name}.v{LANES}f{bits}")
    return builder.call(named, vectors)


def unary(builder: Any, name: str, vector: Any) -> Any:
    """Return "rint" (nearest whole numbers), "fabs" or another of LLVM's functions of a vector."""
    return _call(builder, name, vector)


def binary(builder: Any, name: str, one: Any, other: Any) -> Any:
    """Return "copysign", or another of LLVM's functions of two vectors."""
    return _call(builder, name, one, other)


def multiply_add(builder: Any, one: Any, other: Any, more: Any) -> Any:
    """Return one * other + more, rounded once if the processor can."""
    return _call(builder, "fmuladd", one, other, more)
