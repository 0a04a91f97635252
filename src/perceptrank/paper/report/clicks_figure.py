"""Drawings of what two learners make of the same clicks: one query as each ranks it, and their losses so far."""

from html import escape
from itertools import pairwise

import numpy as np

from perceptrank.paper.clicks_walk import ATTRACTION, MOMENTS, N_PRODUCTS, N_QUERIES, N_UNSEEN, RANKERS, Moment, Shop
from perceptrank.paper.report.walkthrough_figure import CARD, ROW, TOP, arc, card, drawing, letter, text
from perceptrank.paper.walkthrough import wrong_pairs

_HEIGHT = TOP + ROW * N_PRODUCTS
_WIDTH, _CARD_WIDTH = 560, 76
_COLUMNS = {"today": 34, "naive": 258, "debiased": 424}
_LEFT, _RIGHT, _BOTTOM = 46, 330, _HEIGHT - 36  # of the plot of losses


def clicks_figure(shop: Shop, place: int) -> str:
    """Format all moments, to be stepped through; without a script, and on paper, some are shown."""
    moments = ""
    for k, moment in enumerate(shop.moments):
        moments += (
            f'<div class="round{" still" if k in shop.stills else ""}" data-round="{k + 1}">'
            f"<h3>After {moment.n_lists:,} lists</h3>"
            f'<div class="drawings">{_rankings(moment)}{_losses(shop, k)}</div><p>{escape(describe(moment))}</p></div>'
        )
    n = len(shop.moments)
    return (
        f'<figure class="walk" id="figure-{place}"><div class="steps" hidden>'
        f'<button type="button" aria-label="Fewer lists">‹</button><div class="track" style="--n:{n}">'
        f'<input type="range" min="1" max="{n}" value="{n}" aria-label="Lists shown"></div>'
        f'<button type="button" aria-label="More lists">›</button></div>'
        f'<div class="rounds" aria-live="polite">{moments}</div>'
        f"<figcaption><b>Figure {place}.</b> {_caption()}</figcaption></figure>"
    )


def _caption() -> str:
    shares = ", ".join(f"{share:.0%}" for share in ATTRACTION)
    return (
        f"One of {N_QUERIES} queries of a simulated shop, with {N_PRODUCTS} products (letters) of grades 0 to 2 "
        f"(numbers in circles). One user in k looks at place k; of those who look, {shares} click a product of grade "
        "0, 1, 2. Today’s ranker puts the newest first, which users do not care about. In each list, a coin swaps "
        "neighbours. Two learners read the same clicks. Orange: products below one of lower grade. Right: what each "
        f"learner loses on {N_UNSEEN:,} unseen queries, with the first seed. This is the query on which the two differ "
        "most in the end; the next figure has the means over all seeds."
    )


def _rankings(moment: Moment) -> str:
    """Draw the query as each ranker puts it, with the clicks so far beside today's ranking."""
    parts = [text(_COLUMNS["today"] + _CARD_WIDTH + 34, 38, "clicks", "small soft")]
    lines: list[str] = []
    places: dict[int, tuple[float, int]] = {}
    for name, left in _COLUMNS.items():
        ranked, ndcg = moment.ranked(name), moment.ndcg(name)
        parts.append(text(left, 18, RANKERS[name], "head"))
        parts.append(text(left, 38, f"NDCG {ndcg:.3f}", "bad" if ndcg < 1 else "good"))
        wrong = wrong_pairs(ranked, moment.grades)
        place = {int(i): p for p, i in enumerate(ranked)}
        parts += [arc(left, place[j], place[i]) for i, j in wrong]
        outranked = {i for i, _ in wrong}
        for i, p in place.items():
            before = places.get(i)
            if before is None:
                middle = TOP + ROW * p + CARD / 2
                parts.append(text(left + _CARD_WIDTH + 34, middle + 5, f"{moment.clicked[i]:,}", "score"))
            else:
                lines.append(_link(*before, left, p))
            parts.append(card(left, p, _CARD_WIDTH, letter(i), int(moment.grades[i]), is_wrong=i in outranked))
        places = {i: (left, p) for i, p in place.items()}
    label = f"The query as each ranker puts it. {describe(moment)}"
    return drawing(_WIDTH, _HEIGHT, label, lines + parts)


