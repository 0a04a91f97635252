"""One list of six documents, two of them clicked, and what the update of each click learner does to it."""

from copy import deepcopy
from typing import Any

import numpy as np
from updates import AFTER, BEFORE, FAINT, GRADES, INK, NAMES, TRACE, X, arrow, document, state_of

import perceptrank as pr
from perceptrank.learners.clicks.click_learner import ClickLearner

PLAIN = {"transforms": None}
LISTS: dict[str, ClickLearner] = {
    "clicks": pr.ClickPerceptron(**PLAIN),
    "pdgd": pr.PDGD(learning_rate=1.0, **PLAIN),
    "3pr": pr.PerturbedPerceptron(**PLAIN),
    "fair-pairs": pr.FairPairsPerceptron(average=False, **PLAIN),
    "rtop-k": pr.TopFeedback(learning_rate=1.0, **PLAIN),
    "ips-listwise": pr.IpsListwise(average=False, **PLAIN),
    "examined": pr.ExaminedPerceptron(average=False, **PLAIN),
}
# The list that all of them have shown, and what was clicked: d and b, at places 2 and 4. Nobody looked further down.
SHOWN = [NAMES.index(name) for name in "adebfc"]
CLICKS, EXAMINED = np.array([0, 1, 0, 1, 0, 0]), np.array([1, 1, 1, 1, 0, 0])
# Before, each has shown four lists of documents on the diagonal, with these clicks. So all weights point along it, and
# of the lists, half were clicked at place 1, half at place 2, and a quarter at place 4.
DIAGONAL = np.outer(np.linspace(1, -1, len(X)), np.ones(2))
RANKED, SWAPPED = [0, 1, 2, 3, 4, 5], [1, 0, 3, 2, 5, 4]
FIRST = [
    (RANKED, [1, 0, 0, 0, 0, 0]),
    (SWAPPED, [0, 1, 0, 0, 0, 0]),
    (SWAPPED, [0, 1, 0, 1, 0, 0]),
    (RANKED, [1, 0, 0, 0, 0, 0]),
]


def compute(name: str) -> dict[str, Any]:
    """What the learner of that name makes of the list: weights, rankings and how much of each document was added."""
    learner, own, rng = deepcopy(LISTS[name]), np.zeros((len(X), len(X))), np.random.default_rng(0)
    for order, clicks in FIRST:
        learner.learn_clicks(show(learner, np.hstack([DIAGONAL, own]), order, rng), clicks)
    query = np.hstack([X, TRACE * np.eye(len(X))])
    data: dict[str, Any] = {"before": state_of(learner, query)}
    shown = show(learner, query, SHOWN, rng)
    learner.learn_clicks(shown, CLICKS, examined=EXAMINED)
    data["after"] = state_of(learner, query)
    data["added"] = (learner.weights[2:] / TRACE).tolist()
    return data | {"learner": repr(learner), "policy": shown.policy, "propensity": shown.propensity.tolist()}


def show(learner: ClickLearner, query: np.ndarray, order: list[int], rng: np.random.Generator) -> pr.Impression:
    """Show lists by the learner's own policy, or by fair pairs if it has none, until it is this one."""
    policy = "fair-pairs" if learner.explores == "none" else None
    for _ in range(100_000):
        shown = learner.show(query, n=len(query), policy=policy, rng=rng)
        if shown.order.tolist() == order:
            return shown
    raise ValueError(f"{learner} does not show {order}")


def draw(figure: Any, data: dict[str, Any]) -> None:
    """The documents in the plane with the weights before and after, the list with its clicks, and the new ranking."""
    plane, columns = figure.subplots(1, 2, width_ratios=(1, 1.28))
    draw_plane(plane, data)
    draw_columns(columns, data)
    title = f"{data['learner']}   {data['policy'].partition(':')[0]}"
    figure.suptitle(title, x=0.012, ha="left", fontsize=8, color=INK, family="monospace")


