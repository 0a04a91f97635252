"""Draw the same clicks, read naively and debiased: `python docs/figures/draw_debiased.py [FOLDER]`.

It is drawn from what the Python of docs/clicks.md makes.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np

import perceptrank as pr

sys.path.insert(0, str(Path(__file__).parent))
from draw_clicks import plt, run_page

NAIVE, DEBIASED, TRUTH, INK = "#c8501e", "#1b6ca8", "#8a8f98", "#222222"
EDGES = np.linspace(-0.9, 0.9, 13)
SIZES = [100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000]


def swapped_pairs(log: pr.QueryStream, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return what the log says about neighbours that a coin has ordered and of which one was clicked.

    How much better the one is that the ranker puts first, whether it was clicked, and whether it was shown first.
    """
    better, won, on_top = [], [], []
    ages = log.X[:, log.feature_names.index("age")]
    for q, policy in enumerate(log.columns["policy"].tolist()):
        rows = np.arange(log.offsets[q], log.offsets[q + 1])
        rows = rows[np.argsort(log.place[rows])]
        first = int(policy[-1]) - 1
        for p in range(first, len(rows) - 1, 2):
            upper, lower = rows[p], rows[p + 1]
            if log.clicked[upper] != log.clicked[lower]:
                swapped = ages[upper] > ages[lower]  # the ranker puts the newest first
                i, j = (lower, upper) if swapped else (upper, lower)
                better.append(truth[i] - truth[j])
                won.append(log.clicked[i] > log.clicked[j])
                on_top.append(not swapped)
    return np.array(better), np.array(won), np.array(on_top)


def curves(page: dict[str, Any]) -> dict[str, list[float]]:
    """NDCG of learners that take clicks as grades, and that debias them, by the number of impressions."""
    found: dict[str, list[float]] = {"naive": [], "debiased": []}
    for n in SIZES:
        log = page["log"][:n]
        naive, debiased = pr.ListwisePerceptron(), pr.ClickPerceptron()
        naive.learn(log.with_columns({"relevance": log.clicked}))
        debiased.learn(log)
        found["naive"].append(page["ndcg"](naive))
        found["debiased"].append(page["ndcg"](debiased))
    return found


def draw(page: dict[str, Any]) -> Any:
    """What swaps tell about pairs, and what learners make of it."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(6.2, 2.9), layout="constrained", width_ratios=(1.1, 1))
    _pairs(left, *swapped_pairs(page["log"], page["shop"].relevance[_rows(page)] / 100))
    _learners(right, curves(page), page["ndcg"](page["learned"](page["in_bands"](page["shop"]))))
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def _rows(page: dict[str, Any]) -> np.ndarray:
    return np.array([int(docid[1:]) for docid in page["log"].docids])


def _pairs(axes: Any, better: np.ndarray, won: np.ndarray, on_top: np.ndarray) -> None:
    middles = (EDGES[1:] + EDGES[:-1]) / 2
    bins = np.digitize(better, EDGES) - 1
    for which, colour, name in (
        (on_top, NAIVE, "shown as ranked"),
        (on_top | ~on_top, DEBIASED, "both orders, by a coin"),
    ):
        shares = [won[which & (bins == one)].mean() for one in range(len(middles))]
        axes.plot(middles, shares, "o-", color=colour, markersize=3.4, linewidth=1.6, label=name)
    axes.axhline(0.5, color=TRUTH, linewidth=0.8, zorder=0)
    axes.axvline(0, color=TRUTH, linewidth=0.8, zorder=0)
    axes.set(ylim=(0, 1), yticks=[0, 0.5, 1], yticklabels=["0", "50 %", "100 %"])
    axes.fill_between([-0.9, 0], 0.5, 1, color=NAIVE, alpha=0.08, linewidth=0, zorder=0)
    axes.text(-0.45, 0.75, "the worse one\nwins more clicks", ha="center", va="center", color=NAIVE)
    axes.set_xlabel("how much better the first one is")
    axes.set_title("clicks won by the first of two neighbours", fontsize=10)
    axes.legend(frameon=False, loc="lower right", borderaxespad=0)


def _learners(axes: Any, found: dict[str, list[float]], best: float) -> None:
    names = {"naive": ("clicks as grades", NAIVE), "debiased": ("clicks, debiased", DEBIASED)}
    for key, values in found.items():
        axes.plot(SIZES, values, "o-", color=names[key][1], markersize=3.4, linewidth=1.6, label=names[key][0])
    axes.axhline(best, color=TRUTH, linewidth=0.8, zorder=0)
    axes.text(SIZES[0], best + 0.004, "true grades", color=INK, va="bottom")
    axes.set(xscale="log", ylim=(0.68, 1.03), xlabel="impressions")
    axes.set_title("NDCG@10 of what is learned", fontsize=10)
    axes.legend(frameon=False, loc="lower right", borderaxespad=0)


def main(folder: Path) -> None:
    """Draw the figure into a folder."""
    figure = draw(run_page(until="learned"))
    figure.savefig(folder / "debiased.svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
