"""Draw the figures of docs/start.md and docs/index.md: `python docs/figures/draw_start.py [FOLDER]`.

They are drawn from what the Python of docs/start.md makes.
"""

import contextlib
import io
import re
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

mpl.use("svg")
from matplotlib import pyplot as plt
from matplotlib.patches import FancyArrowPatch

import perceptrank as pr

# The same bytes whenever it is run, and text that is text.
mpl.rcParams.update(
    {"svg.hashsalt": "perceptrank", "svg.fonttype": "none", "font.size": 9, "font.family": "sans-serif"}
)
GRADES = ["#c9ccd1", "#a9c6de", "#6fa3cc", "#3b7cb5", "#174f86"]  # from useless to exactly this
NOW, NEW, BAD = "#8a8f98", "#1b6ca8", "#c4501b"
PAGE = Path(__file__).parents[1] / "start.md"


def run_page() -> dict[str, Any]:
    """Run the Python of the page, in a folder that is thrown away; return its names."""
    names: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        for block in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.S | re.M):
            exec(block, names)
    return names


def home(page: dict[str, Any]) -> Any:
    """A query as it is ranked today, what was learned, and the same query after that."""
    figure, axes = plt.subplots(1, 3, figsize=(8.2, 2.6), layout="constrained", width_ratios=[1, 1.6, 1])
    first, grades = page["first"], page["first"].relevance.astype(int)
    for axis, ranker, title in ((axes[0], "today", "a query, today"), (axes[2], "ranker", "the same query, learned")):
        order = np.argsort(-page[ranker].scores(first), kind="stable")
        axis.barh(range(1, len(order) + 1), 0.3 + grades[order], color=[GRADES[grade] for grade in grades[order]])
        axis.set(ylim=(12.6, 0.4), yticks=[1, 4, 8, 12], xticks=[], title=title, ylabel="place")
        axis.set_xlabel("grade of the product")
    means = page["trace"].running_mean("ndcg@10")
    now = pr.evaluate(page["today"], page["train"], ["ndcg@10"]).running_mean("ndcg@10")
    axes[1].plot(means, color=NEW, linewidth=1.8)
    axes[1].plot(now, color=NOW, linewidth=1.8)
    axes[1].text(150, means[150] + 0.02, "a learner that began with nothing", color=NEW, ha="center")
    axes[1].text(150, now[150] - 0.05, "today's weights", color=NOW, ha="center")
    axes[1].set(ylim=(0.5, 1.0), xlabel="queries", title="NDCG@10 so far, before each answer")
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.title.set_fontsize(9)
    return figure


def loop(page: dict[str, Any]) -> Any:
    """Four documents, one round of a perceptron: ranked, graded, learned from, and ranked again."""
    X, grades = np.array([[0.9, 0.1], [0.6, 0.5], [0.3, 0.4], [0.5, 0.95]]), np.array([0, 1, 0, 2])
    ranker = pr.ListwisePerceptron(average=False, transforms=None, initial_weights=[1.0, 0.0])
    before = ranker.predict(X)
    ranker.learn_one(X, grades)
    after = ranker.predict(X)
    assert list(np.argsort(-after)[:2]) == [3, 1]  # the picture says that it has learned
    figure, axes = plt.subplots(1, 4, figsize=(8.2, 2.5))
    figure.subplots_adjust(left=0.02, right=0.98, top=0.82, bottom=0.22, wspace=0.28)
    panels = [
        ("a query comes", np.full(4, before.max()), np.arange(4), None),
        ("its documents are ranked", before, np.argsort(-before), None),
        ("their grades become known", before, np.argsort(-before), grades),
        ("the ranker learns", after, np.argsort(-after), grades),
    ]
    for axis, (title, scores, order, shown) in zip(axes, panels, strict=True):
        for place, i in enumerate(order):
            colour = "#e4e7eb" if shown is None else GRADES[2 * shown[i]]
            length = 0.35 + 0.6 * max(scores[i], 0.0) / max(scores)
            axis.barh(-place, length, height=0.74, color=colour)
            dark = shown is not None and shown[i] == 2
            label = f" {'ABCD'[i]}" + ("" if shown is None else f"   grade {shown[i]}")
            axis.text(0.02, -place, label, va="center", color="white" if dark else "#222222")
        axis.set_title(title, fontsize=9)
        axis.set(xlim=(0, 1.02), ylim=(-3.6, 0.6))
        axis.set_axis_off()
    wrong = {"arrowstyle": "->", "color": BAD, "connectionstyle": "arc3,rad=0.5", "linewidth": 1.6}
    last = int(np.flatnonzero(np.argsort(-before) == 3)[0])
    axes[2].annotate("", xy=(0.8, 0.1), xytext=(0.74, -last), arrowprops=wrong)
    for left, right in pairwise(axes):
        start, end = left.get_position().x1, right.get_position().x0
        _arrow(figure, (start + 0.003, 0.53), (end - 0.004, 0.53), "arc3")
    _arrow(figure, (0.88, 0.2), (0.12, 0.2), "arc3,rad=-0.07")
    figure.text(0.5, 0.025, "the next query", ha="center")
    return figure


def _arrow(figure: Any, start: tuple[float, float], end: tuple[float, float], style: str) -> None:
    options: Any = {"arrowstyle": "-|>", "mutation_scale": 11, "color": "#555555", "connectionstyle": style}
    figure.add_artist(FancyArrowPatch(start, end, transform=figure.transFigure, **options))


