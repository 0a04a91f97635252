"""Numba intrinsics that load and test 8, 16 or 32 bytes at a time.

Loads are not bounds-checked unless Numba's bounds checking is on.
"""

import sys
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import extending, types
from numba.core import cgutils

from perceptrank.kernels.cache_folder import CONFIG
from perceptrank.kernels.compiled import compiled

intrinsic: Callable[[Callable[..., Any]], Any] = extending.intrinsic

WORD_BYTES = 8
BLOCK_BYTES, WIDE_BYTES = 16, 32
PADDING = WIDE_BYTES  # bytes on both sides of a text, so that blocks can be loaded around every byte of it

_WORD = ir.IntType(64)
_BLOCK, _WIDE = (ir.VectorType(ir.IntType(8), count) for count in (BLOCK_BYTES, WIDE_BYTES))


def _reader(kind: Any, result: Any, finish: Callable[[Any, Any], Any]) -> Any:
    """Make an intrinsic that loads the bytes at an offset of a uint8 array as one value and applies `finish` to it."""

    @intrinsic
    def read(typing_context: Any, text: Any, pos: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array = context.make_array(signature.args[0])(context, builder, arguments[0])
            pointer = builder.gep(array.data, [arguments[1]])
            value = builder.load(builder.bitcast(pointer, kind.as_pointer()))
            value.align = 1
            return finish(builder, value)

        return result(text, types.intp), generate

    if not CONFIG.BOUNDSCHECK:
        return read
    size = {_WORD: WORD_BYTES, _BLOCK: BLOCK_BYTES, _WIDE: WIDE_BYTES}.get(kind, 1)

    @compiled
    def read_within_bounds(text: Any, pos: int) -> Any:
        if pos < 0 or pos + size > len(text):
            raise IndexError("load beyond the end of the text")
        return read(text, pos)

    return read_within_bounds


def _in_order(builder: Any, word: Any) -> Any:
    return builder.bswap(word) if sys.byteorder == "big" else word


def _within(first: str, last: str) -> Callable[[Any, Any], Any]:
    """Return a test for the bytes of a block that are within a range."""

    def compare(builder: Any, block: Any) -> Any:
        if first == last:
            return _as_bits(builder, builder.icmp_unsigned("==", block, _repeated(block, ord(first))))
        values = builder.sub(block, _repeated(block, ord(first)))
        count = ord(last) - ord(first) + 1
        return _as_bits(builder, builder.icmp_unsigned("<", values, _repeated(block, count)))

    return compare


def _repeated(block: Any, byte: int) -> Any:
    return ir.Constant(block.type, [byte] * block.type.count)


def _as_bits(builder: Any, holds: Any) -> Any:
    return builder.zext(builder.bitcast(holds, ir.IntType(holds.type.count)), _WORD)


# The byte at an offset, without wraparound for negative offsets.
byte_at = _reader(ir.IntType(8), types.uint8, lambda builder, byte: byte)

# Eight bytes as a little-endian word.
load_word = _reader(_WORD, types.uint64, _in_order)

# Bit masks of the digits and of the decimal points among sixteen bytes, the first byte lowest.
digit_bits = _reader(_BLOCK, types.uint64, _within("0", "9"))
point_bits = _reader(_BLOCK, types.uint64, _within(".", "."))

# The same among thirty-two bytes, and those that a pair is made of (and slashes).
wide_digit_bits = _reader(_WIDE, types.uint64, _within("0", "9"))
wide_point_bits = _reader(_WIDE, types.uint64, _within(".", "."))
wide_pair_bits = _reader(_WIDE, types.uint64, _within("-", ":"))


def _counter(count: Callable[[Any, Any], Any]) -> Any:
    """Make an intrinsic that counts bits of a word."""

    @intrinsic
    def count_bits(typing_context: Any, word: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return count(builder, arguments[0])

        return types.uint64(types.uint64), generate

    return count_bits


# Trailing and leading zeros of a word, 64 for 0, and the bits that are set.
trailing_zeros = _counter(lambda builder, word: builder.cttz(word, cgutils.false_bit))
leading_zeros = _counter(lambda builder, word: builder.ctlz(word, cgutils.false_bit))
count_ones = _counter(lambda builder, word: builder.ctpop(word))


@intrinsic
def high_product(typing_context: Any, word: Any, factor: Any) -> Any:
    """Return the upper 64 bits of a 128-bit product."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(arguments[0], wide), builder.zext(arguments[1], wide))
        return builder.trunc(builder.lshr(product, wide(64)), _WORD)

    return types.uint64(types.uint64, types.uint64), generate


@intrinsic
def as_double(typing_context: Any, word: Any) -> Any:
    """Reinterpret the bits of a word as a float64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.uint64), generate
