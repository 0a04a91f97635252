"""The report as one HTML page that opens from disk and loads nothing from the network."""

from html import escape
from importlib.resources import files

from perceptrank.paper.published import REFERENCE
from perceptrank.paper.report.figures import chart_data
from perceptrank.paper.report.findings import findings
from perceptrank.paper.report.sections import paper_section, real_section, settings_section, simulated_section
from perceptrank.paper.reproduction import Reproduction

_TITLE = "Perceptron-like algorithms for online learning to rank, reproduced"


def make_page(result: Reproduction, version: str) -> str:
    """Format the report as one self-contained HTML page."""
    simulated, *real = result.streams
    sections = [("simulated", "The simulated stream", simulated_section(simulated))]
    for k, stream in enumerate(real, start=1):
        sections.append((f"set-{k}", stream.trials.source.name, real_section(stream)))
    sections.append(("paper", "Comparison with the paper", paper_section(result)))
    sections.append(("settings", "Settings", settings_section(result, version)))
    contents = "".join(f'<li><a href="#{name}">{escape(title)}</a></li>' for name, title, _ in sections)
    body = "".join(f'<section id="{name}"><h2>{escape(title)}</h2>{text}</section>' for name, title, text in sections)
    here = files("perceptrank.paper.report")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{escape(_TITLE)}</title>\n<link rel="icon" href="data:,">\n'
        f"<style>\n{here.joinpath('page.css').read_text(encoding='utf-8')}</style>\n</head>\n<body>\n<main>\n"
        f"<header><h1>{escape(_TITLE)}</h1>{_lead(result)}</header>\n"
        f'<nav aria-label="Contents"><ul>{contents}</ul></nav>\n{findings(result)}\n{body}\n</main>\n'
        f'<script type="application/json" id="charts">{chart_data(result.charts)}</script>\n'
        f"<script>\n{here.joinpath('page.js').read_text(encoding='utf-8')}</script>\n</body>\n</html>\n"
    )


def _lead(result: Reproduction) -> str:
    n_real = len(result.streams) - 1
    sets = "no real data set" if n_real == 0 else "one real data set" if n_real == 1 else f"{n_real} real data sets"
    return (
        f"<p>The experiments of {escape(REFERENCE)}, on a simulated stream and {sets}. Evaluation is progressive (test "
        "then train): each query is ranked and the ranking measured before its grades are revealed and learned from. "
        "The listwise perceptron, which has no learning rate to tune, is added to the paper’s algorithms and its "
        f"baseline ListNet.</p><p class='soft'>Produced by <code>{escape(result.settings.command)}</code></p>"
    )
