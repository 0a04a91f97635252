"""Tables: what is in a file is in the stream, or is refused, or is named or counted in a warning."""

import csv
import json
import math
import re
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import perceptrank as pr
from perceptrank.io.tables import delimited, document_table
from perceptrank.io.tables.rows import parse_number

GRADES = ["rating", "label", "relevance", "rel", "grade", "judgement"]


def write(folder, name, text):
    path = folder / name
    path.write_text(text, encoding="utf-8", newline="")
    return path


def write_lines(folder, name, rows):
    return write(folder, name, "".join(json.dumps(row) + "\n" for row in rows))


def write_rows(folder, name, rows):
    """Write rows of the same keys as CSV or as lines of JSON, by the name."""
    if name.endswith(".jsonl"):
        return write_lines(folder, name, rows)
    table = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
    return write(folder, name, "\n".join(table) + "\n")


KINDS = pytest.mark.parametrize("kind", ["csv", "jsonl"])
JUDGED = [{"query": "q", "docid": "a", "grade": 2}, {"query": "q", "docid": "b", "grade": 0}]


@KINDS
@pytest.mark.parametrize("name", GRADES)
def test_a_table_of_features_has_no_grades(kind, name, tmp_path):
    """A product's rating is a feature: the grade is in the other table."""
    judgements = write_rows(tmp_path, "j.csv", JUDGED)
    rows = [{"query": "q", "docid": "a", name: 4.5, "x": 1}, {"query": "q", "docid": "b", name: 3.5, "x": 2}]
    stream = pr.read_table(judgements, write_rows(tmp_path, f"f.{kind}", rows))
    assert stream.feature_names == (name, "x")
    assert stream.X.tolist() == [[4.5, 1], [3.5, 2]]
    assert stream.relevance.tolist() == [2, 0]


@KINDS
def test_grades_among_the_features_are_said(kind, tmp_path):
    judgements = write_rows(tmp_path, "j.csv", JUDGED)
    features = write_rows(tmp_path, f"f.{kind}", [row | {"x": 1} for row in JUDGED])
    with pytest.warns(UserWarning, match=r"feature 'grade' is the grade in all 2 rows: .*`features=…` names"):
        assert pr.read_table(judgements, features).feature_names == ("grade", "x")
    assert pr.read_table(judgements, features, features="x").feature_names == ("x",)


@KINDS
@pytest.mark.parametrize("names", [("grade", "relevance"), ("Rating", "rating"), ("label", "rel", "grade")])
def test_two_columns_of_grades_are_asked_about(kind, names, tmp_path):
    row = {"qid": "q", "docid": "a"} | dict.fromkeys(names, 1) | {"x": 1}
    path = write_rows(tmp_path, f"t.{kind}", [row])
    listed = ", ".join(map(repr, names))
    with pytest.raises(
        pr.FormatError, match=rf"has {len(names)} columns that may hold the grade of a row, {listed}: `rel"
    ):
        pr.read_table(path)
    with pytest.warns(UserWarning, match=f"columns that are not used: '{names[0]}'"):
        assert pr.read_table(path, relevance=names[-1]).feature_names == ("x",)
    assert pr.read_table(path, relevance=names[0], features=[*names[1:], "x"]).n_features == len(names)


@KINDS
def test_a_document_that_a_query_has_twice(kind, tmp_path):
    row = {"qid": "q", "docid": "a", "grade": 1, "x": 1}
    rows = [row, row | {"docid": "b"}, row | {"x": 2, "grade": 0}]
    line = 4 if kind == "csv" else 3
    problem = rf"t.{kind}:{line}:1: document 'a' of query 'q' appears twice; `docid=…` names another column"
    path = write_rows(tmp_path, f"t.{kind}", rows)
    with pytest.raises(pr.FormatError, match=problem):
        pr.read_table(path)
    with pytest.raises(pr.FormatError, match=problem):
        list(pr.scan_table(path))
    apart = [row, row | {"qid": "p"}, row]
    with pytest.raises(pr.FormatError, match=problem):
        pr.read_table(write_rows(tmp_path, f"t.{kind}", apart))
    without = [row | {"docid": ""}, row | {"docid": ""}, row]
    assert pr.read_table(write_rows(tmp_path, f"t.{kind}", without)).n_documents == 3
    other = write_rows(tmp_path, f"u.{kind}", [row])
    with pytest.raises(pr.FormatError, match=rf"u.{kind}:.*document 'a' of query 'q' appears twice"):
        pr.read_table([other, other])


