"""Try to break every inequality of docs/theory/ by hill climbing over small streams; print the largest ratios found.

A ratio is what was measured over what the theorem allows. One above 1 would be a counterexample: it is printed with its
arrays, and the exit code is 1. Ratios near 1 say that the bound is nearly attained on streams of up to eight queries;
small ones, that eight queries are too few, or that the search is not good enough, or the bound not sharp.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.climbing import search
from support.inequalities import inequalities


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="for all of them together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="part of a theorem's name")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    chosen = [one for one in inequalities() if options.only in one.theorem]
    if not chosen:
        sys.exit(f"error: no theorem's name contains {options.only!r}")
    if not options.json:
        print("| theorem | learner | largest ratio | tried |\n|---|---|---|---|", flush=True)
    rows = []
    for one in chosen:
        one.ratio(one.start(np.random.default_rng(0)))  # compiles
        found = search(one, options.seconds / len(chosen), options.seed)
        rows.append((one, found))
        if not options.json:
            print(f"| {one.theorem} | {one.learner} | {found.ratio:.3f} | {found.n_tried:,} |", flush=True)
    if options.json:
        print(json.dumps([one._asdict() | found._asdict() for one, found in rows], default=plain))
    broken = [(one, found) for one, found in rows if not found.ratio <= 1 + 1e-6]
    for one, found in broken:
        print(f"{one.theorem}, {one.learner}: {found.ratio} with {found.state}", file=sys.stderr)
    sys.exit(1 if broken else 0)


def plain(value: object) -> object:
    """A value that JSON knows."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return None if callable(value) else str(value)


if __name__ == "__main__":
    main()
