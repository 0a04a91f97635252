"""Sections of the page: simulated stream, real data sets, comparison with the paper, settings."""

import json
from dataclasses import dataclass
from html import escape
from itertools import product
from typing import Any

import numpy as np

from perceptrank.evaluation.html_page import Cell, number, spread, table
from perceptrank.evaluation.plots import COLORS, Chart, three_digits
from perceptrank.kernels.arrays import Floats
from perceptrank.paper.contenders import RATES
from perceptrank.paper.curves import join_names
from perceptrank.paper.reproduction import Reproduction, Settings, StreamResult
from perceptrank.paper.simulated import Simulated
from perceptrank.paper.trials import Tuned, first_tenth


@dataclass(frozen=True)
class Quoted:
    """Reported results of Algorithm 2 and ListNet for one data set and measure, averages near the end of the stream."""

    data_set: str
    pattern: str  # substring of the names of matching data sets
    measure: str
    slam: float
    listnet: float
    remark: str = ""


_UNCLEAR = "the text calls Algorithm 2 “slightly worse”, so the assignment of the two values is unclear"

QUOTED = [
    Quoted("MSLR-WEB10K", "mslr", "ndcg@10", 0.25, 0.22),
    Quoted("MSLR-WEB10K", "mslr", "ap", 0.49, 0.37),
    Quoted("Yahoo LTRC set 1", "yahoo", "ndcg@10", 0.75, 0.74, _UNCLEAR),
    Quoted("Yahoo LTRC set 1", "yahoo", "ap", 0.875, 0.87, _UNCLEAR),
]

DIFFERENCES = [
    "The paper reports averages “over the last ten iterations” of its curves; we report the mean over the whole "
    "stream, averaged over several orders of the queries.",
    "The paper does not state the feature scaling, the order of the queries, the number of passes, the learning rates "
    "tried, the treatment of ties, or the value of a query without a relevant document. Here they are stated: "
    "among tied scores the less relevant document ranks first, and queries without a relevant "
    "document are left out.",
    "The paper uses all of MSLR-WEB10K (10,000 queries, 136 features; its “245” is a slip), Yahoo LTRC set 1 (19,944 "
    "queries, 700 features) and Yandex IMAT2009 (9,124 queries, 245 features). Our numbers of queries are stated with "
    "every stream.",
    "AP needs binary relevance: here a document is relevant if its grade is above 0, for the measure and for learning.",
    "The paper’s results on Yandex are shown only as curves, which overlap.",
]


def figure(chart: Chart, place: int) -> str:
    """Format a figure, with its number, its caption and a table of the final values."""
    at = f"{chart.series[0].x[-1]:,.6g}"
    rows = [(curve.name, number(three_digits(float(curve.y[-1])))) for curve in chart.series]
    values = table(["", f"at {chart.x_label} {at}"], rows)
    return (
        f'<figure data-chart="{chart.name}" id="figure-{place}"><h3>{escape(chart.title)}</h3><div class="plot">'
        f'<noscript><img src="figures/{chart.name}.svg" alt="{escape(chart.title)}"></noscript></div>'
        f"<figcaption><b>Figure {place}.</b> {escape(chart.caption)} "
        f'<span class="files">(<a href="figures/{chart.name}.svg">SVG</a>, <a href="figures/{chart.name}.png">PNG</a>, '
        f'<a href="curves/{chart.name}.csv">CSV</a>)</span></figcaption>'
        f"<details><summary>Final values</summary>{values}</details></figure>"
    )


def chart_data(charts: list[Chart]) -> str:
    """Serialise charts as JSON for the script of the page."""
    plain = {chart.name: _plain_chart(chart) for chart in charts}
    return json.dumps(plain, separators=(",", ":"), allow_nan=False, ensure_ascii=False).replace("<", "\\u003c")


def _plain_chart(chart: Chart) -> dict[str, Any]:
    series = []
    for k, curve in enumerate(chart.series):
        lines = {"x": curve.x, "y": curve.y, "low": curve.low, "high": curve.high}
        plain: dict[str, Any] = {
            "name": curve.name,
            "short": curve.short or curve.name,
            "color": (k if curve.color is None else curve.color) % len(COLORS),
            "dashed": curve.dashed,
            **{name: [float(f"{value:.6g}") for value in line] for name, line in lines.items() if line is not None},
        }
        series.append(plain)
    labels = {"title": chart.title, "x_label": chart.x_label, "y_label": chart.y_label}
    return labels | {"log_x": chart.log_x, "log_y": chart.log_y, "series": series}


