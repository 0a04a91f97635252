"""Look for LETOR text on which the reader and its slow twin disagree.

`python tests/fuzz_letor.py --seconds 60 --seed 0` stops at the first such text and prints it.
"""

import argparse
import sys
import time
from itertools import count

from support.letor_cases import run_case


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    end = time.monotonic() + arguments.seconds
    for n_cases in count():
        if time.monotonic() > end:
            print(f"{n_cases} cases, no disagreement")
            return 0
        text, settings, how, found = run_case(arguments.seed + n_cases)
        if found:
            print(f"{n_cases + 1} cases, disagreement with --seed {arguments.seed + n_cases}")
            print(f"{text!r}\n{settings}\n{how}\n{found}")
            return 1
    raise AssertionError


if __name__ == "__main__":
    sys.exit(main())
