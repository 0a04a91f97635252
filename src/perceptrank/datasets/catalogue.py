"""The public data sets of the field; `catalogue.toml` lists them. None is shipped or downloaded."""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from perceptrank.io.compression import SUFFIXES
from perceptrank.io.letor.reader import read_letor
from perceptrank.io.paths import PathLike
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.validation import check_choice


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
    home, terms : str
        Web page and terms of use.
    grades : str
        Range of the grades.
    n_folds : int
        Number of folds; 0 without cross-validation folds.
    options : mapping
        Options of `read_letor` that the files need.
    """

    name: str
    title: str
    queries: int | None
    documents: int | None
    n_features: int
    files: Mapping[str, str]
    folders: tuple[str, ...]
    home: str
    terms: str
    grades: str = "0-4"
    n_folds: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)

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

    def read(self, root: PathLike, split: str = "train", fold: int | None = None, **options: Any) -> QueryStream:
        """Read a split into memory; raise `FileNotFoundError` if there is none. Other parameters are those of `find`.

        Parameters
        ----------
        **options
            Options of `read_letor`.
        """
        path = self.find(root, split, fold)
        if path is None:
            name = self.files[split].format(fold=self.folds[0] if fold is None else fold)
            expected = " or ".join(os.path.join(os.fspath(root), folder, name) for folder in self.folders)
            raise FileNotFoundError(f"{self.title} not found: expected {expected} (or compressed). {self.obtain}")
        return read_letor(path, **{"n_features": self.n_features, **self.options, **options})

    @property
    def obtain(self) -> str:
        """Sentence with the web page and the terms of use."""
        return f"Obtain it from {self.home} ({self.terms})."


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
    entries = tomllib.loads((Path(__file__).parent / "catalogue.toml").read_text("utf-8"))
    for entry in entries.values():
        entry["folders"] = tuple(entry["folders"])
    unknown = {"queries": None, "documents": None}
    return MappingProxyType(_Catalogue({name: DataSet(name, **unknown | entry) for name, entry in entries.items()}))