def _link(left_before: float, place_before: int, left: float, place: int) -> str:
    start = left_before + _CARD_WIDTH + (66 if left_before == _COLUMNS["today"] else 6)
    stop, y1, y2 = left - 42, TOP + ROW * place_before + CARD / 2, TOP + ROW * place + CARD / 2
    middle = (start + stop) / 2
    moved = "" if place == place_before else " moved"
    return f'<path class="link{moved}" d="M{start} {y1}C{middle} {y1} {middle} {y2} {stop} {y2}"/>'


def _losses(shop: Shop, k: int) -> str:
    """Draw the losses on unseen queries, up to the moment strong and after it faint."""
    curves = {name: rows[0] for name, rows in shop.losses.items()}
    top = max(float(values.max()) for values in curves.values())
    x = np.linspace(_LEFT, _RIGHT, len(MOMENTS))
    parts = [
        text(_LEFT, 18, "lost on unseen queries", "head"),
        text(_LEFT, 38, "1 − NDCG, by the number of lists", "soft"),
        f'<path class="zero" d="M{_LEFT} {_BOTTOM}H{_RIGHT}M{x[k]:.1f} {TOP}V{_BOTTOM}"/>',
        text(_LEFT - 8, _BOTTOM + 5, "0", "small soft", "end"),
        text(_LEFT - 8, TOP + 5, f"{top:.2f}", "small soft", "end"),
        text(_LEFT, _BOTTOM + 22, f"{MOMENTS[0]:,}", "small soft", "middle"),
        text(_RIGHT, _BOTTOM + 22, f"{MOMENTS[-1]:,}", "small soft", "middle"),
    ]
    heights = {name: _BOTTOM - (_BOTTOM - TOP) * values / top for name, values in curves.items()}
    labels = _apart(np.array([heights[name][k] for name in heights]))
    for (name, y), label in zip(heights.items(), labels, strict=True):
        points = [f"{a:.1f} {b:.1f}" for a, b in zip(x, y, strict=True)]
        parts.append(f'<path class="curve past {name}" d="M{"L".join(points)}"/>')
        parts.append(f'<path class="curve {name}" d="M{"L".join(points[: k + 1])}"/>')
        parts.append(f'<circle class="{name}" cx="{x[k]:.1f}" cy="{y[k]:.1f}" r="5"/>')
        parts.append(text(_RIGHT + 12, label + 5, f"{curves[name][k]:.3f}", f"{name} name"))
    return drawing(460, _HEIGHT, f"Losses after {shop.moments[k].n_lists:,} lists.", parts)


def _apart(heights: np.ndarray, least: float = 18.0) -> np.ndarray:
    """Move labels that would overlap."""
    order = np.argsort(heights)
    moved = heights.astype(float)
    for upper, lower in pairwise(order):
        moved[lower] = max(moved[lower], moved[upper] + least)
    return moved - max(0.0, float(moved.max()) - _BOTTOM)


def describe(moment: Moment) -> str:
    """Describe in words what the learners have made of the clicks."""
    shown = f"The query has been shown {moment.shown:,} times" if moment.shown != 1 else "The query has been shown once"
    clicks = int(moment.clicked.sum())
    told = f"{shown}, with {clicks:,} click{'' if clicks == 1 else 's'}. "
    parts = []
    for name in ("naive", "debiased"):
        n = len(wrong_pairs(moment.ranked(name), moment.grades))
        pairs = "no pair is wrong" if n == 0 else f"{n} pair{'s are' if n > 1 else ' is'} wrong"
        parts.append(f"{RANKERS[name]}, {pairs}")
    return f"{told}With {parts[0]}; with {parts[1]}."
