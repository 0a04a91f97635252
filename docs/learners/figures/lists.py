"""One list of six documents, two of them clicked, and what the update of each click learner does to it."""

from copy import deepcopy
from typing import Any

import numpy as np
import updates
from updates import GRADES, NAMES, TRACE, X, state_of

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
    updates.draw_plane(plane, data)
    gains, discounts = 2.0**GRADES - 1.0, 1.0 / np.log2(np.arange(2, len(X) + 2))
    ndcg = float(gains[SHOWN] @ discounts / (np.sort(gains)[::-1] @ discounts))
    updates.draw_columns(columns, data | {"before": {"order": SHOWN, "ndcg": ndcg, "scores": []}}, first="shown")
    for place in np.flatnonzero(CLICKS):
        pointer(plane, *X[SHOWN[place]])
        pointer(columns, 1.2, place + 0.6)
    title = f"{data['learner']}   {data['policy'].partition(':')[0]}"
    figure.suptitle(title, x=0.012, ha="left", fontsize=8, color=updates.INK, family="monospace")


def pointer(axes: Any, x: float, y: float) -> None:
    """A mouse pointer at the edge of a document that was clicked."""
    outline = np.array([(0, 0), (0, -10), (2.4, -7.8), (4.2, -11.6), (5.8, -10.8), (4.1, -7.2), (7.2, -7), (0, 0)])
    corners = outline + np.array([3.0, -2.0])  # in points, from the middle of the document
    size = 2 * np.abs(corners).max()
    axes.plot(x, y, marker=corners, markersize=size, color="black", mec="white", mew=0.8, zorder=6)