def test_judgements_that_are_there_twice_are_counted(tmp_path):
    judgements = write_rows(tmp_path, "j.csv", [*JUDGED, JUDGED[0]])
    features = write(tmp_path, "f.csv", "query,docid,x\nq,a,1\nq,b,2\n")
    with pytest.warns(UserWarning, match="^1 repeated judgements are left out$"):
        pr.read_table(judgements, features)


ROW = {"qid": "q", "grade": 1, "x": 1}


@pytest.mark.parametrize("value", [[5.0], [], {}, {"net": 5.0}, [1, 2]])
def test_lists_and_objects_are_no_numbers(value, tmp_path):
    """Where they are numbers otherwise it is an error, else they are counted."""
    rows = [ROW | {"price": 1}, ROW | {"price": 2}, ROW | {"price": value}]
    path = write_lines(tmp_path, "t.jsonl", rows)
    for settings in ({}, {"features": ["price"]}):
        with pytest.raises(pr.FormatError, match=r"t.jsonl:3:1: feature 'price' must be a number, got"):
            pr.read_table(path, missing="zero", **settings)
    path = write_lines(tmp_path, "t.jsonl", [ROW, ROW | {"price": value}, ROW | {"price": value}])
    for read in (pr.read_table, lambda path: pr.QueryStream.concatenate(pr.scan_table(path))):
        with pytest.warns(UserWarning, match=r"t.jsonl: columns that are not used: 'price' \(2 rows\); features are"):
            assert read(path).feature_names == ("x",)
    seen = []
    pr.read_table(path, report=seen.append)
    assert seen[0].ignored == ("price",)
    with pytest.raises(pr.FormatError, match=r"t.jsonl:2:1: feature 'price' must be a number, got"):
        pr.read_table(path, features=["x", "price"])


@pytest.mark.parametrize("name", ["features", "fv", "feature_vector"])
def test_a_number_under_a_name_for_lists_of_features_is_a_feature(name, tmp_path):
    path = write_lines(tmp_path, "t.jsonl", [ROW | {name: 3.5}, ROW | {name: 4.5}])
    stream = pr.read_table(path)
    assert stream.feature_names == ("x", name)
    assert stream.X.tolist() == [[1, 3.5], [1, 4.5]]


def test_what_stands_beside_lists_of_features_is_said(tmp_path):
    path = write_lines(tmp_path, "t.jsonl", [{"qid": 1, "grade": 1, "features": {"a": 1}, "fv": [2], "price": 3}])
    with pytest.warns(UserWarning, match=r"columns that are not used: 'fv' \(1 rows\), 'price' \(1 rows\)"):
        assert pr.read_table(path).feature_names == ("a",)
    path = write(tmp_path, "t.csv", 'qid,grade,features,price\nq,1,"a=1,b=2",3\n')
    with pytest.warns(UserWarning, match=r"columns that are not used: 'price' \(1 rows\)"):
        assert pr.read_table(path).feature_names == ("a", "b")
    path = write(tmp_path, "t.csv", 'qid,grade,features\nq,1,"a=1,b=2",3\n')
    with pytest.raises(pr.FormatError, match=r"t.csv:2:4: a row must have 3 cells, as the header has, got 4"):
        pr.read_table(path)


def test_no_features_are_no_feature(tmp_path):
    """Null where other rows have all their features is no feature of that name."""
    for values in ([None, {"a": 1}], [{"a": 1}, None]):
        path = write_lines(tmp_path, "t.jsonl", [{"qid": 1, "grade": 1, "features": value} for value in values])
        stream = pr.read_table(path, missing="zero")
        assert stream.feature_names == ("a",)
        assert stream.X.ravel().tolist() == [0.0 if value is None else 1.0 for value in values]
        with pytest.raises(pr.FormatError, match="feature 'a' is missing"):
            pr.read_table(path)


