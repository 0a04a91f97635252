"""The small real streams, read by a plain parser.

PERCEPTRANK_DATA names the folder that holds them; by default it is ../shared/data beside the checkout, if that exists.
"""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

import perceptrank as pr

FOLDER = Path(os.environ.get("PERCEPTRANK_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data")

FILES = {
    "MSLR sample": "mslr-sample/mslr_sample.txt.gz",
    "MQ2008 Fold1 train": "mq2008-fold1/train.txt.gz",
    "MQ2008 Fold1 vali": "mq2008-fold1/vali.txt.gz",
    "MQ2008 Fold1 test": "mq2008-fold1/test.txt.gz",
    "Yahoo sample": "yahoo-sample/train.txt.gz",
    "Yandex IMAT2009 sample": "imat2009-sample/imat2009_learning.txt.gz",
}


def find(name: str) -> Path:
    """The path of a stream's file; the test that asks is skipped if there is none."""
    path = FOLDER / FILES[name]
    if not path.exists():
        pytest.skip(f"{name}: no {FILES[name]} under {FOLDER} (PERCEPTRANK_DATA names another folder)")
    return path


def read_plainly(path: Path) -> pr.QueryStream:
    """One line a document: grade, an optional qid:ID, pairs feature:value, and a comment that may be the query's id."""
    rows, grades, qids = [], [], []
    with gzip.open(path, "rt") as lines:
        for line in lines:
            body, _, comment = line.partition("#")
            grade, *fields = body.split()
            qid = comment.strip()
            if fields[0].startswith("qid:"):
                qid = fields.pop(0)[4:]
            rows.append({int(name): float(value) for name, value in (field.split(":") for field in fields)})
            grades.append(float(grade))
            qids.append(qid)
    X = np.zeros((len(rows), max(max(row, default=1) for row in rows)), dtype=np.float32)
    for i, row in enumerate(rows):
        X[i, [name - 1 for name in row]] = list(row.values())
    return pr.QueryStream.from_arrays(X, grades, qid=qids)