def draw_plane(axes: Any, data: dict[str, Any]) -> None:
    """Documents, and arrows for the weights, in units of those before the update."""
    axes.set(xlim=(-2.1, 2.1), ylim=(-2.1, 2.1), xticks=[], yticks=[], aspect="equal")
    axes.set_xlabel("feature 1", color=INK)
    axes.set_ylabel("feature 2", color=INK)
    axes.axhline(0, color=FAINT, linewidth=0.6, zorder=0)
    axes.axvline(0, color=FAINT, linewidth=0.6, zorder=0)
    unit = 1.0 / float(np.linalg.norm(data["before"]["weights"]))
    for moment, colour in (("before", BEFORE), ("after", AFTER)):
        weights = np.array(data[moment]["weights"])
        far = 4 * weights / np.linalg.norm(weights)
        axes.plot([0, far[0]], [0, far[1]], color=colour, linewidth=0.8, dashes=(2, 3), zorder=0)
        arrow(axes, unit * weights, colour, linewidth=2.4)
    for place, i in enumerate(SHOWN):
        document(axes, *X[i], GRADES[i], size=13)
        axes.annotate(NAMES[i], X[i], (7, 5), textcoords="offset points", color=INK, style="italic")
        if CLICKS[place]:
            pointer(axes, *X[i])


def pointer(axes: Any, x: float, y: float) -> None:
    """A mouse pointer on a document that was clicked."""
    outline = np.array([[0, 0], [0, -10], [2.4, -7.8], [4.2, -11.6], [5.8, -10.8], [4.1, -7.2], [7.2, -7.0]])
    marker = [(a - 1.5, b + 1.0) for a, b in outline]
    axes.plot(x, y, marker=marker, markersize=13, color=AFTER, markeredgecolor="white", markeredgewidth=0.7, zorder=6)


def draw_columns(axes: Any, data: dict[str, Any]) -> None:
    """How much of each document was added, the list as shown with its clicks, and the ranking after the update."""
    axes.set(xlim=(-3.1, 4.2), ylim=(7.3, -0.75))
    axes.axis("off")
    added = np.array(data["added"])
    largest = max(np.abs(added).max(), 1e-12)
    after = data["after"]["order"]
    for x, text, colour in ((-1.3, "added", AFTER), (1.2, "shown", BEFORE), (3.3, "after", AFTER)):
        axes.text(x, -0.35, text, ha="center", color=colour, weight="bold")
    axes.plot([-1.3, -1.3], [0.1, 6.1], color=BEFORE, linewidth=0.8)
    for place, i in enumerate(SHOWN):
        y, length = place + 0.6, 0.85 * added[i] / largest
        if abs(length) > 1e-9:
            axes.barh(y, length, left=-1.3, height=0.5, color=AFTER)
        text = f"{added[i]:+.2f}".replace("-", "−") if abs(length) > 1e-9 else "0"
        side = 1 if length > 0 or text == "0" else -1
        align = "left" if side > 0 else "right"
        axes.text(-1.3 + length + 0.1 * side, y, text, va="center", ha=align, fontsize=7, color=INK)
        new = after.index(i)
        axes.plot([1.2, 3.3], [y, new + 0.6], color=AFTER if new < place else FAINT, linewidth=1.2, zorder=0)
        axes.text(0.72, y, NAMES[i], va="center", ha="right", color=INK, style="italic")
        axes.text(3.78, new + 0.6, NAMES[i], va="center", ha="left", color=INK, style="italic")
        document(axes, 1.2, y, GRADES[i])
        document(axes, 3.3, new + 0.6, GRADES[i])
        if CLICKS[place]:
            pointer(axes, 1.2, y)
    worth = {"before": shown_ndcg(), "after": data["after"]["ndcg"]}
    for moment, x in (("before", 1.2), ("after", 3.3)):
        axes.text(x, 7.0, f"NDCG {worth[moment]:.2f}", ha="center", color=INK, fontsize=8)


def shown_ndcg() -> float:
    """NDCG of the list as it was shown."""
    gains, discounts = 2.0**GRADES - 1.0, 1.0 / np.log2(np.arange(2, len(X) + 2))
    return float(gains[SHOWN] @ discounts / (np.sort(gains)[::-1] @ discounts))