_PER = 1000  # queries that losses are given for
_ABOUT = (  # of the simulated stream, which comes first
    "The paper tunes each rate in hindsight, by the best result over the whole stream. Without hindsight, a rate is "
    "tuned on the first tenth of the stream, separately for every seed (ties go to the rate nearest to the learner’s "
    f"default), and evaluated on the rest. On this stream means are close to 1, so what is lost in {_PER:,} queries is "
    "shown. "
)


def tuning_tables(stream: StreamResult) -> str:
    """Format the tables of tuned contenders, one per measure."""
    tenth, is_lost = first_tenth(stream.trials.source.n_rounds), stream.simulated is not None
    text = f"<h3>Tuning the learning rate</h3><p>{_ABOUT if is_lost else ''}Its first tenth has {tenth:,} queries.</p>"
    for measure, tuned in stream.tuned.items():
        text += _tuning_table(tuned, measure, is_lost=is_lost)
    edge = [each.contender.label for tuned in stream.tuned.values() for each in tuned if each.is_at_the_edge]
    if edge:
        names = join_names(list(dict.fromkeys(edge)))
        text += f"<p class='soft'>* The best rate of {escape(names)} is at the edge of the grid.</p>"
    return text


def _tuning_table(tuned: list[Tuned], measure: str, *, is_lost: bool) -> str:
    names = ("whole", "rest", "honest_rest")
    best = {name: max(float(getattr(each, name).mean()) for each in tuned) for name in names}
    show = _lost if is_lost else spread
    rows: list[list[str | Cell]] = []
    for each in tuned:
        rate = "" if not each.contender.has_rate else f"{each.hindsight.rate:.3g}{'*' if each.is_at_the_edge else ''}"
        cells = [show(getattr(each, name), top) for name, top in best.items()]
        chosen = "" if each.honest_rates is None else _range(each.honest_rates, ".3g")
        rows.append([each.contender.label, number(rate), *cells, number(chosen)])
    name = f"(1 − {measure.upper()}) × {_PER:,}" if is_lost else measure.upper()
    after = ["hindsight: after first tenth", "tuned on first tenth: after it"]
    return table([name, "best rate", "hindsight: all queries", *after, "tuned rates"], rows)


def _lost(means: Floats, best: float) -> Cell:
    lost = _PER * (1 - means)
    mean = three_digits(_tidy(float(lost.mean())))
    deviation = f" ± {three_digits(_tidy(float(np.std(lost, ddof=1))))}" if len(lost) > 1 else ""
    return number(mean + deviation, is_best=mean == three_digits(_tidy(_PER * (1 - best))))


def _tidy(value: float) -> float:
    """Remove what rounding has left of 0."""
    return value if abs(value) > 1e-9 else 0.0


def simulated_section(stream: StreamResult, first: int) -> str:
    """Format what else there is about the simulated stream, whose losses the page begins with; figures from `first`."""
    assert stream.simulated is not None
    running, rates, losses_by_rate = (figure(chart, first + k) for k, chart in enumerate(stream.charts[1:]))
    return (
        f'{_bounds_table(stream.simulated)}<div class="figures">{running}{rates}{losses_by_rate}</div>'
        f"{tuning_tables(stream)}"
    )


def _bounds_table(simulated: Simulated) -> str:
    rows: list[list[str | Cell]] = []
    for check in simulated.bound_checks:
        formula = "none for this loss" if check.bounds is None else check.formula
        bound = "" if check.bounds is None else three_digits(min(check.bounds))
        lost = [three_digits(float(losses.max())) for losses in (check.losses, check.second_half)]
        numbers = [number(text) for text in (bound, *lost, f"{max(check.last_losses):,}")]
        verdict = "" if check.holds is None else "yes" if check.holds else "NO"
        rows.append([check.contender.label, formula, *numbers, verdict])
    headings = ["learner", "bound", "smallest bound", "largest loss", "second half", "last loss at query", "holds"]
    caption = (
        f"Cumulative loss, 1 − NDCG@10. Margin γ = {simulated.trials.source.facts['margin']:g}; diameter D, the "
        f"largest distance between differently graded documents of a query, {_range(simulated.diameters)} (bounds "
        "about the first places take that of pairs whose better document belongs there); radius R, "
        f"the largest norm, {_range(simulated.radii)}; v_max, the largest ratio of two weights, "
        f"{simulated.weight_ratio:.3g}."
    )
    return table(headings, rows, caption)


