"""The page: everything in one file, which opens from disk and asks nobody for anything."""

import json
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np

from perceptrank.evaluation.plots import COLORS, Chart
from perceptrank.kernels.arrays import Floats
from perceptrank.paper.contenders import CONTENDERS, RATES
from perceptrank.paper.published import DIFFERENCES, QUOTED, REFERENCE
from perceptrank.paper.report.tables import Cell, number, spread, table
from perceptrank.paper.reproduction import Reproduction, Settings, StreamResult
from perceptrank.paper.simulated import Simulated
from perceptrank.paper.tuning import Tuned, first_tenth

_TITLE = "Perceptron-like algorithms for online learning to rank, reproduced"


def make_page(result: Reproduction, version: str) -> str:
    """The whole page as text."""
    simulated, *real = result.streams
    sections = [("simulated", "The simulated stream", _simulated_section(simulated))]
    for place, stream in enumerate(real, start=1):
        sections.append((f"set-{place}", stream.trials.source.name, _real_section(stream)))
    sections.append(("paper", "The paper’s figures beside ours", _paper_section(result)))
    sections.append(("how", "How it was made", _how_section(result, version)))
    contents = "".join(f'<li><a href="#{name}">{escape(title)}</a></li>' for name, title, _ in sections)
    body = "".join(f'<section id="{name}"><h2>{escape(title)}</h2>{text}</section>' for name, title, text in sections)
    here = files("perceptrank.paper.report")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{escape(_TITLE)}</title>\n<link rel="icon" href="data:,">\n'
        f"<style>\n{here.joinpath('page.css').read_text(encoding='utf-8')}</style>\n</head>\n<body>\n<main>\n"
        f"<header><h1>{escape(_TITLE)}</h1>{_lead(result)}</header>\n"
        f'<nav aria-label="Contents"><ul>{contents}</ul></nav>\n{_findings(result)}\n{body}\n</main>\n'
        f'<script type="application/json" id="charts">{_data(result.charts)}</script>\n'
        f"<script>\n{here.joinpath('page.js').read_text(encoding='utf-8')}</script>\n</body>\n</html>\n"
    )


def _data(charts: list[Chart]) -> str:
    plain = {chart.name: _plain_chart(chart) for chart in charts}
    return json.dumps(plain, separators=(",", ":"), allow_nan=False, ensure_ascii=False).replace("<", "\\u003c")


def _plain_chart(chart: Chart) -> dict[str, Any]:
    series = []
    for place, one in enumerate(chart.series):
        plain: dict[str, Any] = {
            "name": one.name,
            "color": (place if one.color is None else one.color) % len(COLORS),
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


def _figure(chart: Chart) -> str:
    headings: list[str | Cell] = ["", number(f"at {chart.x_label} {chart.series[0].x[-1]:,.5g}")]
    rows: list[list[str | Cell]] = [[one.name, number(f"{one.y[-1]:,.5g}")] for one in chart.series]
    return (
        f'<figure data-chart="{chart.name}"><h3>{escape(chart.title)}</h3><div class="plot">'
        f"<noscript>The curves need JavaScript; figures/{chart.name}.svg beside this page has them as an "
        f"image.</noscript></div>"
        f"<figcaption>{_about(chart.about)} Files: "
        f'<a href="figures/{chart.name}.svg">SVG</a>, <a href="figures/{chart.name}.png">PNG</a>, '
        f'<a href="curves/{chart.name}.csv">CSV</a>.</figcaption>'
        f"<details><summary>The values at the end</summary>{table(headings, rows)}</details></figure>"
    )


def _about(text: str) -> str:
    before, _, command = text.rpartition("Made by: ")
    return f"{escape(before)}Made by: <code>{escape(command)}</code>."


def _lead(result: Reproduction) -> str:
    n_real = len(result.streams) - 1
    sets = "no real data set" if n_real == 0 else "one real data set" if n_real == 1 else f"{n_real} real data sets"
    return (
        f"<p>The experiments of {escape(REFERENCE)}, on a simulated stream and {sets}. A query’s documents are "
        f"ranked, the "
        "ranking is measured, then the grades are shown and learned from: every value on this page was measured before "
        "the answer was known. To the paper’s algorithms and its baseline ListNet comes the listwise perceptron, which "
        f"has no learning rate.</p><p class='soft'>Made by <code>{escape(result.settings.command)}</code></p>"
    )


def _findings(result: Reproduction) -> str:
    items = [_on_losses(result.streams[0]), _on_bounds(result.streams[0]), _on_rates(result)]
    if len(result.streams) > 1:
        items.append(_on_real(result.streams[1:]))
    listed = "".join(f"<li>{escape(item)}</li>" for item in items)
    return f"<section><h2>What came out</h2><ul>{listed}</ul>{_overview(result)}</section>"


def _on_losses(stream: StreamResult) -> str:
    assert stream.simulated is not None
    stopped, losing = [], []
    for one in stream.simulated.promises:
        if one.second_half.any():
            losing.append(f"{one.label} ({one.second_half.max():.2f})")
        else:
            stopped.append(f"{one.label} (last at query {max(one.last_losses):,})")
    text = (
        f"On the separable stream of {stream.trials.source.n_rounds:,} queries, these lost nothing in the second half, "
    )
    text += f"whatever the seed: {_listed(stopped)}."
    return text + (f" These still did, at most as much as in brackets: {_listed(losing)}." if losing else "")


def _on_bounds(stream: StreamResult) -> str:
    assert stream.simulated is not None
    kept = [one.holds for one in stream.simulated.promises if one.holds is not None]
    seeds = len(stream.trials.seeds)
    text = f"{sum(kept)} of the {len(kept)} learners with a theorem stayed under their bound in all of {seeds} runs."
    return text if all(kept) else f"{text} That one did not is a bug that should be reported."


def _on_rates(result: Reproduction) -> str:
    free = [one.label for name, one in CONTENDERS.items() if not any(stream.depends[name] for stream in result.streams)]
    bound = [one.label for name, one in CONTENDERS.items() if any(stream.depends[name] for stream in result.streams)]
    return (
        f"At {len(RATES)} learning rates from {RATES[0]:.1g} to {RATES[-1]:g}, {_listed(free)} ranked every query "
        f"alike, to the "
        f"bit; {_listed(bound)} did not."
    )


def _on_real(streams: list[StreamResult]) -> str:
    ahead = []
    for stream in streams:
        honest = {one.contender.name: one.honest_rest.mean() for one in stream.tuned["ndcg@10"]}
        if max(honest, key=lambda name: float(honest[name])) == "listwise":
            ahead.append(stream.trials.source.name)
    on = _listed(ahead) if ahead else "none"
    return (
        f"With rates chosen honestly, the untuned listwise perceptron has the best mean NDCG@10 on {len(ahead)} of "
        f"{len(streams)} real sets ({on}). What the spread over orders says stands beside each mean."
    )


def _listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names) or "none"


