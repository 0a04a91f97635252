"""Sines and cosines of numbers of turns, LANES at a time.

An angle in turns needs no division by 2 pi: what is left of it after whole turns is exact, however large it is. The
rest is folded to a quarter of a turn, either way, and two polynomials do the rest. They take the values of sine and
cosine at Chebyshev's points; beside rounding, they are off by 7e-9 in single and by 2e-16 in double precision.
"""

from typing import Any

from llvmlite import ir
from numba import types

from perceptrank.kernels.lanes import LANES, Lanes, constant, count_to, intrinsic, repeat
from perceptrank.transforms.vectors import multiply_add, unary

# sin(2 pi r) / r and cos(2 pi r) as polynomials of r^2, from the constant on, for r up to 1/4; by the bits of a number.
_SINE = {
    32: (6.283185280154407, -41.34168061334652, 81.60247636892518, -76.58117264427872, 39.7598270853191),
    64: (
        6.283185307179586,
        -41.341702240399755,
        81.60524927607362,
        -76.70585975282492,
        42.058693925428685,
        -15.0946416761179,
        3.8199280942271643,
        -0.7177337921413454,
        0.10089695501646812,
    ),
}
_COSINE = {
    32: (
        0.999999999779154,
        -19.739208547715783,
        64.93934647621015,
        -85.45356476099522,
        60.143889560342146,
        -24.981434467891656,
    ),
    64: (
        1.0,
        -19.739208802178716,
        64.93939402266828,
        -85.45681720669151,
        60.24464137164672,
        -26.426256769631195,
        7.903535871103938,
        -1.7143794371382703,
        0.28185225938435093,
        -0.03521960463814676,
    ),
}


def sine_and_cosine(builder: Any, turns: Any) -> tuple[Any, Any]:
    """Return the sines and cosines of a vector of turns; those of NaN and infinity are NaN."""
    bits = 32 if isinstance(turns.type.element, ir.FloatType) else 64
    rest = builder.fsub(turns, unary(builder, "rint", turns))
    # Beyond a quarter of a turn, the sine is that of what is missing to half a turn, and the cosine less than 0.
    is_far = builder.fcmp_ordered(">", unary(builder, "fabs", rest), constant(turns.type, 0.25))
    half = builder.select(
        builder.fcmp_ordered(">", rest, constant(turns.type, 0.0)),
        constant(turns.type, 0.5),
        constant(turns.type, -0.5),
    )
    rest = builder.select(is_far, builder.fsub(half, rest), rest)
    square = builder.fmul(rest, rest)
    sine = builder.fmul(_polynomial(builder, _SINE[bits], square), rest)
    cosine = _polynomial(builder, _COSINE[bits], square)
    return sine, builder.select(is_far, builder.fneg(cosine), cosine)


def _polynomial(builder: Any, coefficients: tuple[float, ...], x: Any) -> Any:
    total = constant(x.type, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        total = multiply_add(builder, total, x, constant(x.type, coefficient))
    return total


@intrinsic
def store_waves(
    typing_context: Any,
    turns: Any,
    place: Any,
    n_vectors: Any,
    scale: Any,
    outputs: Any,
    sine_place: Any,
    cosine_place: Any,
) -> Any:
    """Store the sines and the cosines of n_vectors times LANES turns, times a scale, in two places of an output."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        given, made = (Lanes(context, builder, signature, arguments, number) for number in (0, 4))
        _, place, n_vectors, scale, _, sine_place, cosine_place = arguments
        scale = repeat(builder, scale)
        with count_to(builder, n_vectors) as loop:
            at = builder.mul(loop.index, ir.Constant(place.type, LANES))
            sine, cosine = sine_and_cosine(builder, given.load(builder.add(place, at)))
            made.store(builder.add(sine_place, at), builder.fmul(sine, scale))
            made.store(builder.add(cosine_place, at), builder.fmul(cosine, scale))
        return context.get_dummy_value()

    count = types.intp
    return types.void(turns, count, count, turns.dtype, outputs, count, count), generate
