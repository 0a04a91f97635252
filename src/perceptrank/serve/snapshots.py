"""Snapshots: model files that say which entry of the log they follow, and that are known to be whole."""

import json
import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from perceptrank.io.atomic import write_atomically
from perceptrank.io.errors import FormatError
from perceptrank.io.model_file import model_text, parse_model
from perceptrank.learners.registry import restore
from perceptrank.serve.learning import MODEL_BYTES
from perceptrank.serve.replay import COUNTED, Current
from perceptrank.serve.shadow.shadow import Shadow
from perceptrank.stream.memory import limited_room

_PLAIN = ("version", "n_features", "names", *COUNTED)  # fields that JSON takes
_NAME = re.compile(r"(\d{12,})\.json")


@dataclass(frozen=True)
class Snapshots:
    """The snapshots in a folder; each is a model file that `perceptrank.load` reads."""

    folder: Path

    def versions(self) -> list[int]:
        """Return the versions that have a snapshot, newest first."""
        try:
            names = os.listdir(self.folder)
        except FileNotFoundError:
            return []
        matches = map(_NAME.fullmatch, names)
        return sorted((int(match[1]) for match in matches if match), reverse=True)

    def path(self, version: int) -> Path:
        """Return the file of a version."""
        return self.folder / f"{version:012d}.json"

    def write(self, current: Current, keep: int) -> None:
        """Write a snapshot, atomically, and remove the oldest ones beyond a number."""
        write_atomically(self.path(current.version), snapshot_text(current))
        for version in self.versions()[keep:]:
            self.path(version).unlink(missing_ok=True)

    def read(self, version: int) -> Current | None:
        """Return a snapshot; None if it is missing or damaged."""
        try:
            snapshot = parse_snapshot(self.path(version), self.path(version).read_bytes())
        except OSError:
            return None
        return snapshot if snapshot is not None and snapshot.version == version else None

    def valid(self, until: float = math.inf) -> Iterator[Current]:
        """Iterate over the snapshots that are whole, up to a version, newest first."""
        for version in self.versions():
            if version <= until and (snapshot := self.read(version)) is not None:
                yield snapshot


def snapshot_text(current: Current) -> str:
    """Return the content of a snapshot."""
    document = current.learner.as_document()
    document["log"] = {"link": current.link.hex(), **{name: getattr(current, name) for name in _PLAIN}}
    if current.shadow.is_fixed or current.shadow.known:
        document["log"]["shadow"] = current.shadow.as_plain()
    document["log"]["checksum"] = _checksum(document)
    return model_text(document)


def parse_snapshot(source: str | Path, content: bytes) -> Current | None:
    """Return the snapshot of a content; None if it is damaged."""
    try:
        document = parse_model(source, content)
        about = document["log"]
        if about.pop("checksum") != _checksum(document):
            return None
        about["names"] = None if about["names"] is None else tuple(about["names"])
        with limited_room(MODEL_BYTES):
            learner = restore(source, document)
        return Current(
            learner,
            link=bytes.fromhex(about["link"]),
            shadow=Shadow.from_plain(about["shadow"]) if "shadow" in about else Shadow(),
            **{name: about[name] for name in _PLAIN if name in about},  # some came later
        )
    except (FormatError, KeyError, TypeError, ValueError):
        return None


def _checksum(document: dict[str, Any]) -> str:
    """Return a checksum of all of a document but the version of its format."""
    plain = json.loads(model_text(document))
    kept = {name: value for name, value in plain.items() if name not in ("format", "version")}
    return blake2b(json.dumps(kept, sort_keys=True).encode(), digest_size=16).hexdigest()
