"""A recorded round, drawn and told: the ranking before and after the update."""

import math
from html import escape

import numpy as np

from perceptrank.kernels.arrays import Floats
from perceptrank.paper.curves import join_names
from perceptrank.paper.walkthrough import Round, wrong_pairs


def text(x: float, y: float, words: str, kind: str, anchor: str = "start") -> str:
    """Place a text."""
    placed = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text class="{kind}" x="{x:.4g}" y="{y:.4g}"{placed}>{escape(words)}</text>'


def drawing(width: int, height: int, label: str, parts: list[str]) -> str:
    """Put parts together; the label is for screen readers."""
    size = f'viewBox="0 0 {width} {height}"'
    return f'<svg class="drawn" {size} role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'


_WIDTH, TOP, ROW, CARD = 560, 58, 46, 38
_LEFT, _RIGHT, _CARD_WIDTH = 44, 420, 138  # of the two columns of cards
_MIDDLE, _BAR = 278, 38  # where moves are 0, and the length of the longest
_SLOPES = 362  # where lines to the new places begin


def letter(i: int) -> str:
    """Name a document."""
    return chr(ord("A") + i)


def ranking_drawing(shown: Round, longest_move: float) -> str:
    """Draw the documents as ranked, with wrong pairs and moves, and as ranked again."""
    height = TOP + ROW * len(shown.grades)
    after = {int(i): place for place, i in enumerate(shown.ranked_again)}
    parts = [
        text(_LEFT, 18, "ranked", "head"),
        text(_LEFT, 38, f"NDCG {shown.ndcg:.3f}", "bad" if shown.mistakes else "good"),
        text(_RIGHT, 18, "ranked again", "head"),
        text(_RIGHT, 38, f"NDCG {shown.ndcg_again:.3f}", "bad" if shown.ndcg_again < 1 else "good"),
    ]
    if shown.mistakes:
        parts.append(text(_MIDDLE, 18, "the update", "head", "middle"))
        parts.append(text(_MIDDLE - 6, 38, "lowers", "down", "end"))
        parts.append(text(_MIDDLE + 6, 38, "raises", "up"))
        parts.append(f'<path class="zero" d="M{_MIDDLE} {TOP - 6}V{height - 6}"/>')
    else:
        parts.append(text(_MIDDLE, 18, "no update", "head", "middle"))
    outranked = {i for i, _ in shown.mistakes}
    places = {int(i): place for place, i in enumerate(shown.ranked)}
    parts += [arc(_LEFT, places[j], places[i]) for i, j in shown.mistakes]
    still_wrong = {i for i, _ in wrong_pairs(shown.ranked_again, shown.grades)}
    for place, i in enumerate(map(int, shown.ranked)):
        y, new = TOP + ROW * place, TOP + ROW * after[i]
        parts.append(_card(shown, i, place, _LEFT, shown.X @ shown.before, is_wrong=i in outranked))
        if shown.mistakes:
            parts.append(_move(shown.moves[i] / longest_move, shown.moves[i], y + CARD / 2))
        moved = "" if place == after[i] else " moved"
        parts.append(f'<path class="link{moved}" d="{_slope(y + CARD / 2, new + CARD / 2)}"/>')
        card = _card(shown, i, after[i], _RIGHT, shown.X @ shown.after, is_wrong=i in still_wrong)
        parts.append(f'<g class="settle" style="--from:{y - new}px">{card}</g>')
    return drawing(_WIDTH, height, f"The query as ranked, and as ranked after the update. {describe(shown)}", parts)


def _slope(y1: float, y2: float) -> str:
    start, stop = _SLOPES, _RIGHT - 6
    return f"M{start} {y1}C{start + 30} {y1} {stop - 30} {y2} {stop} {y2}"


