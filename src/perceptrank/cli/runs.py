"""Position of a model in a run, so that `learn --resume` goes on at the right query of the right files.

A run is one pass over some files, which may be interrupted. The model file has how many queries were learned before,
and fingerprints of the run's first and last query, which are found again, however files and blocks are cut.
"""

import hashlib
import json
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import perceptrank as pr


class Run:
    """A run of which `position` queries are learned, by a model that had learned `first` queries before it.

    `begins` and `ends` are the fingerprints of the first and the last learned query, `origin` that of the model file
    that the run started from, each empty if there is none; `held_out` is the share of queries not learned from.
    """

    held_out = 0.0

    def __init__(self, first: int, position: int = 0, *, begins: str = "", ends: str = "", origin: str = "") -> None:
        self.first, self.position, self.origin = first, position, origin
        self._begins = begins
        self._ends = {first + position: ends}

    @classmethod
    def of(cls, path: Path, n_queries: int) -> "Run":
        """Return the run of a saved model that has learned from so many queries; warn if the file does not say."""
        from perceptrank.io.model_file import read_model, whole_number

        record = read_model(path).get("run")
        if record is None:
            unknown = "does not say which queries it has learned from"
            warnings.warn(f"{path} {unknown}: the first {n_queries:,} are skipped unseen", stacklevel=2)
            return cls(0, n_queries)
        try:
            first = whole_number("first", record["first"])
            share = record.get("held_out", 0.0)
            texts = {name: record[name] for name in ("begins", "ends", "origin")}
            is_share = type(share) in (int, float) and 0 <= share < 1
            if first > n_queries or not is_share or not all(isinstance(text, str) for text in texts.values()):
                raise ValueError(f"got {json.dumps(record)[:200]}")
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} is damaged: its run is not valid: {error}") from None
        run = cls(first, n_queries - first, **texts)
        run.held_out = float(share)
        return run

    def hold_out(self, share: float, saved: Path | None) -> None:
        """Set the share of the queries that is not learned from; raise if the run that goes on has another."""
        if self.position and share != self.held_out:
            kept = f"--hold-out {self.held_out:g}" if self.held_out else "no --hold-out"
            raise ValueError(f"{saved} was learned with {kept}: resume with the same")
        self.held_out = share

    def rest(self, blocks: "Iterator[pr.QueryStream]", saved: Path | None) -> "Iterator[pr.QueryStream]":
        """Yield what is not learned yet of the blocks of a run; raise `ValueError` if it was learned from others."""
        seen = 0
        for block in blocks:
            if seen == 0:
                begins = fingerprint(block, 0)
                self._check(begins, self._begins, block, 0, saved)
                self._begins = begins
            start = min(len(block), max(0, self.position - seen))
            seen += len(block)
            if start and seen - len(block) + start == self.position:
                known = self._ends[self.first + self.position]
                self._check(fingerprint(block, start - 1), known, block, start - 1, saved)
            if start < len(block):
                # Interrupted, a model has learned all of the block or nothing: both ends are kept.
                count, last = self.first + seen, self._ends[max(self._ends)]
                self._ends = {count - len(block) + start: last, count: fingerprint(block, len(block) - 1)}
                yield block[start:] if start else block
        if seen < self.position:
            raise ValueError(
                f"{saved} has learned from {self.position:,} queries in this run, and the files have {seen:,}: "
                "they are not those that the run began with"
            )

    def _check(self, current: str, known: str, block: "pr.QueryStream", q: int, saved: Path | None) -> None:
        if known and current != known:
            which = "began with" if known == self._begins else "stopped at"
            raise ValueError(
                f"{saved} was learned from other files or reading options: its run {which} another query, but these "
                f"files have {block.qids[q]!s} there; --from {saved} learns from all of these queries"
            )

    def as_plain(self, n_queries: int) -> dict[str, Any]:
        """Return the run as a model file has it, after so many queries in all."""
        ends = {"begins": self._begins, "ends": self._ends[n_queries]}
        return {"first": self.first, **ends, "origin": self.origin, "held_out": self.held_out}


def share_held_out(path: str) -> float:
    """Return the share of all queries that a model is known not to have learned from: by its one run, from nothing."""
    from perceptrank.io.model_file import read_model
    from perceptrank.io.weights_file import is_model

    record = read_model(path).get("run") if is_model(path) else None
    if not isinstance(record, dict) or record.get("first") or record.get("origin"):
        return 0.0
    share: Any = record.get("held_out")
    return float(share) if type(share) in (int, float) else 0.0


def fingerprint(block: "pr.QueryStream", q: int) -> str:
    """Return a hash of a query: its name, grades, places, clicks and features."""
    import numpy as np

    from perceptrank.stream.sparse import SparseFeatures

    start, stop = int(block.offsets[q]), int(block.offsets[q + 1])
    features = block.X[start:stop]
    digest = hashlib.sha256(f"{block.qids[q]} {features.dtype} {features.shape}\n".encode(errors="surrogatepass"))
    for array in features._rebased().arrays if isinstance(features, SparseFeatures) else [features]:
        digest.update(array.tobytes())
    for name in ("relevance", "place", "clicked"):
        if name in block.columns:
            digest.update(np.asarray(block.columns[name][start:stop]).tobytes())
    return digest.hexdigest()[:32]


def fingerprint_of_source(source: str) -> str:
    """Return a hash of a file, or of the text that names what is not one."""
    content = Path(source).read_bytes() if os.path.isfile(source) else source.encode()
    return hashlib.sha256(content).hexdigest()[:32]