def test_lists_beside_hits_are_said(tmp_path):
    log = {"fields": {"_ltrlog": [{"log": [{"name": "t", "value": 1}]}]}, "sort": [1], "matched_queries": ["log"]}
    path = write_lines(
        tmp_path, "f.jsonl", [{"query": "q", "_id": "a", "_score": 1, "price": [5.0], "color": {}} | log]
    )
    with pytest.warns(
        UserWarning, match=r"f.jsonl: columns that are not used: 'price' \(1 rows\), 'color' \(1 rows\);"
    ):
        pr.read_table(write_rows(tmp_path, "j.csv", JUDGED[:1]), path)


def test_keys_that_come_late(tmp_path):
    rows = [*[ROW] * 250, ROW | {"size": "XL"}, ROW | {"size": 42}, ROW | {"size": 43}]
    path = write_lines(tmp_path, "t.jsonl", rows)
    for settings in ({}, {"report": lambda columns: None}):
        with pytest.warns(UserWarning, match=r"t.jsonl: columns that are not used: 'size' \(3 rows\)"):
            assert pr.read_table(path, **settings).feature_names == ("x",)
    path = write_lines(tmp_path, "t.jsonl", [*[ROW] * 250, ROW | {"size": 42}, ROW | {"size": "XL"}])
    with pytest.raises(pr.FormatError, match=r"t.jsonl:252:1: feature 'size' must be a number, got 'XL'"):
        pr.read_table(path, missing="zero")


@KINDS
def test_columns_that_are_not_used_are_named(kind, tmp_path):
    """Once for all passes; not if the caller has chosen the features, or hears it."""
    rows = [{"qid": "q", "docid": d, "id": 7, "grade": 1, "title": "t", "x": 1} for d in "ab"]
    path = write_rows(tmp_path, f"t.{kind}", rows)
    named = r"columns that are not used: 'id'( \(2 rows\))?, 'title'( \(2 rows\))?; features are columns of numbers"
    with pytest.warns(UserWarning, match=named):
        pr.read_table(path)
    scan = pr.scan_table(path)
    with pytest.warns(UserWarning, match=named):
        list(scan)
    list(scan)
    pr.read_table(path, features="x")
    pr.read_table(path, report=lambda columns: None)
    features = write_rows(tmp_path, f"f.{kind}", [{"qid": "q", "docid": d, "y": 1} for d in "ab"])
    with pytest.warns(UserWarning, match=rf"t.{kind}: columns that are not used: 'id'.*, 'title'.*, 'x'"):
        assert pr.read_table(path, features).feature_names == ("y",)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"qid": 1, "grade": 1, "x": 1, "x": 2}', "key 'x' appears twice"),
        ('{"qid": 1, "grade": 1, "features": {"a": 1, "a": 2}}', "key 'a' appears twice"),
        ('{"qid": 1, "grade": [1, 2], "x": 1}', "a grade must be a number"),
        ('{"qid": 1, "grade": 1, "features": [{"name": "a", "score": 3}]}', "a feature must have a name and a value"),
    ],
)
def test_of_two_values_none_is_chosen(text, problem, tmp_path):
    with pytest.raises(pr.FormatError, match=problem):
        pr.read_table(write(tmp_path, "t.jsonl", text), relevance="grade", missing="zero")


def test_rows_that_look_like_answers_of_engines(tmp_path):
    rows = [ROW | {"responses": []}, ROW | {"response": {"a": 1}}]
    with pytest.warns(UserWarning, match=r"'responses' \(1 rows\), 'response' \(1 rows\)"):
        assert pr.read_table(write_lines(tmp_path, "t.jsonl", rows)).n_documents == 2


def test_extra_logging_of_the_plugin_is_no_feature(tmp_path):
    logged = [{"name": "title", "value": 1.5}, {"name": "extra_logging", "value": {"noted": 3}}]
    hit = {"query": "q", "grade": 1, "_id": "a", "fields": {"_ltrlog": [{"log": logged}]}}
    stream = pr.read_table(write_lines(tmp_path, "t.jsonl", [hit]))
    assert (stream.feature_names, stream.X.tolist()) == (("title",), [[1.5]])