def query(page: dict[str, Any]) -> Any:
    """The products of one query in the order of today's weights, coloured by grade."""
    figure, axes = _plot(5.6, 3.0)
    first, scores = page["first"], page["today"].scores(page["first"])
    for place, i in enumerate(np.argsort(-scores, kind="stable"), 1):
        grade = int(first.relevance[i])
        axes.barh(place, scores[i], color=GRADES[grade], height=0.82)
        axes.text(scores[i] + 0.15, place, f"grade {grade}", va="center", color=BAD if place == 1 else "#222222")
    axes.set(ylim=(12.6, 0.4), yticks=range(1, 13), ylabel="place", xlabel="score by today's weights")
    axes.set_xlim(0, scores.max() * 1.12)
    return figure


def trace(page: dict[str, Any]) -> Any:
    """Running means of what was learned and of today's weights, on the same queries."""
    figure, axes = _plot(5.6, 2.9)
    now = pr.evaluate(page["today"], page["train"], ["ndcg@10"])
    for name, one, colour in (("learned", page["trace"], NEW), ("today", now, NOW)):
        means = one.running_mean("ndcg@10")
        axes.plot(np.arange(1, len(means) + 1), means, color=colour, linewidth=1.8)
        axes.text(len(means) + 4, means[-1], f"{name} {means[-1]:.3f}", color=colour, va="center")
    axes.set(xlim=(0, 365), ylim=(0.5, 1.0), xticks=range(0, 301, 50))
    axes.set(xlabel="queries", ylabel="NDCG@10, mean so far")
    return figure


def better(page: dict[str, Any]) -> Any:
    """Differences of the held-out queries, sorted, and their mean with its interval."""
    figure, axes = _plot(5.6, 2.9)
    traces, (found,) = page["result"].traces, page["result"].differences
    values = np.sort(traces["learned"].values("ndcg@10") - traces["today"].values("ndcg@10"))[::-1]
    axes.bar(range(1, len(values) + 1), values, width=1.0, color=np.where(values > 0, NEW, BAD))
    axes.axhline(0, color="#222222", linewidth=0.8)
    middle, end = found.difference, len(values) + 14
    axes.errorbar(end, middle, [[middle - found.low], [found.high - middle]], fmt="o", color="#222222", capsize=4)
    axes.text(end + 7, middle, f"mean\n{middle:+.3f}", va="center")
    axes.text(found.n_better / 3, values[0] * 0.62, f"{found.n_better} better", color=NEW)
    axes.text(len(values) - found.n_worse, values[-1] * 0.9, f"{found.n_worse} worse ", color=BAD, ha="right")
    axes.set(xlim=(0, end + 32), xticks=[1, 50, 100, 150, 200])
    axes.set(xlabel="held-out queries, sorted", ylabel="NDCG@10, learned − today")
    return figure


def inside(page: dict[str, Any]) -> Any:
    """Signed shares of features, and what puts the first document ahead of the second."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.2, 2.7), layout="constrained")
    features = page["explanation"].features
    shares = [one.share if one.sign == "+" else -one.share for one in features]
    _signed(left, [one.feature for one in features], shares, "share of what moves scores", ".0%")
    why = page["why"].why(page["why"].documents[0], page["why"].documents[1])
    _signed(right, [one.feature for one in why], [one.difference for one in why], "first less second, in score", "+.1f")
    return figure


def _signed(axes: Any, names: list[str], values: list[float], label: str, form: str) -> None:
    reach = 1.35 * max(map(abs, values))
    for place, value in enumerate(values):
        axes.barh(place, value, color=NEW if value > 0 else BAD, height=0.7)
        at = value + (0.02 if value >= 0 else -0.02) * reach
        axes.text(at, place, format(value, form), va="center", ha="left" if value >= 0 else "right")
    axes.axvline(0, color="#222222", linewidth=0.8)
    axes.set(xlim=(-reach, reach), ylim=(len(names) - 0.4, -0.6), xticks=[], xlabel=label)
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(left=False)
    axes.spines[["top", "right", "left", "bottom"]].set_visible(False)


def places(page: dict[str, Any]) -> Any:
    """Places of one query's products today and after learning."""
    figure, axes = _plot(5.6, 3.2)
    first = page["first"]
    old, new = (np.argsort(np.argsort(-page[one].scores(first), kind="stable")) + 1 for one in ("today", "ranker"))
    for i, grade in enumerate(first.relevance.astype(int)):
        axes.plot([0, 1], [old[i], new[i]], color=GRADES[grade], linewidth=1 + 0.5 * grade, marker="o", markersize=5)
        axes.text(-0.04, old[i], grade, ha="right", va="center")
        axes.text(1.04, new[i], grade, ha="left", va="center")
    axes.set(xlim=(-0.25, 1.25), ylim=(12.6, 0.4), ylabel="place")
    axes.set_yticks(range(1, 13))
    axes.set_xticks([0, 1], ["today, by grade", "learned, by grade"])
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(bottom=False)
    return figure


def _plot(width: float, height: float) -> tuple[Any, Any]:
    figure, axes = plt.subplots(figsize=(width, height), layout="constrained")
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


FIGURES = {one.__name__: one for one in (home, loop, query, trace, better, inside, places)}


def main(folder: Path) -> None:
    """Draw all figures into a folder."""
    page = run_page()
    for name, draw in FIGURES.items():
        figure = draw(page)
        figure.savefig(folder / f"start-{name}.svg", metadata={"Date": None, "Creator": None})
        plt.close(figure)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
