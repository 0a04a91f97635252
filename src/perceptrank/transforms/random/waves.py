"""Sines and cosines of numbers of turns, LANES at a time.

An angle in turns needs no division by 2 pi: what is left of it after whole turns is exact, however large it is. The
rest is folded to a quarter of a turn, either way, whose sine is a polynomial. It takes the values of the sine at
Chebyshev's points; beside rounding, it is off by 7e-9 in single and by less than 1e-18 in double precision.
"""

from typing import Any

from llvmlite import ir
from numba import types

from perceptrank.kernels.lanes import LANES, Lanes, call_on_lanes, constant, count_to, intrinsic, repeat

# sin(2 pi r) / r as a polynomial of r^2, from the constant on, for r up to 1/4; by the bits of a number.
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


def sine_and_cosine(builder: Any, turns: Any) -> tuple[Any, Any]:
    """Return the sines and cosines of a vector of turns; those of NaN and infinity are NaN.

    For the rest r after whole turns, the sine has the sign of r, and is else that of |r| or of what |r| lacks to half a
    turn, whichever is less; the cosine is the sine of what |r| lacks to a quarter.
    """
    rest = builder.fsub(turns, call_on_lanes(builder, "rint", turns))
    size = call_on_lanes(builder, "fabs", rest)
    far = builder.fsub(constant(turns.type, 0.5), size)
    near = builder.select(builder.fcmp_ordered(">", size, far), far, size)
    sine = call_on_lanes(builder, "copysign", _sine(builder, near), rest)
    return sine, _sine(builder, builder.fsub(constant(turns.type, 0.25), size))


def _sine(builder: Any, rest: Any) -> Any:
    """Return the sines of at most a quarter of a turn, either way."""
    bits = 32 if isinstance(rest.type.element, ir.FloatType) else 64
    return builder.fmul(_polynomial(builder, _SINE[bits], builder.fmul(rest, rest)), rest)


def _polynomial(builder: Any, coefficients: tuple[float, ...], x: Any) -> Any:
    total = constant(x.type, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        total = call_on_lanes(builder, "fmuladd", total, x, constant(x.type, coefficient))
    return total


@intrinsic
def store_waves(
    _: Any, turns: Any, place: Any, n_vectors: Any, scale: Any, outputs: Any, sines: Any, cosines: Any
) -> Any:
    """Store the sines and the cosines of n_vectors times LANES turns, times a scale, in two places of an output."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        angles, waves = (Lanes(context, builder, signature, arguments, number) for number in (0, 4))
        _, place, n_vectors, scale, _, sines, cosines = arguments
        scale = repeat(builder, scale)
        with count_to(builder, n_vectors) as loop:
            at = builder.mul(loop.index, ir.Constant(place.type, LANES))
            sine, cosine = sine_and_cosine(builder, angles.load(builder.add(place, at)))
            waves.store(builder.add(sines, at), builder.fmul(sine, scale))
            waves.store(builder.add(cosines, at), builder.fmul(cosine, scale))
        return context.get_dummy_value()

    count = types.intp
    return types.void(turns, count, count, turns.dtype, outputs, count, count), generate
