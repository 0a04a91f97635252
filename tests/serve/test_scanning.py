"""Documents straight from bytes: the same as what decoding makes of them, or nothing."""

import json
import math
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import examples

import perceptrank as pr
from perceptrank.serve import scanning
from perceptrank.serve.documents import arrange
from perceptrank.serve.errors import ServiceError
from perceptrank.serve.http.messages import RankOptions, RankRequest
from perceptrank.serve.replay import Current
from perceptrank.serve.scanning import scan

pytestmark = pytest.mark.kernel
NAMES = ("title", "price", "a name longer than a word", "größe")


def current(names=NAMES, *, takes_missing=False, n_features=None):
    model = pr.ListwisePerceptron(transforms=["missing"] if takes_missing else None)
    return replace(Current.of(model), names=names, n_features=len(names) if names else n_features)


def decoded(body, model):
    """The twin: decode all of the body, then arrange it; None if it breaks a rule."""
    try:
        request = msgspec.json.decode(body, type=RankRequest)
        return arrange(request.documents, model), request.contributions
    except (msgspec.DecodeError, UnicodeDecodeError, ServiceError):
        return None


def scanned(body, model):
    found = scan(body, model)
    if found is None:
        return None
    try:
        return found.arranged, msgspec.json.decode(found.others, type=RankOptions).contributions
    except msgspec.DecodeError:
        return None


def same(found, expected):
    (one, wanted), (other, also_wanted) = found, expected
    return (
        one.ids == other.ids
        and one.names == other.names
        and one.X.tobytes() == other.X.tobytes()
        and (one.X.shape == other.X.shape and wanted == also_wanted and not one.X.flags.writeable)
    )


def body_of(*rows, **others):
    documents = [{"id": f"d{i}", "features": row} for i, row in enumerate(rows)]
    return json.dumps({"documents": documents, **others}, ensure_ascii=False).encode()


ROW = {"title": 1, "price": -2.5, "a name longer than a word": 1e-3, "größe": 0.1}
BACKWARDS = dict(reversed(ROW.items()))


@pytest.mark.parametrize(
    ("body", "model"),
    [
        (body_of(ROW), current()),
        (body_of(ROW, BACKWARDS, ROW, [1, 2, 3, 4]), current()),
        (body_of([0.5], [1e300]), current(None, n_features=1)),
        (body_of(ROW, contributions=True), current()),
        (
            b' {\n"documents" :[ {\t"features":[ 1 ] , "id": "a"}\r, {"id" : "b", "features" :[-0]} ] }\n',
            current(("f",)),
        ),
        (body_of({"title": None}, [None, 1, 2, 3], {}), current(takes_missing=True)),
    ],
)
def test_usual_bodies_are_scanned_as_they_are_decoded(body, model):
    found, expected = scanned(body, model), decoded(body, model)
    assert found is not None
    assert same(found, expected)


@pytest.mark.parametrize(
    "number",
    [
        *("0", "-0", "-0.0", "7", "-12", "0.1", "1.5e3", "2E-7", "1e+22", "1e23", "0.12345678", "12345678.87654321"),
        *("9007199254740993", "0.30000000000000004", "1.7976931348623157e308", "5e-324", "2.2250738585072011e-308"),
        *("1e-400", "1234567890123456789", "12345678901234567890", "0.1234567890123456789", "0.000000000000000000001"),
    ],
)
def test_numbers_have_the_bits_that_python_gives_them(number):
    body = b'{"documents":[{"id":"a","features":[' + number.encode() + b"]}]}"
    found = scan(body, current(None, n_features=1))
    if found is None:
        assert len(number) >= 20  # more digits than a word holds
    else:
        value = float(json.loads(number))
        assert found.arranged.X.tobytes() == np.array([[value]]).tobytes()


@pytest.mark.parametrize(
    "number",
    ["01", "1.", ".5", "+1", "-", "1e", "1e+", "--1", "1e309", "NaN", "null", "true", '"1"', "0x1", "1 2", "1,"],
)
def test_what_is_no_number_is_left_to_the_decoder(number):
    body = b'{"documents":[{"id":"a","features":[' + number.encode() + b"]}]}"
    assert scan(body, current(None, n_features=1)) is None
    assert decoded(body, current(None, n_features=1)) is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        body_of(),
        body_of(ROW)[:-1],
        body_of(ROW) + b"}",
        body_of(ROW).replace(b"}]}", b"}],}"),
        body_of(ROW).replace(b"}]}", b"},]}"),
        body_of(ROW).replace(b'"d0"', b'""'),
        body_of(ROW).replace(b'"d0"', b'"' + b"d" * 201 + b'"'),
        body_of(ROW).replace(b'"d0"', b'"\n"'),
        body_of(ROW).replace(b'"id": "d0", ', b""),
        body_of(ROW, ROW).replace(b'"d1"', b'"d0"'),
        body_of({**ROW, "other": 1.0}),
        body_of({"title": 1.0}),
        body_of({}),
        body_of([1.0, 2.0]),
        body_of([1.0] * 5),
        body_of([]),
        body_of(ROW, other=1),
        body_of(ROW, contributions=1),
    ],
)
def test_errors_are_left_to_the_decoder(body):
    assert scanned(body, current()) is None
    assert decoded(body, current()) is None


