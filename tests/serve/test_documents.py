"""Documents of requests: read from the text of their values, they are what a plain decoder makes of them."""

import json
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import examples

import perceptrank as pr
from perceptrank.serve.documents import arrange, decode_query
from perceptrank.serve.errors import FeatureMismatchError, ServiceError
from perceptrank.serve.http.ranking import RankRequest
from perceptrank.serve.replay import Current

NAMES = ("title", "price", "a name longer than a word", "größe")


def current(names=NAMES, *, takes_missing=False):
    model = pr.ListwisePerceptron(transforms=["missing"] if takes_missing else None)
    return replace(Current.of(model), names=names, n_features=len(names))


def plain(body, model):
    """The twin: decode to dicts, then arrange; None if it breaks a rule."""
    try:
        request = msgspec.json.decode(body, type=RankRequest)
        return arrange(request.documents, model), request.contributions
    except (msgspec.DecodeError, UnicodeDecodeError, ServiceError):
        return None


def by_name(body, model):
    request = decode_query(RankRequest, body, model)
    if request is None:
        return None
    try:
        return arrange(request.documents, model), request.contributions
    except ServiceError:
        return None


def same(decoded, expected):
    (arranged, wanted), (other, also_wanted) = decoded, expected
    return (
        arranged.ids == other.ids
        and arranged.names == other.names
        and arranged.X.tobytes() == other.X.tobytes()
        and (arranged.X.shape == other.X.shape and wanted == also_wanted and not arranged.X.flags.writeable)
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
        (body_of(BACKWARDS, BACKWARDS), current()),
        (body_of([1, 2, 3, 4], [5, 6, 7, 8]), replace(current(), names=None)),
        (body_of(ROW, contributions=True), current()),
        (b' {\n"contributions":true, "documents" :[ {\t"id": "a" , "features":[ 1 ] }\r]}\n', current(("f",))),
        (body_of(ROW, session='"documents"', user_query="größe\\"), current()),
        (body_of(ROW).replace(b'"d0"', '"ö{"'.encode()), current()),
        (body_of([None, 1, 2, 3], [1.0, 2, None, 3]), current(takes_missing=True)),
        (
            body_of({'say "x": 1': 1.5, "back\\slash": 12345678.25, "line\n": 1e22}),
            current(("line\n", 'say "x": 1', "back\\slash")),
        ),
        (body_of({"title": -0.0, "price": 5e-324}), current(("title", "price"))),
        (
            b'{"documents":[{"id":"a","features":{"f":-0}},{"id":"b","features":{"f":9007199254740993}}]}',
            current(("f",)),
        ),
    ],
)
def test_usual_bodies(body, model):
    assert decode_query(RankRequest, body, model) is not None
    assert same(by_name(body, model), plain(body, model))


@pytest.mark.parametrize(
    ("body", "model"),
    [
        (body_of(ROW, BACKWARDS), current()),
        (body_of(ROW, [1, 2, 3, 4]), current()),
        (body_of({"title": None}, {}), current(takes_missing=True)),
        (body_of(ROW).replace(b'"price": -2.5', b'"price": 3, "price": -2.5'), current()),
        (body_of(ROW).replace(b'"d0"', rb'"\u0064"'), current()),
        (body_of(ROW).replace(b'"documents"', rb'"\u0064ocuments"'), current()),
        (b'{"documents":[{"features":[1],"id":"a"}]}', current(("f",))),
        (b'{"session":"documents","documents":[{"id":"a","features":[1]}]}', current(("f",))),
        (b'{"documents":[{"id":"a","features":[1,2]},{"id":"b","features":[1, 2]}]}', current(("f", "g"))),
    ],
)
def test_unusual_bodies_are_left_to_the_plain_decoder(body, model):
    assert decode_query(RankRequest, body, model) is None
    assert plain(body, model) is not None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        body_of(),
        body_of(ROW)[:-1],
        body_of(ROW) + b"}",
        body_of(ROW).replace(b'"d0"', b'""'),
        body_of(ROW).replace(b'"d0"', b'"' + b"d" * 201 + b'"'),
        body_of(ROW).replace(b'"id": "d0", ', b""),
        body_of(ROW, ROW).replace(b'"d1"', b'"d0"'),
        body_of({**ROW, "other": 1.0}),
        body_of({"title": 1.0}),
        body_of({}),
        body_of([1.0, 2.0]),
        body_of([]),
        body_of(ROW, other=1),
        body_of(ROW, contributions=1),
        body_of({**ROW, "title": None}),
        body_of("1,2,3,4"),
        body_of("1,2,3,4 "),
        body_of(5),
        body_of(True, None),
    ],
)
def test_wrong_bodies(body):
    assert by_name(body, current()) is None
    assert plain(body, current()) is None


@pytest.mark.parametrize("value", [55, -5, 1.5, "7", "null", [[1]], {"f": [1]}, {"f": {"f": 1}}, True])
def test_wrong_values_of_one_feature(value):
    for model in (current(("f",)), current(("f",), takes_missing=True)):
        assert decode_query(RankRequest, body_of(value), model) is None


ONE = b'{"documents":[{"id":"a","features":[%b]}]}'


