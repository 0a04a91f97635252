import dataclasses
import gzip

import numpy as np
import pytest
from support import real_streams

import perceptrank as pr
from perceptrank.datasets import catalogue as catalog

NAMES = [
    "mslr-web10k",
    "mslr-web30k",
    "yahoo-set1",
    "yahoo-set2",
    "imat2009",
    "mq2007",
    "mq2008",
    "ohsumed",
    "istella",
    "istella-s",
]


def test_all_sets_are_there_and_say_where_to_obtain_them():
    assert list(pr.datasets()) == NAMES
    for one in pr.datasets().values():
        assert one.home.startswith("http")
        assert one.terms
        assert one.n_features > 0


@pytest.mark.parametrize("name", NAMES)
def test_published_sizes_add_up(name):
    one = pr.datasets()[name]
    for fold in one.folds:
        sizes = [one.sizes[fold, split] for split in one.splits if (fold, split) in one.sizes]
        if sizes and None not in {size.queries for size in sizes} and one.queries is not None:
            assert sum(size.queries for size in sizes) == one.queries
        if sizes and None not in {size.documents for size in sizes}:
            assert sum(size.documents for size in sizes) == one.documents


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_files_are_found_where_archives_put_them(name, suffix, tmp_path):
    one = pr.datasets()[name]
    text = b"1 1:0.5 2:1 # 7\n" if name == "imat2009" else b"1 qid:7 1:0.5 2:1\n"
    for place, folder in enumerate(one.folders):
        root = tmp_path / str(place)
        assert one.find(root) is None
        for fold in one.folds:
            for split, file in one.files.items():
                path = root / folder / (file.format(fold=fold) + suffix)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(gzip.compress(text) if suffix else text)
                assert one.find(root, split, fold) == path
        stream = one.read(root, "test", one.folds[-1], check=False)
        assert stream.n_features == one.n_features
        assert stream.qids.tolist() == [7]
        assert next(iter(one.scan(root))).n_features == one.n_features
        if folder:
            assert one.find(root / folder) is not None  # the folder itself is meant


def test_what_differs_is_said(tmp_path):
    one = pr.datasets()["mq2008"]
    path = tmp_path / "MQ2008" / "Fold2" / "vali.txt"
    path.parent.mkdir(parents=True)
    path.write_text("1 qid:7 1:0.5 46:1\n0 qid:8 1:1\n")
    with pytest.raises(ValueError, match=r"vali split of LETOR 4.0 MQ2008: it has 2 queries instead of 156 and 2 doc"):
        one.read(tmp_path, "vali", 2)
    with pytest.raises(ValueError, match=r"Obtain it from https://www.microsoft.com.*agreement"):
        one.read(tmp_path, "vali", 2)
    assert len(one.read(tmp_path, "vali", 2, check=False)) == 2
    path.write_text("1 qid:7 1:0.5 45:1\n0 qid:8 1:1\n")
    for sparse in (None, True):
        with pytest.raises(ValueError, match="2 documents instead of 2,874 and 45 features instead of 46"):
            one.read(tmp_path, "vali", 2, sparse=sparse)
    path.write_text("1 qid:7 47:1\n")
    with pytest.raises(pr.FormatError, match="`n_features=46` ids go from 1 to 46"):
        one.read(tmp_path, "vali", 2)


def test_what_is_not_there_is_said(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"expected .*MSLR-WEB30K/Fold3/vali.txt .*\)\. Obtain it from"):
        pr.datasets()["mslr-web30k"].read(tmp_path, "vali", 3)
    with pytest.raises(ValueError, match=r"fold must be one of \[1, 2, 3, 4, 5\]"):
        pr.datasets()["mslr-web30k"].read(tmp_path, "vali", 6)
    with pytest.raises(ValueError, match="split must be one of 'train', 'test'"):
        pr.datasets()["istella"].read(tmp_path, "vali")


@pytest.mark.parametrize(("name", "folder"), [("istella-s", "sample"), ("istella", "full")])
def test_istella_values_beyond_float32(name, folder, tmp_path):
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "train.txt").write_text("1 qid:7 1:1.79769313486e+308 2:1\n")
    found = pr.datasets()[name].read(tmp_path, check=False)
    assert found.X[0, 0] == np.finfo(np.float32).max


def test_the_real_mq2008(tmp_path):
    splits = ("train", "vali", "test")
    folder, *_ = {real_streams.find(f"MQ2008 Fold1 {split}").parent for split in splits}
    (tmp_path / "MQ2008").mkdir()
    (tmp_path / "MQ2008" / "Fold1").symlink_to(folder)
    for split in splits:
        assert pr.datasets()["mq2008"].read(tmp_path, split).n_features == 46


def test_a_set_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        catalog.datasets()["mq2007"].name = "other"


def test_the_catalogue_cannot_be_changed_and_knows_its_names():
    with pytest.raises(TypeError):
        pr.datasets()["mine"] = None
    with pytest.raises(KeyError, match="known: mslr-web10k, mslr-web30k"):
        pr.datasets()["MSLR"]


def test_a_scan_is_checked_at_its_end(tmp_path):
    path = tmp_path / "MQ2007" / "Fold1" / "train.txt"
    path.parent.mkdir(parents=True)
    path.write_text("1 qid:7 1:0.5 46:1\n")
    blocks = iter(pr.datasets()["mq2007"].scan(tmp_path))
    assert len(next(blocks)) == 1
    with pytest.raises(ValueError, match="1 queries instead of 1,017"):
        next(blocks)
    assert len(list(pr.datasets()["mq2007"].scan(tmp_path, check=False))) == 1
