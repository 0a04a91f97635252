"""Data sets below a folder: those of the catalogue, and other readable files."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from perceptrank.datasets.catalogue import datasets
from perceptrank.io.letor.reader import scan_letor
from perceptrank.io.names import printable
from perceptrank.io.paths import is_store
from perceptrank.io.sources import format_of, has_data_suffix, open_sources
from perceptrank.paper.trials import Source
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.sparse import dense

_TRAINING = re.compile(r"train|learn", re.IGNORECASE)
_FOLD = re.compile(r"fold[\s_-]*\d+", re.IGNORECASE)
_UNSCALED_LIMIT = 1.0
_MIN_QUERIES = 10


@dataclass(frozen=True)
class RealSet:
    """A file of judged queries, with the options to read it."""

    name: str
    path: Path
    options: dict[str, Any]
    fold_of: str = ""  # the set that it is one of several folds of


@dataclass(frozen=True)
class LeftOut:
    """A file that was not used, and the reason; `name` is its path below the folder."""

    name: str
    reason: str


def check_root(root: Path) -> None:
    """Raise `NotADirectoryError` if there is no such folder."""
    if not root.is_dir():
        missing = "" if root.exists() else ", which does not exist"
        raise NotADirectoryError(f"--data must be a folder, got {root}{missing}")


def find_sets(root: Path) -> tuple[list[RealSet], list[LeftOut]]:
    """Find data sets below a folder, with all their folds: only training files of a folder that has any."""
    check_root(root)
    known = {
        os.path.realpath(path): data_set
        for data_set in datasets().values()
        for fold in data_set.folds
        if (path := data_set.find(root, fold=fold)) is not None
    }
    sets: list[RealSet] = []
    left_out: list[LeftOut] = []
    folds: dict[Path, list[int]] = {}
    for folder, candidates in data_folders(root, left_out):
        training = [path for path in candidates if _TRAINING.search(path.name)]
        others = [path for path in candidates if training and path not in training]
        left_out += [LeftOut(_relative_name(path, root), "not the training file") for path in others]
        chosen = training or candidates
        for path in chosen:
            if (reason := _unreadable(path)) is not None:
                left_out.append(LeftOut(_relative_name(path, root), reason))
                continue
            if (entry := known.get(os.path.realpath(path))) is not None:
                sets.append(RealSet(entry.title, path, {"n_features": entry.n_features, **entry.options}))
            else:
                sets.append(RealSet(_name(path, root, alone=len(chosen) == 1), path, {}))
            if _FOLD.fullmatch(folder.name) and len(chosen) == 1:
                folds.setdefault(folder.parent, []).append(len(sets) - 1)
    for parent, places in folds.items():
        if len(places) > 1:
            base = _name(parent / "of", root, alone=True)
            for place in places:
                sets[place] = _as_fold(sets[place], base)
    return sets, left_out


def _as_fold(data_set: RealSet, base: str) -> RealSet:
    """Name a set of the catalogue after its fold; others are called by their folders already."""
    if not data_set.options:
        return replace(data_set, fold_of=base)
    return replace(data_set, name=f"{data_set.name}, {as_text(Path(data_set.path.parent.name))}", fold_of=data_set.name)


def data_folders(root: Path, left_out: list[LeftOut]) -> Iterator[tuple[Path, list[Path]]]:
    """Walk folders and the data files and stores in them; symbolic links are followed, and each folder visited once."""
    seen = set()

    def on_error(error: OSError) -> None:
        left_out.append(LeftOut(as_text(Path(error.filename)), error.strerror or printable(str(error))))

    for path, folders, files in os.walk(root, onerror=on_error, followlinks=True):
        folder = Path(path)
        if (real := os.path.realpath(folder)) in seen:
            folders.clear()
            continue
        seen.add(real)
        stores = [name for name in sorted(folders) if is_store(folder / name)]
        folders[:] = sorted(name for name in folders if name not in stores and not name.startswith("."))
        data_files = [name for name in files if has_data_suffix(name) and (folder / name).is_file()]
        if candidates := [folder / name for name in sorted([*stores, *data_files])]:
            yield folder, candidates


def _unreadable(path: Path) -> str | None:
    """Return the reason why a file is not readable as judged queries, or None."""
    try:
        if format_of(path) == "letor":
            next(iter(scan_letor(path, n_threads=1)))
    except (OSError, ValueError, ImportError, StopIteration) as error:
        return printable(str(error)) or "empty"
    return None


def as_text(path: Path) -> str:
    """Convert a path to text that the report can hold."""
    return printable(os.fspath(path))


def _relative_name(path: Path, root: Path) -> str:
    return as_text(path.relative_to(root))


def _name(path: Path, root: Path, *, alone: bool) -> str:
    if not alone:
        return _relative_name(path, root)
    folder = path.parent if path.parent != root else root.resolve()
    return _relative_name(folder, root if path.parent != root else folder.parent)


def real_source(data_set: RealSet, transform: str, order: str, passes: int, max_queries: int | None) -> Source:
    """Read a data set; the transform "auto" keeps features in [-1, 1] and standardises others query by query."""
    stream = open_sources([data_set.path], whole=True, **data_set.options)
    if not isinstance(stream, QueryStream):
        stream = QueryStream.concatenate(list(stream))
    n_all = len(stream)
    stream = stream[:max_queries]
    chosen = _choose_transform(stream) if transform == "auto" else None if transform == "none" else transform
    starts = stream.offsets[:-1]
    n_counted = int(np.count_nonzero(np.add.reduceat(stream.relevance > 0, starts)))
    highest, lowest = np.maximum.reduceat(stream.relevance, starts), np.minimum.reduceat(stream.relevance, starts)
    n_teaching = int(np.count_nonzero(highest > lowest))
    if n_teaching < _MIN_QUERIES:
        raise ValueError(f"needs {_MIN_QUERIES} queries with documents of different grades, got {n_teaching}")
    fold = f"one of several folds of {data_set.fold_of}: " if data_set.fold_of else ""
    n = len(stream)
    queries = f"{n:,} queries" if n == n_all else f"the first {n:,} of {n_all:,} queries"
    features = "unscaled features" if chosen is None else f"features scaled by {chosen}"
    arranged = "reshuffled for every seed" if order == "shuffled" else "in the order of the file"
    about = (
        f"{fold}{queries}, {n_counted:,} of them with a relevant document, {stream.n_documents:,} documents, "
        f"{stream.n_features} features; {features}; {arranged}; " + ("one pass" if passes == 1 else f"{passes} passes")
    )
    facts = {
        "file": as_text(Path(data_set.path.name)),
        "queries": n,
        "queries_with_a_relevant_document": n_counted,
        "documents": stream.n_documents,
        "features": stream.n_features,
        "grades": [float(grade) for grade in np.unique(stream.relevance)][:20],
        "queries_with_different_grades": n_teaching,
        "queries_in_file": n_all,
    }
    facts |= {"fold_of": data_set.fold_of} if data_set.fold_of else {}
    shuffled = order == "shuffled"
    return Source(data_set.name, about, lambda seed: stream, n, passes, shuffled, chosen, facts, data_set.fold_of)


def _choose_transform(stream: QueryStream) -> str | None:
    largest = max(float(np.abs(dense(block.X)).max(initial=0.0)) for block in stream.blocks())
    return None if largest <= _UNSCALED_LIMIT else "query-zscore"
