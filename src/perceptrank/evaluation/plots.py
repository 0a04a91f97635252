"""Plots in one style: labels beside the curves, bands for the spread, colour-blind-safe colours."""

import math
import os
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from perceptrank.io.atomic import replaced_file
from perceptrank.io.names import printable
from perceptrank.kernels.arrays import Floats, Ints


def three_digits(value: float) -> str:
    """Write a number with three significant digits, in full where that is short.

    >>> [three_digits(value) for value in (0.99961, 0.0382, 78.339, 329521.0, 2.0, 0.0, 3.05e-5)]
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
# Of figures for print, which are as wide as a column of two.
_PRINT_COLORS = (*COLORS, "#882255", "#999933")[:MOST_NAMED]
_PRINT_SIZE = 3.35, 2.4  # inches
_FIRST, _LATER = 10, 0.1  # where curves begin, and the share of queries after which all of a band is shown
_FONT_SIZE, _LABEL_SIZE, _LABEL_GAP = 7, 6, 0.055
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


@contextmanager
def saved_figure(
    path: str | os.PathLike[str],
    about: str = "",
    *,
    dpi: int = 150,
    size: tuple[float, float] | None = None,
    **style: Any,
) -> Iterator[Any]:
    """Yield a figure in a style, and write it deterministically; the suffix of the path selects the image format."""
    check_drawable(path)
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    settings: Any = {"svg.hashsalt": "", "svg.fonttype": "none", "pdf.fonttype": 42, "ps.fonttype": 42}
    settings |= {name.replace("_", "."): value for name, value in style.items()}
    with rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # names in scripts that the font lacks
        figure = Figure(figsize=size, layout="constrained")
        yield figure
        kind = os.path.splitext(path)[1].lower()[1:]
        metadata: dict[str, Any] = {"Description": printable(about)} if about and kind in ("svg", "png") else {}
        metadata |= {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind, {})
        with replaced_file(path) as file:
            figure.savefig(file, format=kind, dpi=dpi, metadata=metadata)


def draw_means(
    path: str | os.PathLike[str],
    curves: Mapping[str, Floats],
    label: str,
    *,
    log_x: bool = True,
    marks: Sequence[tuple[float, float]] = (),
) -> None:
    """Draw curves over queries, all but the best ones at the end muted and drawn first."""
    spaced: Any = np.geomspace if log_x else np.linspace
    best = sorted(curves, key=lambda name: -np.nan_to_num(curves[name][-1], nan=-np.inf))[:MOST_NAMED]
    colors = {name: k for k, name in enumerate(name for name in curves if name in best)}
    series = []
    for name, curve in curves.items():
        shown = np.unique(spaced(1, len(curve), _MAX_POINTS).astype(int))
        x, y = shown.astype(np.float64), curve[shown - 1]
        series.append(Series(name, x, y, color=colors.get(name), muted=name not in colors))
    series.sort(key=lambda curve: not curve.muted)
    draw(Chart("", "", "queries seen", label, series, log_x=log_x, marks=marks), path)


def draw(chart: Chart, path: str | os.PathLike[str]) -> None:
    """Draw a chart; the suffix of the path selects the image format."""
    about = f"{chart.caption} {chart.about}".strip()
    with saved_figure(path, about, size=(8, 4.5), svg_hashsalt=chart.name) as figure:
        axes = figure.subplots()
        ends = {}
        for k, curve in enumerate(chart.series):
            if curve.muted:
                axes.plot(curve.x, curve.y, color=GREY, linewidth=0.8)
                continue
            number = k if curve.color is None else curve.color
            color = COLORS[number % len(COLORS)]
            style = "--" if curve.dashed else _STYLES[number // len(COLORS) % len(_STYLES)]
            if curve.low is not None and curve.high is not None:
                axes.fill_between(curve.x, curve.low, curve.high, color=color, alpha=BAND, linewidth=0)
            axes.plot(curve.x, curve.y, color=color, linestyle=style, linewidth=1.2 if curve.dashed else 1.6)
            ends[curve.name] = (color, float(curve.y[-1]))
        for number, (alarm, since) in enumerate(chart.marks):
            axes.axvspan(since, alarm, color="#999999", alpha=0.25, linewidth=0)
            axes.axvline(alarm, color="#555555", linewidth=1, label="alarm" if number == 0 else None)
        n_muted = sum(curve.muted for curve in chart.series)
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


def draw_for_print(path: str | os.PathLike[str], points: Ints, curves: Mapping[str, Floats], label: str) -> None:
    """Draw curves, orders x points each and the best first, with a band of one standard deviation over orders."""
    if points[-1] >= _FIRST**2:  # means of fewer queries are noise, and would take most of the height
        kept = points >= _FIRST
        points, curves = points[kept], {name: values[:, kept] for name, values in curves.items()}
    with saved_figure(path, dpi=300, size=_PRINT_SIZE, font_size=_FONT_SIZE, axes_linewidth=0.6) as figure:
        axes = figure.subplots()
        ends: dict[str, tuple[str, float]] = {}
        edges: list[float] = []
        for k, (name, values) in reversed(list(enumerate(curves.items()))):  # the best are drawn last
            mean, is_named = values.mean(axis=0), k < MOST_NAMED
            edges += [np.nanmin(mean), np.nanmax(mean)] if np.isfinite(mean).any() else []
            color = _PRINT_COLORS[k] if is_named else GREY
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
        finite = [edge for edge in edges if np.isfinite(edge)]
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


def label_ends(axes: Any, ends: Mapping[str, tuple[str, float]], *, size: float = 9, gap: float = 0.045) -> None:
    """Label curves at their right ends, moved apart to avoid overlaps."""
    names = [name for name in ends if np.isfinite(ends[name][1])]
    heights = {
        name: axes.transAxes.inverted().transform(axes.transData.transform((1, ends[name][1])))[1] for name in names
    }
    names.sort(key=lambda name: heights[name])
    for name, height in zip(names, _spread_apart([heights[name] for name in names], gap, 1.0), strict=True):
        text = literal(f"{_in_a_line(name)}  {three_digits(ends[name][1])}")
        style: Any = {"color": ends[name][0], "va": "center", "fontsize": size, "annotation_clip": False}
        axes.annotate(text, xy=(1.01, height), xycoords=axes.transAxes, **style)


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


def _spread_apart(positions: Sequence[float], gap: float, highest: float) -> list[float]:
    """Move sorted positions so that neighbours are a gap apart and none exceeds the highest, if there is room."""
    moved = list(positions)
    for i in range(1, len(moved)):
        moved[i] = max(moved[i], moved[i - 1] + gap)
    if moved and moved[-1] > highest:
        moved = [min(position, highest - gap * (len(moved) - 1 - i)) for i, position in enumerate(moved)]
    return moved
