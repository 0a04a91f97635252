"""How the figures of `make bench` changed over commits: a table of the newest against those before, and a plot.

python benchmarks/history.py [--folder .benchmarks] [--out .benchmarks/history.png]

Only figures of one machine are compared with each other. A figure that misses its bar is marked with "!".
"""

import argparse
import json
import re
from collections import defaultdict
from pathlib import Path
from statistics import median
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


def limit(figure: dict[str, Any]) -> tuple[str, float] | None:
    """The bar of a figure, such as (">=", 30.0); None if it has none."""
    match = re.match(r"([<>]=)\s*([0-9.]+)", figure["bar"])
    return (match[1], float(match[2])) if match else None


def misses(figure: dict[str, Any]) -> bool:
    bar = limit(figure)
    return bar is not None and (figure["ratio"] > bar[1] if bar[0] == "<=" else figure["ratio"] < bar[1])


def print_changes(history: History) -> None:
    width = max(len(what) for _, what in history)
    print(f"{'what':{width}}  {'median':>8}  {'before':>8}  {'now':>8}   {'change':>7}  {'bar':>9}  commit")
    for (_, what), figures in history.items():
        now = figures[-1]
        before = [one["ratio"] for one in figures[:-1] if one["machine"] == now["machine"]]
        shown = (f"{median(before):.4g}", f"{before[-1]:.4g}") if before else ("", "")
        change = f"{now['ratio'] / before[-1] - 1:+.0%}" if before and before[-1] else ""
        mark = "!" if misses(now) else " "
        print(
            f"{what:{width}}  {shown[0]:>8}  {shown[1]:>8}  {now['ratio']:>8.4g} {mark} {change:>7}  {now['bar']:>9}  "
            f"{now['commit']}"
        )


def plot(history: History, out: Path) -> None:
    import matplotlib.pyplot as plt

    columns = 3
    rows = -(-len(history) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(5 * columns, 2.4 * rows), squeeze=False, layout="constrained")
    for axis in axes.flat[len(history) :]:
        axis.remove()
    machines = list(dict.fromkeys(one["machine"] for figures in history.values() for one in figures))
    for axis, ((script, what), figures) in zip(axes.flat, history.items(), strict=False):
        for number, machine in enumerate(machines):
            here = [place for place, one in enumerate(figures) if one["machine"] == machine]
            ratios = [figures[place]["ratio"] for place in here]
            axis.plot(here, ratios, marker="o", markersize=3, color=f"C{number}")
        bar = limit(figures[-1])
        if bar is not None:
            axis.axhline(bar[1], color="0.4", linestyle="--", linewidth=1)
            side = "bottom" if bar[0] == ">=" else "top"
            axis.text(0.01, bar[1], figures[-1]["bar"], fontsize=7, va=side, transform=axis.get_yaxis_transform())
        title = f"{script}: {what}"
        axis.set_title(title if len(title) <= 62 else title[:61] + "…", fontsize=8, loc="left")
        axis.set_ylim(0, 1.15 * max(*(one["ratio"] for one in figures), bar[1] if bar else 0, 0.01))
        steps = range(0, len(figures), -(-len(figures) // 4))
        axis.set_xticks(steps, [figures[i]["commit"] for i in steps], fontsize=6)
        axis.tick_params(axis="y", labelsize=7)
        axis.set_ylabel({"x": "ratio"}.get(now := figures[-1]["unit"].strip(), now), fontsize=7)
    if len(machines) > 1:
        lines = [plt.Line2D([], [], color=f"C{number}", label=machine) for number, machine in enumerate(machines)]
        figure.legend(handles=lines, loc="outside lower center", fontsize=7)
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
