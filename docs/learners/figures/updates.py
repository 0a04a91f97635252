"""One query of six documents, and what the update of each learner does to it."""

import re
from copy import deepcopy
from typing import Any

import numpy as np

import perceptrank as pr
from perceptrank.learners.learner import Learner

# The query: the first feature is what users want, and the second is what the weights go by as much before the update.
X = np.array([[0.2, 1.7], [1.7, -0.5], [-1.0, -0.5], [1.0, 0.6], [-0.3, 1.2], [0.8, -0.9]])
GRADES = np.array([0, 2, 0, 1, 0, 1])
NAMES = "abcdef"
# The query that each learner has learned before it, and that makes the weights of all of them point along the diagonal.
FIRST, FIRST_GRADES = np.array([[1.5, 1.5], [-1.5, -1.5]]), np.array([2, 0])
# Each document has a feature of its own, so small that it changes no score: its weight tells how much of the document
# an update added to the weights.
TRACE = 2.0**-20

PLAIN = {"average": False, "transforms": None}
UPDATES: dict[str, Learner] = {
    "listwise": pr.ListwisePerceptron(**PLAIN),
    "listwise-uniform": pr.ListwisePerceptron(violators="uniform", **PLAIN),
    "listwise-top": pr.ListwisePerceptron(violators="top", **PLAIN),
    "perceptron": pr.Perceptron(),
    "slam": pr.SlamPerceptron(learning_rate=1.0),
    "minimax": pr.MinimaxPerceptron(),
    "listnet": pr.OnlineListNet(learning_rate=1.0),
    "category-ranking": pr.CategoryRanking(),
    "uneven-margins": pr.UnevenMargins(learning_rate=0.5),
    "ranknet": pr.RankNet(learning_rate=1.0),
    "toppush": pr.TopPush(learning_rate=0.1),
    "solar-1": pr.SolarI(limit=0.1),
    "solar-2": pr.SolarII(regularization=10.0),
    "committee": pr.CommitteePerceptron(n_members=5),
    "buffered-pairwise": pr.BufferedPairwise(learning_rate=1.0),
    "opauc": pr.Opauc(learning_rate=0.1),
    "predtron": pr.Predtron(),
    "svm-map": pr.SvmMap(learning_rate=1.0),
    "structured-ndcg": pr.StructuredNdcg(learning_rate=1.0),
    "prank": pr.PRank(n_grades=3),
    "margin-prank": pr.MarginPRank(3.0, n_grades=3),
    "oap-bpm": pr.OapBpm(n_members=5, n_grades=3),
    "ridge": pr.OnlineRidge(penalty=10.0),
    "kernel": pr.KernelPerceptron(width=1.0, linear=0.0, **PLAIN),
    "bagging": pr.Bagging(pr.MinimaxPerceptron(), n_members=5, seed=1),
    "constraint": pr.SlamPerceptron(learning_rate=1.0, initial_weights=[1.0, 1.0] + [0.0] * 6, positive=[1]),
}
GRID = np.linspace(-2.1, 2.1, 19)
COLOURS = {0: "#d9d9d9", 1: "#7fbfe8", 2: "#0a5f9e"}
BEFORE, AFTER, INK, FAINT = "#7a7a7a", "#d55e00", "#333333", "#bdbdbd"


def compute(name: str) -> dict[str, Any]:
    """What the learner of that name makes of the query: weights, rankings and how much of each document was added."""
    learner, own = deepcopy(UPDATES[name]), np.zeros((2, len(X)))
    narrow = name in {"ridge", "kernel"}  # whose rules do not leave small features alone
    first, query = (FIRST, X) if narrow else (np.hstack([FIRST, own]), np.hstack([X, TRACE * np.eye(len(X))]))
    if learner.initial_weights is None:
        learner.learn_one(first, FIRST_GRADES)
    data = {"before": state_of(learner, query)}
    residuals = GRADES - GRADES.mean() - centred(data["before"]["scores"])
    learner.learn_one(query, GRADES)
    data["after"] = state_of(learner, query)
    if name == "constraint":  # beside it, in thin, where the weights would be without
        free = pr.SlamPerceptron(learning_rate=1.0, initial_weights=learner.initial_weights)
        free.learn_one(query, GRADES)
        data["after"]["members"] = [free.weights[:2].tolist()]
    if name == "ridge":
        data["added"] = residuals.tolist()
    elif name == "kernel":
        data["added"] = learner.dual_coef_[-len(X) :].tolist()  # after those of the first query
    else:
        weights = learner.coef_ if name == "bagging" else learner.weights
        data["added"] = (weights[2:] / TRACE).tolist()
    data["learner"] = re.sub(r"initial_weights=\[[^]]*\]", "initial_weights=[1, 1]", repr(learner))
    return data


