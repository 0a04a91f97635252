"""Random text that is LETOR or nearly so, and the comparison of the reader with its slow twin on it."""

import bz2
import gzip
import io
import lzma
import random
import warnings
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import zstandard

import perceptrank as pr
from perceptrank.io import text as text_module
from perceptrank.io.letor import settings as letor_settings
from support import bombs, letor_twin

NUMBERS = [
    *("0", "-0", "+0", "1", "+1", "-1", ".5", "-.5", "5.", "00012", "-0.0", "0.1", "1e-7", "1E3", "1e+2", "1e-400"),
    *("12345678", "123456789", "1234567.8", "0.00000001", "-12345678.", "9007199254740993", "0.3000000119209289550781"),
    *("1234567890123456789012345678901234567890e-30", "0." + "0" * 30 + "1", "1" + "0" * 25),
]
WRONG_NUMBERS = ["", "nan", "inf", "-inf", "1e", "1e+", "--1", "1.2.3", ".", "-", "1_0", "0x1", "1e400", "4e38", "٣"]
COMPRESS = {
    "plain": bytes,
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": lambda data: zstandard.ZstdCompressor().compress(data),
}
BYTES = b"0123456789.:+-eE#qid \t\r\v\f\n\0\xff"
LARGEST_ID = 3000


@contextmanager
def small_limits(chunk_bytes, largest_id=LARGEST_ID):
    """Read in chunks of so many bytes, and allow no larger id that is not declared, lest matrices become huge."""
    before = text_module._CHUNK_BYTES, letor_settings.LARGEST_UNDECLARED, letor_settings.LARGEST_SPARSE
    text_module._CHUNK_BYTES = chunk_bytes
    letor_settings.LARGEST_UNDECLARED = letor_settings.LARGEST_SPARSE = largest_id
    try:
        yield
    finally:
        text_module._CHUNK_BYTES, letor_settings.LARGEST_UNDECLARED, letor_settings.LARGEST_SPARSE = before


def random_number(rng):
    kind = rng.randrange(8)
    if kind < 2:
        return str(rng.randrange(10 ** rng.randrange(1, 9)))
    if kind < 4:
        return f"{rng.randrange(-(10**7), 10**7) / 10 ** rng.randrange(8):.{rng.randrange(9)}f}"
    if kind == 4:
        return f"{rng.choice(['', '-', '+'])}{rng.randrange(10**6)}e{rng.randrange(-40, 30)}"
    if kind == 5:
        digits = str(rng.randrange(10**14, 10**30))
        point = rng.randrange(len(digits))
        return f"{digits[:point]}.{digits[point:]}"
    return rng.choice(NUMBERS)


def random_case(rng):
    """(text, settings of the reader): some dialect of the format, without a mistake."""
    zero_based, in_comment = rng.randrange(4) == 0, rng.randrange(4) == 0
    base = 0 if zero_based else 1
    style = rng.choice(["dense", "sparse", "unsorted", "mixed"])
    blank = rng.choice([" ", " ", " ", "  ", "\t", " \v", "\f"])
    newline = rng.choice(["\n", "\n", "\r\n", " \n", "\n\n", "\n \t\n# no document\n"])
    make_id = rng.choice([str, str, "q{}".format, "0{}".format, lambda k: "-x:é"[k % 4 :] + str(k) * (k % 3)])
    width = rng.choice([0, 1, 2, 3, 8, 10, 12, 12, 101])

    def document(qid):
        grade = rng.choice(["0", "1", "2", "4", "+1", "0.5", "1e-7", "2.", "-0", "00", "3.00000000000000000000001"])
        columns = list(range(width))
        if style != "dense" and rng.randrange(4):
            columns = [column for column in columns if rng.randrange(2)]
        if style == "unsorted" or (style == "mixed" and rng.randrange(3) == 0):
            rng.shuffle(columns)
        pairs = [f"{column + base}:{random_number(rng)}" for column in columns]
        fields = [grade, *([] if in_comment else [f"qid:{qid}"]), *pairs]
        line = blank.join(fields)
        if in_comment:
            return f"{line}{blank}#{rng.choice(['', ' '])}{qid}"
        comment = rng.choice(["", "", " # docid = GX00-01 inc = 1", "#a # b", " #", blank + "#\t\xa0é\t"])
        return line + comment

    documents = []
    for k in range(rng.randrange(1, 6)):
        qid = make_id(k) or "-"
        documents += [document(qid) for _ in range(rng.randrange(1, 5))]
        if rng.randrange(3) == 0:
            width = min(width + rng.choice([1, 3, 90]), 120)
    if rng.randrange(5) == 0:
        rng.shuffle(documents)
    names = []
    if rng.randrange(5) == 0:
        names = [f"#{column + base}:{rng.choice(['bm25', 'tf idf', 'é', ''])}{column}" for column in range(width)]
        names = [name for name in names if rng.randrange(5)]
    text = newline.join([*names, *documents]) + rng.choice(["", newline, "\n"])
    settings = {
        "zero_based": zero_based,
        "qid": rng.choice(["auto", "auto", "comment" if in_comment else "field"]),
        "dtype": rng.choice([np.float32, np.float64]),
        "n_features": rng.choice([None, None, max(width, 1), 150]),
        "clip": rng.choice([None, None, None, 1.5]),
        "sparse": rng.choice([None, False, True]),
    }
    encoding = rng.choice(["utf-8", "utf-8", "latin-1"])
    return rng.choice([b"", b"", b"", b"\xef\xbb\xbf"]) + text.encode(encoding), settings


