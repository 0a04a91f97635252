"""Figures of the page: markup, and data for the script that draws them."""

import json
from html import escape
from typing import Any

from perceptrank.evaluation.html_tables import Cell, number, table
from perceptrank.evaluation.plots import COLORS, Chart
from perceptrank.kernels.arrays import Floats


def figure(chart: Chart) -> str:
    """Format a figure with its caption and a table of the final values."""
    headings: list[str | Cell] = ["", number(f"at {chart.x_label} {chart.series[0].x[-1]:,.5g}")]
    rows: list[list[str | Cell]] = [[one.name, number(f"{one.y[-1]:,.5g}")] for one in chart.series]
    return (
        f'<figure data-chart="{chart.name}"><h3>{escape(chart.title)}</h3><div class="plot">'
        f"<noscript>Interactive curves need JavaScript; figures/{chart.name}.svg has them as an image.</noscript></div>"
        f"<figcaption>{_caption(chart.about)} Files: "
        f'<a href="figures/{chart.name}.svg">SVG</a>, <a href="figures/{chart.name}.png">PNG</a>, '
        f'<a href="curves/{chart.name}.csv">CSV</a>.</figcaption>'
        f"<details><summary>Final values</summary>{table(headings, rows)}</details></figure>"
    )


def _caption(text: str) -> str:
    before, _, command = text.rpartition("Produced by: ")
    return f"{escape(before)}Produced by: <code>{escape(command)}</code>."


def chart_data(charts: list[Chart]) -> str:
    """Serialise charts as JSON for the script of the page."""
    plain = {chart.name: _plain_chart(chart) for chart in charts}
    return json.dumps(plain, separators=(",", ":"), allow_nan=False, ensure_ascii=False).replace("<", "\\u003c")


def _plain_chart(chart: Chart) -> dict[str, Any]:
    series = []
    for k, one in enumerate(chart.series):
        plain: dict[str, Any] = {
            "name": one.name,
            "color": (k if one.color is None else one.color) % len(COLORS),
            "dashed": one.dashed,
            "x": _rounded(one.x),
            "y": _rounded(one.y),
        }
        if one.low is not None and one.high is not None:
            plain |= {"low": _rounded(one.low), "high": _rounded(one.high)}
        series.append(plain)
    labels = {"title": chart.title, "x_label": chart.x_label, "y_label": chart.y_label}
    return labels | {"log_x": chart.log_x, "log_y": chart.log_y, "series": series}


def _rounded(values: Floats) -> list[float]:
    return [float(f"{value:.6g}") for value in values]