def centred(values: Any) -> np.ndarray:
    """Numbers minus their mean."""
    return np.asarray(values) - np.mean(values)


def state_of(learner: Learner, query: np.ndarray) -> dict[str, Any]:
    """What a learner knows at one moment, in the two features."""
    scores = learner.predict(query)
    order = np.argsort(-scores, kind="stable")
    gains, discounts = 2.0**GRADES - 1.0, 1.0 / np.log2(np.arange(2, len(X) + 2))
    state = {
        "scores": scores.tolist(),
        "order": order.tolist(),
        "ndcg": float(gains[order] @ discounts / (np.sort(gains)[::-1] @ discounts)),
    }
    if learner.algorithm == "kernel":
        grid = np.stack(np.meshgrid(GRID, GRID), axis=-1).reshape(-1, 2)
        return state | {"field": np.round(learner.predict(grid), 3).tolist()}
    state["weights"] = (learner.coef_[:2] if learner.n_queries else np.ones(2)).tolist()
    if hasattr(learner, "thresholds") and learner.algorithm != "oap-bpm":
        state["thresholds"] = learner.thresholds.tolist()
    elif learner.algorithm == "perceptron":
        state["thresholds"] = [0.0]
    if learner.algorithm == "bagging":
        state["members"] = [one.weights[:2].tolist() for one in learner.members]
    elif learner.algorithm in {"committee", "oap-bpm"}:
        members = np.reshape(learner.as_document()["state"]["members"], (-1, query.shape[1]))
        state["members"] = [one[:2].tolist() for one in members if one.any()]
    return state


def draw(figure: Any, data: dict[str, Any]) -> None:
    """The query in the plane with the weights before and after, what was added, and both rankings."""
    plane, columns = figure.subplots(1, 2, width_ratios=(1, 1.28))
    draw_plane(plane, data)
    draw_columns(columns, data)
    figure.suptitle(data["learner"], x=0.012, ha="left", fontsize=8, color=INK, family="monospace")


def draw_plane(axes: Any, data: dict[str, Any]) -> None:
    """Documents, and arrows for the weights: as many times as long as before the update as they are."""
    axes.set(xlim=(-2.1, 2.1), ylim=(-2.1, 2.1), xticks=[], yticks=[], aspect="equal")
    axes.set_xlabel("feature 1", color=INK)
    axes.set_ylabel("feature 2", color=INK)
    axes.axhline(0, color=FAINT, linewidth=0.6, zorder=0)
    axes.axvline(0, color=FAINT, linewidth=0.6, zorder=0)
    if "field" in data["before"]:
        for moment, colour, style in (("before", BEFORE, "dashed"), ("after", AFTER, "solid")):
            field = np.reshape(data[moment]["field"], (len(GRID), len(GRID)))
            levels = np.linspace(field.min(), field.max(), 7)[1:-1]
            widths = np.linspace(0.4, 1.8, len(levels))  # the higher, the thicker
            axes.contour(GRID, GRID, field, levels=levels, colors=colour, linewidths=widths, linestyles=style)
    else:
        unit = 1.0 / float(np.linalg.norm(data["before"]["weights"]))
        for member in data["after"].get("members", []):
            arrow(axes, unit * np.array(member), AFTER, linewidth=0.8, alpha=0.6)
        for moment, colour in (("before", BEFORE), ("after", AFTER)):
            weights = np.array(data[moment]["weights"])
            across = np.array([-weights[1], weights[0]]) / np.linalg.norm(weights)
            for threshold in data[moment].get("thresholds", []):
                foot = threshold * weights / (weights @ weights)
                axes.plot(*np.transpose([foot - 4 * across, foot + 4 * across]), ":", color=colour, linewidth=1.1)
            far = 4 * weights / np.linalg.norm(weights)
            axes.plot([0, far[0]], [0, far[1]], color=colour, linewidth=0.8, dashes=(2, 3), zorder=0)
            arrow(axes, unit * weights, colour, linewidth=2.4)
    for x, grade, name in zip(X, GRADES, NAMES, strict=True):
        document(axes, *x, grade, size=13)
        axes.annotate(name, x, (7, 5), textcoords="offset points", color=INK, style="italic")


