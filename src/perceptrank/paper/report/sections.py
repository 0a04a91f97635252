"""Sections of the page: simulated stream, real data sets, comparison with the paper, settings."""

from html import escape

import numpy as np

from perceptrank.evaluation.digits import three_digits
from perceptrank.evaluation.html_tables import Cell, number, table
from perceptrank.paper.contenders import RATES
from perceptrank.paper.published import DIFFERENCES, QUOTED
from perceptrank.paper.report.figures import figure
from perceptrank.paper.report.tuning_tables import tuning_tables
from perceptrank.paper.reproduction import Reproduction, StreamResult
from perceptrank.paper.settings import Settings
from perceptrank.paper.simulated import Simulated


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
    for one in simulated.bound_checks:
        bound = "" if one.bounds is None else three_digits(min(one.bounds))
        rows.append(
            [
                one.label,
                "none for this loss" if one.bounds is None else one.formula,
                number(bound),
                number(three_digits(float(one.losses.max()))),
                number(three_digits(float(one.second_half.max()))),
                number(f"{max(one.last_losses):,}"),
                "" if one.holds is None else "yes" if one.holds else "NO",
            ]
        )
    headings: list[str | Cell] = [
        "learner",
        "bound",
        Cell("smallest bound", True),
        Cell("largest loss", True),
        Cell("second half", True),
        Cell("last loss at query", True),
        "holds",
    ]
    caption = (
        f"Cumulative loss, 1 − NDCG@10. Margin γ = {simulated.trials.source.facts['margin']:g}; diameter D, the "
        f"largest distance between differently graded documents of a query, {_range(simulated.diameters)}; radius R, "
        f"the largest norm, {_range(simulated.radii)}; v_max, the largest ratio of two weights, "
        f"{simulated.weight_ratio:.3g}."
    )
    return table(headings, rows, caption)


def _range(values: list[float]) -> str:
    low, high = f"{min(values):.1f}", f"{max(values):.1f}"
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
    for one in QUOTED:
        for stream in result.streams[1:]:
            if one.pattern not in stream.trials.source.name.lower():
                continue
            ours = {tuned.contender.name: tuned.whole for tuned in stream.tuned[one.measure]}
            where = f"{stream.trials.source.name}, {stream.trials.source.n_queries:,} queries"
            paper = [number(f"{one.slam:g}"), number(f"{one.listnet:g}")]
            means = [number(f"{float(np.mean(ours[name])):.3f}") for name in ("slam", "listnet", "listwise")]
            rows.append([one.data_set, one.measure.upper(), *paper, *means, where])
            if one.remark:
                remarks[f"{one.data_set}: {one.remark}."] = True
    if not rows:
        return ""
    headings: list[str | Cell] = [
        "data set",
        "measure",
        Cell("paper: Algorithm 2", True),
        Cell("paper: ListNet", True),
        Cell("ours: Algorithm 2", True),
        Cell("ours: ListNet", True),
        Cell("ours: listwise", True),
        "our data",
    ]
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
    facts: list[list[str | Cell]] = [
        ["command", settings.command],
        ["version", f"perceptrank {version}"],
        ["seeds", _seeds(settings)],
        ["learning rates", f"{rates} (powers of 8)"],
        ["tied scores", "the less relevant document ranks first"],
        ["no relevant document", "the query is left out of means"],
    ]
    if len(result.streams) > 1:
        facts += [
            ["scaling of real data sets", settings.scaling],
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
    text += f"<h3>Differences from the paper</h3><ul>{''.join(f'<li>{escape(one)}</li>' for one in DIFFERENCES)}</ul>"
    if result.left_out:
        rows: list[list[str | Cell]] = [[one.name, one.reason] for one in result.left_out]
        text += f"<h3>Files not used</h3>{table(['file', 'reason'], rows)}"
    return text
