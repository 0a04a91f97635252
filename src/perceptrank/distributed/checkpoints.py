"""Checkpoints: a folder with the ranker after each epoch, from which a run goes on as if it had never stopped."""

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from perceptrank.distributed.shards import Shard
from perceptrank.evaluation.trace import Trace
from perceptrank.io.errors import FileFormatError
from perceptrank.io.model_file import read_model, write_model
from perceptrank.learners.learner import Learner

MODEL = "model.json"
_WORDS = {
    "origin": "began with another ranker",
    "shards": "has other shards (names or sizes of the data)",
    "mixed_by": "has another mixed_by",
    "measures": "records other measures",
    "traces": "has another traces=",
}


class Checkpoint:
    """The folder of one run. Its model file is an ordinary one, which `perceptrank.load` reads.

    Parameters
    ----------
    folder : path
        Made if it does not exist.
    ranker : learner
        What the run begins with.
    shards : list of shards
    settings : dict
        Plain settings of the run that decide its result.

    Attributes
    ----------
    epoch : int
        Number of epochs that were finished.
    """

    def __init__(
        self, folder: str | os.PathLike[str], ranker: Learner, shards: Sequence[Shard], settings: dict[str, Any]
    ) -> None:
        self.folder, self.epoch = Path(folder), 0
        self.folder.mkdir(parents=True, exist_ok=True)
        of_shards = [[shard.name, shard.fingerprint()] for shard in shards]
        self._run = {"origin": _digest(ranker.as_document()), "shards": _digest(of_shards), **settings}

    def resume(self, ranker: Learner) -> list[list[Trace]]:
        """Make the ranker what it was after the last epoch, if there was any; return what was recorded so far."""
        path = self.folder / MODEL
        if not path.exists():
            return []
        from perceptrank.learners.registry import from_document

        document = read_model(path)
        kept = document.get("distributed")
        if not isinstance(kept, dict) or not isinstance(kept.get("run"), dict):
            raise FileFormatError(path, " is a model, but not the checkpoint of learning from shards")
        loaded = from_document(document)
        run = kept["run"]
        if run.get("origin") != self._run["origin"] and _digest(loaded.as_document()) == self._run["origin"]:
            self._run["origin"] = run["origin"]  # the ranker has learned these epochs already
        differing = [name for name, value in self._run.items() if run.get(name) != value]
        if differing:
            how = " and ".join(_WORDS[one] for one in differing)
            raise ValueError(
                f"{self.folder} is the checkpoint of another run, which {how}: "
                "give another folder, or the same arguments as before"
            )
        counts: list[int] = kept["traces"]
        ranker.adopt(loaded.model)
        self.epoch = int(kept["epochs"])
        self._counts = counts
        return [[Trace.load(self._trace(epoch, n)) for n in range(count)] for epoch, count in enumerate(counts)]

    def keep(self, ranker: Learner, epochs: int, traces: Sequence[Trace]) -> None:
        """Save the traces of an epoch, then the ranker after it, which makes the epoch count."""
        for n, trace in enumerate(traces):
            trace.save(self._trace(epochs - 1, n))
        counts = [*getattr(self, "_counts", []), *([len(traces)] if self._run["traces"] else [])]
        of_run = {"run": self._run, "epochs": epochs, "traces": counts}
        write_model(self.folder / MODEL, ranker.as_document() | {"distributed": of_run})
        self._counts, self.epoch = counts, epochs

    def _trace(self, epoch: int, shard: int) -> Path:
        return self.folder / f"trace-{epoch:04d}-{shard:06d}.npz"


def _digest(plain: Any) -> str:
    text = json.dumps(plain, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