def mutated(rng, text):
    """The text with some things in it changed."""
    data = bytearray(text)
    for _ in range(rng.randrange(1, 4)):
        kind, at, length = rng.randrange(9), rng.randrange(len(data) + 1), rng.randrange(1, 12)
        if kind == 0 and data:
            data[at % len(data)] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at:at] = bytes([rng.choice(BYTES)])
        elif kind == 2:
            del data[at : at + length]
        elif kind == 3:
            data[at:at] = data[at : at + length]
        elif kind == 4:
            data[at : at + length] = bytes(rng.randrange(256) for _ in range(length))
        elif kind == 5 and rng.randrange(4) == 0:
            del data[at:]
        elif kind == 6:
            tokens = bytes(data).split(b" ")
            one, other = rng.randrange(len(tokens)), rng.randrange(len(tokens))
            tokens[one], tokens[other] = tokens[other], tokens[one]
            data = bytearray(b" ".join(tokens))
        elif kind == 7:
            values = bytes(data).split(b":")
            one = rng.randrange(len(values))
            values[one] = rng.choice(WRONG_NUMBERS).encode() + values[one][rng.randrange(2) * 3 :]
            data = bytearray(b":".join(values))
        elif kind == 8:
            lines = bytes(data).split(b"\n")
            lines.insert(rng.randrange(len(lines) + 1), rng.choice(lines))
            data = bytearray(b"\n".join(lines))
    return bytes(data)


def expected(text, settings, skip=False):
    """What the twin makes of a text, or where it says that the text is wrong."""
    settings = {name: value for name, value in settings.items() if name != "sparse"}
    try:
        return letor_twin.read(text, **settings, skip=skip, largest=letor_settings.LARGEST_UNDECLARED)
    except letor_twin.WrongError as error:
        return error.place


def disagreement(text, settings, *, n_threads=1, skip=False):
    """What the reader makes of a text that the twin does not; None if they agree."""
    twin = expected(text, settings, skip)
    wrong = []
    on_error = (lambda error: wrong.append((error.line, error.column))) if skip else "raise"
    try:
        stream = pr.read_letor(io.BytesIO(text), comments=True, on_error=on_error, n_threads=n_threads, **settings)
    except pr.FormatError as error:
        found = error.line, error.column
        return None if found == twin else f"expected {_shown(twin)}, got {error}"
    except ValueError as error:
        if not str(error).startswith("there are no documents"):
            raise
        return None if twin == (0, 0) else f"expected {_shown(twin)}, got {error}"
    if isinstance(twin, tuple) and not isinstance(twin, letor_twin.Twin):
        return f"expected an error at {twin}, got {stream}"
    return difference(stream, twin) or (None if wrong == twin.wrong else f"skipped {wrong}, expected {twin.wrong}")


def difference(stream, twin):
    """The first part of a stream that is not what the twin says; None if all are, to the bit."""
    if stream.X.shape != twin.X.shape or stream.X.dtype != twin.X.dtype:
        return f"X is {stream.X.dtype} {stream.X.shape}, expected {twin.X.dtype} {twin.X.shape}"
    X, wanted = stream.X, twin.X
    if stream.is_sparse:
        pr.SparseFeatures(*X.arrays, X.n_features)  # which checks that they fit together
        if not X.values.all():
            return "X has zeros among the non-zeros"
        X, wanted = X.toarray(), wanted + 0.0  # zeros have no sign
    if X.tobytes() != wanted.tobytes():
        bits = f"u{wanted.itemsize}"
        i, j = np.argwhere(X.view(bits) != wanted.view(bits))[0]
        return f"X[{i}, {j}] is {X[i, j]!r}, expected {wanted[i, j]!r}"
    for name in ("relevance", "offsets", "qids", "comments"):
        got, wanted = getattr(stream, name).tolist(), getattr(twin, name)
        if repr(got) != repr(wanted):
            return f"{name} are {got}, expected {wanted}"
    if stream.feature_names != twin.feature_names:
        return f"feature_names are {stream.feature_names}, expected {twin.feature_names}"
    return None


