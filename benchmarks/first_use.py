"""First use: what compiling and starting cost, in CPU-seconds, as ratios measured side by side.

python benchmarks/first_use.py [--repeats 3] [--json]

Compiling is measured in a process of its own with an empty cache, against compiling one trivial loop in that process.
A start with a warm cache is measured over the whole process, against a process that imports NumPy and Numba.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from ratios import row, show

COMPILING = """
import json, time
import numba, numpy as np

def seconds(function):
    start = time.process_time()
    function()
    return time.process_time() - start

@numba.njit
def trivial(values):
    total = 0.0
    for i in range(len(values)):
        total += values[i]
    return total

import perceptrank as pr
stream = pr.separable(3).stream
print(json.dumps([
    seconds(lambda: trivial(np.ones(3))),
    seconds(lambda: pr.ListwisePerceptron().learn(stream, "ndcg@10")),
    seconds(lambda: pr.RankNet().learn(stream, "ndcg@10")),
    seconds(lambda: pr.SlamPerceptron().learn(stream, "ndcg@10")),
    seconds(lambda: pr.CommitteePerceptron().learn(stream, "ndcg@10")),
]))
"""


def run(arguments: list[str], cache: str) -> tuple[float, str]:
    """CPU-seconds of a process, and what it printed; Python's bytecode is kept beside the machine code."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    printed = subprocess.run(
        [sys.executable, *arguments],
        env=environment | {"PERCEPTRANK_CACHE_DIR": cache, "PYTHONPYCACHEPREFIX": f"{Path(cache).parent}/bytecode"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, printed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    starts, imports = [], []
    with tempfile.TemporaryDirectory() as folder:
        run(["-c", COMPILING], f"{folder}/bytecode-first")
        compiling = [json.loads(run(["-c", COMPILING], f"{folder}/{n}")[1]) for n in range(arguments.repeats)]
        data, cache = str(Path(folder) / "small.txt"), f"{folder}/warm"
        run(["-m", "perceptrank", "simulate", data, "--queries", "50"], cache)
        run(["-m", "perceptrank", "learn", data], cache)
        run(["-c", "import numpy, numba"], cache)
        for _ in range(3 * arguments.repeats):
            starts.append(run(["-m", "perceptrank", "learn", data], cache)[0])
            imports.append(run(["-c", "import numpy, numba"], cache)[0])
    trivial, listwise, ranknet, slam, committee = (min(column) for column in zip(*compiling, strict=True))
    rows = [
        row(
            "first ListwisePerceptron().learn recording ndcg@10, against a trivial loop",
            listwise / trivial,
            "<= 12",
            listwise,
        ),
        row("RankNet after that, the same", ranknet / trivial, "<= 6", ranknet),
        row("SlamPerceptron after that, the same", slam / trivial, "<= 6", slam),
        row("CommitteePerceptron after that, the same", committee / trivial, "<= 6", committee),
        row(
            "perceptrank learn, warm cache, against import numpy, numba",
            min(starts) / min(imports),
            "<= 1.5",
            min(starts),
        ),
    ]
    show(rows, as_json=arguments.json)


if __name__ == "__main__":
    main()
