"""Explanations as figures: curves of features in bins, or a bar for each feature."""

import math
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from perceptrank.evaluation.cards import FALLING, OTHER, RISING, SIGN_COLORS
from perceptrank.evaluation.plots import literal, saved_figure

if TYPE_CHECKING:
    from perceptrank.deploy.explanation.effects import Curve
    from perceptrank.deploy.explanation.explanation import Explanation

_ACROSS = 3
_LONGEST = 32
_FEW = 3  # points that are never crowded
_TICKS = 5


def draw_explanation(explanation: "Explanation", path: str | os.PathLike[str], top: int) -> None:
    """Draw an explanation; the suffix of the path selects the image format."""
    if not explanation.n_weighted:
        raise ValueError("all weights are 0: there is nothing to draw")
    with saved_figure(path, f"what {explanation.name} has learned") as figure:
        if explanation.curves:
            _draw_curves(explanation, figure, top)
        else:
            _draw_bars(explanation, figure, top)


def _draw_curves(explanation: "Explanation", figure: Any, top: int) -> None:
    curves = [(name, own) for name, all_own in explanation.curves.items() for own in all_own][:top]
    across = min(_ACROSS, len(curves))
    down = math.ceil(len(curves) / across)
    figure.set_size_inches(3.2 * across, 2.3 * down)
    panels = figure.subplots(down, across, squeeze=False, sharey=True)
    for place, axes in enumerate(panels.ravel()):
        if place >= len(curves):
            axes.set_visible(False)
            continue
        name, curve = curves[place]
        x, y = _points(curve)
        color = {1: RISING, -1: FALLING}.get(curve.sign, OTHER)
        axes.plot(x, y, color=color, drawstyle="default" if curve.is_linear else "steps-post", linewidth=1.6)
        axes.axhline(0.0, color="#8a8a8a", linewidth=0.6)
        axes.set_title(literal(_short(name)), loc="left", fontsize=9)
        labels = [f"its {curve.of}"] if curve.of else []
        if _is_crowded(x):
            _space_evenly(axes, x)
            labels.append("edges evenly spaced")
        else:
            axes.locator_params(axis="x", nbins=5)
        if labels:
            axes.set_xlabel(literal(", ".join(labels)), fontsize=7, labelpad=1)
        axes.tick_params(labelsize=7)
        axes.xaxis.get_offset_text().set_fontsize(7)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    figure.supylabel("adds to the score", fontsize=9)


def _points(curve: "Curve") -> Any:
    """Return where a curve goes: for steps, a tenth of the range beyond the first and the last edge."""
    if curve.is_linear:
        return np.unique(curve.edges), curve.values[np.unique(curve.edges, return_index=True)[1]]
    beyond = 0.1 * float(curve.edges[-1] - curve.edges[0]) or max(1.0, abs(float(curve.edges[0]))) * 0.1
    x = np.concatenate([[curve.edges[0] - beyond], curve.edges, [curve.edges[-1] + beyond]])
    return x, np.concatenate([curve.values, curve.values[-1:]])


def _is_crowded(x: Any) -> bool:
    """Tell whether half of the points would be drawn within a tenth of the width."""
    half = len(x) // 2
    return len(x) > _FEW and float((x[half:] - x[: len(x) - half]).min()) < 0.1 * float(x[-1] - x[0])


def _space_evenly(axes: Any, x: Any) -> None:
    """Draw points at equal distances, with the numbers of some below them."""
    places = np.arange(len(x), dtype=np.float64)
    both_ways = lambda values: np.interp(values, x, places), lambda values: np.interp(values, places, x)
    axes.set_xscale("function", functions=both_ways)
    axes.set_xlim(x[0], x[-1])
    shown = np.unique(np.linspace(0, len(x) - 1, _TICKS).round().astype(np.int64))
    axes.set_xticks(x[shown], [f"{value:.3g}".replace("-", "−") for value in x[shown].tolist()])
    axes.minorticks_off()


def _draw_bars(explanation: "Explanation", figure: Any, top: int) -> None:
    rows = explanation.largest(top)[::-1]
    known = not math.isnan(rows[0].share)
    sizes = [row.importance if known else sum(map(abs, row.weights.values())) for row in rows]
    signed = [-size if row.sign == "-" else size for row, size in zip(rows, sizes, strict=True)]
    figure.set_size_inches(7.0, 1.1 + 0.28 * len(rows))
    axes = figure.subplots()
    axes.barh(range(len(rows)), signed, color=[SIGN_COLORS[row.sign] for row in rows], height=0.7)
    axes.set_yticks(range(len(rows)), [literal(_short(row.feature)) for row in rows], fontsize=8)
    axes.axvline(0.0, color="#8a8a8a", linewidth=0.6)
    unit = "importance: how far it moves scores" if known else "weight (spreads are unknown)"
    axes.set_xlabel(f"less is better   ←   {unit}   →   more is better", fontsize=8)
    axes.tick_params(axis="x", labelsize=7)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.grid(axis="x", alpha=0.25)
    axes.set_axisbelow(True)


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"