def _shown(twin):
    return f"a stream of {twin.X.shape}" if isinstance(twin, letor_twin.Twin) else f"an error at {twin}"


def run_case(seed):
    """(text, settings, how it is read, disagreement) of the case with this number."""
    rng = random.Random(seed)
    text, settings = random_case(rng)
    if rng.randrange(8):
        text = mutated(rng, text)
    how = {"n_threads": rng.choice([1, 1, 2, 3]), "skip": rng.randrange(3) == 0}
    chunk_bytes = rng.choice([16, 64, 300, 2**20])
    with small_limits(chunk_bytes):
        found = disagreement(text, settings, **how)
    return text, settings, how | {"chunk_bytes": chunk_bytes}, found


def hostile_file(rng):
    """(data, text that it surely holds or None): LETOR text compressed, damaged, or far larger than its file."""
    text, _ = random_case(rng)
    kind = rng.choice([kind for kind in COMPRESS if kind != "plain"])
    form = rng.choice(["intact", "members", "truncated", "mutated", "mutated", "long", "blocks", "window", "wide"])
    if form == "intact":
        return COMPRESS[kind](text), text
    if form == "members":
        cuts = sorted(rng.randrange(len(text) + 1) for _ in range(rng.randrange(4)))
        pieces = [text[start:end] for start, end in pairwise([0, *cuts, len(text)])]
        return bytes(rng.randrange(3)).join(COMPRESS[kind](piece) for piece in pieces) + bytes(rng.randrange(9)), text
    if form == "truncated":
        data = COMPRESS[kind](text)
        return data[: rng.randrange(len(data))], None
    if form == "mutated":
        return mutated(rng, COMPRESS[kind](text * rng.choice([1, 1, 20]))), None
    if form == "long":
        unit = rng.choice([b"\n", b" ", b"\0", b"#\n", b"1 qid:1 1:1\n", b"x\n", b"#1:x\n", b"1 qid:1 1:1 "])
        most = 10**5 if unit == b"1 qid:1 1:1\n" else 10**7  # the features of documents do take memory
        return COMPRESS[kind](text + b"\n" + unit * rng.randrange(most)), None
    if form == "blocks":
        return bombs.zstd_blocks(
            rng.randrange(1500), rng.choice([b"\n", b"\0", b" ", b"1"]), rng.randrange(10, 42)
        ), None
    if form == "window":
        return bombs.xz_window(text, rng.randrange(41)), None
    width = rng.choice([2**20, 2**20 - 1, rng.randrange(1, 2**20)])
    unit = rng.choice([b"1 qid:1 %d:1\n" % width, b"1 qid:1 1:1\n", b"\n", b"x\n"])
    return b"#%d:x\n" % width + unit * rng.randrange(3000) + b"1 qid:1 %d:1\n" % width, None


def run_hostile_case(seed):
    """(data, how it is read, what went wrong or None) of the file with this number; for a process with limits."""
    rng = random.Random(seed)
    data, text = hostile_file(rng)
    how = {"n_threads": rng.choice([1, 2, 3]), "on_error": rng.choice(["raise", "skip"])}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = _outcomes(data, how)
        plain = found if text is None else _outcomes(text, how)
    return data, how, None if found == plain else f"{found}, expected {plain}"


def _outcomes(data, how):
    """What each reader makes of a file; errors other than those for files go through."""
    outcomes = []
    for reader in (pr.read_letor, lambda *a, **k: pr.QueryStream.concatenate(pr.scan_letor(*a, **k))):
        try:
            stream = reader(io.BytesIO(data), **how)
            arrays = stream.X.arrays if stream.is_sparse else [stream.X]
            content = [hash(array.tobytes()) for array in arrays]
            outcomes.append((stream.X.shape, content, stream.qids.tolist()))
        except pr.FormatError as error:
            outcomes.append(str(error))
        except ValueError as error:
            if not str(error).startswith("there are no documents"):
                raise
            outcomes.append(str(error))
    return outcomes
