"""Curves over the queries seen, in one house style: few lines, labels beside the curves, colours all can tell apart."""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from perceptrank.arrays import Floats

# Okabe and Ito's palette without its yellow, which is too light for lines.
COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
_STYLES = ["-", "--", ":", "-."]
_MOST_POINTS = 2000


_SUFFIXES = (".png", ".svg", ".pdf", ".jpg", ".jpeg", ".webp")


def check_drawable(path: str | os.PathLike[str]) -> None:
    """Raise if a plot cannot be drawn into such a file."""
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in _SUFFIXES:
        raise ValueError(f"a plot must end with one of {', '.join(_SUFFIXES)}, got {os.fspath(path)!r}")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ImportError("plots need matplotlib: pip install 'perceptrank[plot]'") from None


def draw_running_means(path: str | os.PathLike[str], curves: Mapping[str, Floats], label: str) -> None:
    """Draw curves over a logarithmic axis of queries into an image file; its suffix says which kind."""
    check_drawable(path)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    ends = {}
    for place, (name, curve) in enumerate(curves.items()):
        style = _STYLES[place // len(COLORS) % len(_STYLES)]
        color = COLORS[place % len(COLORS)]
        rounds = np.arange(1, len(curve) + 1)
        shown = np.unique(np.geomspace(1, len(curve), _MOST_POINTS).astype(int)) - 1
        axes.plot(rounds[shown], curve[shown], color=color, linestyle=style, linewidth=1.6)
        ends[name] = (color, float(curve[-1]))
    axes.set_xscale("log")
    axes.set_xlabel("queries seen")
    axes.set_ylabel(label)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    _label_ends(axes, ends)
    figure.savefig(path, dpi=150)


def _label_ends(axes: Any, ends: Mapping[str, tuple[str, float]]) -> None:
    """Write names to the right of where curves end, moved apart so that none covers another."""
    low, high = axes.get_ylim()
    gap = (high - low) * 0.045
    names = sorted((name for name in ends if np.isfinite(ends[name][1])), key=lambda name: ends[name][1])
    places = [ends[name][1] for name in names]
    for i in range(1, len(places)):
        places[i] = max(places[i], places[i - 1] + gap)
    excess = max(0.0, (places[-1] if places else 0.0) - high)
    for i in range(len(places) - 1, -1, -1):
        places[i] = min(places[i], high - gap * (len(places) - 1 - i)) if excess else places[i]
    for name, place in zip(names, places, strict=True):
        axes.annotate(
            f"{name}  {ends[name][1]:.3f}",
            xy=(1.01, place),
            xycoords=axes.get_yaxis_transform(),
            color=ends[name][0],
            va="center",
            fontsize=9,
            annotation_clip=False,
        )
