"""Finished trials on disk, so that an interrupted reproduction can continue.

A trial is identified by everything that its values depend on: the version, the learners with their settings, the
measures, the seed, and the content and presentation of the stream. Trials with other settings are never used.
"""

import hashlib
import json
import os
import re
import zipfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from perceptrank.io.atomic import replaced_file
from perceptrank.kernels.arrays import Floats
from perceptrank.learners.learner import Learner
from perceptrank.paper.contenders import MEASURES, Run
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.sparse import SparseFeatures

if TYPE_CHECKING:
    from perceptrank.paper.trials import Source

_NAME = re.compile(r"[0-9a-f]{64}\.npz|\.perceptrank-.*")  # the latter are what a kill leaves
_BROKEN = (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile)


class Finished:
    """A folder of finished trials, created when the first is saved."""

    def __init__(self, folder: Path, version: str) -> None:
        self._folder, self._version = folder, version
        self._last: tuple[QueryStream, str] | None = None
        self._kept: set[str] = set()  # in this run: a second file with the same content loads them, too
        self.n_found = 0

    def key(self, source: "Source", seed: int, learners: Mapping[str, Learner]) -> str:
        """Return the name of a trial."""
        facts = {
            "version": [self._version, _source()],
            "learners": {name: repr(learner) for name, learner in learners.items()},
            "measures": MEASURES,
            "seed": seed,
            "passes": source.passes,
            "shuffled": source.shuffled,
            "transform": repr(source.transform),
            "stream": self._fingerprint(source.draw(seed)),
        }
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    def _fingerprint(self, stream: QueryStream) -> str:
        if self._last is None or self._last[0] is not stream:  # real sets are the same for all seeds
            self._last = stream, fingerprint(stream)
        return self._last[1]

    def load(self, key: str, n_rounds: int) -> dict[Run, Floats] | None:
        """Return the values of a trial; None if there are none, or the file is incomplete."""
        try:
            with open(self._folder / f"{key}.npz", "rb") as opened, np.load(opened, allow_pickle=False) as file:
                runs = [Run(str(a), str(b), float(c)) for a, b, c in json.loads(str(file["runs"]))]
                values = file["values"]
        except _BROKEN:
            return None
        if values.shape != (len(runs), n_rounds) or values.dtype != np.float64:
            return None
        self.n_found += key not in self._kept
        return dict(zip(runs, values, strict=True))

    def keep(self, key: str, values: Mapping[Run, Floats]) -> None:
        """Save the values of a trial atomically; if the disk is full, nothing is saved."""
        try:
            self._folder.mkdir(exist_ok=True)
            with replaced_file(self._folder / f"{key}.npz") as file:
                arrays = {"runs": np.array(json.dumps(list(values))), "values": np.stack(list(values.values()))}
                np.savez(file, **arrays)  # type: ignore[arg-type]
        except OSError:
            return
        self._kept.add(key)

    def clear(self) -> None:
        """Remove all trials, whatever their settings, and the folder unless it has other files."""
        try:
            for path in self._folder.iterdir():
                if _NAME.fullmatch(path.name):
                    path.unlink()
            os.rmdir(self._folder)
        except OSError:
            return


@cache
def _source() -> str:
    """Return a hash of our source, so that trials of other code are not used between versions either."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def fingerprint(stream: QueryStream) -> str:
    """Return a hash of the queries: features, grades, names and weights."""
    digest = hashlib.sha256(f"{stream.X.dtype} {stream.X.shape} {stream.feature_names!r}\n".encode(errors="replace"))
    features = stream.X._rebased().arrays if isinstance(stream.X, SparseFeatures) else [stream.X]
    weights = [] if stream.query_weights is None else [stream.query_weights]
    for array in [*features, stream.relevance, stream.offsets, *weights]:
        digest.update(np.ascontiguousarray(array).data)
    digest.update(repr(stream.qids.tolist()).encode(errors="surrogatepass"))
    return digest.hexdigest()
