"""Draw the figure of docs/clicks.md: `python docs/figures/draw_clicks.py [FOLDER]`.

It is drawn from what the Python of docs/clicks.md makes.
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

# The same bytes whenever it is run, and text that is text.
mpl.rcParams.update(
    {"svg.hashsalt": "perceptrank", "svg.fonttype": "none", "font.size": 9.5, "font.family": "sans-serif"}
)
PLACES = {(1, 1): "#b5341b", (2, 2): "#e08a2e", (3, 4): "#8a6fb0", (5, 10): "#174f86"}  # first and last
GRADED, UNGRADED = "#1b6ca8", "#a7abb2"
PAGE = Path(__file__).parents[1] / "clicks.md"


def run_page(until: str = "truth") -> dict[str, Any]:
    """Run the Python of the page until it has made that name, in a folder that is thrown away; return its names."""
    names: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        for block in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.S | re.M):
            exec(block, names)
            if until in names:
                return names
    raise ValueError(f"{PAGE} has no block that makes `{until}`")


def draw(page: dict[str, Any]) -> Any:
    """Clicks per showing, and judgements, against the truth."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(6.2, 3.2), layout="constrained")
    for axes in (left, right):
        axes.plot([0, 1], [0, 1], color="#222222", linewidth=0.8, zorder=1)
        axes.set(xlim=(0, 1.01), ylim=(0, 1.01), aspect="equal", xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
        axes.set_xlabel("true attractiveness")
        axes.spines[["top", "right"]].set_visible(False)
    _clicks(left, page["judged"], page["truth"])
    _judgements(right, page["judged"], page["truth"])
    return figure


def _clicks(axes: Any, judged: Any, truth: Any) -> None:
    """Click rates, coloured by the place that a product has when nothing is swapped."""
    rate = judged.clicks / judged.shown
    # A swap moves a product by one place; the last of ten is never moved down.
    home = np.where(judged.smallest_place == 9, 10, judged.largest_place - 1)
    for (first, last), colour in PLACES.items():
        which = (home >= first) & (home <= last)
        name = f"place {first}" if first == last else f"places {first} to {last}"
        axes.plot(truth[which], rate[which], "o", color=colour, markersize=3.6, label=name)
    best = int(np.argmax(np.where(home == 1, rate, 0)))
    alike = int(np.argmin(np.where(home >= 5, np.abs(truth - truth[best]), 1)))
    arrow = {"arrowstyle": "<->", "color": "#222222", "shrinkA": 3, "shrinkB": 3}
    axes.annotate("", (truth[best], rate[best]), (truth[alike], rate[alike]), arrowprops=arrow)
    axes.text(truth[best] + 0.03, 0.38, "equally\ngood", va="center")
    axes.set_title("clicks per showing", fontsize=10)
    axes.legend(frameon=False, loc="upper left", handletextpad=0, borderaxespad=0, labelspacing=0.3)


def _judgements(axes: Any, judged: Any, truth: Any) -> None:
    """Estimates with their intervals, and the bands of grades."""
    has_grade = ~np.isnan(judged.grade)
    for which, colour, label in ((~has_grade, UNGRADED, "no grade yet"), (has_grade, GRADED, "with a grade")):
        middle = judged.estimate[which]
        span = [middle - judged.low[which], judged.high[which] - middle]
        axes.errorbar(truth[which], middle, span, fmt="o", color=colour, markersize=2.8, linewidth=0.9, label=label)
    bounds = [0, *judged.thresholds, 1]
    for grade, (low, high) in enumerate(pairwise(bounds)):
        axes.axhline(low, color="#d5d8dc", linewidth=0.6, zorder=0)
        axes.text(1.04, (low + high) / 2, f"grade {grade}", va="center")
    axes.set_title("judgements, 95% intervals", fontsize=10)
    axes.legend(frameon=False, loc="lower right", handletextpad=0.2, borderaxespad=0, labelspacing=0.3)


def main(folder: Path) -> None:
    """Draw the figure into a folder."""
    figure = draw(run_page())
    figure.savefig(folder / "clicks.svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
