"""The report as one HTML page that opens from disk and loads nothing from the network."""

from html import escape
from importlib.resources import files

from perceptrank.evaluation.html_page import Section, html_page
from perceptrank.paper.published import REFERENCE
from perceptrank.paper.report.figures import chart_data
from perceptrank.paper.report.findings import findings
from perceptrank.paper.report.sections import paper_section, real_section, settings_section, simulated_section
from perceptrank.paper.reproduction import Reproduction

_TITLE = "Perceptron-like algorithms for online learning to rank, reproduced"


def make_page(result: Reproduction, version: str) -> str:
    """Format the report as one self-contained HTML page."""
    simulated, *real = result.streams
    sections = [Section("simulated", "The simulated stream", simulated_section(simulated))]
    for k, stream in enumerate(real, start=1):
        sections.append(Section(f"set-{k}", stream.trials.source.name, real_section(stream)))
    sections.append(Section("paper", "Comparison with the paper", paper_section(result)))
    sections.append(Section("settings", "Settings", settings_section(result, version)))
    script = files("perceptrank.paper.report").joinpath("page.js").read_text(encoding="utf-8")
    after = (
        f'<script type="application/json" id="charts">{chart_data(result.charts)}</script>\n'
        f"<script>\n{script}</script>\n"
    )
    return html_page(_TITLE, _lead(result), findings(result), sections, after)


def _lead(result: Reproduction) -> str:
    n_real = result.n_sets
    sets = "no real data set" if n_real == 0 else "one real data set" if n_real == 1 else f"{n_real} real data sets"
    for name, streams in result.folds.items():
        sets += f", {len(streams)} folds of {escape(name)}"
    return (
        f"<p>The experiments of {escape(REFERENCE)}, on a simulated stream and {sets}. Evaluation is progressive (test "
        "then train): each query is ranked and the ranking measured before its grades are revealed and learned from. "
        "The listwise perceptron, which has no learning rate to tune, is added to the paper’s algorithms and its "
        f"baseline ListNet.</p><p class='soft'>Produced by <code>{escape(result.settings.command)}</code></p>"
    )
