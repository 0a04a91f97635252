"""Run the long tests with new random draws, and then the kernels with bounds checks and random files.

`make deep SEED=7` draws what seed 7 drew before. The plan is printed first. A step that fails does not stop the others;
the last lines say what failed.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTEST = [sys.executable, "-m", "pytest", "-q", "--assert=plain", "-p", "no:cacheprovider"]
PARALLEL = ["-n", "2", "--dist", "loadfile"]
CHECKED = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_OPT": "0", "PERCEPTRANK_PRECISION": "double", "PERCEPTRANK_EXAMPLES": "15"}


def plan(seed):
    """Return what is run: a description, about how many minutes on two cores, commands that run at once, variables."""
    draws = ["--hypothesis-profile=deep", f"--hypothesis-seed={seed}"]
    fuzz = ["--seconds", "120", "--seed", str(seed)]
    return [
        ("all tests, with new random draws", 25, [[*PYTEST, *PARALLEL, *draws, "-m", "not engine"]], {}),
        ("engines, servers, clusters and kill tests", 20, [[*PYTEST, *draws, "-m", "engine"]], {}),
        ("kernels with bounds checks", 6, [[*PYTEST, *PARALLEL, "-m", "kernel and not deep", "tests"]], CHECKED),
        (
            "random LETOR text and damaged files",
            3,
            [[sys.executable, f"tests/fuzz_{kind}.py", *fuzz] for kind in ("letor", "files")],
            {},
        ),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    seed = parser.parse_args().seed
    steps = plan(seed)
    print(
        f"make deep SEED={seed} repeats this run. On two cores it takes about {sum(step[1] for step in steps)} minutes:"
    )
    for number, (what, minutes, _, _) in enumerate(steps, start=1):
        print(f"  {number}. {what}: about {minutes} minutes")
    failed = []
    for number, (what, _, commands, variables) in enumerate(steps, start=1):
        print(f"\n{number}. {what}", flush=True)
        start = time.monotonic()
        running = [subprocess.Popen(command, cwd=ROOT, env=os.environ | variables) for command in commands]
        codes = [process.wait() for process in running]
        print(f"{number}. took {(time.monotonic() - start) / 60:.1f} minutes", flush=True)
        failed += [what] if any(codes) else []
    if failed:
        sys.exit(f"make deep SEED={seed} failed: {'; '.join(failed)}")
    print(f"make deep SEED={seed}: nothing failed")


if __name__ == "__main__":
    main()
