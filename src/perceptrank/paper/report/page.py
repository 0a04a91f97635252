"""The report: one HTML page that opens from disk and loads nothing from the network, numbers, figures and curves."""

import csv
import io
import json
import re
import tempfile
from html import escape
from importlib.resources import files
from pathlib import Path

from perceptrank.evaluation.html_page import Section, html_page
from perceptrank.evaluation.plots import Chart, check_drawable, draw
from perceptrank.io.atomic import check_writable, write_atomically
from perceptrank.paper.report import sections
from perceptrank.paper.report.clicks_figure import clicks_figure
from perceptrank.paper.report.findings import findings
from perceptrank.paper.report.plane_figure import Plane
from perceptrank.paper.report.walkthrough_figure import describe, ranking_drawing
from perceptrank.paper.reproduction import Reproduction
from perceptrank.paper.results import as_plain
from perceptrank.paper.walkthrough import N_DOCUMENTS, N_GRADES, Walkthrough

_PAGE, _NUMBERS = "report.html", "results.json"
_TITLE = "Perceptron-like algorithms for online learning to rank, reproduced"
_REFERENCE = 'S. Chaudhuri and A. Tewari, "Perceptron-like Algorithms for Online Learning to Rank"'


def opening(walk: Walkthrough) -> str:
    """Format all rounds; without a script, and on paper, some are shown one below the other."""
    plane = Plane(walk)
    longest = max(float(abs(shown.moves).max()) for shown in walk.rounds)
    n_rounds, now = len(walk.rounds), walk.opening
    rounds, kinds = "", ""
    for k, shown in enumerate(walk.rounds):
        kind = "a mistake" if shown.mistakes else "nothing wrong"
        kinds += f'<i class="{"wrong" if shown.mistakes else "right"}">{"✕" if shown.mistakes else "✓"}</i>'
        rounds += (
            f'<div class="round{" still" if k in walk.stills else ""}" data-round="{k + 1}">'
            f'<h3>Round {k + 1} of {n_rounds}: {kind}</h3><div class="drawings">'
            f"{ranking_drawing(shown, longest)}{plane.picture(k)}</div>"
            f'<p>{escape(describe(shown))} <span class="soft">Lost so far: {walk.losses[k]:.3f}.</span></p></div>'
        )
    return (
        f'<figure class="walk" id="figure-1"><div class="steps" hidden>'
        f'<button type="button" aria-label="Previous round">‹</button><div class="track" style="--n:{n_rounds}">'
        f'<div class="kinds" aria-hidden="true">{kinds}</div>'
        f'<input type="range" min="1" max="{n_rounds}" value="{now + 1}" aria-label="Round"></div>'
        f'<button type="button" aria-label="Next round">›</button></div>'
        f'<div class="rounds" aria-live="polite">{rounds}</div>'
        f"<figcaption><b>Figure 1.</b> {_caption(walk)}</figcaption></figure>"
    )


def _caption(walk: Walkthrough) -> str:
    return (
        f"The listwise perceptron, ranking with its current weights w, on simulated queries of {N_DOCUMENTS} documents "
        f"(letters) with two features and grades 0 to {N_GRADES - 1} (numbers in circles). Left: the scores w · x that "
        "rank the query; orange, documents below one of lower grade; bars, the coefficient of each document in the sum "
        "that is added to w. Right: the documents as points, turned so that w*, which ranks every query of the stream, "
        "points up; dotted lines lead to their places along w; small dots are documents of earlier rounds. No document "
        f"lies in the shaded strips: w* has a margin of {walk.margin:g} or more."
    )


def _read(name: str) -> str:
    return files("perceptrank.paper.report").joinpath(name).read_text(encoding="utf-8")


def make_page(result: Reproduction, version: str) -> str:
    """Format the report as one self-contained HTML page."""
    simulated, *real = result.streams
    parts = [Section("findings", "Losses and bounds", _losses(result))]
    place = 3  # of the next figure: the rounds are the first, the losses the second
    parts.append(Section("simulated", "The separable stream in detail", sections.simulated_section(simulated, place)))
    place += len(simulated.charts) - 1
    for k, stream in enumerate(real, start=1):
        parts.append(Section(f"set-{k}", stream.trials.source.name, sections.real_section(stream, place)))
        place += len(stream.charts)
    parts.append(Section("clicks", "Learning from clicks", _clicks(result, place)))
    if compared := sections.paper_section(result):
        parts.append(Section("paper", "Comparison with the paper", compared))
    parts.append(Section("settings", "Settings", sections.settings_section(result, version)))
    after = f'<script type="application/json" id="charts">{sections.chart_data(result.charts)}</script>\n'
    for name in ("walkthrough.js", "page.js"):
        after += f"<script>\n{_read(name)}</script>\n"
    lead = (
        "<p>Queries come one at a time. The learner ranks the documents of each by a weighted sum of their features, "
        "is told their grades, and corrects its weights if a document stands below one of lower grade.</p>"
    )
    return html_page(_TITLE, lead, opening(result.walkthrough), parts, after, _read("walkthrough.css"))


