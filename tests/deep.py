"""Run the long tests with new random draws, and then the kernels with bounds checks and random files.

`make deep SEED=7` draws what seed 7 drew before. The plan is printed first. A step that fails does not stop the others,
and a step that takes longer than its limit is ended and counts as failed; the last lines say what failed.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTEST = [sys.executable, "-m", "pytest", "-q", "--assert=plain", "-p", "no:cacheprovider"]
PARALLEL = ["-n", "2", "--dist", "loadfile"]
CHECKED = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_OPT": "0", "PERCEPTRANK_PRECISION": "double", "PERCEPTRANK_EXAMPLES": "15"}


GRACE = 30.0  # seconds in which an interrupted step stops its servers and prints its summary


def plan(seed):
    """Return the steps: a description, minutes on two cores, at most how many, commands that run at once, variables."""
    draws = ["--hypothesis-profile=deep", f"--hypothesis-seed={seed}"]
    fuzz = ["--seconds", "120", "--seed", str(seed)]
    files = [[sys.executable, f"tests/fuzz_{kind}.py", *fuzz] for kind in ("letor", "files")]
    return [
        ("all tests, with new random draws", 28, 34, [[*PYTEST, *PARALLEL, *draws, "-m", "not engine"]], {}),
        ("engines, servers, clusters and kill tests", 27, 33, [[*PYTEST, *draws, "-m", "engine"]], {}),
        ("kernels with bounds checks", 6, 8, [[*PYTEST, *PARALLEL, "-m", "kernel and not deep", "tests"]], CHECKED),
        ("random LETOR text and damaged files", 3, 4, files, {}),
    ]


def end(process):
    """Interrupt a process, so that it cleans up; kill it and what it started if that takes too long."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
    with contextlib.suppress(ProcessLookupError):  # nothing is left of it
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def run(commands, variables, seconds):
    """Run commands at once, each in a group of its own; return why the step failed, empty if it did not."""
    deadline = time.monotonic() + seconds
    environment = os.environ | variables
    running = [subprocess.Popen(words, cwd=ROOT, env=environment, start_new_session=True) for words in commands]
    try:
        codes = [process.wait(max(deadline - time.monotonic(), 0)) for process in running]
    except subprocess.TimeoutExpired:
        return f"not done after {seconds / 60:.0f} minutes"
    finally:
        for process in running:
            end(process)
    return "failed" if any(codes) else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    seed = parser.parse_args().seed
    steps = plan(seed)
    usual, most = (sum(step[place] for step in steps) for place in (1, 2))
    print(f"make deep SEED={seed} repeats this run. On two cores it takes about {usual} minutes, at most {most}:")
    for number, (what, minutes, limit, _, _) in enumerate(steps, start=1):
        print(f"  {number}. {what}: about {minutes} minutes, at most {limit}")
    problems = []
    for number, (what, _, limit, commands, variables) in enumerate(steps, start=1):
        print(f"\n{number}. {what}", flush=True)
        start = time.monotonic()
        problem = run(commands, variables, limit * 60)
        print(f"{number}. took {(time.monotonic() - start) / 60:.1f} minutes", flush=True)
        problems += [f"{what}: {problem}"] if problem else []
    if problems:
        sys.exit(f"make deep SEED={seed} failed: {'; '.join(problems)}")
    print(f"make deep SEED={seed}: nothing failed")


if __name__ == "__main__":
    main()