def arrow(axes: Any, tip: Any, colour: str, **style: Any) -> None:
    """An arrow from the origin, up to the frame if it is longer."""
    tip = np.array(tip) * min(1.0, 1.98 / max(np.abs(tip).max(), 1e-9))
    arrowprops = {"arrowstyle": "-|>", "color": colour, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 12} | style
    axes.annotate("", tip, (0, 0), arrowprops=arrowprops)


def document(axes: Any, x: float, y: float, grade: int, size: float = 14) -> None:
    """A document: its grade as a number and as a shade."""
    axes.plot(x, y, "o", color=COLOURS[grade], markersize=size, markeredgecolor=INK, markeredgewidth=0.6, zorder=4)
    ink = "white" if grade == 2 else INK
    axes.annotate(str(grade), (x, y), ha="center", va="center_baseline", color=ink, fontsize=8, zorder=5)


def draw_columns(axes: Any, data: dict[str, Any], first: str = "before") -> None:
    """How much of each document was added, in the order before, and the two rankings, joined by lines."""
    axes.set(xlim=(-3.1, 4.2), ylim=(7.3, -0.75))
    axes.axis("off")
    added = np.array(data["added"])
    largest = max(np.abs(added).max(), 1e-12)
    before, after = data["before"]["order"], data["after"]["order"]
    what = "from its target" if "OnlineRidge" in data["learner"] else "added"
    for x, text, colour in ((-1.3, what, AFTER), (1.2, first, BEFORE), (3.3, "after", AFTER)):
        axes.text(x, -0.35, text, ha="center", color=colour, weight="bold")
    axes.plot([-1.3, -1.3], [0.1, 6.1], color=BEFORE, linewidth=0.8)
    for place, i in enumerate(before):
        y, length = place + 0.6, 0.85 * added[i] / largest
        if abs(length) > 1e-9:
            axes.barh(y, length, left=-1.3, height=0.5, color=AFTER)
        text = f"{added[i]:+.2f}".replace("-", "−") if abs(length) > 1e-9 else "0"
        side = 1 if length > 0 or text == "0" else -1
        axes.text(
            -1.3 + length + 0.1 * side, y, text, va="center", ha="left" if side > 0 else "right", fontsize=7, color=INK
        )
        new = after.index(i)
        axes.plot([1.2, 3.3], [y, new + 0.6], color=AFTER if new < place else FAINT, linewidth=1.2, zorder=0)
        axes.text(0.72, y, NAMES[i], va="center", ha="right", color=INK, style="italic")
        axes.text(3.78, new + 0.6, NAMES[i], va="center", ha="left", color=INK, style="italic")
        document(axes, 1.2, y, GRADES[i])
        document(axes, 3.3, new + 0.6, GRADES[i])
    for moment, x, colour in (("before", 1.2, BEFORE), ("after", 3.3, AFTER)):
        scores = np.array(data[moment]["scores"])
        for threshold in data[moment].get("thresholds", []):
            y = np.count_nonzero(scores > threshold) + 0.1
            axes.plot([x - 0.75, x + 0.75], [y, y], ":", color=colour, linewidth=1.3)
        axes.text(x, 7.0, f"NDCG {data[moment]['ndcg']:.2f}", ha="center", color=INK, fontsize=8)
