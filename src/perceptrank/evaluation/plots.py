"""Plots in one style: labels beside the curves, bands for the spread, colour-blind-safe colours."""

import math
import os
import textwrap
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from perceptrank.io.atomic import replaced_file
from perceptrank.io.names import printable
from perceptrank.kernels.arrays import Floats


def three_digits(value: float) -> str:
    """Write a number with three significant digits, in full where that is short.

    >>> [three_digits(one) for one in (0.99961, 0.0382, 78.339, 329521.0, 2.0, 0.0, 3.05e-5)]
    ['1.00', '0.0382', '78.3', '330,000', '2.00', '0', '3.05e-05']
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if abs(value) < 1e-3:
        return f"{value:.3g}"
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.{max(0, 2 - math.floor(math.log10(abs(rounded))))}f}"


# Okabe and Ito's palette without its yellow, which is too light for lines.
COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
GREY = "#BBBBBB"
MOST_NAMED = 9  # curves with colours and names in one figure; the others are grey
BAND = 0.08  # opacity
_STYLES = ["-", "--", ":", "-."]
_MAX_POINTS = 2000
_MAX_TITLE = 85
_MAX_Y_LABEL = 45  # characters in a line as long as the axis
_MAX_NAME = 24  # of curves: a longer one would leave no room for them
_SUFFIXES = (".png", ".svg", ".pdf", ".jpg", ".jpeg", ".webp")


@dataclass(frozen=True)
class Series:
    """A curve with an optional band from `low` to `high`; `color` defaults to its position in the chart.

    `short` is its name where room is scarce. A `muted` curve is grey and has no name.
    """

    name: str
    x: Floats
    y: Floats
    low: Floats | None = None
    high: Floats | None = None
    color: int | None = None
    dashed: bool = False
    short: str = ""
    muted: bool = False


@dataclass(frozen=True)
class Chart:
    """A figure; `name` is for file names, `about` tells how it was produced, `caption` what is to be seen.

    `marks` are alarms, each with where what it is about began: a line, and a band that leads to it.
    """

    name: str
    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    log_x: bool = True
    log_y: bool = False
    about: str = ""
    caption: str = ""
    marks: Sequence[tuple[float, float]] = ()


def check_drawable(path: str | os.PathLike[str]) -> None:
    """Raise if the suffix of a plot's path is unknown, or matplotlib is not installed."""
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in _SUFFIXES:
        raise ValueError(f"a plot must end with one of {', '.join(_SUFFIXES)}, got {os.fspath(path)!r}")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ImportError("plots need matplotlib: pip install 'perceptrank[plot]'") from None


def draw_running_means(
    path: str | os.PathLike[str], curves: Mapping[str, Floats], label: str, marks: Sequence[tuple[float, float]] = ()
) -> None:
    """Draw curves over a logarithmic axis of queries; the suffix of the path selects the image format."""
    draw(Chart("", "", "queries seen", label, _best_named(curves, np.geomspace), marks=marks), path)


def draw_window_means(
    path: str | os.PathLike[str], curves: Mapping[str, Floats], label: str, marks: Sequence[tuple[float, float]] = ()
) -> None:
    """Draw curves over an axis of queries; the suffix of the path selects the image format."""
    draw(Chart("", "", "queries seen", label, _best_named(curves, np.linspace), log_x=False, marks=marks), path)


def _best_named(curves: Mapping[str, Floats], spaced: Any) -> list[Series]:
    """Make curves at spaced points, all but the best ones at the end muted and drawn first."""
    best = sorted(curves, key=lambda name: -np.nan_to_num(curves[name][-1], nan=-np.inf))[:MOST_NAMED]
    colors = {name: k for k, name in enumerate(name for name in curves if name in best)}
    series = []
    for name, curve in curves.items():
        shown = np.unique(spaced(1, len(curve), _MAX_POINTS).astype(int))
        x, y = shown.astype(np.float64), curve[shown - 1]
        series.append(Series(name, x, y, color=colors.get(name), muted=name not in colors))
    return sorted(series, key=lambda one: not one.muted)


