"""How many queries of the public samples one linear ranker gets right, at the first places and at all.

For each sample and cut-off k: the largest n such that pr.theory.margin proves that some linear ranker of the features
as they are puts what belongs in the first k places before lower grades, in each of the first n queries of the file.
"""

import argparse

from real_streams import find_streams

import perceptrank as pr

CUTOFFS = [1, 3, 5, 10, None]


def longest_separable(stream: pr.QueryStream, cutoff: int | None, max_passes: int) -> tuple[int, bool]:
    """The number of first queries that are separable together, and whether one more is proved not to be."""
    low, high, proved = 0, len(stream) + 1, True
    size = 1
    while high - low > 1:
        try:
            verdict = pr.theory.margin(stream[:size], cutoff=cutoff, max_passes=max_passes).separable
        except ValueError:  # no two grades yet
            verdict = True
        if verdict:
            low = size
        else:
            high, proved = size, verdict is False
        size = min(2 * size, len(stream)) if high > len(stream) else (low + high) // 2
    return low, proved


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--max-passes", type=int, default=200, help="of the search for a margin, for each number")
    options = parser.parse_args()
    names = [f"k = {cutoff}" if cutoff else "all places" for cutoff in CUTOFFS]
    print(f"| sample | queries | {' | '.join(names)} |\n|{'---|' * (len(names) + 2)}", flush=True)
    for name, path in find_streams():
        stream = pr.read_letor(path)
        found = [longest_separable(stream, cutoff, options.max_passes) for cutoff in CUTOFFS]
        shown = [f"{n:,}{'' if proved else ' or more'}" for n, proved in found]
        print(f"| {name} | {len(stream):,} | {' | '.join(shown)} |", flush=True)


if __name__ == "__main__":
    main()
