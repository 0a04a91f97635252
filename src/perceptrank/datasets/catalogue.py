"""The public data sets of the field, with the numbers that their publishers give. None is shipped or downloaded."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, repeat
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
        """Find the file of a split, compressed or not.

        Parameters
        ----------
        root : path
            Folder of all data sets, or of this one.
        split : str
            One of `splits`.
        fold : int, optional
            One of `folds`; default the first.

        Returns
        -------
        Path or None
            None if there is no such file.
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
    splits = ("train", "vali", "test")
    microsoft = "https://www.microsoft.com/en-us/research/project/"
    letor = microsoft + "letor-learning-rank-information-retrieval/"
    folds: dict[str, Any] = {
        "n_folds": 5,
        "files": {split: f"Fold{{fold}}/{split}.txt" for split in splits},
        "terms": "Microsoft Research's agreement, to be accepted on the page",
    }
    mslr: dict[str, Any] = folds | {"home": microsoft + "mslr/", "is_dense": True}
    letor_4: dict[str, Any] = folds | {"home": letor + "letor-4-0/", "is_dense": True, "grades": "0-2"}
    yahoo: dict[str, Any] = {
        "folders": ("ltrc_yahoo", "", "Webscope_C14B", "Webscope_C14B/ltrc_yahoo"),
        "home": "https://research.yahoo.com/datasets (C14)",
        "terms": "on request, no redistribution",
    }
    istella: dict[str, Any] = {
        "home": "http://quickrank.isti.cnr.it/istella-dataset/",
        "terms": "Istella's licence agreement: not for commercial use",
        "options": {"clip": float(np.finfo(np.float32).max)},
    }
    known = [
        DataSet(
            *("mslr-web10k", "MSLR-WEB10K", 10_000, 1_200_192, 136),
            folders=("MSLR-WEB10K",),
            sizes=_sizes([6000, 2000, 2000] * 5, [723_412, 235_259, 241_521]),
            **mslr,
        ),
        DataSet(
            *("mslr-web30k", "MSLR-WEB30K", 31_531, 3_771_125, 136),
            folders=("MSLR-WEB30K",),
            sizes=_sizes(
                [18_919, 6306, 6306, 18_918, 6306, 6307, 18_918, 6307, 6306, *[18_919, 6306, 6306] * 2],
                [2_270_296, 747_218, 753_611],
            ),
            **mslr,
        ),
        DataSet(
            *("yahoo-set1", "Yahoo! Learning to Rank Challenge, set 1", 29_921, 709_877, 699),
            files={"train": "set1.train.txt", "vali": "set1.valid.txt", "test": "set1.test.txt"},
            sizes=_sizes([19_944, 2994, 6983], [473_134, 71_083, 165_660]),
            **yahoo,
        ),
        DataSet(
            *("yahoo-set2", "Yahoo! Learning to Rank Challenge, set 2", 6330, 172_870, 700),
            files={"train": "set2.train.txt", "vali": "set2.valid.txt", "test": "set2.test.txt"},
            sizes=_sizes([1266, 1266, 3798], [34_815, 34_881, 103_174]),
            **yahoo,
        ),
        DataSet(
            *("imat2009", "Yandex Internet Mathematics 2009", None, 212_933, 245),
            files={"train": "imat2009_learning.txt", "test": "imat2009_test.txt"},
            folders=("imat2009-datasets", "", "imat2009"),
            sizes={(0, "train"): Size(9124, 97_290), (0, "test"): Size(None, 115_643)},
            home="http://imat2009.yandex.ru/academic/mathematic/2009/en/datasets",
            terms="terms of the Internet Mathematics 2009 contest; the grades of the test split were withheld",
            options={"qid": "comment"},
        ),
        DataSet(
            *("mq2007", "LETOR 4.0 MQ2007", 1692, 69_623, 46),
            folders=("MQ2007",),
            sizes=_sizes(
                [1017, 339, 336, 1017, 336, 339, *[1014, 339, 339] * 3],
                [
                    *(42_158, 13_813, 13_652, 41_958, 13_652, 14_013, 41_320, 14_013, 14_290),
                    *(41_478, 14_290, 13_855, 41_955, 13_855, 13_813),
                ],
            ),
            **letor_4,
        ),
        DataSet(
            *("mq2008", "LETOR 4.0 MQ2008", 784, 15_211, 46),
            folders=("MQ2008",),
            sizes=_sizes(
                [471, 157, 156, 471, 156, 157, *[470, 157, 157] * 3],
                [9630, 2707, 2874, 9404, 2874, 2933, 8643, 2933, 3635, 8514, 3635, 3062, 9442, 3062, 2707],
            ),
            **letor_4,
        ),
        DataSet(
            *("ohsumed", "LETOR 3.0 OHSUMED", 106, 16_140, 45),
            folders=("OHSUMED/QueryLevelNorm", "OHSUMED/OHSUMED/QueryLevelNorm"),
            sizes={},
            home=letor + "letor-3-0/",
            grades="0-2",
            **folds,
        ),
        DataSet(
            *("istella", "Istella LETOR", 33_018, 10_454_629, 220),
            files={"train": "train.txt", "test": "test.txt"},
            folders=("full", "istella-letor/full", "istella-letor"),
            sizes={(0, "train"): Size(23_219, 7_325_625), (0, "test"): Size(9799, 3_129_004)},
            **istella,
        ),
        DataSet(
            *("istella-s", "Istella-S LETOR", 33_018, 3_408_630, 220),
            files={split: f"{split}.txt" for split in splits},
            folders=("sample", "istella-s-letor/sample", "istella-s-letor"),
            sizes=_sizes([19_245, 7211, 6562], [2_043_304, 684_076, 681_250]),
            **istella,
        ),
    ]
    return MappingProxyType(_Catalogue({data_set.name: data_set for data_set in known}))


def _sizes(queries: list[int], documents: list[int]) -> dict[tuple[int, str], Size]:
    """Return the sizes of train, vali and test; of all folds in turn if there are more. Documents may be unknown."""
    first = int(len(queries) > 3)  # folds count from 1
    keys = [(fold, split) for fold in range(first, first + len(queries) // 3) for split in ("train", "vali", "test")]
    return dict(zip(keys, map(Size, queries, chain(documents, repeat(None))), strict=True))
