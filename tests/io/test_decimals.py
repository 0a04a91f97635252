"""Decimal text to floats: always the nearest one, which is what Python's float() gives."""

import io
import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import perceptrank as pr
from perceptrank.io.letor.decimals import EXACT, NO_NUMBER, UNDECIDED, nearest_double, parse_number

pytestmark = pytest.mark.kernel

LARGEST = np.finfo(np.float64).max
DIGITS = "0123456789"


def bits(value):
    return np.float64(value).tobytes()


def parsed(text, after=" "):
    return parse_number(np.frombuffer(f"{text}{after}".encode() + bytes(32), np.uint8), 0)


def check_kernel(text):
    outcome, value, end = parsed(text)
    assert end == len(text), text
    if outcome == UNDECIDED:
        digits = text.lower().split("e")[0].strip("+-").replace(".", "").lstrip("0")
        assert len(digits) > 19, text
        assert abs(float(text)) in (abs(value), math.nextafter(abs(value), math.inf)), text
    else:
        assert outcome == EXACT
        assert bits(value) == bits(float(text)), text


def check_reader(texts, dtype):
    """Each number before a space and before the end of the line: the reader has a way of its own for either."""
    with np.errstate(over="ignore"):
        wanted = np.array([float(text) for text in texts]).astype(dtype)
    texts = [text for text, value in zip(texts, wanted, strict=True) if np.isfinite(value)]
    wanted = wanted[np.isfinite(wanted)]
    if not texts:
        return
    lines = "".join(f"0 qid:1 1:{text} 2:{text}\n" for text in texts)
    X = pr.read_letor(io.BytesIO(lines.encode()), dtype=dtype, n_features=2).X
    for column in X.T:
        wrong = np.flatnonzero(column.copy().view(f"u{wanted.itemsize}") != wanted.view(f"u{wanted.itemsize}"))
        assert wrong.size == 0, (texts[wrong[0]], column[wrong[0]], wanted[wrong[0]])


def check(texts):
    for text in texts:
        check_kernel(text)
    check_reader(texts, np.float64)
    check_reader(texts, np.float32)


@st.composite
def decimal_texts(draw):
    """Sign, up to 40 digits with a point anywhere, an exponent that may lead out of the range of floats."""
    digits = draw(st.text(DIGITS, min_size=1, max_size=draw(st.sampled_from([8, 17, 19, 20, 40]))))
    point = draw(st.none() | st.integers(0, len(digits)))
    number = digits if point is None else f"{digits[:point]}.{digits[point:]}"
    exponent = draw(st.none() | st.integers(-30, 30) | st.integers(-370, 330))
    form = draw(st.sampled_from(["e{}", "E{}", "e{:+}", "e{:+04}"]))
    return draw(st.sampled_from(["", "-", "+"])) + number + ("" if exponent is None else form.format(exponent))


def between(value):
    """The number halfway to the next float, exactly, and its neighbours a digit further out."""
    with localcontext() as context:
        context.prec = 1200
        middle = (Decimal(value) + Decimal(float(np.nextafter(value, np.inf)))) / 2
        exact = str(middle)
        tiny = Decimal(10) ** (middle.as_tuple().exponent - 3)
        return [exact, str(middle - tiny), str(middle + tiny)]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=30))
def test_the_text_of_a_float_is_that_float(values):
    check([repr(value) for value in values] + [f"{value:.17e}" for value in values])


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=30))
def test_the_text_of_a_single_precision_float_is_that_float(values):
    check([str(np.float32(value)) for value in values] + [f"{value:.9g}" for value in values])


@given(st.lists(decimal_texts(), min_size=1, max_size=40))
def test_any_decimal_text(texts):
    check(texts)


@given(st.lists(st.integers(0, 10**8), min_size=1, max_size=30), st.integers(0, 9), st.sampled_from(["", "-"]))
def test_short_decimals_of_any_number_of_places(numbers, places, sign):
    check([f"{sign}{number // 10**places}.{str(number % 10**places).zfill(places)}" for number in numbers])


@given(st.floats(0, LARGEST, exclude_max=True))
def test_halfway_between_two_floats(value):
    check(between(value))


