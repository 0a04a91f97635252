"""Use an installed perceptrank as a stranger would: `build.py` runs this in each environment that it made.

python -I packaging/smoke.py core|extras ENVIRONMENT
"""

import importlib
import os
import subprocess
import sys
import sysconfig
import warnings
from importlib.metadata import version
from pathlib import Path

warnings.simplefilter("error")
os.environ["PERCEPTRANK_CACHE_DIR"] = str(Path("kernels").resolve())

import numpy as np  # noqa: E402

import perceptrank as pr  # noqa: E402

ROOMS = ("deploy", "distributed", "evaluation", "io", "learners", "measures", "serve", "stream", "theory", "transforms")


def command(*words: str) -> str:
    script = Path(sysconfig.get_path("scripts")) / "perceptrank"
    said = subprocess.run([script, *words], capture_output=True, text=True, check=False)
    if said.returncode:
        sys.exit(f"perceptrank {' '.join(words)} failed:\n{said.stdout}\n{said.stderr}")
    return said.stdout


def import_everything() -> tuple[int, int]:
    """Import every public name; return how many there are, and how many said which extra they need."""
    found = [(pr, name) for name in pr.__all__]
    found += [
        (room, name)
        for room in map(importlib.import_module, (f"perceptrank.{one}" for one in ROOMS))
        for name in dir(room)
    ]
    n_missing = 0
    for room, name in found:
        try:
            getattr(room, name)
        except ImportError as error:
            if "perceptrank[" not in str(error):
                raise
            n_missing += 1
    return len(found), n_missing


def core() -> None:
    stream = pr.separable(50, n_features=4, seed=1).stream
    ranker = pr.ListwisePerceptron()
    ranker.learn(stream[:40], ["ndcg@10", "ap"])
    ranker.save("model.json")
    loaded = pr.load("model.json")
    for one in (ranker, loaded):
        one.learn(stream[40:])
    assert np.array_equal(ranker.predict(stream.X), loaded.predict(stream.X))
    assert f'"written_by": "perceptrank {pr.__version__}"' in Path("model.json").read_text()

    assert command("--version") == f"perceptrank {pr.__version__}\n"
    assert f"version = {{{pr.__version__}}}" in command("cite")
    command("simulate", "train.txt", "--queries", "60", "--features", "4")
    command("simulate", "test.txt", "--queries", "20", "--features", "4", "--seed", "1")
    command("learn", "train.txt", "--save", "learned.json")
    command("evaluate", "learned.json", "train.txt")
    command("rank", "learned.json", "train.txt", "--out", "run.txt")
    command("show", "learned.json")
    command(
        "compare",
        "train.txt",
        "--test",
        "test.txt",
        "--orders",
        "2",
        "--algorithm",
        "perceptron",
        "--algorithm",
        "slam",
    )
    command("convert", "train.txt", "train.store")
    command("algorithms")
    run = [sys.executable, "-I", "-m", "perceptrank", "--version"]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout == f"perceptrank {pr.__version__}\n"


def extras() -> None:
    stream = pr.separable(50, n_features=4, seed=1).stream
    ranker = pr.ListwisePerceptron(transforms=None)
    trace = ranker.learn(stream)
    trace.plot("trace.pdf")
    assert pr.theory.margin(stream).lower > 0
    pr.write_parquet(stream, "stream.parquet")
    assert np.array_equal(pr.read_parquet("stream.parquet").X, stream.X)
    pr.write_letor(stream, "stream.txt.zst")
    assert np.allclose(pr.read_letor("stream.txt.zst").X, stream.X, rtol=1e-6)
    Path("table.csv").write_text("qid,docid,relevance,price\n1,a,1,2.5\n1,b,0,3.5\n")
    assert pr.read_table("table.csv").n_features == 1
    for target in ("onnx", "sql"):
        assert pr.deploy.parity(ranker, stream, target).agrees
    importlib.import_module("sklearn.base").clone(ranker)
    shards = [stream[place::2] for place in range(2)]
    pr.distributed.learn(pr.ListwisePerceptron(), shards)
    command("serve", "--check", "--data", "service")
    importlib.import_module("psycopg")


def main() -> None:
    kind, environment = sys.argv[1:]
    assert Path(pr.__file__).is_relative_to(environment), pr.__file__
    assert version("perceptrank") == pr.__version__
    n_names, n_missing = import_everything()
    if kind == "core":
        core()
        print(f"{n_names} public names, {n_missing} name the extra they need; learned, saved, loaded; commands run")
    else:
        assert not n_missing, "a name needs what no extra installs"
        extras()
        print("plots, margins, Parquet, zstd, tables, ONNX, SQL, scikit-learn, Dask and the service work")


if __name__ == "__main__":
    main()