def _overview(result: Reproduction) -> str:
    names = list(CONTENDERS)
    rows: list[list[str | Cell]] = []
    for stream in result.streams:
        honest = {one.contender.name: one.honest_rest for one in stream.tuned["ndcg@10"]}
        best = max(float(values.mean()) for values in honest.values())
        means = [spread(honest[name], best, _digits(stream)) for name in names]
        rows.append([stream.trials.source.name, *means])
    headings: list[str | Cell] = ["stream", *(Cell(CONTENDERS[name].label, True) for name in names)]
    caption = (
        "Mean NDCG@10 after the first tenth of each stream, rates chosen on that first tenth; ± one standard deviation "
        "where there are several seeds. Bold: the largest mean, as far as the digits tell."
    )
    return table(headings, rows, caption)


def _digits(stream: StreamResult) -> int:
    """On a separable stream all means are close to 1."""
    return 3 if stream.simulated is None else 5


def _tuning_tables(stream: StreamResult) -> str:
    tenth = first_tenth(stream.trials.source.n_rounds)
    text = "<h3>Rates in hindsight, and honestly</h3>"
    text += (
        "<p>The paper chooses each rate by the best result over the whole stream, which only hindsight offers. "
        f"Honestly, a rate is chosen on the first tenth of the stream ({tenth:,} queries), separately for every seed "
        f"(of "
        "several as good, the one nearest to the learner’s default), and judged on the rest. Learners without a rate "
        "have nothing to choose.</p>"
    )
    for measure, tuned in stream.tuned.items():
        text += _tuning_table(tuned, measure, _digits(stream))
    edge = [one.contender.label for tuned in stream.tuned.values() for one in tuned if one.is_at_the_edge]
    if edge:
        names = _listed(list(dict.fromkeys(edge)))
        text += f"<p class='soft'>* The best rate of {escape(names)} is the smallest or largest tried.</p>"
    return text


def _tuning_table(tuned: list[Tuned], measure: str, digits: int) -> str:
    best = [max(float(getattr(one, name).mean()) for one in tuned) for name in ("whole", "rest", "honest_rest")]
    rows: list[list[str | Cell]] = []
    for one in tuned:
        rate = "–" if not one.contender.has_rate else f"{one.hindsight.rate:.3g}{'*' if one.is_at_the_edge else ''}"
        means = [one.whole, one.rest, one.honest_rest]
        cells = [spread(mean, top, digits) for mean, top in zip(means, best, strict=True)]
        chosen = "–"
        if one.honest_rates is not None:
            low, high = min(one.honest_rates), max(one.honest_rates)
            chosen = f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
        rows.append([one.contender.label, number(rate), *cells, number(chosen)])
    headings: list[str | Cell] = [
        measure.upper(),
        Cell("best rate", True),
        Cell("hindsight, all queries", True),
        Cell("hindsight, after a tenth", True),
        Cell("honest, after a tenth", True),
        Cell("rates chosen", True),
    ]
    return table(headings, rows)