@given(st.integers(2**53, 2**54 - 1), st.integers(0, 9), st.integers(0, 3))
def test_halfway_with_few_digits(odd, doublings, halvings):
    """Up to 19 digits: ties that arithmetic on words must see, both ways to even."""
    odd = 2 * (odd // 2) + 1
    texts = [str(odd << doublings), f"{odd * 5**halvings}e-{halvings}", f"-{odd * 5**halvings}e-{halvings}"]
    texts += [str((odd << doublings) + 1), str((odd << doublings) - 1), f"{odd << doublings}.0000000000000000000001"]
    check(texts)


@given(st.integers(0, 2**64 - 1), st.integers(-360, 320))
def test_the_nearest_double(digits, power):
    assert bits(nearest_double(np.uint64(digits), power)) == bits(float(f"{digits}e{power}"))


BORDERS = [
    *(str(2**53 + k) for k in range(-3, 4)),
    *(f"{2**53 + k}e{power}" for k in (-1, 0, 1) for power in (-23, -22, 22, 23)),
    *("1e22", "1e23", "1e-22", "1e-23", "9007199254740993e0", "9007199254740993e22", "8.5e22", "123456789e22"),
    *(f"{'9' * n}" for n in range(1, 26)),
    *(f"{'9' * n}e-{n}" for n in range(1, 26)),
    *(f"1{'0' * n}" for n in range(30)),
    *(f"1{'0' * n}1" for n in range(15, 30)),
    *(f"0.{'0' * n}1" for n in range(30)),
    *(f"{'0' * n}1.5" for n in range(30)),
    *("18446744073709551615", "18446744073709551616", "9999999999999999999", "10000000000000000000"),
    *("4.9e-324", "5e-324", "2.4703282292062327e-324", "2.4703282292062328e-324", "3e-324", "2e-324", "1e-323"),
    *("2.2250738585072011e-308", "2.2250738585072014e-308", "2.225073858507201e-308", "2.2250738585072012e-308"),
    *("1.7976931348623157e308", "1.7976931348623158e308", "1e308", "0.00017976931348623157e312", f"1{'0' * 308}"),
    *("1e-400", "-1e-400", "0e999999999999", "0.0e-99999999999999999999", "-0", "+0", "-0.0", "00", "0.", ".0"),
    *("1e-99999999999999999999999", f"0.{'0' * 400}1e400", f"1{'0' * 400}e-400", "7.2057594037927933e16"),
    *("3.4028234663852886e38", "3.4028235677973362e38", "1.401298464324817e-45", "7.006492321624085e-46", "7.1e-46"),
    *("1.17549435e-38", "1.1754943508222875e-38", "16777217", "16777219", "0.1", "1.00000005960464477539062"),
]


@pytest.mark.parametrize("sign", ["", "-", "+"])
def test_borders(sign):
    check([sign + text if text[0] not in "+-" else text for text in BORDERS])


@pytest.mark.parametrize("exponent", [-1074, -1022, -149, -126, -23, -22, 0, 22, 53, 63, 64, 127, 1022])
def test_halfway_near_powers_of_two(exponent):
    power = 2.0**exponent
    for value in (power, np.nextafter(power, 0), np.nextafter(power, np.inf)):
        check(between(float(value)))


def test_too_large_is_infinite():
    for text in ["1e309", "1.7976931348623159e308", "1e999999999999999999", f"1{'0' * 309}", "9" * 400]:
        outcome, value, _ = parsed(text)
        assert (outcome, value) == (EXACT, np.inf), text
        assert parsed("-" + text)[1] == -np.inf


@pytest.mark.parametrize(
    "text", ["", "+", "-", ".", "-.", "e5", ".e5", "nan", "inf", "+-1", "1e", "1e+", "1.5E-", "x1"]
)
def test_no_number(text):
    assert parsed(text)[0] == NO_NUMBER


@pytest.mark.parametrize(("text", "end"), [("1x", 1), ("1.5.2", 3), ("1e5e", 3), ("1_0", 1), ("0x10", 1), ("1-", 1)])
def test_a_number_ends_where_it_cannot_go_on(text, end):
    outcome, _, found = parsed(text)
    assert (outcome, found) == (EXACT, end)


# These are too close to the middle for 19 digits to tell, and one of the two neighbours is none that may be stored.
JUST_TOO_LARGE = "1.797693134862315807938e308"
JUST_NOT_TOO_LARGE = "1.797693134862315807937e308"
SINGLE_TOO_LARGE = between(float(np.nextafter(3.4028235677973366e38, 0)))[2]


def test_long_numbers_next_to_the_largest_float():
    assert float(JUST_TOO_LARGE) == np.inf
    assert float(JUST_NOT_TOO_LARGE) == LARGEST
    check([JUST_NOT_TOO_LARGE, *between(float(np.nextafter(3.4028235677973366e38, 0)))[:2]])


@pytest.mark.parametrize(
    ("line", "dtype", "column"),
    [
        (f"1 qid:1 1:{JUST_TOO_LARGE}", np.float64, 11),
        (f"1 qid:1 1:-{JUST_TOO_LARGE}", np.float64, 11),
        (f"1 qid:1 2:1 1:{JUST_TOO_LARGE}", np.float64, 15),
        (f"1 qid:1 1:{SINGLE_TOO_LARGE}", np.float32, 11),
        (f"{JUST_TOO_LARGE} qid:1 1:1", np.float64, 1),
    ],
)
def test_long_numbers_that_are_too_large_are_errors(line, dtype, column):
    text = f"0 qid:1 1:1\n{line}\n0 qid:1 1:2\n".encode()
    with pytest.raises(pr.FormatError) as caught:
        pr.read_letor(io.BytesIO(text), dtype=dtype)
    assert (caught.value.line, caught.value.column) == (2, column)
    with pytest.warns(UserWarning, match="skipped 1 invalid line"):
        stream = pr.read_letor(io.BytesIO(text), dtype=dtype, on_error="skip")
    np.testing.assert_array_equal(stream.X[:, 0], [1, 2])


def test_a_grade_that_is_just_below_zero_is_negative():
    grade = "-2.47032822920623272089e-324"
    assert float(grade) < 0
    with pytest.raises(pr.FormatError, match="negative"):
        pr.read_letor(io.BytesIO(f"{grade} qid:1 1:1\n".encode()))


@pytest.mark.parametrize("text", [JUST_TOO_LARGE, "1e400", "1e39", SINGLE_TOO_LARGE])
def test_clipped_numbers_are_never_too_large(text):
    stream = pr.read_letor(io.BytesIO(f"0 qid:1 1:{text} 2:-{text}\n".encode()), clip=2.5)
    np.testing.assert_array_equal(stream.X, [[2.5, -2.5]])


def test_more_long_numbers_than_there_is_room_for_at_first():
    texts = [f"0.{k:03d}{'1234567890' * 3}" for k in range(200)] + between(0.1)
    check_reader(texts, np.float64)