@pytest.mark.parametrize(
    "value",
    [
        *("01", "-01", "00", "1.", "1.e5", ".5", "-", "-.5", "+1", "1e", "1e+", "1.2.3", "1..2", "--1", "1-", "1 2"),
        *("NaN", "Infinity", "-Infinity", "1e999", "123456789012345678.", "0123456789012345678", "9" * 400),
        *("", ",", "1,", ",1", "nul", "nullx", "-null", "NULL", "0x1", "1_0", "1\0", "\v1", "1\xa0", "1" * 20 + ".e1"),
    ],
)
def test_numbers_that_json_or_a_model_does_not_have(value):
    for takes_missing in (False, True):
        model = current(("f",), takes_missing=takes_missing)
        body = ONE % value.encode("latin-1")
        assert decode_query(RankRequest, body, model) is None
        assert plain(body, model) is None


@pytest.mark.parametrize(
    "value",
    [
        *(
            "0",
            "-0",
            "0.5",
            "-0.0",
            "10",
            "1e5",
            "1E+5",
            "1.5e-3",
            "0e0",
            "12345678",
            "123456789",
            "1234567.8",
            "5e-324",
        ),
        *("12345678.9", "0.00000001", "123456789012345678", "-1234567890123456.5", "0." + "1" * 30, "1" * 30 + ".5"),
    ],
)
def test_numbers_of_all_lengths(value):
    decoded, expected = (decode(ONE % value.encode(), current(("f",))) for decode in (by_name, plain))
    assert same(decoded, expected)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"documents"', '"documents":[],"documents"'),
        ('"documents"', '"documents":5,"documents"'),
        ('"documents"', r'"\u0064ocuments":5,"documents"'),
        ('"documents"', '"other":{"documents":[]},"documents"'),
        ('{"documents"', '{"session":{"documents"'),
        ('"documents"', r'"a\"documents"'),
        ("]}]}", ']}],"documents":null}'),
        ("]}]}", r']}],"docu\u006dents":null}'),
        ("]}]}", "]}],}"),
        ("]}]}", "]},]}"),
        ("]}]}", "]}]}]"),
        ("]}]}", "]}]} x"),
        ("]}]}", "]}}"),
        ("]}]}", ',"other":1}]}'),
        ('"id"', '"id":"b","id"'),
        ('"id"', '"ID"'),
        ('"id":', '"id"'),
        ('"a",', '"a"'),
        ('"a"', '"a\n"'),
        ('"a"', '"a\0"'),
        ('"a"', "1"),
        ('"a"', r'"\x"'),
        ("{", "\xa0{"),
        ("[1", "\f[1"),
        ("[1]", "[1}"),
        ("[1]", "[[1]]"),
        ("[1]", "[1][1]"),
        ("[1]", '{"f":1]'),
        ("[1]", '{"f" 1}'),
        ("[1]", '{"f\n":1}'),
        ("[1]", "{f:1}"),
    ],
)
def test_almost_json(before, after):
    body = (ONE % b"1").decode().replace(before, after, 1).encode("latin-1")
    assert decode_query(RankRequest, body, current(("f",))) is None


def test_escapes_in_keys_are_checked():
    for spelled, is_valid in (
        (rb"\u0066", True),
        (rb"\x", False),
        (rb"\u00g0", False),
        (b"\xff", False),
        (b"\\", False),
    ):
        body = ONE.replace(b"[%b]", b'{"%b":1}') % spelled
        decoded = decode_query(RankRequest, body, current(("f",)))
        assert (decoded is not None) == is_valid == (plain(body, current(("f",))) is not None)


def test_ids_that_are_no_text_are_refused():
    assert decode_query(RankRequest, (ONE % b"1").replace(b'"a"', b'"\xff"'), current(("f",))) is None


@pytest.mark.parametrize("rows", [(ROW, ROW), ([1.5, -2, 3e5, 12345678901], [1, 2, 3, 4])])
def test_bodies_that_end_early(rows):
    body = body_of(*rows, session="abc")
    assert decode_query(RankRequest, body, current()) is not None
    for end in range(len(body)):
        assert decode_query(RankRequest, body[:end], current()) is None


def test_too_many_documents():
    some = b",".join(b'{"id":"%d","features":[1]}' % i for i in range(10_000))
    body = b'{"documents":[%b]}' % some
    assert same(by_name(body, current(("f",))), plain(body, current(("f",))))
    assert decode_query(RankRequest, body[:-2] + b',{"id":"a","features":[1]}]}', current(("f",))) is None


def test_documents_outlive_the_model_they_were_decoded_for():
    documents = decode_query(RankRequest, body_of(ROW), current()).documents
    turned = arrange(documents, current(NAMES[::-1]))
    np.testing.assert_array_equal(turned.X, [[0.1, 1e-3, -2.5, 1.0]])
    with pytest.raises(FeatureMismatchError, match="has a feature 'größe' that the ranker does not know"):
        arrange(documents, current(NAMES[:3]))


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
    if draw(st.booleans()):  # the usual form
        rows = [rows[0]] + [
            dict(zip(rows[0], draw(st.tuples(*[VALUES] * len(rows[0]))), strict=True))
            if isinstance(rows[0], dict)
            else rows[0]
            for _ in rows[1:]
        ]
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
def test_whatever_is_decoded_by_name_is_what_is_decoded(takes_missing, body):
    model = current(NAMES[:3], takes_missing=takes_missing)
    decoded, expected = by_name(body, model), plain(body, model)
    assert decoded is None or (expected is not None and same(decoded, expected))
