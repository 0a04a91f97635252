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
        stream = one.read(root, "test", one.folds[-1])
        assert stream.n_features == one.n_features
        assert stream.qids.tolist() == [7]
        if folder:
            assert one.find(root / folder) is not None  # the folder itself is meant


def test_features_beyond_those_of_the_set_are_an_error(tmp_path):
    path = tmp_path / "MQ2008" / "Fold2" / "vali.txt"
    path.parent.mkdir(parents=True)
    path.write_text("1 qid:7 47:1\n")
    with pytest.raises(pr.FormatError, match="`n_features=46` ids go from 1 to 46"):
        pr.datasets()["mq2008"].read(tmp_path, "vali", 2)


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
    found = pr.datasets()[name].read(tmp_path)
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
