"""Mutated files of every format that is not read by lines, and what reading them may lead to.

A case is a number: it chooses a file and how it is changed, always in the same way.
"""

import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import perceptrank as pr
from perceptrank.learners.registry import from_document
from support.learners import LEARNERS

HOSTILE_VALUES = [
    None, True, False, 0, -1, 1, 2, 7, 2**31, 2**53, 2**63, 10**30, 10**400, 0.5, -0.0, 1e308, float("nan"), 1e999,
    "", "x", "1", "\ud800", "\x00", "../../x", "X" * 5000, "<i8", "<U5", "|O", "<M8[ns]", [], {}, [[]], [{}], {"a": {}},
    [None], [1.0, 2.0, 3.0], ["a", "b"], [1e400], {"name": "running"}, json.loads("[" * 300 + "]" * 300),
]  # fmt: skip
HOSTILE_TEXTS = [
    b"", b"{", b"[]", b"null", b"7", b"\xff", b"[" * 20_000, b'{"a":' * 20_000, b"9" * 5000, b'{"feature_names":{}}',
    b'{"feature_names":[[]]}', b'{"feature_names":["a","b"]}', b'{"index_columns":null}', b'{"index_columns":["x"]}',
    b'{"layout":"sparse"}', b'{"layout":"sparse","n_features":2}', b'{"layout":"sparse","n_features":3}',
    b'{"layout":"sparse","n_features":2147483647,"feature_names":["a"]}', b'{"layout":[],"n_features":1e999}',
]  # fmt: skip


def example():
    rng = np.random.default_rng(0)
    return pr.QueryStream.from_arrays(
        rng.normal(size=(12, 3)).astype(np.float32),
        rng.integers(3, size=12),
        qid=np.repeat(["a", "bé", "c c"], 4),
        feature_names=["x", "y", "ž"],
        comments=[f"document {i}" if i % 4 else "" for i in range(12)],
    )


def sparse_example():
    whole = example()
    return whole.with_features(pr.SparseFeatures.from_dense(np.where(whole.X > 0, whole.X, 0)))


class Files:
    """The files that are changed, in a folder, and those that came of it."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.originals = self.folder / "originals"
        self.originals.mkdir()
        self.stream = example()
        pr.write_store(self.stream, self.originals / "one.store")
        pr.write_store(self.stream, self.originals / "two.store").append(self.stream[:2])
        pr.write_store(sparse_example(), self.originals / "sparse.store").append(sparse_example()[1:])
        for layout in ("columns", "list"):
            pr.write_parquet(self.stream, self.originals / f"{layout}.parquet", layout=layout, row_group_bytes=60)
        pr.write_parquet(sparse_example(), self.originals / "sparse.parquet", row_group_bytes=60)
        table = pa.table({"qid": [1, 1, 2], "relevance": [0, 1, 2], "x": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]})
        pq.write_table(table, self.originals / "lists.parquet", compression="zstd")
        values = np.array([0.5, 1.0, float("nan")] * 20)
        trace = pr.Trace({pr.NDCG(10): values, pr.AP(): values}, np.arange(60.0))
        trace.save(self.originals / "compressed.npz")
        np.savez(self.originals / "stored.npz", masses=trace.masses, **{"ndcg@10:ties=expected": values})
        for number, make in enumerate(LEARNERS.values()):
            learner = make()
            learner.save(self.originals / f"new{number}.json")
            if not learner.model.is_linear:
                continue
            document = json.loads((self.originals / f"new{number}.json").read_text())
            (self.originals / f"model{number}.json").write_text(json.dumps(with_state(document)))
            pr.load(self.originals / f"model{number}.json")
        self.names = {kind: sorted(self.originals.glob(f"*.{kind}")) for kind in ("store", "parquet", "npz", "json")}

    def run(self, seed):
        """Read one changed file; return the exception that it led to, or None."""
        rng = np.random.default_rng(seed)
        kind = list(self.names)[rng.integers(len(self.names))]
        source = self.names[kind][rng.integers(len(self.names[kind]))]
        target = self.folder / f"case.{kind}"
        if target.is_dir():
            shutil.rmtree(target)
        READERS[kind](self, rng, source, target)

    def run_store(self, rng, source, target):
        shutil.copytree(source, target)
        files = sorted(path.name for path in target.iterdir())
        path = target / ("manifest.json" if rng.random() < 0.4 else files[rng.integers(len(files))])
        if path.name == "manifest.json":
            path.write_bytes(changed_json(rng, path.read_bytes()))
        else:
            reach = 256 if rng.random() < 0.5 else None
            path.write_bytes(changed_bytes(rng, path.read_bytes(), reach))
        opened = pr.open_store(target, comments=bool(rng.integers(2)))
        for block in opened.blocks(64):
            read_stream(block)
        read_stream(opened)
        opened[1:]
        opened.verify()
        if path.name != "manifest.json":
            original = pr.open_store(source)
            same = opened.X == original.X if opened.is_sparse else np.array_equal(opened.X, original.X)
            assert same, "a change passed verify()"
            assert np.array_equal(opened.relevance, original.relevance), "a change passed verify()"

    def run_parquet(self, rng, source, target):
        if rng.random() < 0.2:
            table = pq.read_table(source)
            metadata = {key: HOSTILE_TEXTS[rng.integers(len(HOSTILE_TEXTS))] for key in (b"perceptrank", b"pandas")}
            pq.write_table(table.replace_schema_metadata(metadata), target)
        else:
            whole = source.read_bytes()
            footer = int.from_bytes(whole[-8:-4], "little")
            start = len(whole) - 8 - footer if rng.random() < 0.5 else 0
            target.write_bytes(whole[:start] + changed_bytes(rng, whole[start:]))
        comments = bool(rng.integers(2))
        if rng.integers(2):
            for block in pr.scan_parquet(target, comments=comments, max_bytes=64):
                read_stream(block)
        else:
            read_stream(pr.read_parquet(target, comments=comments))

    def run_npz(self, rng, source, target):
        if rng.random() < 0.3:  # checksums are right, only what is packed is wrong
            with zipfile.ZipFile(source) as archive, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as changed:
                for name in archive.namelist():
                    content = archive.read(name)
                    changed.writestr(name, changed_bytes(rng, content, 128) if rng.integers(2) else content)
        else:
            target.write_bytes(changed_bytes(rng, source.read_bytes()))
        trace = pr.Trace.load(target)
        repr(trace)

    def run_json(self, rng, source, target):
        target.write_bytes(changed_json(rng, source.read_bytes()))
        model = pr.load(target)
        json.dumps(model.as_document(), allow_nan=False)
        repr(model)


def with_state(document, n_features=3):
    """A model's document as if it had learned something, and the learners in it too, without compiling what learns."""
    learner, width = from_document(document), n_features
    for transform in learner.transforms_:
        width = transform.n_outputs(width)
    zeros = {name: values.ravel().tolist() for name, values in learner.extra_state(width).items()}
    if "members" in document:
        document = document | {"members": [with_state(one, width) for one in document["members"]]}
    counts = {"rounds": 5, "updates": 2, "mass": 1.5, "squared_reach": 1.0, "squared_steps": 1.0}
    weights = {"weights": [1.0, -0.5] * width, "total": [3.0, -2.5] * width, "largest_squared_reach": 1.0}
    weights |= {name: weights[name][:width] for name in ("weights", "total")}
    return document | {"queries": 5, "features": n_features, "state": zeros | counts | weights}