def _range(values: list[float], digits: str = ".1f") -> str:
    low, high = format(min(values), digits), format(max(values), digits)
    return low if low == high else f"{low} to {high}"


def real_section(stream: StreamResult, first: int) -> str:
    """Format the section of a real data set, whose figures are numbered from `first`."""
    average_precision, gain, rates = (figure(chart, first + k) for k, chart in enumerate(stream.charts))
    about = stream.trials.source.about
    return (
        f"<p>{escape(about[:1].upper() + about[1:])}.</p>"
        f'<div class="figures pair">{average_precision}{gain}</div>{tuning_tables(stream)}'
        f'<div class="figures">{rates}</div>'
    )


def paper_section(result: Reproduction) -> str:
    """Compare the paper's reported results with ours; nothing if none of its data sets was run."""
    rows: list[list[str | Cell]] = []
    remarks = {}
    for quoted, stream in product(QUOTED, result.streams[1:]):
        if quoted.pattern not in stream.trials.source.name.lower():
            continue
        ours = {tuned.contender.name: tuned.whole for tuned in stream.tuned[quoted.measure]}
        where = f"{stream.trials.source.name}, {stream.trials.source.n_queries:,} queries"
        paper = [number(f"{quoted.slam:g}"), number(f"{quoted.listnet:g}")]
        means = [number(f"{float(np.mean(ours[name])):.3f}") for name in ("slam", "listnet", "listwise")]
        rows.append([quoted.data_set, quoted.measure.upper(), *paper, *means, where])
        if quoted.remark:
            remarks[f"{quoted.data_set}: {quoted.remark}."] = True
    if not rows:
        return ""
    headings = ["paper: Algorithm 2", "paper: ListNet", "ours: Algorithm 2", "ours: ListNet", "ours: listwise"]
    headings = ["data set", "measure", *headings, "our data"]
    listed = "".join(f"<li>{escape(item)}</li>" for item in remarks)
    return (
        "<p>For context only: the experiments differ (see below), so the values need not agree. Rates are tuned in "
        f"hindsight in both.</p>{table(headings, rows)}{f'<ul>{listed}</ul>' if remarks else ''}"
    )


def _seeds(settings: Settings) -> str:
    text = f"{settings.seeds[0]} to {settings.seeds[-1]}" if len(settings.seeds) > 1 else str(settings.seeds[0])
    return text if settings.order == "shuffled" else f"{text}; a single run on real data sets, whose order is given"


def settings_section(result: Reproduction, version: str) -> str:
    """Format the settings, and the files that were not used."""
    settings = result.settings
    rates = ", ".join(f"{rate:.3g}" for rate in RATES)
    facts = [
        ["command", settings.command],
        ["version", f"perceptrank {version}"],
        ["seeds", _seeds(settings)],
        ["learning rates", f"{rates} (powers of 8)"],
        ["tied scores", "the less relevant document ranks first"],
        ["no relevant document", "the query is left out of means"],
    ]
    if len(result.streams) > 1:
        facts += [
            ["transform of real data sets", settings.transform],
            ["order of their queries", settings.order],
            ["passes over them", str(settings.passes)],
        ]
    text = table(["setting", "value"], facts)
    text += (
        "<p>All learners have default settings except for rate and measure. Algorithms 1 to 3 and ListNet rank with "
        "their current weights, the listwise perceptron with the average of its weights; it learns with NDCG’s "
        "weights for NDCG@10, and with AP’s for AP. “Last iterate” is the listwise perceptron for NDCG@10 that ranks "
        "with its current weights; its theorem is about these. All numbers are in "
        "<a href='results.json'>results.json</a>.</p>"
    )
    differences = "".join(f"<li>{escape(difference)}</li>" for difference in DIFFERENCES)
    text += f"<h3>Differences from the paper</h3><ul>{differences}</ul>"
    if result.left_out:
        rows = [[file.name, file.reason] for file in result.left_out]
        text += f"<h3>Files not used</h3>{table(['file', 'reason'], rows)}"
    return text
