"""Figures for print: as wide as a column of text."""

import os
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from perceptrank.evaluation.plots import (
    BAND,
    COLORS,
    GREY,
    MOST_NAMED,
    check_drawable,
    label_ends,
    literal,
    others,
    plot_metadata,
)
from perceptrank.io.atomic import replaced_file
from perceptrank.kernels.arrays import Floats, Ints

_COLORS = (*COLORS, "#882255", "#999933")[:MOST_NAMED]
_WIDTH, _HEIGHT = 3.35, 2.4  # inches: a column of two
_FIRST, _LATER = 10, 0.1  # where curves begin, and the share of queries after which all of a band is shown
_FONT_SIZE, _LABEL_SIZE, _LABEL_GAP = 7, 6, 0.055


def draw_for_print(path: str | os.PathLike[str], points: Ints, curves: Mapping[str, Floats], label: str) -> None:
    """Draw curves, orders x points each and the best first, with a band of one standard deviation over orders."""
    check_drawable(path)
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    if points[-1] >= _FIRST**2:  # means of fewer queries are noise, and would take most of the height
        kept = points >= _FIRST
        points, curves = points[kept], {name: values[:, kept] for name, values in curves.items()}
    settings: Any = {"svg.hashsalt": "", "svg.fonttype": "none", "pdf.fonttype": 42, "ps.fonttype": 42}
    settings |= {"font.size": _FONT_SIZE, "axes.linewidth": 0.6}
    with rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # names in scripts that the font lacks
        figure = Figure(figsize=(_WIDTH, _HEIGHT), layout="constrained")
        axes = figure.subplots()
        ends: dict[str, tuple[str, float]] = {}
        edges: list[float] = []
        for k, (name, values) in reversed(list(enumerate(curves.items()))):  # the best are drawn last
            mean, is_named = values.mean(axis=0), k < MOST_NAMED
            edges += [np.nanmin(mean), np.nanmax(mean)] if np.isfinite(mean).any() else []
            color = _COLORS[k] if is_named else GREY
            if is_named and len(values) > 1:
                spread = values.std(axis=0, ddof=1)
                later = points >= _LATER * points[-1]
                edges += [*(mean - spread)[later], *(mean + spread)[later]]
                axes.fill_between(points, mean - spread, mean + spread, color=color, alpha=BAND, linewidth=0)
            axes.plot(points, mean, color=color, linewidth=1.0 if is_named else 0.6)
            if is_named:
                ends[name] = (color, float(mean[-1]))
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
        axes.xaxis.set_minor_formatter("")
        finite = [one for one in edges if np.isfinite(one)]
        if finite and max(finite) > min(finite):
            pad = 0.04 * (max(finite) - min(finite))
            axes.set_ylim(min(finite) - pad, max(finite) + pad)
        axes.set_xlabel("queries seen")
        axes.set_ylabel(literal(label))
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25, linewidth=0.4)
        axes.margins(x=0)
        if len(curves) > MOST_NAMED:
            axes.plot([], [], color=GREY, linewidth=0.6, label=others(len(curves) - MOST_NAMED))
            axes.legend(loc="lower right", frameon=False, fontsize=_LABEL_SIZE)
        figure.draw_without_rendering()  # so that heights of labels are those of the final axes
        label_ends(axes, dict(reversed(ends.items())), size=_LABEL_SIZE, gap=_LABEL_GAP)
        kind = os.path.splitext(path)[1].lower()[1:]
        with replaced_file(path) as file:
            figure.savefig(file, format=kind, dpi=300, metadata=plot_metadata(kind, ""))
