"""Look for LETOR text on which the reader and its slow twin disagree, and for files that it cannot cope with.

`python tests/fuzz_letor.py --seconds 60 --seed 0` stops at the first such file and says how to see it again. It reads
in a process of its own that may take 1 GiB and 30 seconds for a file: random text, correct or not, against the twin;
and compressed files, correct, damaged, or far larger than they look.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from support.letor_cases import run_case, run_hostile_case
from support.limits import limit_memory, time_limit

MOST_BYTES, MOST_SECONDS = 2**30, 30
TEXTS_PER_FILE = 8  # text is read in far less time


def fuzz(seconds, n_cases, seed, note):
    """Read files until something is wrong with one; return the exit code. The number of the last is in a file."""
    for warm_up in range(4):  # what is compiled or imported now is not counted
        run_case(warm_up)
        run_hostile_case(warm_up)
    limit_memory(MOST_BYTES)
    end = time.monotonic() + seconds
    for case in range(seed, seed + n_cases):
        if time.monotonic() > end:
            n_cases = case - seed
            break
        note.write_text(str(case))
        with time_limit(MOST_SECONDS):
            found = read_one(case)
        if found:
            print(f"{case - seed + 1} cases, wrong with --seed {case}\n{found}")
            return 1
    print(f"{n_cases} cases, nothing wrong")
    return 0


def read_one(seed):
    """What is wrong with the case of this number, as text; None if nothing is."""
    if seed % TEXTS_PER_FILE:
        text, settings, how, found = run_case(seed)
        return found and f"{text!r}\n{settings}\n{how}\n{found}"
    data, how, found = run_hostile_case(seed)
    return found and f"{data[:2000]!r}\n{how}\n{found}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--cases", type=int, default=sys.maxsize)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--note", type=Path, help=argparse.SUPPRESS)  # given to the process that reads
    arguments = parser.parse_args()
    if arguments.note:
        return fuzz(arguments.seconds, arguments.cases, arguments.seed, arguments.note)
    with tempfile.TemporaryDirectory(prefix="perceptrank-") as folder:
        note = Path(folder) / "case"
        code = subprocess.run([sys.executable, *sys.argv, "--note", note], check=False).returncode
        if code not in (0, 1):
            print(f"the process ended with {code}")
        if code:
            print(f"the last case was --seed {note.read_text() if note.exists() else arguments.seed}")
        return code


if __name__ == "__main__":
    sys.exit(main())
