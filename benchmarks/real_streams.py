"""The small real streams that lie beside a checkout in ../shared/data, read by a plain parser."""

import gzip
import os
from pathlib import Path

import numpy as np

import perceptrank as pr

FOLDER = Path(os.environ.get("PERCEPTRANK_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))

FILES = {
    "MSLR sample": "mslr-sample/mslr_sample.txt.gz",
    "MQ2008 Fold1 train": "mq2008-fold1/train.txt.gz",
    "MQ2008 Fold1 vali": "mq2008-fold1/vali.txt.gz",
    "MQ2008 Fold1 test": "mq2008-fold1/test.txt.gz",
    "Yahoo sample": "yahoo-sample/train.txt.gz",
    "Yandex IMAT2009 sample": "imat2009-sample/imat2009_learning.txt.gz",
}


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


def find(name: str) -> Path | None:
    """Where a stream lies, if it is there."""
    path = FOLDER / FILES[name]
    return path if path.exists() else None
