"""The report as one HTML page that opens from disk and loads nothing from the network."""

from html import escape
from importlib.resources import files

from perceptrank.evaluation.html_page import Section, html_page
from perceptrank.paper.published import REFERENCE
from perceptrank.paper.report.figures import chart_data, figure
from perceptrank.paper.report.findings import findings
from perceptrank.paper.report.opening import opening, walkthrough_css
from perceptrank.paper.report.sections import paper_section, real_section, settings_section, simulated_section
from perceptrank.paper.reproduction import Reproduction

_TITLE = "Perceptron-like algorithms for online learning to rank, reproduced"


def make_page(result: Reproduction, version: str) -> str:
    """Format the report as one self-contained HTML page."""
    simulated, *real = result.streams
    sections = [Section("findings", "What is lost, and what can be", _losses(result))]
    place = 3  # of the next figure: the rounds are the first, the losses the second
    sections.append(Section("simulated", "The separable stream in detail", simulated_section(simulated, place)))
    place += len(simulated.charts) - 1
    for k, stream in enumerate(real, start=1):
        sections.append(Section(f"set-{k}", stream.trials.source.name, real_section(stream, place)))
        place += len(stream.charts)
    if compared := paper_section(result):
        sections.append(Section("paper", "Comparison with the paper", compared))
    sections.append(Section("settings", "Settings", settings_section(result, version)))
    after = f'<script type="application/json" id="charts">{chart_data(result.charts)}</script>\n'
    for name in ("walkthrough.js", "page.js"):
        script = files("perceptrank.paper.report").joinpath(name).read_text(encoding="utf-8")
        after += f"<script>\n{script}</script>\n"
    return html_page(_TITLE, _lead(), opening(result.walkthrough), sections, after, walkthrough_css())


def _lead() -> str:
    return (
        "<p>Queries come one at a time. The learner ranks the documents of each by a weighted sum of their features, "
        "is told their grades, and corrects its weights if a document stands below one of lower grade.</p>"
    )


def _losses(result: Reproduction) -> str:
    """Format what was run, on what, the figure of losses, and the findings."""
    trials = result.streams[0].trials
    about = trials.source.about
    seeds = len(trials.seeds)
    runs = f" Curves are means over {seeds} seeds, in a band of ± one standard error." if seeds > 1 else ""
    return (
        f"<p>The experiments of {escape(REFERENCE)}, on {_data(result)}. Every ranking is measured before its grades "
        "are revealed. The listwise perceptron, which has no learning rate to tune, is added to the paper’s algorithms "
        f"and its baseline ListNet. The separable stream: {escape(about)}.{runs}</p>"
        f"{figure(result.streams[0].charts[0], 2)}{findings(result)}"
    )


def _data(result: Reproduction) -> str:
    n_real = result.n_sets
    if n_real == 0:
        return "a simulated stream"
    sets = "one real data set" if n_real == 1 else f"{n_real} real data sets"
    for name, streams in result.folds.items():
        sets += f", {len(streams)} folds of {escape(name)}"
    return f"a simulated stream and {sets}"