@pytest.mark.parametrize("row", [",,,7\n", ",d,,\n", ",d,,7\n"])
def test_rows_without_a_query_and_a_grade_are_counted(row, tmp_path):
    path = write(tmp_path, "t.csv", "qid,docid,grade,x\nq,a,1,1\n\n" + row)
    with pytest.warns(UserWarning, match="^1 rows without a grade are left out"):
        pr.read_table(path)
    path = write(tmp_path, "f.csv", "qid,docid,x\nq,a,1\nq,b,1\n,,\n\n,,7\n")
    with pytest.warns(UserWarning, match="^1 rows of features without a judgement are left out"):
        pr.read_table(write_rows(tmp_path, "j.csv", JUDGED), path, missing="zero")


# Random tables, compared with what the standard library reads.

NAMES = ["x", "y", "price", "title", "id", "query", "features", "fv", "place", ""]
TEXTS = ["a", "XL", "5,5", 'say "hi"', "two\nlines", "é", "1_0", " ", "x=1", "12:30", "-", "NA", "nan", "TRUE", "0x1"]
CELLS = st.one_of(st.sampled_from(["1", "0.5", "-2e3", " 7 ", "+1", ".5", "5.", "1e-3", ""]), st.sampled_from(TEXTS))
SCALARS = st.one_of(st.integers(-5, 5), st.floats(-9, 9, width=32), st.booleans(), st.none(), CELLS)
VALUES = st.one_of(
    *[SCALARS] * 4,
    st.lists(st.integers(0, 3), max_size=2),
    st.dictionaries(st.sampled_from("ab"), st.integers(0, 3), max_size=2),
)


NUMBERS, OFTEN = st.integers(0, 9), (False, False, False, True)


@st.composite
def tables(draw, cells):
    """Rows as lists of pairs: a query, a document, a grade and other columns, most of which hold numbers."""
    others = draw(st.lists(st.sampled_from(NAMES), max_size=4, unique=True))
    others += ["rating"] if draw(st.sampled_from(OFTEN)) else []
    kinds = {name: draw(st.sampled_from([NUMBERS, NUMBERS, st.sampled_from(TEXTS), cells])) for name in others}
    has_holes = draw(st.sampled_from(OFTEN))
    rows = []
    for i in range(draw(st.integers(1, 8))):
        ids = [("qid", "q" if i < 5 else "r"), ("docid", f"d{i}"), ("grade", i % 3)]
        if has_holes:
            ids = [
                (name, draw(st.sampled_from([value, value, value, "", "d0" if name == "docid" else value])))
                for name, value in ids
            ]
        rows.append([*ids, ("num", i), *((name, draw(kind)) for name, kind in kinds.items())])
    return rows


def number_of(value):
    """Return the number that a value is, NaN if it is missing, None for anything else."""
    if value is None:
        return math.nan
    if isinstance(value, str):
        try:
            return parse_number(value)
        except ValueError:
            return None
    return float(value) if isinstance(value, (bool, int, float)) else None


def is_there(value):
    return value is not None and value != ""


def count_said(said, what):
    found = re.search(rf"([\d,]+) {what}", said)
    return int(found[1]) if found else 0


