"""Tables that are wrong: every error names the file, the line and the column, and nothing is read from elsewhere."""

import gzip
import json
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import perceptrank as pr
from perceptrank.io import text as text_files
from perceptrank.io.tables import chunks, delimited, document_table, reader

HEADER = "qid,docid,grade,x,y\n"
GOOD = "q,d1,1,0.5,1\n"


def write(folder, name, text):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEADER + GOOD + "q,d2,0,abc,1\n", r":3:4: a feature must be a number \(column 'x'\), got 'abc'"),
        (HEADER + GOOD * 9 + "q,d2,0,1,1_0\n", r":11:5: a feature must be a number \(column 'y'\), got '1_0'"),
        (HEADER + "\n\n" + GOOD + "q,d2,0,0x1,1\n", r":5:4: a feature must be a number \(column 'x'\), got '0x1'"),
        (HEADER + '"q\n\n",d1,1,1,1\nq,d2,0,1;5,1\n', r":5:4: a feature must be a number \(column 'x'\), got '1;5'"),
        (HEADER + GOOD + "q,d2,good,1,1\n", r":3:3: a grade must be a number \(column 'grade'\), got 'good'"),
        (HEADER + GOOD + "q,d2,-1,1,1\n", r":3:3: a grade must be a number >= 0 \(column 'grade'\), got '-1'"),
        (HEADER + GOOD + "q,d2,inf,1,1\n", r":3:3: a grade must be a number >= 0 \(column 'grade'\), got 'inf'"),
        (HEADER + GOOD + "q,d2,1,-inf,1\n", r":3:4: a feature must be finite and fit into float32 \(column 'x'\)"),
        (
            HEADER + GOOD + "q,d2,1,1e39,1\n",
            r":3:4: a feature must be finite.*dtype='float64'` has more range.*'1e39'",
        ),
        (HEADER + GOOD + "q,d2,1,1\n", r":3:5: feature 'y' is missing"),
        (HEADER + GOOD + ",d2,1,1,1\n", r":3:1: a row must name its query"),
        (HEADER + GOOD + "q,d2,1,1,1,7\n", r":3:6: a row must have 5 cells, as the header has, got 6"),
        ("qid,docid,note,grade,x\nq,d1,good,1,1\nq,d2,good, 2,3,4\n", r":3:6: a row must have 5 cells, as the header"),
        (HEADER + GOOD + 'q,"d2,1,1,1\n', r":3:1: quotes must be closed"),
        (HEADER + GOOD + '5" tv,d2,1,1,1\n', r":3:1: quotes must be closed"),
        (HEADER.encode() + b"q,d1,1,1,1\nq\xff,d2,1,1,1\n", r":3:2: text must be UTF-8, got b'\\xff"),
        (HEADER, "there are no documents in"),
        ("", ":1:1: the file is empty"),
        ("\n \n", ":1:1: the file is empty"),
        ("qid\n1\n", ":1:1: a header must name two columns or more"),
        ("1,2,0.5\n1,2,0.5\n", ":1:1: the first line must name the columns, got '1,2,0.5'"),
        ("qid,grade,x,x\n1,2,1,1\n", ":1:3: two columns are called 'x'"),
        (
            "who,grade,x\n1,2,1\n",
            r" has no column that is known to hold the query of a row; it has 'who', .* `qid=…` names",
        ),
        ("qid,what,x\n1,2,1\n", r" has no column that is known to hold the grade of a row"),
        (
            "qid,grade,words\n1,2,some\n",
            r" has no features: no column of numbers is left for them; `feature_paths=…` names a",
        ),
        (b"PK\x03\x04" + HEADER.encode(), r":1:1: this is a zip archive \(unpack it\), not a table"),
        ("\ufeff" + HEADER[:0], ":1:1: the file is empty"),
        (HEADER.encode("utf-16"), r":1:1: this is text in UTF-16, not a table"),
        (gzip.compress((HEADER + GOOD).encode(), mtime=0)[:-9], "the gzip data is damaged"),
    ],
)
@pytest.mark.parametrize("small", [0, delimited.SMALL_BYTES])
def test_wrong_tables(text, message, small, tmp_path, monkeypatch):
    monkeypatch.setattr(delimited, "SMALL_BYTES", small)
    path = write(tmp_path, "a.csv", text)
    with pytest.raises(ValueError, match=message) as caught:
        pr.read_table(path)
    assert "a.csv" in str(caught.value)
    with pytest.raises(ValueError, match=message):
        list(pr.scan_table(path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"qid": 1, "grade": 1, "x": 1}\n{"qid": 1, "grade": 0, "x": 1', r":2:30: a line must be an object of JSON"),
        ('{"qid": 1, "grade": 1, "x": 1}\n\n[1, 2]\n', r":3:1: a line must be an object .*, got a list"),
        ("7\n", ":1:1: a line must be an object .*, got a number"),
        (
            '{"qid": 1, "grade": 1, "x": 1}\n{"qid": 1, "grade": 1, "x": "a"}\n',
            r":2:1: feature 'x' must be a number, got 'a'",
        ),
        ('{"qid": 1, "grade": "good", "x": 1}\n', r":1:1: a grade must be a number \(column 'grade'\), got \"good\""),
        ('{"qid": [1, 2], "q": 1, "grade": 1, "x": 1}\n{"qid": {}, "grade": 1, "x": 1}\n', None),
        (
            '{"qid": 1, "grade": 1, "x": 1}\n{"qid": NaN, "grade": 1, "x": 1}\n',
            r":2:1: 'qid' must be a text or a number",
        ),
        ('{"qid": 1, "grade": 1, "x": 1e999}\n', r":1:1: a feature must be finite and fit into float32 \(column 'x'\)"),
        (f'{{"qid": 1, "grade": 1, "x": {"9" * 400}}}\n', r":1:1: feature 'x' must be a number, got '9999"),
        (f'{{"qid": 1, "grade": 1, "x": {"9" * 5000}}}\n', r":1:1: "),
        ('{"qid": 1, "grade": 1, "x": ' + "[" * 100_000 + "\n", r":1:1: a line is nested too deeply"),
        ('{"qid": 1, "grade": 1, "x": 1}\n{"grade": 1, "x": 1}\n', r":2:1: a row must name its query"),
        (b'{"qid": "\xff", "grade": 1, "x": 1}\n', r":1:10: text must be UTF-8"),
        ('{"qid": 1, "grade": 1, "features": [{"value": 1}]}\n', r":1:1: a feature must have a name and a value"),
        ('{"qid": 1, "grade": 1, "features": [{"name": "a"}, {"name": "a"}]}\n', r":1:1: feature 'a' appears twice"),
        ('{"qid": 1, "grade": 1, "features": "a=1,b"}\n', r":1:1: features must be name=value,name=value, got 'b'"),
        ('{"qid": 1, "grade": 1, "features": "a=1,b=x"}\n', r":1:1: feature 'b' must be a number, got 'x'"),
        ('{"qid": 1, "hits": {"hits": [{"_id": "a"}]}}\n', r":1:1: a hit has no fields._ltrlog: ask for it"),
        ('{"qid": 1, "_id": "a", "_score": 1, "_source": {}}\n', r":1:1: a hit has no fields._ltrlog: ask for it"),
        ('{"qid": 1, "hits": {"hits": [7]}}\n', r":1:1: a hit must be an object, got a number"),
        ('{"qid": 1, "response": {"docs": [{"id": 1}]}}\n', r":1:1: a document has no \[features\]: ask for them"),
        ("", ":1:1: the file is empty"),
        ("\n \n", ":1:1: the file has no documents"),
    ],
)
def test_wrong_lines_of_json(text, message, tmp_path):
    path = write(tmp_path, "a.jsonl", text)
    with pytest.raises(ValueError, match=message) as caught:
        pr.read_table(path)
    assert "a.jsonl" in str(caught.value)
    with pytest.raises(ValueError, match=message):
        list(pr.scan_table(path))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.qrels", "1 0 d\n", r":1:1: a line must have query, iteration, document and grade, 4 words, got 3"),
        ("a.qrels", "1 0 d 1\n1 0 e x\n", r":2:4: a grade must be a number, got 'x'"),
        ("a.qrels", b"1 0 d 1\n1 0 \xff 1\n", r":2:3: text must be UTF-8"),
        ("a.qrels", "1 0 d 1\n1 0 d 2\n", r":2:1: document 'd' of query '1' is graded twice, 1 and 2"),
        ("b.run", "1 Q0 d 1 x t\n", r":1:5: a score must be a number, got 'x'"),
        ("b.run", "1 Q0 d 1 2 t\n1 Q0 d 2 1 t\n", r":2:1: document 'd' of query '1' has features a second time"),
    ],
)
def test_wrong_files_of_trec(name, text, message, tmp_path):
    qrels = write(tmp_path, "a.qrels", "1 0 d 1\n")
    run = write(tmp_path, "b.run", "1 Q0 d 1 2 t\n")
    write(tmp_path, name, text)
    with pytest.raises(pr.FormatError, match=f"{name}{message}"):
        pr.read_table(qrels, run)
    with pytest.raises(pr.FormatError, match=f"{name}{message}"):
        list(pr.scan_table(qrels, run))


