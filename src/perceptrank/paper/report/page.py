"""The report as one HTML page that opens from disk and loads nothing from the network."""

from html import escape
from importlib.resources import files

from perceptrank.evaluation.html_page import Section, html_page
from perceptrank.paper.report.findings import findings
from perceptrank.paper.report.plane_figure import Plane
from perceptrank.paper.report.sections import (
    REFERENCE,
    chart_data,
    figure,
    paper_section,
    real_section,
    settings_section,
    simulated_section,
)
from perceptrank.paper.report.walkthrough_figure import describe, ranking_drawing
from perceptrank.paper.reproduction import Reproduction
from perceptrank.paper.walkthrough import N_DOCUMENTS, N_GRADES, Walkthrough


def opening(walk: Walkthrough) -> str:
    """Format all rounds; without a script, and on paper, some are shown one below the other."""
    plane = Plane(walk)
    longest = max(float(abs(one.moves).max()) for one in walk.rounds)
    n_rounds, now = len(walk.rounds), walk.opening
    rounds, kinds = "", ""
    for k, one in enumerate(walk.rounds):
        kind = "a mistake" if one.mistakes else "nothing wrong"
        kinds += f'<i class="{"wrong" if one.mistakes else "right"}">{"✕" if one.mistakes else "✓"}</i>'
        rounds += (
            f'<div class="round{" still" if k in walk.stills else ""}" data-round="{k + 1}">'
            f'<h3>Round {k + 1} of {n_rounds}: {kind}</h3><div class="drawings">'
            f"{ranking_drawing(one, longest)}{plane.picture(k)}</div>"
            f'<p>{escape(describe(one))} <span class="soft">Lost so far: {walk.losses[k]:.3f}.</span></p></div>'
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


def walkthrough_css() -> str:
    """Return the look of the rounds."""
    return files("perceptrank.paper.report").joinpath("walkthrough.css").read_text(encoding="utf-8")


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
