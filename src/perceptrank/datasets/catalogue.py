"""The public data sets of the field: what they hold, what their archives unpack to, where to obtain them.

None is shipped or downloaded. All numbers are those of the publishers; `largest id` stands for the number of features
where files are sparse.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from perceptrank.io.letor.reader import read_letor, scan_letor
from perceptrank.io.text import PathLike
from perceptrank.stream.blocks import Scan
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.validation import check_choice

_SUFFIXES = ("", ".gz", ".bz2", ".xz", ".zst")
_THREE = {"train": "train.txt", "vali": "vali.txt", "test": "test.txt"}
_LETOR_TERMS = "Microsoft Research's agreement, to be accepted on the page"


class Size(NamedTuple):
    """Queries and documents of a split; None where they are not known for sure."""

    queries: int | None
    documents: int | None


@dataclass(frozen=True)
class DataSet:
    """A public data set.

    `files` says what the file of each split is called, with ``{fold}`` where there are folds; `folders` where, below
    the folder that all data sets are kept in, such files may lie, the likeliest first. `sizes` has the splits' sizes by
    fold (0 if there are none).
    """

    name: str
    title: str
    queries: int | None
    documents: int | None
    n_features: int
    grades: str
    n_folds: int
    files: Mapping[str, str]
    folders: tuple[str, ...]
    sizes: Mapping[tuple[int, str], Size]
    home: str
    terms: str
    options: Mapping[str, Any] = field(default_factory=dict)
    is_dense: bool = False  # whether every feature is known to occur in every split

    @property
    def splits(self) -> list[str]:
        """Names of the splits."""
        return list(self.files)

    @property
    def folds(self) -> list[int]:
        """Numbers of the folds; [0] if there are none."""
        return list(range(1, self.n_folds + 1)) or [0]

    def find(self, root: PathLike, split: str = "train", fold: int | None = None) -> Path | None:
        """The file of a split below a root folder, compressed or not; None if it is not there."""
        check_choice("split", split, self.splits)
        fold = self.folds[0] if fold is None else fold
        if fold not in self.folds:
            raise ValueError(f"fold must be one of {self.folds}, got {fold!r}")
        base = Path(root)
        name = self.files[split].format(fold=fold)
        inside = [base / folder for folder in self.folders]
        itself = [base] if any(Path(one).name.lower() == base.resolve().name.lower() for one in self.folders) else []
        for folder in [*inside, *itself]:
            for suffix in _SUFFIXES:
                if (path := folder / (name + suffix)).is_file():
                    return path
        return None

    def read(
        self, root: PathLike, split: str = "train", fold: int | None = None, *, check: bool = True, **options: Any
    ) -> QueryStream:
        """Read a split whole. Its size must be the published one, unless `check` is False.

        `options` are those of `read_letor`.
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
        """Read a split block by block. Its size is checked when all of it has been read.

        `options` are those of `scan_letor`.
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
            places = " or ".join(os.path.join(os.fspath(root), folder, name) for folder in self.folders)
            raise FileNotFoundError(f"{self.title} is not here: expected {places} (or compressed).\n{self.obtain}")
        return path

    @property
    def obtain(self) -> str:
        """Where to obtain it, and under what terms."""
        return f"Obtain it from {self.home} ({self.terms})."

    def _check(self, split: str, fold: int | None, found: Size, last_feature: int, path: Path) -> None:
        expected = self.sizes.get((self.folds[0] if fold is None else fold, split), Size(None, None))
        differences = [
            f"{have:,} {what} instead of {want:,}"
            for what, have, want in zip(Size._fields, found, expected, strict=True)
            if want is not None and have != want
        ]
        if last_feature != self.n_features:
            differences.append(f"{last_feature} features instead of {self.n_features}")
        if differences:
            raise ValueError(
                f"{path} is not the published {split} split of {self.title}: it has "
                f"{' and '.join(differences)}. {self.obtain} To read it all the same, say check=False."
            )


def _last_feature(stream: QueryStream) -> int:
    """The last feature that is not 0 everywhere."""
    return int(np.flatnonzero(stream.X.any(axis=0)).max(initial=-1)) + 1


def _folds(counts: list[tuple[tuple[int, int, int], tuple[int, int, int] | None]]) -> dict[tuple[int, str], Size]:
    """Sizes by fold and split from the queries and documents of train, vali and test in each fold."""
    return {
        (fold, split): Size(queries[k], None if documents is None else documents[k])
        for fold, (queries, documents) in enumerate(counts, start=1)
        for k, split in enumerate(_THREE)
    }


class _Known(dict[str, DataSet]):
    """Data sets by name, with a helpful word for a name that is not known."""

    def __missing__(self, name: str) -> DataSet:
        raise KeyError(f"no data set is called {name!r}; known are {', '.join(self)}")


@cache
def datasets() -> Mapping[str, DataSet]:
    """The public data sets that are known by name. Nothing is downloaded.

    >>> datasets()["mslr-web10k"].n_features
    136
    """
    fold_files = {split: f"Fold{{fold}}/{file}" for split, file in _THREE.items()}
    mslr = "https://www.microsoft.com/en-us/research/project/mslr/"
    letor = "https://www.microsoft.com/en-us/research/project/letor-learning-rank-information-retrieval/"
    yahoo = ("ltrc_yahoo", "", "Webscope_C14B", "Webscope_C14B/ltrc_yahoo")
    yahoo_home, yahoo_terms = "https://research.yahoo.com/datasets (C14)", "on request, no redistribution"
    istella = "http://quickrank.isti.cnr.it/istella-dataset/", "Istella's licence agreement: not for commercial use"
    bounded = {"clip": float(np.finfo(np.float32).max)}
    known = [
        DataSet(
            "mslr-web10k",
            "MSLR-WEB10K",
            10_000,
            1_200_192,
            136,
            "0-4",
            5,
            fold_files,
            ("MSLR-WEB10K",),
            _folds([((6000, 2000, 2000), (723_412, 235_259, 241_521)), *[((6000, 2000, 2000), None)] * 4]),
            mslr,
            _LETOR_TERMS,
            is_dense=True,
        ),
        DataSet(
            "mslr-web30k",
            "MSLR-WEB30K",
            31_531,
            3_771_125,
            136,
            "0-4",
            5,
            fold_files,
            ("MSLR-WEB30K",),
            _folds(
                [
                    ((18_919, 6306, 6306), (2_270_296, 747_218, 753_611)),
                    ((18_918, 6306, 6307), None),
                    ((18_918, 6307, 6306), None),
                    ((18_919, 6306, 6306), None),
                    ((18_919, 6306, 6306), None),
                ]
            ),
            mslr,
            _LETOR_TERMS,
            is_dense=True,
        ),
        DataSet(
            "yahoo-set1",
            "Yahoo! Learning to Rank Challenge, set 1",
            29_921,
            709_877,
            699,
            "0-4",
            0,
            {"train": "set1.train.txt", "vali": "set1.valid.txt", "test": "set1.test.txt"},
            yahoo,
            {(0, "train"): Size(19_944, 473_134), (0, "vali"): Size(2994, 71_083), (0, "test"): Size(6983, 165_660)},
            yahoo_home,
            yahoo_terms,
        ),
        DataSet(
            "yahoo-set2",
            "Yahoo! Learning to Rank Challenge, set 2",
            6330,
            172_870,
            700,
            "0-4",
            0,
            {"train": "set2.train.txt", "vali": "set2.valid.txt", "test": "set2.test.txt"},
            yahoo,
            {(0, "train"): Size(1266, 34_815), (0, "vali"): Size(1266, 34_881), (0, "test"): Size(3798, 103_174)},
            yahoo_home,
            yahoo_terms,
        ),
        DataSet(
            "imat2009",
            "Yandex Internet Mathematics 2009",
            None,
            212_933,
            245,
            "0-4",
            0,
            {"train": "imat2009_learning.txt", "test": "imat2009_test.txt"},
            ("imat2009-datasets", "", "imat2009"),
            {(0, "train"): Size(9124, 97_290), (0, "test"): Size(None, 115_643)},
            "http://imat2009.yandex.ru/academic/mathematic/2009/en/datasets",
            "terms of the Internet Mathematics 2009 contest; the grades of the test split were withheld",
            {"qid": "comment"},
        ),
        DataSet(
            "mq2007",
            "LETOR 4.0 MQ2007",
            1692,
            69_623,
            46,
            "0-2",
            5,
            fold_files,
            ("MQ2007",),
            _folds(
                [
                    ((1017, 339, 336), (42_158, 13_813, 13_652)),
                    ((1017, 336, 339), (41_958, 13_652, 14_013)),
                    ((1014, 339, 339), (41_320, 14_013, 14_290)),
                    ((1014, 339, 339), (41_478, 14_290, 13_855)),
                    ((1014, 339, 339), (41_955, 13_855, 13_813)),
                ]
            ),
            letor + "letor-4-0/",
            _LETOR_TERMS,
            is_dense=True,
        ),
        DataSet(
            "mq2008",
            "LETOR 4.0 MQ2008",
            784,
            15_211,
            46,
            "0-2",
            5,
            fold_files,
            ("MQ2008",),
            _folds(
                [
                    ((471, 157, 156), (9630, 2707, 2874)),
                    ((471, 156, 157), (9404, 2874, 2933)),
                    ((470, 157, 157), (8643, 2933, 3635)),
                    ((470, 157, 157), (8514, 3635, 3062)),
                    ((470, 157, 157), (9442, 3062, 2707)),
                ]
            ),
            letor + "letor-4-0/",
            _LETOR_TERMS,
            is_dense=True,
        ),
        DataSet(
            "ohsumed",
            "LETOR 3.0 OHSUMED",
            106,
            16_140,
            45,
            "0-2",
            5,
            fold_files,
            ("OHSUMED/QueryLevelNorm", "OHSUMED/OHSUMED/QueryLevelNorm"),
            {},
            letor + "letor-3-0/",
            _LETOR_TERMS,
        ),
        DataSet(
            "istella",
            "Istella LETOR",
            33_018,
            10_454_629,
            220,
            "0-4",
            0,
            {"train": "train.txt", "test": "test.txt"},
            ("full", "istella-letor/full", "istella-letor"),
            {(0, "train"): Size(23_219, 7_325_625), (0, "test"): Size(9799, 3_129_004)},
            *istella,
            bounded,
        ),
        DataSet(
            "istella-s",
            "Istella-S LETOR",
            33_018,
            3_408_630,
            220,
            "0-4",
            0,
            _THREE,
            ("sample", "istella-s-letor/sample", "istella-s-letor"),
            {
                (0, "train"): Size(19_245, 2_043_304),
                (0, "vali"): Size(7211, 684_076),
                (0, "test"): Size(6562, 681_250),
            },
            *istella,
            bounded,
        ),
    ]
    return MappingProxyType(_Known({one.name: one for one in known}))