def _simulated_section(stream: StreamResult) -> str:
    assert stream.simulated is not None
    first, losses, rates, losses_by_rate = (_figure(chart) for chart in stream.charts)
    about = f"<p>{escape(stream.trials.source.about[:1].upper() + stream.trials.source.about[1:])}.</p>"
    return (
        f'{about}<div class="figures">{first}{losses}</div>{_bounds_table(stream.simulated)}'
        f'<div class="figures">{rates}{losses_by_rate}</div>{_tuning_tables(stream)}'
    )


def _bounds_table(simulated: Simulated) -> str:
    rows: list[list[str | Cell]] = []
    for one in simulated.promises:
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
        Cell("in the 2nd half", True),
        Cell("last loss at query", True),
        "holds",
    ]
    caption = (
        f"Cumulative loss, 1 − NDCG@10. γ = {simulated.trials.source.facts['margin']:g}; over the seeds, D, the "
        f"largest distance "
        f"of differently graded documents of a query, is {_range(simulated.diameters)}, R, the largest norm, "
        f"{_range(simulated.radii)}; v_max, the largest ratio of two weights, is {simulated.weight_ratio:.3g}."
    )
    return table(headings, rows, caption)


def _range(values: list[float]) -> str:
    low, high = f"{min(values):.1f}", f"{max(values):.1f}"
    return low if low == high else f"{low} to {high}"


def _real_section(stream: StreamResult) -> str:
    average_precision, gain, rates = (_figure(chart) for chart in stream.charts)
    about = stream.trials.source.about
    return (
        f"<p>{escape(about[:1].upper() + about[1:])}.</p>"
        f'<div class="figures pair">{average_precision}{gain}</div>{_tuning_tables(stream)}<div '
        f'class="figures">{rates}</div>'
    )


def _paper_section(result: Reproduction) -> str:
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
                    "not run: no such set under --data",
                ]
            )
        for stream in matching:
            ours = {tuned.contender.name: tuned.whole for tuned in stream.tuned[one.measure]}
            where = f"{stream.trials.source.name}, {stream.trials.source.n_queries:,} queries"
            means = [number(f"{float(np.mean(ours[name])):.3f}") for name in ("slam", "listnet", "listwise")]
            rows.append([one.data_set, one.measure.upper(), *paper, *means, where])
    headings: list[str | Cell] = [
        "the paper’s set",
        "measure",
        Cell("paper: Algorithm 2", True),
        Cell("paper: ListNet", True),
        Cell("here: Algorithm 2", True),
        Cell("here: ListNet", True),
        Cell("here: listwise", True),
        "measured here on",
    ]
    remarks = list(dict.fromkeys(f"{one.data_set}: {one.remark}." for one in QUOTED if one.remark))
    listed = "".join(f"<li>{escape(item)}</li>" for item in [*remarks, *DIFFERENCES])
    return (
        "<p>For context; the set-ups differ, and the figures are not expected to agree. Rates are chosen in "
        "hindsight in "
        f"both.</p>{table(headings, rows)}<h3>What differs</h3><ul>{listed}</ul>"
    )


def _seeds(settings: Settings) -> str:
    text = f"{settings.seeds[0]} to {settings.seeds[-1]}" if len(settings.seeds) > 1 else str(settings.seeds[0])
    return text if settings.order == "shuffled" else f"{text}; one run over real sets, whose order is given"


def _how_section(result: Reproduction, version: str) -> str:
    settings = result.settings
    rates = ", ".join(f"{rate:.3g}" for rate in RATES)
    facts: list[list[str | Cell]] = [
        ["command", settings.command],
        ["version", f"perceptrank {version}"],
        ["seeds", _seeds(settings)],
        ["learning rates", f"{rates} (powers of 8)"],
        ["scaling", settings.scaling],
        ["order of queries", settings.order],
        ["passes over real sets", str(settings.passes)],
        ["equal scores", "the less relevant document comes first"],
        ["no relevant document", "the query is left out of means"],
    ]
    text = table(["setting", "value"], facts)
    text += (
        "<p>Each learner was run with its defaults apart from rate and measure: Algorithms 1 to 3 and ListNet rank "
        "with their "
        "current weights, the listwise perceptron with the mean of its weights; for NDCG@10 it learns with NDCG’s "
        "weights, for AP with AP’s. “Last iterate” is the listwise perceptron that learns for NDCG@10 and ranks with "
        "its "
        "current weights, which is what its theorem is about. All numbers are in <a "
        "href='results.json'>results.json</a>.</p>"
    )
    if result.left_out:
        rows: list[list[str | Cell]] = [[one.name, one.reason] for one in result.left_out]
        text += f"<h3>Found and not used</h3>{table(['file', 'why'], rows)}"
    return text