def read_said(*paths):
    """Return a stream and all warnings as one text; None if the tables are refused, with the name of one of them."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            stream = pr.read_table(*paths, missing="keep", dtype="float64")
    except ValueError as error:
        problem = str(error)
    else:
        return stream, "; ".join(str(warning.message) for warning in caught)
    assert any(str(path) in problem for path in paths)
    return None


def pair_of(row):
    return str(row["qid"]), str(row["docid"] or "")


def check_one_table(rows, path):
    """Fail unless each value of rows, as the standard library reads them, is read, refused or said."""
    if (answer := read_said(path)) is None:
        return
    stream, said = answer
    graded = [row for row in rows if is_there(row["grade"])]
    n_blank = sum(not any(map(is_there, row.values())) for row in rows)
    assert count_said(said, "rows without a grade") == len(rows) - len(graded) - n_blank
    check_stream(stream, graded, [row["grade"] for row in graded])
    for row, features in zip(in_order(graded), features_of(stream), strict=True):
        check_row(row, path, ("qid", "docid", "grade"), features, said)


def check_two_tables(rows, path, feature_rows, feature_path):
    """Fail unless each value of judgements and of features to join is read, refused or said."""
    if (answer := read_said(path, feature_path)) is None:
        return
    stream, said = answer
    judgements = [row for row in rows if is_there(row["grade"]) and is_there(row["docid"])]
    grades = {pair_of(row): row["grade"] for row in judgements}
    judged = [row for row in feature_rows if pair_of(row) in grades]
    n_rows = sum(any(map(is_there, row.values())) for row in feature_rows)
    assert count_said(said, "rows of features without a judgement") == n_rows - len(judged)
    assert count_said(said, "judgements without features") == len(grades) - len(judged)
    assert count_said(said, "repeated judgements") == len(judgements) - len(grades)
    check_stream(stream, judged, [grades[pair_of(row)] for row in judged])
    for row in judgements:
        check_row(row, path, ("qid", "docid", "grade"), {}, said)
    for row, features in zip(in_order(judged), features_of(stream), strict=True):
        check_row(row, feature_path, ("qid", "docid"), features, said)


def in_order(rows):
    """Return rows as a stream has them: those of a query at the place of its first."""
    qids = [str(row["qid"]) for row in rows]
    return sorted(rows, key=lambda row: qids.index(str(row["qid"])))


def features_of(stream):
    return [dict(zip(stream.feature_names, x, strict=True)) for x in stream.X.tolist()]


def check_stream(stream, rows, grades):
    """Fail unless a stream has the queries, documents and grades of rows."""
    qids = np.repeat(stream.qids, np.diff(stream.offsets)).tolist()
    assert list(zip(qids, stream.docids.tolist(), strict=True)) == [pair_of(row) for row in in_order(rows)]
    expected = {id(row): float(grade) for row, grade in zip(rows, grades, strict=True)}
    assert stream.relevance.tolist() == [expected[id(row)] for row in in_order(rows)]


def check_row(row, path, roles, features, said):
    """Fail unless each value of a row is one of its features, or has a role, or its column is said to be unused."""
    unused = re.search(rf"{re.escape(str(path))}: columns that are not used: (.*?); features are", said)
    dropped = unused[1] if unused else ""
    for name, value in row.items():
        if name in roles or not is_there(value) or repr(name) in dropped:
            continue
        number = number_of(value)
        if number is not None and name in features:
            assert np.array_equal(features[name], number, equal_nan=True)
            continue
        vector = {f"f{j}": item for j, item in enumerate(value, 1)} if isinstance(value, list) else value
        pairs = vector.items() if isinstance(vector, dict) else [pair.split("=") for pair in vector.split(",")]
        for key, item in pairs:
            assert repr(key) in dropped or features[key] == float(item)


@st.composite
def text_files(draw, folder):
    """Return a function that writes rows as CSV and reads them with the standard library."""
    delimiter, end = draw(st.sampled_from(",;\t|")), draw(st.sampled_from(["\n", "\r\n"]))

    def save(name, rows):
        path = folder / name
        with open(path, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, delimiter=delimiter, lineterminator=end)
            writer.writerow([name for name, _ in rows[0]])
            writer.writerows([value for _, value in row] for row in rows)
        with open(path, encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file, delimiter=delimiter)), path

    return save


@st.composite
def json_files(draw, folder):
    """Return a function that writes rows as lines of JSON, with keys of their own, and reads them."""
    extra = draw(st.lists(st.tuples(st.sampled_from(["num", "x", "late", "features"]), VALUES), max_size=8))

    def save(name, rows):
        lines = [dict([*row, *extra[i : i + 1]]) for i, row in enumerate(rows)]
        path = write_lines(folder, name, lines)
        return [json.loads(line) for line in path.read_text().splitlines()], path

    return save


@given(is_text=st.booleans(), are_two=st.booleans(), data=st.data())
def test_nothing_is_dropped_unsaid(is_text, are_two, data, tmp_path_factory):
    """Random tables against the modules csv and json; few rows are looked at beforehand."""
    folder = tmp_path_factory.mktemp("random")
    kind, values, files = ("csv", CELLS, text_files) if is_text else ("jsonl", VALUES, json_files)
    save = data.draw(files(folder))
    with pytest.MonkeyPatch.context() as patched:
        for module in (delimited, document_table):
            patched.setattr(module, "_SAMPLE", 4)
        judged = save(f"t.{kind}", data.draw(tables(values)))
        if are_two:
            rows = [[pair for pair in row if pair[0] != "grade"] for row in data.draw(tables(values))]
            check_two_tables(*judged, *save(f"f.{kind}", rows))
        else:
            check_one_table(*judged)
