"""The opening of the page: a query that is ranked, judged and learned, one round after the other."""

from html import escape
from importlib.resources import files

from perceptrank.paper.report.plane_figure import Plane
from perceptrank.paper.report.walkthrough_figure import describe, ranking_drawing
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