def _card(shown: Round, i: int, place: int, x: float, scores: Floats, *, is_wrong: bool) -> str:
    score = text(x + _CARD_WIDTH - 10, TOP + ROW * place + CARD / 2 + 5, _score(scores[i]), "score", "end")
    return card(x, place, _CARD_WIDTH, letter(i), int(shown.grades[i]), is_wrong=is_wrong) + score


def card(x: float, place: int, width: float, name: str, grade: int, *, is_wrong: bool) -> str:
    """Draw a document at a place of a column: its name and its grade."""
    y = TOP + ROW * place
    middle = y + CARD / 2
    return (
        f'<rect class="card{" wrong" if is_wrong else ""}" x="{x}" y="{y}" width="{width}" height="{CARD}" rx="7"/>'
        f"{text(x + 12, middle + 6, name, 'letter')}"
        f'<circle class="g{grade}" cx="{x + 50}" cy="{middle}" r="13"/>'
        f"{text(x + 50, middle + 5, str(grade), f'on{grade}', 'middle')}"
    )


def _score(value: float) -> str:
    return f"{value:z.1f}".replace("-", "−")


def arc(left: float, upper: int, lower: int) -> str:
    """Join a document of a column of cards with a higher-graded one further down."""
    y1, y2 = TOP + ROW * upper + CARD / 2, TOP + ROW * lower + CARD / 2
    out = left - 14 - 24 * min(1.0, (lower - upper) / 4)
    return f'<path class="arc" d="M{left - 4} {y1}C{out} {y1} {out} {y2} {left - 4} {y2}"/>'


def _move(share: float, value: float, y: float) -> str:
    if abs(value) < 5e-4:
        return ""
    length = max(2.0, abs(share) * _BAR)
    side, kind = (1, "up") if value > 0 else (-1, "down")
    x = _MIDDLE if value > 0 else _MIDDLE - length
    shown = f"{value:+.2f}".replace("-", "−")
    return (
        f'<rect class="bar {kind}" x="{x:.1f}" y="{y - 8:.1f}" width="{length:.1f}" height="16"/>'
        f"{text(_MIDDLE + side * (length + 5), y + 5, shown, 'value', 'start' if side > 0 else 'end')}"
    )


def turn_angle(shown: Round) -> float:
    """Return the angle in degrees, clockwise with w* up, between the weights after the update and before it."""
    if not shown.before.any() or not shown.step.any():
        return 0.0
    cross = shown.before[0] * shown.after[1] - shown.before[1] * shown.after[0]
    return math.degrees(math.atan2(cross, shown.before @ shown.after))


def describe_turn(shown: Round) -> str:
    """Describe how the update changed the weights."""
    if not shown.step.any():
        return "The weights stay as they are."
    if not shown.before.any():
        return "The weights, all 0 before, get a direction."
    return f"The weights turn by {abs(turn_angle(shown)):.0f}°."


def describe(shown: Round) -> str:
    """Describe a round in words."""
    if not shown.mistakes:
        return "Nothing is wrong, so nothing is learned: every document stands before all of lower grade."
    outranked = [letter(i) for i in map(int, shown.ranked) if i in {i for i, _ in shown.mistakes}]
    n = len(shown.mistakes)
    tied = "All weights are 0, so all documents are tied, which counts as the worst order. "
    story = "" if shown.before.any() else tied
    story += (
        f"{join_names(outranked)} {'stands' if len(outranked) == 1 else 'stand'} below a document of lower grade: "
        f"{n} wrong pair{'s' if n > 1 else ''}. The update raises {join_names(_moved(shown, 1))} and lowers "
        f"{join_names(_moved(shown, -1))}. "
    )
    left = len(wrong_pairs(shown.ranked_again, shown.grades))
    repaired = "the query is in order" if left == 0 else f"{left} pair{'s are' if left > 1 else ' is'} still wrong"
    return f"{story}{describe_turn(shown)} Ranked again, {repaired}."


def _moved(shown: Round, sign: int) -> list[str]:
    return [letter(i) for i in np.argsort(-sign * shown.moves) if sign * shown.moves[i] >= 5e-4]