def test_what_is_named_twice_is_left_to_the_decoder():
    body = body_of(ROW).replace(b'"price": -2.5', b'"price": 3, "price": -2.5')
    assert scan(body, current()) is None
    assert decoded(body, current())[0].X[0, 1] == -2.5
    body = body.replace(b'"title": 1, ', b"")
    assert scan(body, current()) is None
    body = body_of(ROW).replace(b'"id": "d0"', b'"id": "d0", "id": "d1"')
    assert scan(body, current()) is None
    assert decoded(body, current())[0].ids == ["d1"]


def test_names_that_need_escapes_are_left_to_the_decoder():
    for name in ('say "x"', "back\\slash", "line\n", "\0", "\ud800"):
        assert scan(body_of([1.0]), current((name,))) is None
    assert scan(body_of([1.0]), current(("plain",))) is not None


def test_searching_for_names_has_an_end():
    """Names in a new order for every document take as many steps as the body has bytes, and no more."""
    names = tuple(f"f{j}" for j in range(500))
    rng = np.random.default_rng(1)
    rows = [{names[j]: 1 for j in rng.permutation(500).tolist()} for _ in range(3)]
    assert scan(body_of(*rows), current(names)) is None
    assert scan(body_of(rows[0], rows[0]), current(names[::-1])) is None
    few = tuple(f"g{j}" for j in range(20))
    turned = dict.fromkeys(reversed(few), 2)
    assert same(scanned(body_of(turned, turned), current(few)), decoded(body_of(turned, turned), current(few)))


def test_limits_are_left_to_the_decoder(monkeypatch):
    monkeypatch.setattr(scanning, "MOST_DOCUMENTS", 2)
    assert scan(body_of(ROW, ROW), current()) is not None
    assert scan(body_of(ROW, ROW, ROW), current()) is None
    monkeypatch.setattr(scanning, "MOST_VALUES", 4)
    assert scan(body_of(ROW), current()) is not None
    assert scan(body_of(ROW, ROW), current()) is None
    monkeypatch.setattr(scanning, "MOST_FEATURES", 3)
    assert scan(body_of(ROW), current()) is None


def test_nothing_is_scanned_before_the_features_are_known():
    assert scan(body_of(ROW), current(None)) is None


VALUES = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(10**20), 10**20),
    st.decimals(-1000, 1000, places=4).map(float),
    st.none(),
)


@st.composite
def bodies(draw):
    """Bodies of requests, usual and not, some of them damaged."""
    rows = draw(
        st.lists(
            st.one_of(
                st.permutations(NAMES[:3]).flatmap(lambda names: st.fixed_dictionaries(dict.fromkeys(names, VALUES))),
                st.dictionaries(st.sampled_from(NAMES), VALUES),
                st.lists(VALUES, min_size=3, max_size=3),
            ),
            min_size=1,
            max_size=4,
        )
    )
    ids = draw(st.lists(st.text(min_size=1, max_size=4), min_size=len(rows), max_size=len(rows), unique=True))
    documents = [{"id": name, "features": row} for name, row in zip(ids, rows, strict=True)]
    request = {"documents": documents, **draw(st.sampled_from([{}, {"contributions": True}, {"other": 1}]))}
    indent, as_ascii = draw(st.sampled_from([None, 1])), draw(st.booleans())
    body = bytearray(json.dumps(request, indent=indent, ensure_ascii=as_ascii).encode("utf-8", "surrogatepass"))
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(0, len(body) - 1))
        body[place : place + draw(st.integers(0, 1))] = draw(
            st.sampled_from([b"", *(bytes([b]) for b in b' ,:{}[]"\\01-.eEn\n\0\xff')])
        )
    return bytes(body)


@pytest.mark.parametrize("takes_missing", [False, True])
@examples(5, suite=4)
@given(body=bodies())
def test_whatever_is_scanned_is_what_is_decoded(takes_missing, body):
    model = current(NAMES[:3], takes_missing=takes_missing)
    found, expected = scanned(body, model), decoded(body, model)
    assert found is None or (expected is not None and same(found, expected))


@examples(5, suite=4)
@given(value=st.floats(allow_nan=False, allow_infinity=False), digits=st.integers(1, 17))
def test_numbers_are_read_to_the_nearest(value, digits):
    for text in (repr(value), f"{value:.{digits}e}", f"{value:.{digits}g}"):
        if "inf" in text or not math.isfinite(float(text)):
            continue
        body = b'{"documents":[{"id":"a","features":[' + text.encode() + b"]}]}"
        found = scan(body, current(None, n_features=1))
        expected = decoded(body, current(None, n_features=1))
        assert found is None or found.arranged.X.tobytes() == expected[0].X.tobytes()
        assert found is not None or len(text) > 18