def draw(chart: Chart, path: str | os.PathLike[str]) -> None:
    """Draw a chart deterministically; the suffix of the path selects the image format."""
    check_drawable(path)
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with (
        rc_context({"svg.hashsalt": chart.name, "svg.fonttype": "none", "pdf.fonttype": 42}),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", message="Glyph")  # names in scripts that the font lacks
        figure = Figure(figsize=(8, 4.5), layout="constrained")
        axes = figure.subplots()
        ends = {}
        for k, one in enumerate(chart.series):
            if one.muted:
                axes.plot(one.x, one.y, color=GREY, linewidth=0.8)
                continue
            number = k if one.color is None else one.color
            color = COLORS[number % len(COLORS)]
            style = "--" if one.dashed else _STYLES[number // len(COLORS) % len(_STYLES)]
            if one.low is not None and one.high is not None:
                axes.fill_between(one.x, one.low, one.high, color=color, alpha=BAND, linewidth=0)
            axes.plot(one.x, one.y, color=color, linestyle=style, linewidth=1.2 if one.dashed else 1.6)
            ends[one.name] = (color, float(one.y[-1]))
        for number, (alarm, since) in enumerate(chart.marks):
            axes.axvspan(since, alarm, color="#999999", alpha=0.25, linewidth=0)
            axes.axvline(alarm, color="#555555", linewidth=1, label="alarm" if number == 0 else None)
        n_muted = sum(one.muted for one in chart.series)
        if n_muted:
            axes.plot([], [], color=GREY, linewidth=0.8, label=others(n_muted))
        if chart.marks or n_muted:
            axes.legend(loc="lower right", frameon=False, fontsize=9)
        title = textwrap.shorten(chart.title, _MAX_TITLE, placeholder=" …")
        axes.set_title(literal(title), loc="left", fontsize=11)
        axes.set_xscale("log" if chart.log_x else "linear")
        axes.set_yscale("log" if chart.log_y else "linear")
        axes.set_xlabel(literal(chart.x_label))
        axes.set_ylabel(literal(textwrap.fill(chart.y_label, _MAX_Y_LABEL)))
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
        label_ends(axes, ends)
        kind = os.path.splitext(path)[1].lower()[1:]
        with replaced_file(path) as file:
            figure.savefig(
                file, format=kind, dpi=150, metadata=plot_metadata(kind, f"{chart.caption} {chart.about}".strip())
            )


def plot_metadata(kind: str, about: str) -> dict[str, str | None]:
    """Return the description, for formats that support it, and omit the date."""
    described: dict[str, str | None] = {"Description": printable(about)} if about and kind in ("svg", "png") else {}
    return described | ({"Date": None} if kind == "svg" else {"CreationDate": None} if kind == "pdf" else {})


def label_ends(
    axes: Any, ends: Mapping[str, tuple[str, float]], *, size: float = 9, gap: float = 0.045, x: float = 1.01
) -> None:
    """Label curves at their right ends, moved apart to avoid overlaps."""
    names = [name for name in ends if np.isfinite(ends[name][1])]
    heights = {
        name: axes.transAxes.inverted().transform(axes.transData.transform((1, ends[name][1])))[1] for name in names
    }
    names.sort(key=lambda name: heights[name])
    for name, height in zip(names, spread_apart([heights[name] for name in names], gap, 1.0), strict=True):
        axes.annotate(
            literal(f"{_in_a_line(name)}  {three_digits(ends[name][1])}"),
            xy=(x, height),
            xycoords=axes.transAxes,
            color=ends[name][0],
            va="center",
            fontsize=size,
            annotation_clip=False,
        )


def others(n: int) -> str:
    """Count the curves without a name."""
    return "1 other" if n == 1 else f"{n} others"


def _in_a_line(name: str) -> str:
    """Return a name in one line, its middle left out if it is long: names often differ at their ends."""
    name = " ".join(name.split())
    half = _MAX_NAME // 2
    return name if len(name) <= _MAX_NAME else f"{name[: half - 1].rstrip()}…{name[-half:].lstrip()}"


def literal(text: str) -> str:
    """Escape dollar signs, which start mathematical text, and replace characters that XML cannot hold."""
    return printable(text).replace("$", r"\$")


def spread_apart(positions: Sequence[float], gap: float, highest: float) -> list[float]:
    """Move sorted positions so that neighbours are a gap apart and none exceeds the highest, if there is room."""
    moved = list(positions)
    for i in range(1, len(moved)):
        moved[i] = max(moved[i], moved[i - 1] + gap)
    if moved and moved[-1] > highest:
        for i in range(len(moved)):
            moved[i] = min(moved[i], highest - gap * (len(moved) - 1 - i))
    return moved