def test_tables_in_each_others_places(tmp_path):
    qrels = write(tmp_path, "a.qrels", "1 0 d 1\n")
    run = write(tmp_path, "b.run", "1 Q0 d 1 2 t\n")
    with pytest.raises(pr.FormatError, match=r"b.run is a run, which has no grades: name the qrels first"):
        pr.read_table(run, qrels)
    with pytest.raises(pr.FormatError, match=r"a.qrels has judgements, no features"):
        pr.read_table(qrels)
    with pytest.raises(pr.FormatError, match=r"b.run has no column 'bm25'; it has 'score', 'rank'"):
        pr.read_table(qrels, run, features="bm25")


def test_a_join_that_finds_nothing_shows_both_sides(tmp_path):
    judgements = write(tmp_path, "j.csv", "query,docid,grade\nshoes,a1,1\n")
    features = write(tmp_path, "f.csv", "query,docid,x\nShoes,a1,1\n")
    message = r"no judgement has features: .* the 1 judgements in .*j.csv have 'shoes'/'a1', .*f.csv 'Shoes'/'a1'"
    with pytest.raises(ValueError, match=message):
        pr.read_table(judgements, features)
    with pytest.raises(ValueError, match=message):
        list(pr.scan_table(judgements, features))


def test_wrong_arguments(tmp_path):
    path = write(tmp_path, "a.csv", HEADER + GOOD)
    for settings, message in [
        ({"qid": "who"}, r"a.csv has no column 'who'; it has 'qid', 'docid'"),
        ({"features": ["x", "z"]}, r"a.csv has no column 'z'"),
        ({"features": ["x", "x"]}, "features must be different names of columns"),
        ({"features": []}, "features must be different names of columns"),
        ({"missing": "mean"}, "missing must be one of 'error', 'keep', 'zero', got 'mean'"),
        ({"dtype": "int32"}, "dtype must be float32 or float64"),
    ]:
        with pytest.raises(ValueError, match=message):
            pr.read_table(path, **settings)
    with pytest.raises(TypeError, match="qid must be the name of a column, got 1"):
        pr.read_table(path, qid=1)
    with (
        pytest.raises(TypeError, match="tables are given by their paths, got BufferedReader"),
        open(path, "rb") as file,
    ):
        pr.read_table(file)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        pr.read_table(tmp_path / "nothing.csv")
    with pytest.raises(ValueError, match="max_bytes"):
        pr.scan_table(path, max_bytes=0)
    lines = write(tmp_path, "a.jsonl", '{"qid": 1, "grade": 1, "x": 1}\n')
    with pytest.raises(pr.FormatError, match=r"a.jsonl has no column 'z'; it has 'qid', 'grade', 'x'"):
        pr.read_table(lines, features=["x", "z"])
    other = write(tmp_path, "other", "what is this\n")
    with pytest.raises(pr.FormatError, match=r"other is no known kind of table: end its name with .csv"):
        pr.read_table(other)
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(ValueError, match="must be a regular file"):
        pr.read_table(tmp_path / "pipe.csv")