READERS = {"store": Files.run_store, "parquet": Files.run_parquet, "npz": Files.run_npz, "json": Files.run_json}


def read_stream(stream):
    """Touch everything in a stream."""
    assert stream.X.shape == (stream.n_documents, stream.n_features)
    if stream.is_sparse:
        pr.SparseFeatures(*stream.X._rebased().arrays, stream.n_features)
    values = stream.X.values if stream.is_sparse else stream.X
    np.nansum(values, dtype=np.float64)
    np.nansum(stream.relevance)
    assert len(stream.qids.tolist()) == len(stream.offsets) - 1
    assert stream.offsets[-1] == stream.n_documents
    if stream.comments is not None:
        assert len("".join(stream.comments.tolist())) >= 0


def changed_bytes(rng, content, reach=None):
    """Change a few bytes, or cut, insert, repeat or move some, among the first `reach`."""
    changed = bytearray(content)
    for _ in range(rng.integers(1, 5)):
        n = max(1, min(len(changed), reach or len(changed)))
        start, length = int(rng.integers(n)), int(rng.integers(1, 9))
        how = rng.integers(8)
        if how < 3 and changed:
            changed[min(start, len(changed) - 1)] ^= 1 << int(rng.integers(8))
        elif how == 3:
            changed[start : start + length] = rng.bytes(length)
        elif how == 4:
            changed[start : start + length] = bytes([rng.choice([0, 255, 127, 128])]) * length
        elif how == 5:
            del changed[start : start + (length if rng.integers(2) else n)]
        elif how == 6:
            changed[start:start] = changed[start : start + length]
        elif how == 7:
            other = int(rng.integers(n))
            changed[start : start + length] = changed[other : other + length]
    return bytes(changed)


def changed_json(rng, content):
    """Change bytes of the text, or replace, remove or add values anywhere in the document."""
    if rng.random() < 0.2:
        return changed_bytes(rng, content)
    if rng.random() < 0.05:
        return HOSTILE_TEXTS[rng.integers(len(HOSTILE_TEXTS))]
    document = json.loads(content)
    for _ in range(rng.integers(1, 3)):
        places = list(_places(document))
        holder, key = places[rng.integers(len(places))]
        how = rng.integers(6)
        if how == 0:
            del holder[key]
        elif how == 1 and isinstance(holder, list):
            holder.insert(key, HOSTILE_VALUES[rng.integers(len(HOSTILE_VALUES))])
        elif how == 2:
            other, place = places[rng.integers(len(places))]
            holder[key] = json.loads(json.dumps(other[place])) if place in _keys(other) else None
        else:
            holder[key] = json.loads(json.dumps(HOSTILE_VALUES[rng.integers(len(HOSTILE_VALUES))]))
    return json.dumps(document).encode()


def _keys(holder):
    return list(holder) if isinstance(holder, dict) else range(len(holder))


def _places(holder):
    """Yield every container below a document with each of its keys."""
    for key in _keys(holder):
        yield holder, key
        if isinstance(holder[key], (dict, list)):
            yield from _places(holder[key])
