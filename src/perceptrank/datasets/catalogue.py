"""The public data sets of the field, with the numbers that their publishers give. None is shipped or downloaded."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

import numpy as np

from perceptrank.datasets.data_set import DataSet, Size

_THREE = {"train": "train.txt", "vali": "vali.txt", "test": "test.txt"}
_LETOR_TERMS = "Microsoft Research's agreement, to be accepted on the page"


def _folds(counts: list[tuple[tuple[int, int, int], tuple[int, int, int] | None]]) -> dict[tuple[int, str], Size]:
    """Return sizes by fold and split from the (queries, documents) of train, vali and test in each fold."""
    return {
        (fold, split): Size(queries[k], None if documents is None else documents[k])
        for fold, (queries, documents) in enumerate(counts, start=1)
        for k, split in enumerate(_THREE)
    }


class _Catalogue(dict[str, DataSet]):
    """Data sets by name; the error for an unknown name lists the known ones."""

    def __missing__(self, name: str) -> DataSet:
        raise KeyError(f"unknown data set {name!r}; known are {', '.join(self)}")


@cache
def datasets() -> Mapping[str, DataSet]:
    """Return the known public data sets by name. Nothing is downloaded.

    Examples
    --------
    >>> datasets()["mslr-web10k"].n_features
    136
    """
    fold_files = {split: f"Fold{{fold}}/{file}" for split, file in _THREE.items()}
    mslr = "https://www.microsoft.com/en-us/research/project/mslr/"
    letor = "https://www.microsoft.com/en-us/research/project/letor-learning-rank-information-retrieval/"
    yahoo = ("ltrc_yahoo", "", "Webscope_C14B", "Webscope_C14B/ltrc_yahoo")
    yahoo_home, yahoo_terms = "https://research.yahoo.com/datasets (C14)", "on request, no redistribution"
    istella_home = "http://quickrank.isti.cnr.it/istella-dataset/"
    istella_terms = "Istella's licence agreement: not for commercial use"
    bounded = {"clip": float(np.finfo(np.float32).max)}
    known = [
        DataSet(
            name="mslr-web10k",
            title="MSLR-WEB10K",
            queries=10_000,
            documents=1_200_192,
            n_features=136,
            grades="0-4",
            n_folds=5,
            files=fold_files,
            folders=("MSLR-WEB10K",),
            sizes=_folds([((6000, 2000, 2000), (723_412, 235_259, 241_521)), *[((6000, 2000, 2000), None)] * 4]),
            home=mslr,
            terms=_LETOR_TERMS,
            is_dense=True,
        ),
        DataSet(
            name="mslr-web30k",
            title="MSLR-WEB30K",
            queries=31_531,
            documents=3_771_125,
            n_features=136,
            grades="0-4",
            n_folds=5,
            files=fold_files,
            folders=("MSLR-WEB30K",),
            sizes=_folds(
                [
                    ((18_919, 6306, 6306), (2_270_296, 747_218, 753_611)),
                    ((18_918, 6306, 6307), None),
                    ((18_918, 6307, 6306), None),
                    ((18_919, 6306, 6306), None),
                    ((18_919, 6306, 6306), None),
                ]
            ),
            home=mslr,
            terms=_LETOR_TERMS,
            is_dense=True,
        ),
        DataSet(
            name="yahoo-set1",
            title="Yahoo! Learning to Rank Challenge, set 1",
            queries=29_921,
            documents=709_877,
            n_features=699,
            grades="0-4",
            n_folds=0,
            files={"train": "set1.train.txt", "vali": "set1.valid.txt", "test": "set1.test.txt"},
            folders=yahoo,
            sizes={
                (0, "train"): Size(19_944, 473_134),
                (0, "vali"): Size(2994, 71_083),
                (0, "test"): Size(6983, 165_660),
            },
            home=yahoo_home,
            terms=yahoo_terms,
        ),
        DataSet(
            name="yahoo-set2",
            title="Yahoo! Learning to Rank Challenge, set 2",
            queries=6330,
            documents=172_870,
            n_features=700,
            grades="0-4",
            n_folds=0,
            files={"train": "set2.train.txt", "vali": "set2.valid.txt", "test": "set2.test.txt"},
            folders=yahoo,
            sizes={(0, "train"): Size(1266, 34_815), (0, "vali"): Size(1266, 34_881), (0, "test"): Size(3798, 103_174)},
            home=yahoo_home,
            terms=yahoo_terms,
        ),
        DataSet(
            name="imat2009",
            title="Yandex Internet Mathematics 2009",
            queries=None,
            documents=212_933,
            n_features=245,
            grades="0-4",
            n_folds=0,
            files={"train": "imat2009_learning.txt", "test": "imat2009_test.txt"},
            folders=("imat2009-datasets", "", "imat2009"),
            sizes={(0, "train"): Size(9124, 97_290), (0, "test"): Size(None, 115_643)},
            home="http://imat2009.yandex.ru/academic/mathematic/2009/en/datasets",
            terms="terms of the Internet Mathematics 2009 contest; the grades of the test split were withheld",
            options={"qid": "comment"},
        ),
        DataSet(
            name="mq2007",
            title="LETOR 4.0 MQ2007",
            queries=1692,
            documents=69_623,
            n_features=46,
            grades="0-2",
            n_folds=5,
            files=fold_files,
            folders=("MQ2007",),
            sizes=_folds(
                [
                    ((1017, 339, 336), (42_158, 13_813, 13_652)),
                    ((1017, 336, 339), (41_958, 13_652, 14_013)),
                    ((1014, 339, 339), (41_320, 14_013, 14_290)),
                    ((1014, 339, 339), (41_478, 14_290, 13_855)),
                    ((1014, 339, 339), (41_955, 13_855, 13_813)),
                ]
            ),
            home=letor + "letor-4-0/",
            terms=_LETOR_TERMS,
            is_dense=True,
        ),
        DataSet(
            name="mq2008",
            title="LETOR 4.0 MQ2008",
            queries=784,
            documents=15_211,
            n_features=46,
            grades="0-2",
            n_folds=5,
            files=fold_files,
            folders=("MQ2008",),
            sizes=_folds(
                [
                    ((471, 157, 156), (9630, 2707, 2874)),
                    ((471, 156, 157), (9404, 2874, 2933)),
                    ((470, 157, 157), (8643, 2933, 3635)),
                    ((470, 157, 157), (8514, 3635, 3062)),
                    ((470, 157, 157), (9442, 3062, 2707)),
                ]
            ),
            home=letor + "letor-4-0/",
            terms=_LETOR_TERMS,
            is_dense=True,
        ),
        DataSet(
            name="ohsumed",
            title="LETOR 3.0 OHSUMED",
            queries=106,
            documents=16_140,
            n_features=45,
            grades="0-2",
            n_folds=5,
            files=fold_files,
            folders=("OHSUMED/QueryLevelNorm", "OHSUMED/OHSUMED/QueryLevelNorm"),
            sizes={},
            home=letor + "letor-3-0/",
            terms=_LETOR_TERMS,
        ),
        DataSet(
            name="istella",
            title="Istella LETOR",
            queries=33_018,
            documents=10_454_629,
            n_features=220,
            grades="0-4",
            n_folds=0,
            files={"train": "train.txt", "test": "test.txt"},
            folders=("full", "istella-letor/full", "istella-letor"),
            sizes={(0, "train"): Size(23_219, 7_325_625), (0, "test"): Size(9799, 3_129_004)},
            home=istella_home,
            terms=istella_terms,
            options=bounded,
        ),
        DataSet(
            name="istella-s",
            title="Istella-S LETOR",
            queries=33_018,
            documents=3_408_630,
            n_features=220,
            grades="0-4",
            n_folds=0,
            files=_THREE,
            folders=("sample", "istella-s-letor/sample", "istella-s-letor"),
            sizes={
                (0, "train"): Size(19_245, 2_043_304),
                (0, "vali"): Size(7211, 684_076),
                (0, "test"): Size(6562, 681_250),
            },
            home=istella_home,
            terms=istella_terms,
            options=bounded,
        ),
    ]
    return MappingProxyType(_Catalogue({one.name: one for one in known}))