def test_records_have_a_longest_length(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "LONGEST_LINE", 4096)
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 256)
    monkeypatch.setattr(text_files, "_CHUNK_BYTES", 256)
    many = HEADER + "".join(f"q,d{i:02},1,0.5,1\n" for i in range(50))
    long = write(tmp_path, "a.csv", many + f"q,{'d' * 9000},1,1,1\n")
    with pytest.raises(pr.FormatError, match=r"a.csv:52:1: a line longer than 0 MiB"):
        pr.read_table(long)
    quoted = write(tmp_path, "a.csv", many + 'q,"d,1,1,1\n' + GOOD * 2000)
    with pytest.raises(pr.FormatError, match=r"a.csv:52:1: quotes must be closed"):
        pr.read_table(quoted)
    fine = write(tmp_path, "a.csv", many + f"q,{'d' * 2000},1,1,1\n")
    assert pr.read_table(fine).n_documents == 51


def test_names_and_memory_have_limits(tmp_path, monkeypatch):
    monkeypatch.setattr(document_table, "MOST_NAMES", 50)
    rows = [{"qid": 1, "grade": 1, "features": {f"document {i}": 1}} for i in range(60)]
    path = write(tmp_path, "a.jsonl", "\n".join(map(json.dumps, rows)))
    with pytest.raises(pr.FormatError, match=r"a.jsonl:51:1: there are more than 50 names of features"):
        pr.read_table(path, missing="zero")
    table = write(tmp_path, "a.csv", HEADER + GOOD)
    monkeypatch.setattr(reader, "free_memory", lambda: 4.0)
    with pytest.raises(MemoryError, match="scan_table reads block by block"):
        pr.read_table(table)
    monkeypatch.setattr(document_table, "free_memory", lambda: 4.0)
    short = write(tmp_path, "b.jsonl", '{"qid": 1, "grade": 1, "x": 1, "y": 1}\n')
    with pytest.raises(MemoryError, match="1 rows of 2 features"):
        pr.read_table(short)