def _losses(result: Reproduction) -> str:
    """Format a summary of the experiments, the figure of losses, and the findings."""
    trials = result.streams[0].trials
    about = trials.source.about
    seeds = len(trials.seeds)
    runs = f" Curves are means over {seeds} seeds, in a band of ± one standard error." if seeds > 1 else ""
    return (
        f"<p>The experiments of {escape(_REFERENCE)}, on {_data(result)}. Every ranking is measured before its grades "
        "are revealed. The listwise perceptron, which has no learning rate to tune, is added to the paper’s algorithms "
        f"and its baseline ListNet. The separable stream: {escape(about)}.{runs}</p>"
        f"{sections.figure(result.streams[0].charts[0], 2)}{findings(result)}"
    )


def _clicks(result: Reproduction, place: int) -> str:
    """Format what two learners make of the same clicks, from the figure of this number on."""
    return (
        "<p>The paper learns from grades. A shop has clicks, and what stands at the top is clicked more, whatever it "
        "is. So a learner that takes clicks as grades learns to like what today’s ranker likes. If a coin swaps "
        "neighbours, both orders are shown equally often, and the better product wins. A learner of clicks uses "
        "that.</p>"
        f"{clicks_figure(result.shop, place)}{sections.figure(result.clicks_chart, place + 1)}"
    )


def _data(result: Reproduction) -> str:
    n_real = result.n_sets
    if n_real == 0:
        return "a simulated stream"
    sets = "one real data set" if n_real == 1 else f"{n_real} real data sets"
    for name, streams in result.folds.items():
        sets += f", {len(streams)} folds of {escape(name)}"
    return f"a simulated stream and {sets}"


def check_folder(folder: Path) -> None:
    """Create the folder; raise `OSError` if the report cannot be written there."""
    check_drawable("figure.svg")
    for path in (folder, folder / "figures", folder / "curves"):
        if path.exists() and not path.is_dir():
            raise NotADirectoryError(f"--out must be a folder, got the file {path}")
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    for name in (_PAGE, _NUMBERS):
        check_writable(folder / name)


def write_report(result: Reproduction, folder: Path, version: str) -> Path:
    """Write the page, numbers, figures and curves; remove those of an earlier report; return the path of the page."""
    check_folder(folder)
    earlier = _earlier_figures(folder)
    for chart in result.charts:
        *images, curves = _files(folder, chart.name)
        for path in images:
            draw(chart, path)
        write_atomically(curves, _curves(chart))
    plain = as_plain(result) | {"perceptrank": version}
    write_atomically(folder / _NUMBERS, json.dumps(plain, indent=1, allow_nan=False, ensure_ascii=False) + "\n")
    page = folder / _PAGE
    write_atomically(page, make_page(result, version))
    for name in earlier - {chart.name for chart in result.charts}:
        for path in _files(folder, name):
            path.unlink(missing_ok=True)
    return page


def _files(folder: Path, name: str) -> list[Path]:
    figures = folder / "figures"
    return [figures / f"{name}.svg", figures / f"{name}.png", folder / "curves" / f"{name}.csv"]


def _earlier_figures(folder: Path) -> set[str]:
    """Return the names of the figures of an earlier report in the folder."""
    try:
        figures = json.loads((folder / _NUMBERS).read_bytes())["figures"]
        return {name for figure in figures if re.fullmatch(r"[a-z0-9-]+", name := str(figure["name"]))}
    except (OSError, ValueError, KeyError, TypeError):
        return set()


def _curves(chart: Chart) -> str:
    """Format a chart as CSV, one row per point; the band is empty where there is none."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["series", "x", "y", "low", "high"])
    for curve in chart.series:
        for k in range(len(curve.x)):
            band = ["" if edge is None else repr(float(edge[k])) for edge in (curve.low, curve.high)]
            rows.writerow([curve.name, repr(float(curve.x[k])), repr(float(curve.y[k])), *band])
    return text.getvalue()
