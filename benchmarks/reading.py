"""Reading: LETOR text against scikit-learn's and XGBoost's readers, memory, and stores.

python benchmarks/reading.py [--megabytes 250] [--repeats 3] [--json]

One file is simulated in the shape of MSLR-WEB and read by all in turn, another in the shape of RCV1 (47,236 features, a
hundred of them in a line), which becomes compressed sparse rows. Memory is that of a process of its own.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import xgboost
from ratios import best_of, row, show
from sklearn.datasets import load_svmlight_file

import perceptrank as pr

BYTES_PER_DOCUMENT = 1150
SPARSE_FEATURES, SPARSE_BYTES_PER_DOCUMENT = 47_236, 1230

# Of a process of its own, in bytes: what it has in memory, and the most it has had.
MEMORY = """
import io, sys
import perceptrank as pr

def memory(which):
    with open("/proc/self/status") as lines:
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith(which))
"""

BEYOND_ARRAYS = """
pr.read_letor(io.BytesIO(b"1 qid:1 1:2\\n"), n_threads=2)
before = memory("VmRSS")
stream = pr.read_letor(sys.argv[1])
arrays = stream.X.nbytes + stream.relevance.nbytes
print((memory("VmHWM") - before - arrays) / arrays)
"""

PEAK_OF_A_SCAN = """
pr.ListwisePerceptron(transforms="running").learn(pr.scan_letor(sys.argv[1]), "ndcg@10")
print(memory("VmHWM") / 1e6)
"""


def text(path: Path, repeats: int) -> list[dict[str, object]]:
    def read(n_threads: int) -> object:
        return pr.read_letor(path, n_threads=n_threads)

    def xgboost_reads(n_threads: int) -> object:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return xgboost.DMatrix(f"{path}?format=libsvm", nthread=n_threads, silent=True)

    one, two, xgb_one, xgb_two = best_of(
        repeats, lambda: read(1), lambda: read(2), lambda: xgboost_reads(1), lambda: xgboost_reads(2)
    )
    start = time.perf_counter()
    load_svmlight_file(str(path), query_id=True)
    sklearn = time.perf_counter() - start
    size = path.stat().st_size / 1e6
    speeds = {"one thread": one, "two": two, "XGBoost": min(xgb_one, xgb_two), "scikit-learn": sklearn}
    print(", ".join(f"{who}: {size / seconds:,.0f} MB/s" for who, seconds in speeds.items()), file=sys.stderr)
    return [
        row("read_letor, one thread, speed against scikit-learn's reader", sklearn / one, ">= 30", one),
        row("read_letor, two threads, speed against XGBoost's fastest", min(xgb_one, xgb_two) / two, ">= 4", two),
        row("read_letor, speed of two threads against one", one / two, ">= 1.6", two),
    ]


def write_sparse_text(path: Path, n_documents: int) -> None:
    """Documents of 60 to 140 terms, of which the first are frequent, with weights of four decimals."""
    rng = np.random.default_rng(0)
    with open(path, "w", encoding="ascii") as file:
        for i in range(n_documents):
            terms = 1 + np.unique((SPARSE_FEATURES * rng.random(rng.integers(60, 141)) ** 2).astype(int))
            weights = rng.lognormal(-3, 0.8, len(terms))
            pairs = " ".join(f"{term}:{weight:.4f}" for term, weight in zip(terms, weights, strict=True))
            file.write(f"{i % 5} qid:{i // 20} {pairs}\n")


def sparse_text(path: Path, repeats: int) -> list[dict[str, object]]:
    one, two = best_of(repeats, lambda: pr.read_letor(path, n_threads=1), lambda: pr.read_letor(path, n_threads=2))
    (sklearn,) = best_of(1, lambda: load_svmlight_file(str(path), query_id=True))
    X, _, _ = load_svmlight_file(str(path), query_id=True)
    stream = pr.read_letor(path)
    assert stream.is_sparse
    assert stream.X.n_nonzeros == np.count_nonzero(X.data)
    size = path.stat().st_size / 1e6
    speeds = {"sparse, one thread": one, "two": two, "scikit-learn": sklearn}
    print(", ".join(f"{who}: {size / seconds:,.0f} MB/s" for who, seconds in speeds.items()), file=sys.stderr)
    return [
        row("read_letor of sparse text, one thread, speed against scikit-learn's reader", sklearn / one, ">= 30", one),
        row("read_letor of sparse text, two threads, speed against scikit-learn's reader", sklearn / two, ">= 30", two),
    ]


def memory(path: Path) -> list[dict[str, object]]:
    def run(code: str) -> float:
        command = [sys.executable, "-c", MEMORY + code, path]
        for _ in range(2):  # the first run may compile, which takes memory of its own
            found = subprocess.run(command, capture_output=True, check=True).stdout
        return float(found)

    beyond, peak = run(BEYOND_ARRAYS), run(PEAK_OF_A_SCAN)
    return [
        row("read_letor, peak memory beyond the arrays", 100 * beyond, "<= 20 %", None, " %"),
        row("scan_letor and learning, peak memory of the process", peak, "<= 300 MB", None, " MB"),
    ]


def stores(folder: Path, repeats: int) -> list[dict[str, object]]:
    stream = pr.mslr_shaped(15_500)
    pr.write_store(stream, folder / "store")

    def learn(stream: pr.QueryStream) -> None:
        pr.SlamPerceptron("ndcg@10", learning_rate=1e-6).learn(stream, "ndcg@10")

    mapped = pr.open_store(folder / "store")
    opening, in_memory, from_store = best_of(
        repeats, lambda: pr.open_store(folder / "store").X, lambda: learn(stream), lambda: learn(mapped)
    )
    return [
        row(f"opening a store of {stream.X.nbytes / 1e9:.2f} GB", 1e3 * opening, "<= 50 ms", opening, " ms"),
        row("slam ndcg@10, a pass over the store against memory", from_store / in_memory, "<= 1.3", from_store),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=250)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="perceptrank-") as name:
        path = Path(name) / "mslr.txt"
        pr.write_letor(pr.mslr_shaped(arguments.megabytes * 1_000_000 // BYTES_PER_DOCUMENT // 120), path)
        print(f"a file of {os.path.getsize(path) / 1e6:.0f} MB", file=sys.stderr)
        sparse = Path(name) / "rcv1.txt"
        write_sparse_text(sparse, arguments.megabytes * 1_000_000 // SPARSE_BYTES_PER_DOCUMENT // 2)
        rows = [*text(path, arguments.repeats), *sparse_text(sparse, arguments.repeats)]
        rows += [*memory(path), *stores(Path(name), arguments.repeats)]
    show(rows, as_json=arguments.json)


if __name__ == "__main__":
    main()