def test_a_bomb_is_read_in_pieces(tmp_path):
    """A megabyte that unpacks to a gigabyte of one line takes little memory before it is refused."""
    path = tmp_path / "bomb.csv.gz"
    with gzip.open(path, "wb", 9) as file:
        for _ in range(128):
            file.write(b"," * 2**20)
    code = (
        "import sys, perceptrank as pr\n"
        "try:\n    pr.read_table(sys.argv[1])\n"
        "except pr.FormatError as error:\n    print(error)\n"
        "status = open('/proc/self/status').read()\n"  # a child's resource usage begins with its parent's
        "print(int(status.split('VmHWM:')[1].split()[0]) // 1024)"
    )
    said, peak = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert "a line longer than 64 MiB" in said
    assert int(peak) < 800


def test_csv_is_read_without_polars(tmp_path):
    code = (
        "import sys; sys.modules['polars'] = None\n"
        "import perceptrank as pr\n"
        "for path in sys.argv[1:3]:\n    print(pr.read_table(path))\n"
        "print(pr.io.read_labels(sys.argv[2], 'y'))\n"
    )
    lines = write(tmp_path, "a.jsonl", '{"qid": 1, "grade": 1, "x": 1}\n')
    table = write(tmp_path, "a.csv", HEADER + GOOD)
    said = subprocess.run([sys.executable, "-c", code, lines, table], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines() == [
        "QueryStream(1 queries, 1 documents, 1 features)",
        "QueryStream(1 queries, 1 documents, 2 features)",
        str(pr.io.read_labels(table, "y")),
    ]


@given(data=st.binary(max_size=200), name=st.sampled_from(["a.csv", "a.tsv", "a.jsonl", "a.qrels", "a"]))
def test_random_bytes_are_refused_with_the_name_of_the_file(data, name, tmp_path_factory):
    path = tmp_path_factory.mktemp("bytes") / name
    path.write_bytes(data)
    with pytest.raises(ValueError, match=str(path)):
        pr.read_table(path)


CELLS = st.sampled_from(
    ["1", "0.5", "", "NA", "a", '"b"', '"', "-1", "1e999", "nan", "é", "\0", " ", "\r", "true", "x=1"]
)


@given(
    rows=st.lists(st.lists(CELLS, max_size=5), max_size=8),
    separator=st.sampled_from(",;\t"),
    size=st.sampled_from([24, 4096]),
)
def test_damaged_tables_are_read_or_refused(rows, separator, size, tmp_path_factory):
    """Never anything else than a stream without holes, or an error about the file."""
    path = tmp_path_factory.mktemp("damaged") / "a.csv"
    lines = [["qid", "docid", "grade", "x"], ["q", "d", "1", "2"], *rows]
    path.write_text("\n".join(separator.join(line) for line in lines), encoding="utf-8", newline="")
    with pytest.MonkeyPatch.context() as patched, warnings.catch_warnings():
        for module in (chunks, delimited):
            patched.setattr(module, "CHUNK_BYTES", size)
        patched.setattr(text_files, "_CHUNK_BYTES", size)
        patched.setattr(delimited, "SMALL_BYTES", 0)
        warnings.filterwarnings("ignore", ".*rows without a grade are left out")
        stream = read_or_none(path, len(lines))
    if stream is not None:
        assert np.isfinite(stream.X).all()
        assert (stream.relevance >= 0).all()
        assert all(stream.qids.tolist())


def test_a_large_table_is_parsed_by_the_kernel_however_small_it_is_compressed(tmp_path, monkeypatch):
    path = tmp_path / "a.csv.gz"
    rows = "".join(f"q{row // 10},d{row},{row % 3},{row}\n" for row in range(100_000))
    path.write_bytes(gzip.compress(f"qid,docid,grade,x\n{rows}".encode()))
    assert path.stat().st_size < delimited.SMALL_BYTES < len(rows)
    monkeypatch.setattr(delimited.DelimitedTable, "_parse_cells", None)  # the slow way
    stream = pr.read_table(path)
    assert stream.X.ravel().tolist() == list(range(100_000))


def read_or_none(path, n_lines):
    """Return the stream, or None if the file is refused by name and line."""
    try:
        return pr.read_table(path)
    except pr.FormatError as error:
        found = error.path, 0 <= error.line <= n_lines + 2
    assert found == (str(path), True)
    return None


NUMBERS = st.one_of(st.floats(width=32), st.floats(), st.integers()).map(str)
SPELLED = st.sampled_from(
    [
        *("+1", "1.", ".5", "-.5", "-", ".", "1.2.3", "1-2", "--1", "007", "1e5", "1E-3", "1e", "123456789", "½"),
        *("-0", "-0.0", "1e-400", "inf", "1_000", " 7 ", "\t7", "7\v", "N/A", "TRUE", "False", "?", "nul", "missing"),
        *('"0.5"', '" 1"', '"1', '1"', '"a""b"', '"a,b"', '"a\nb"', '"a"b', '""', '""""', 'a"b', "a\rb", "x\r"),
        *("9007199254740993", "9007199254740993.0000000000000000000000001", "1" * 25, "0.3" + "0" * 20, "16777217"),
    ]
)


@pytest.mark.kernel
@given(
    rows=st.lists(st.lists(CELLS | NUMBERS | SPELLED, max_size=6), max_size=6),
    separator=st.sampled_from(",;\t"),
    name=st.sampled_from(["a.csv", "a.tsv"]),
    kind=st.sampled_from(["float32", "float64"]),
)
def test_the_module_csv_reads_the_same_values_and_errors(rows, separator, name, kind, tmp_path_factory):
    """It is the slow twin of the compiled parser."""
    path = tmp_path_factory.mktemp("both") / name
    lines = [["qid", "docid", "grade", "x", "y"], ["q", "d", "1", "2", "3"], *rows]
    separator = "\t" if name == "a.tsv" else separator
    path.write_text("\n".join(separator.join(line) for line in lines), encoding="utf-8", newline="")
    read = []
    for small in (0, delimited.SMALL_BYTES):
        with pytest.MonkeyPatch.context() as patched, warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            patched.setattr(delimited, "SMALL_BYTES", small)
            try:
                stream = pr.read_table(path, missing="keep", features=["x", "y"], dtype=kind)
                columns = [stream.relevance.tolist(), stream.docids.tolist(), stream.qids.tolist(), stream.X.tolist()]
            except pr.FormatError as error:
                columns = [str(error)]
        read.append(repr([*columns, *(str(each.message) for each in told)]))
    assert read[0] == read[1]


@pytest.mark.parametrize("between", [0, 5])
def test_quotes_within_cells_do_not_swallow_rows(between, tmp_path):
    """Quotes of two cells would make one row of all lines between them for a reader that pairs all quotes."""
    rows = ['q,a,1,1,5" tv', *["q,m,0,2,none"] * between, 'q,b,0,2,7" tv', "q,c,1,3,x"]
    path = write(tmp_path, "a.csv", "qid,docid,grade,x,title\n" + "\n".join(rows))
    for read in (pr.read_table, lambda path: list(pr.scan_table(path))):
        with pytest.raises(pr.FormatError, match=r"a.csv:2:1: quotes must be closed; a field that has quotes must be"):
            read(path)
    fine = 'qid,docid,grade,x,title\nq,"a ""1""",1,1,"two\nlines"\nq,b,0,2,5" x 7" tv\n'
    stream = pr.read_table(write(tmp_path, "b.csv", fine), features="x")
    assert stream.docids.tolist() == ['a "1"', "b"]


def test_the_delimiter_is_found_outside_of_quotes(tmp_path):
    path = write(tmp_path, "a.csv", 'qid;grade;"price, net, in, eur"\nq;1;1\nq;0;2\n')
    assert pr.read_table(path).feature_names == ("price, net, in, eur",)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_column_is_a_feature_or_something_else(kind, tmp_path):
    rows = [{"qid": 1, "id": 5, "grade": 0.1, "x": 1}, {"qid": 1, "id": 6, "grade": 0, "x": 2}]
    lines = "\n".join(map(json.dumps, rows))
    text = "qid,id,grade,x\n1,5,0.1,1\n1,6,0,2\n" if kind == "csv" else lines
    path = write(tmp_path, f"a.{kind}", text)
    stream = pr.read_table(path, features=["id", "x"])
    assert stream.docids is None
    assert stream.X.tolist() == [[5, 1], [6, 2]]
    with pytest.raises(pr.FormatError, match="hold the query of a row"):
        pr.read_table(path, features=["qid", "x"])
    with pytest.raises(ValueError, match="features must not have 'grade', which is the column of relevance"):
        pr.read_table(path, relevance="grade", features=["grade", "x"])


@pytest.mark.parametrize("name", ["qid", "docid"])
@pytest.mark.parametrize(("value", "problem"), [("true", "text or a number"), (r'"\ud800"', "Unicode, got half")])
def test_ids_in_json_are_text_or_numbers(name, value, problem, tmp_path):
    others = {"qid": '"docid": 1', "docid": '"qid": 1'}[name]
    path = write(tmp_path, "a.jsonl", f'{{"{name}": {value}, {others}, "grade": 1, "x": 1}}\n')
    with pytest.raises(pr.FormatError, match=rf"a.jsonl:1:1: '{name}' must be .*{problem}"):
        pr.read_table(path)


def test_ids_that_differ_in_a_nul_are_two(tmp_path):
    path = write(tmp_path, "a.csv", "qid,grade,x\nq\0,1,1\nq,1,2\n")
    assert pr.read_table(path).qids.tolist() == ["q\0", "q"]
    assert [one for block in pr.scan_table(path) for one in block.qids.tolist()] == ["q\0", "q"]


def test_an_id_that_is_nested_is_not_lost(tmp_path):
    lines = ['{"qid": "q", "docid": "a", "grade": 1, "x": 1}', '{"qid": "q", "docid": {"id": "b"}, "grade": 0, "x": 2}']
    path = write(tmp_path, "t.jsonl", "\n".join(lines))
    with pytest.raises(pr.FormatError, match=r":2:1: 'docid' must be a text or a number, got \{\"id\": \"b\"\}"):
        pr.read_table(path)


def test_a_column_has_one_role(tmp_path):
    path = write(tmp_path, "t.csv", "id,grade,x\nq,1,0.5\n")
    with pytest.raises(ValueError, match="qid and docid must be two columns, got 'id' for both"):
        pr.read_table(path, qid="id", docid="id")
    assert pr.read_table(path, qid="id").docids is None


@pytest.mark.parametrize("row", [",d2,\n", ",d2,1\n", ",,1\n"])
def test_a_judgement_must_name_its_query(row, tmp_path):
    judgements = write(tmp_path, "j.csv", "qid,docid,grade\nq,d1,1\n" + row)
    features = write(tmp_path, "f.csv", "qid,docid,x\nq,d1,1\n")
    with pytest.raises(pr.FormatError, match=r"j\.csv:3:1: a judgement must name its query"):
        pr.read_table(judgements, features)


def test_a_blank_row_of_judgements_is_no_judgement(tmp_path):
    judgements = write(tmp_path, "j.csv", "qid,docid,grade\nq,d1,1\n,,\n")
    assert len(pr.read_table(judgements, write(tmp_path, "f.csv", "qid,docid,x\nq,d1,1\n"))) == 1


@pytest.mark.parametrize("small", [0, delimited.SMALL_BYTES])
@pytest.mark.parametrize(
    ("header", "column", "qid", "expected"),
    [
        ("query,grade,x", "query", None, {"a": "a", "b": "b"}),
        ("qid,grade,x", "qid", None, {"a": "a", "b": "b"}),
        ("session,grade,qid", "qid", "session", {"a": 1, "b": 2}),
        ("qid,grade,x", "x", None, {"a": 1, "b": 2}),
    ],
)
def test_a_column_may_be_the_query_and_its_label(header, column, qid, expected, small, tmp_path, monkeypatch):
    monkeypatch.setattr(delimited, "SMALL_BYTES", small)
    path = write(tmp_path, "a.csv", f"{header}\na,1,1\na,0,1\nb,1,2\n")
    assert pr.io.read_labels(path, column, qid=qid) == expected


def test_labels_of_an_open_file_are_refused(tmp_path):
    path = write(tmp_path, "a.csv", HEADER + GOOD)
    with (
        open(path, "rb") as file,
        pytest.raises(TypeError, match="tables are given by their paths, got BufferedReader"),
    ):
        pr.io.read_labels(file, "y")
