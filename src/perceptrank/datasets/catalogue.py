"""The public data sets of the field; `catalogue.toml` lists them. None is shipped or downloaded."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from perceptrank.io.compression import SUFFIXES
from perceptrank.io.letor.reader import read_letor, scan_letor
from perceptrank.io.paths import PathLike
from perceptrank.stream.blocks import Scan
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.sparse import SparseFeatures
from perceptrank.stream.validation import check_choice


class Size(NamedTuple):
    """Published numbers of queries and documents of a split, None where unknown."""

    queries: int | None
    documents: int | None


@dataclass(frozen=True)
class DataSet:
    """A public data set: its files, its published size, and where to obtain it.

    Attributes
    ----------
    name, title : str
        Key in `datasets()`, and full name.
    queries, documents : int or None
        Published totals; None if unknown.
    n_features : int
        Number of features; the largest feature id for sparse files.
    files : mapping of str to str
        File of each split, with ``{fold}`` for the number of the fold.
    folders : tuple of str
        Folders, below the folder of all data sets, where the files may be; most likely first.
    sizes : mapping of (int, str) to Size
        Sizes by fold (0 without folds) and split.
    home, terms : str
        Web page and terms of use.
    grades : str
        Range of the grades.
    n_folds : int
        Number of folds; 0 without cross-validation folds.
    options : mapping
        Options of `read_letor` that the files need.
    is_dense : bool
        Every feature is known to occur in every split.
    """

    name: str
    title: str
    queries: int | None
    documents: int | None
    n_features: int
    files: Mapping[str, str]
    folders: tuple[str, ...]
    sizes: Mapping[tuple[int, str], Size]
    home: str
    terms: str
    grades: str = "0-4"
    n_folds: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    is_dense: bool = False

    @property
    def splits(self) -> list[str]:
        """Names of the splits."""
        return list(self.files)

    @property
    def folds(self) -> list[int]:
        """Numbers of the folds; [0] if there are none."""
        return list(range(1, self.n_folds + 1)) or [0]

    def find(self, root: PathLike, split: str = "train", fold: int | None = None) -> Path | None:
        """Find the file of a split, compressed or not; None if there is no such file.

        Parameters
        ----------
        root : path
            Folder of all data sets, or of this one.
        split : str
            One of `splits`.
        fold : int, optional
            One of `folds`; default the first.
        """
        check_choice("split", split, self.splits)
        fold = self.folds[0] if fold is None else fold
        if fold not in self.folds:
            raise ValueError(f"fold must be one of {self.folds}, got {fold!r}")
        base = Path(root)
        name = self.files[split].format(fold=fold)
        inside = [base / folder for folder in self.folders]
        own_name = base.resolve().name.lower()
        itself = [base] if any(Path(folder).name.lower() == own_name for folder in self.folders) else []
        for folder in [*inside, *itself]:
            for suffix in ("", *SUFFIXES):
                if (path := folder / (name + suffix)).is_file():
                    return path
        return None

    def read(
        self, root: PathLike, split: str = "train", fold: int | None = None, *, check: bool = True, **options: Any
    ) -> QueryStream:
        """Read a split into memory; raise `FileNotFoundError` if there is none. Other parameters are those of `find`.

        Parameters
        ----------
        check : bool
            Check the numbers of queries, documents and features against the published ones; raise `ValueError` if they
            differ.
        **options
            Options of `read_letor`.
        """
        path = self._path(root, split, fold)
        stream = read_letor(path, **self._options(options))
        if check:
            last = _last_feature(stream) if self.is_dense else self.n_features
            self._check(split, fold, Size(len(stream), stream.n_documents), last, path)
        return stream

    def scan(
        self, root: PathLike, split: str = "train", fold: int | None = None, *, check: bool = True, **options: Any
    ) -> Scan:
        """Read a split lazily, in re-iterable blocks. Other parameters are those of `find`.

        Parameters
        ----------
        check : bool
            Check the numbers as `read` does, at the end of an iteration.
        **options
            Options of `scan_letor`.
        """
        path = self._path(root, split, fold)
        scan = scan_letor(path, **self._options(options))

        def start() -> Iterator[QueryStream]:
            n_queries = n_documents = last = 0
            for block in scan:
                n_queries += len(block)
                n_documents += block.n_documents
                last = max(last, _last_feature(block) if self.is_dense and check else self.n_features)
                yield block
            if check:
                self._check(split, fold, Size(n_queries, n_documents), last, path)

        return Scan(start, f"{self.title}, {split}")

    def _options(self, options: dict[str, Any]) -> dict[str, Any]:
        return {"n_features": self.n_features, **self.options, **options}

    def _path(self, root: PathLike, split: str, fold: int | None) -> Path:
        path = self.find(root, split, fold)
        if path is None:
            name = self.files[split].format(fold=self.folds[0] if fold is None else fold)
            expected = " or ".join(os.path.join(os.fspath(root), folder, name) for folder in self.folders)
            raise FileNotFoundError(f"{self.title} not found: expected {expected} (or compressed). {self.obtain}")
        return path

    @property
    def obtain(self) -> str:
        """Sentence with the web page and the terms of use."""
        return f"Obtain it from {self.home} ({self.terms})."

    def _check(self, split: str, fold: int | None, size: Size, last_feature: int, path: Path) -> None:
        expected = self.sizes.get((self.folds[0] if fold is None else fold, split), Size(None, None))
        differences = [
            f"{have:,} {what} instead of {want:,}"
            for what, have, want in zip(Size._fields, size, expected, strict=True)
            if want is not None and have != want
        ]
        if last_feature != self.n_features:
            differences.append(f"{last_feature} features instead of {self.n_features}")
        if differences:
            raise ValueError(
                f"{path} is not the published {split} split of {self.title}: it has "
                f"{' and '.join(differences)}. {self.obtain} To read it anyway, use check=False."
            )


def _last_feature(stream: QueryStream) -> int:
    """Return the number of the last feature that is not 0 everywhere."""
    X = stream.X
    if isinstance(X, SparseFeatures):
        values, indices, _ = X._rebased().arrays
        return int(indices[values != 0].max(initial=-1)) + 1
    return int(np.flatnonzero(X.any(axis=0)).max(initial=-1)) + 1


class _Catalogue(dict[str, DataSet]):
    """Data sets by name; the error for an unknown name lists the known ones."""

    def __missing__(self, name: str) -> DataSet:
        raise KeyError(f"unknown data set {name!r}; known: {', '.join(self)}")


@cache
def datasets() -> Mapping[str, DataSet]:
    """Return the known public data sets by name. Nothing is downloaded.

    Examples
    --------
    >>> datasets()["mslr-web10k"].n_features
    136
    """
    text = (Path(__file__).parent / "catalogue.toml").read_text("utf-8")
    known = {name: _as_data_set(name, **entry) for name, entry in tomllib.loads(text).items()}
    return MappingProxyType(_Catalogue(known))


def _as_data_set(
    name: str, *, sizes: Sequence[Sequence[Sequence[int]]] = (), folders: Sequence[str], **entry: Any
) -> DataSet:
    folds = range(1, len(sizes) + 1) if "n_folds" in entry else [0]
    known = {
        (fold, split): Size(*(None if number < 0 else number for number in size))
        for fold, of_fold in zip(folds, sizes, strict=False)
        for split, size in zip(entry["files"], of_fold, strict=True)
    }
    totals = {"queries": None, "documents": None}
    return DataSet(name, folders=tuple(folders), sizes=known, **totals | entry)
