"""Figures of the page: markup, and data for the script that draws them."""

import json
from html import escape
from typing import Any

from perceptrank.evaluation.digits import three_digits
from perceptrank.evaluation.html_tables import Cell, number, table
from perceptrank.evaluation.plots import COLORS, Chart
from perceptrank.kernels.arrays import Floats


def figure(chart: Chart, place: int) -> str:
    """Format a figure, with its number, its caption and a table of the final values."""
    at = f"{chart.series[0].x[-1]:,.6g}"
    headings: list[str | Cell] = ["", number(f"at {chart.x_label} {at}")]
    rows: list[list[str | Cell]] = [[one.name, number(three_digits(float(one.y[-1])))] for one in chart.series]
    return (
        f'<figure data-chart="{chart.name}" id="figure-{place}"><h3>{escape(chart.title)}</h3><div class="plot">'
        f'<noscript><img src="figures/{chart.name}.svg" alt="{escape(chart.title)}"></noscript></div>'
        f"<figcaption><b>Figure {place}.</b> {escape(chart.caption)} "
        f'<span class="files">(<a href="figures/{chart.name}.svg">SVG</a>, <a href="figures/{chart.name}.png">PNG</a>, '
        f'<a href="curves/{chart.name}.csv">CSV</a>)</span></figcaption>'
        f"<details><summary>Final values</summary>{table(headings, rows)}</details></figure>"
    )


def chart_data(charts: list[Chart]) -> str:
    """Serialise charts as JSON for the script of the page."""
    plain = {chart.name: _plain_chart(chart) for chart in charts}
    return json.dumps(plain, separators=(",", ":"), allow_nan=False, ensure_ascii=False).replace("<", "\\u003c")


def _plain_chart(chart: Chart) -> dict[str, Any]:
    series = []
    for k, one in enumerate(chart.series):
        plain: dict[str, Any] = {
            "name": one.name,
            "short": one.short or one.name,
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
