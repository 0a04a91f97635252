"""Reading from memory in an order that the processor cannot foresee."""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import extending, types

from perceptrank.kernels.compiled import helper

intrinsic: Callable[[Callable[..., Any]], Any] = extending.intrinsic

AHEAD = 256  # non-zeros, whose features are fetched so long before they are needed

_INT = ir.IntType(32)
_BYTES = ir.IntType(8).as_pointer()
_FETCH = ir.FunctionType(ir.VoidType(), [_BYTES, _INT, _INT, _INT])


def emit_fetch(builder: Any, address: Any) -> None:
    """Emit an instruction that begins to fetch the line of the cache at an address."""
    fetch = builder.module.declare_intrinsic("llvm.prefetch", [_BYTES], _FETCH)
    builder.call(fetch, [builder.bitcast(address, _BYTES), *(ir.Constant(_INT, number) for number in (0, 3, 1))])


@intrinsic
def fetch(typing_context: Any, array: Any, place: Any) -> Any:
    """Begin to fetch the element at a place of a flat array; nothing checks the place."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        emit_fetch(builder, builder.gep(data, [arguments[1]]))
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


@helper
def at(array: Any, k: int) -> Any:
    """Return element k of an array, k not being negative: to test that takes longer than to load the element."""
    return array[np.uint64(k)]
