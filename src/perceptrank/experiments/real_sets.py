"""The data sets below a folder: those of the catalogue, and whatever else can be read."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from perceptrank.data.catalog import datasets
from perceptrank.data.letor import scan_letor
from perceptrank.data.sources import format_of, is_named_as_data, is_store, open_sources
from perceptrank.experiments.trials import Source
from perceptrank.stream import QueryStream

_TRAINING = re.compile(r"train|learn", re.IGNORECASE)
_FOLD = re.compile(r"fold[\s_-]*\d+", re.IGNORECASE)
_UNSCALED_LIMIT = 1.0


@dataclass(frozen=True)
class RealSet:
    """A file that holds judged queries, and how to read it."""

    name: str
    path: Path
    options: dict[str, Any]


@dataclass(frozen=True)
class LeftOut:
    """A file that was found and not used, and why."""

    path: Path
    reason: str


def find_sets(root: Path) -> tuple[list[RealSet], list[LeftOut]]:
    """What there is below a folder. Of a folder with a training file only that is taken, of several folds the first."""
    if not root.is_dir():
        raise NotADirectoryError(f"--data must be a folder, got {root}")
    known = {path.resolve(): one for one in datasets().values() if (path := one.find(root)) is not None}
    sets: list[RealSet] = []
    left_out: list[LeftOut] = []
    folds_seen: set[Path] = set()
    for folder, candidates in _folders(root):
        if _FOLD.fullmatch(folder.name):
            if folder.parent in folds_seen:
                left_out += [LeftOut(path, "the same queries as in the fold before it") for path in candidates]
                continue
            folds_seen.add(folder.parent)
        training = [path for path in candidates if _TRAINING.search(path.name)]
        left_out += [LeftOut(path, "not the training file") for path in candidates if training and path not in training]
        chosen = training or candidates
        for path in chosen:
            one = known.get(path.resolve())
            if one is not None:
                sets.append(RealSet(one.title, path, {"n_features": one.n_features, **one.options}))
            elif (reason := _unreadable(path)) is None:
                sets.append(RealSet(_name(path, root, alone=len(chosen) == 1), path, {}))
            else:
                left_out.append(LeftOut(path, reason))
    return sets, left_out


def _folders(root: Path) -> Iterator[tuple[Path, list[Path]]]:
    """Folders and the data in them; a store counts as data."""
    for name, folders, files in os.walk(root):
        folder = Path(name)
        stores = [one for one in sorted(folders) if is_store(folder / one)]
        folders[:] = sorted(one for one in folders if one not in stores and not one.startswith("."))
        candidates = [folder / one for one in sorted([*stores, *files]) if one in stores or is_named_as_data(one)]
        if candidates:
            yield folder, candidates


def _unreadable(path: Path) -> str | None:
    """Why a file does not look like judged queries, if it does not."""
    try:
        if format_of(path) == "letor":
            next(iter(scan_letor(path, n_threads=1)))
    except (OSError, ValueError, ImportError, StopIteration) as error:
        return str(error) or "it is empty"
    return None


def _name(path: Path, root: Path, *, alone: bool) -> str:
    if alone and path.parent != root:
        return path.parent.relative_to(root).as_posix()
    return path.relative_to(root).as_posix()


def real_source(
    one: RealSet, *, scaling: str, order: str, passes: int, most_queries: int | None, progress: Any = None
) -> Source:
    """Read a set. Scaling "auto" leaves features alone that lie in [-1, 1] and z-scores others query by query."""
    stream = open_sources([one.path], whole=True, progress=progress, **one.options)
    if not isinstance(stream, QueryStream):
        stream = QueryStream.concatenate(list(stream))
    if most_queries is not None:
        stream = stream[:most_queries]
    chosen = _automatic(stream) if scaling == "auto" else None if scaling == "none" else scaling
    n_counted = int(np.count_nonzero(np.add.reduceat(stream.relevance > 0, stream.offsets[:-1])))
    if n_counted == 0:
        raise ValueError(f"{one.path}: no query has a relevant document")
    features = "features as they are" if chosen is None else f"features scaled by {chosen}"
    arranged = "in a new order for every seed" if order == "shuffled" else "in the order of the file"
    return Source(
        one.name,
        f"{len(stream):,} queries, {n_counted:,} of them with a relevant document, {stream.n_documents:,} documents, "
        f"{stream.n_features} features; {features}; {arranged}; " + ("one pass" if passes == 1 else f"{passes} passes"),
        lambda seed: stream,
        len(stream),
        passes,
        shuffled=order == "shuffled",
        scaling=chosen,
        facts={
            "file": one.path.name,
            "queries": len(stream),
            "queries_with_a_relevant_document": n_counted,
            "documents": stream.n_documents,
            "features": stream.n_features,
            "grades": [float(grade) for grade in np.unique(stream.relevance)][:20],
            "cut_to_first_queries": most_queries,
        },
    )


def _automatic(stream: QueryStream) -> str | None:
    largest = max(float(np.abs(block.X).max(initial=0.0)) for block in stream.blocks())
    return None if largest <= _UNSCALED_LIMIT else "query-zscore"
