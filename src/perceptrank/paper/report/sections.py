"""Sections of the page: simulated stream, real data sets, comparison with the paper, settings."""

from html import escape

import numpy as np

from perceptrank.evaluation.html_tables import Cell, number, table
from perceptrank.paper.contenders import RATES
from perceptrank.paper.published import DIFFERENCES, QUOTED
from perceptrank.paper.report.figures import figure
from perceptrank.paper.report.tuning_tables import tuning_tables
from perceptrank.paper.reproduction import Reproduction, StreamResult
from perceptrank.paper.settings import Settings
from perceptrank.paper.simulated import Simulated


def simulated_section(stream: StreamResult) -> str:
    """Format the section of the simulated stream."""
    assert stream.simulated is not None
    first, losses, rates, losses_by_rate = (figure(chart) for chart in stream.charts)
    about = f"<p>{escape(stream.trials.source.about[:1].upper() + stream.trials.source.about[1:])}.</p>"
    return (
        f'{about}<div class="figures">{first}{losses}</div>{_bounds_table(stream.simulated)}'
        f'<div class="figures">{rates}{losses_by_rate}</div>{tuning_tables(stream)}'
    )


def _bounds_table(simulated: Simulated) -> str:
    rows: list[list[str | Cell]] = []
    for one in simulated.bound_checks:
        bound = "–" if one.bounds is None else f"{min(one.bounds):,.0f}"
        rows.append(
            [
                one.label,
                one.formula,
                number(bound),
                number(f"{one.losses.max():,.2f}"),
                number(f"{one.second_half.max():,.2f}"),
                number(f"{max(one.last_losses):,}"),
                "–" if one.holds is None else "yes" if one.holds else "NO",
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


def real_section(stream: StreamResult) -> str:
    """Format the section of a real data set."""
    average_precision, gain, rates = (figure(chart) for chart in stream.charts)
    about = stream.trials.source.about
    return (
        f"<p>{escape(about[:1].upper() + about[1:])}.</p>"
        f'<div class="figures pair">{average_precision}{gain}</div>{tuning_tables(stream)}'
        f'<div class="figures">{rates}</div>'
    )


def paper_section(result: Reproduction) -> str:
    """Compare the paper's reported results with ours."""
    rows: list[list[str | Cell]] = []
    for one in QUOTED:
        matching = [stream for stream in result.streams[1:] if one.pattern in stream.trials.source.name.lower()]
        paper = [number(f"{one.slam:g}"), number(f"{one.listnet:g}")]
        if not matching:
            rows.append(
                [
                    one.data_set,
                    one.measure.upper(),
                    *paper,
                    number("–"),
                    number("–"),
                    number("–"),
                    "not run: not found below --data",
                ]
            )
        for stream in matching:
            ours = {tuned.contender.name: tuned.whole for tuned in stream.tuned[one.measure]}
            where = f"{stream.trials.source.name}, {stream.trials.source.n_queries:,} queries"
            means = [number(f"{float(np.mean(ours[name])):.3f}") for name in ("slam", "listnet", "listwise")]
            rows.append([one.data_set, one.measure.upper(), *paper, *means, where])
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
    remarks = list(dict.fromkeys(f"{one.data_set}: {one.remark}." for one in QUOTED if one.remark))
    listed = "".join(f"<li>{escape(item)}</li>" for item in [*remarks, *DIFFERENCES])
    return (
        "<p>For context only: the experiments differ, so the values need not agree. Rates are tuned in hindsight in "
        f"both.</p>{table(headings, rows)}<h3>Differences</h3><ul>{listed}</ul>"
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
        ["scaling", settings.scaling],
        ["order of queries", settings.order],
        ["passes over real data sets", str(settings.passes)],
        ["tied scores", "the less relevant document ranks first"],
        ["no relevant document", "the query is left out of means"],
    ]
    text = table(["setting", "value"], facts)
    text += (
        "<p>All learners have default settings except for rate and measure. Algorithms 1 to 3 and ListNet rank with "
        "their current weights, the listwise perceptron with the average of its weights; it learns with NDCG’s "
        "weights for NDCG@10, and with AP’s for AP. “Last iterate” is the listwise perceptron for NDCG@10 that ranks "
        "with its current weights; its theorem is about these. All numbers are in "
        "<a href='results.json'>results.json</a>.</p>"
    )
    if result.left_out:
        rows: list[list[str | Cell]] = [[one.name, one.reason] for one in result.left_out]
        text += f"<h3>Files not used</h3>{table(['file', 'reason'], rows)}"
    return text
