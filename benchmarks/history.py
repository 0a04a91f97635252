"""How the figures of `make bench` changed over commits: a table of the newest against the one before, and a plot.

python benchmarks/history.py [--folder .benchmarks] [--out .benchmarks/history.png]
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

History = dict[tuple[str, str], list[dict[str, Any]]]


def read(folder: Path) -> History:
    """Figures by script and what they are of, oldest first."""
    found: History = defaultdict(list)
    for path in sorted(folder.glob("*.json")):
        record = json.loads(path.read_text())
        for row in record["rows"]:
            found[record["script"], row["what"]].append({**record, **row})
    return found


def print_changes(history: History) -> None:
    width = max(len(what) for _, what in history)
    print(f"{'what':{width}}  {'before':>8}  {'now':>8}  {'change':>7}  commit")
    for (_, what), figures in history.items():
        now = figures[-1]
        if len(figures) == 1:
            print(f"{what:{width}}  {'':>8}  {now['ratio']:>8}  {'':>7}  {now['commit']}")
            continue
        before = figures[-2]
        change = f"{now['ratio'] / before['ratio'] - 1:+.0%}" if before["ratio"] else ""
        print(f"{what:{width}}  {before['ratio']:>8}  {now['ratio']:>8}  {change:>7}  {now['commit']}")


def plot(history: History, out: Path) -> None:
    import matplotlib.pyplot as plt

    columns = 3
    rows = -(-len(history) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(5 * columns, 2.4 * rows), squeeze=False, layout="constrained")
    for axis in axes.flat[len(history) :]:
        axis.remove()
    for axis, ((script, what), figures) in zip(axes.flat, history.items(), strict=False):
        axis.plot(range(len(figures)), [one["ratio"] for one in figures], marker="o", markersize=3)
        shown = what if len(what) <= 52 else what[:49] + "…"
        axis.set_title(f"{script}: {shown}", fontsize=8)
        axis.set_ylim(0, 1.15 * max(one["ratio"] for one in figures))
        steps = range(0, len(figures), max(1, len(figures) // 4))
        axis.set_xticks(steps, [figures[i]["commit"] for i in steps], fontsize=6)
        axis.tick_params(axis="y", labelsize=7)
        axis.set_ylabel(f"ratio, bar {figures[-1]['bar']}", fontsize=7)
    figure.savefig(out, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path(".benchmarks"))
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    history = read(options.folder)
    if not history:
        parser.error(f"{options.folder} has no figures: `make bench` writes them")
    print_changes(history)
    out = options.out or options.folder / "history.png"
    plot(history, out)
    print(f"plot: {out}")


if __name__ == "__main__":
    main()
