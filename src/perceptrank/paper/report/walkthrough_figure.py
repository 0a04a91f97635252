"""Drawings of recorded rounds: the ranking before and after the update, and the plane of the two features."""

import math
from html import escape
from itertools import pairwise

import numpy as np

from perceptrank.kernels.arrays import Floats
from perceptrank.paper.walkthrough import Round, Walkthrough, wrong_pairs

_WIDTH, _TOP, _ROW, _CARD = 560, 58, 46, 38
_LEFT, _RIGHT, _CARD_WIDTH = 44, 420, 138  # of the two columns of cards
_MIDDLE, _BAR = 278, 38  # where moves are 0, and the length of the longest
_SLOPES = 362  # where lines to the new places begin
_PLANE_WIDTH, _PLANE_HEIGHT = 460, 360
_PAD, _GUTTER = 20, 56  # around the documents, and for the names of grades at the right
_NAME = 54  # the width of a name beside a tip
_LONGEST = 1.1  # of arrows, in lengths of w


def letter(i: int) -> str:
    """Name a document."""
    return chr(ord("A") + i)


def ranking_drawing(one: Round, longest_move: float) -> str:
    """Draw the documents as ranked, with wrong pairs and moves, and as ranked again."""
    height = _TOP + _ROW * len(one.grades)
    after = {int(i): place for place, i in enumerate(one.ranked_again)}
    parts = [
        _text(_LEFT, 18, "ranked", "head"),
        _text(_LEFT, 38, f"NDCG {one.ndcg:.3f}", "bad" if one.mistakes else "good"),
        _text(_RIGHT, 18, "ranked again", "head"),
        _text(_RIGHT, 38, f"NDCG {one.ndcg_again:.3f}", "bad" if one.ndcg_again < 1 else "good"),
    ]
    if one.mistakes:
        parts.append(_text(_MIDDLE, 18, "the update", "head", "middle"))
        parts.append(_text(_MIDDLE - 6, 38, "lowers", "down", "end"))
        parts.append(_text(_MIDDLE + 6, 38, "raises", "up"))
        parts.append(f'<path class="zero" d="M{_MIDDLE} {_TOP - 6}V{height - 6}"/>')
    else:
        parts.append(_text(_MIDDLE, 18, "no update", "head", "middle"))
    outranked = {i for i, _ in one.mistakes}
    places = {int(i): place for place, i in enumerate(one.ranked)}
    parts += [_arc(places[j], places[i]) for i, j in one.mistakes]
    still_wrong = {i for i, _ in wrong_pairs(one.ranked_again, one.grades)}
    for place, i in enumerate(map(int, one.ranked)):
        y, new = _TOP + _ROW * place, _TOP + _ROW * after[i]
        parts.append(_card(one, i, place, _LEFT, one.X @ one.before, is_wrong=i in outranked))
        if one.mistakes:
            parts.append(_move(one.moves[i] / longest_move, one.moves[i], y + _CARD / 2))
        moved = "" if place == after[i] else " moved"
        parts.append(f'<path class="link{moved}" d="{_slope(y + _CARD / 2, new + _CARD / 2)}"/>')
        card = _card(one, i, after[i], _RIGHT, one.X @ one.after, is_wrong=i in still_wrong)
        parts.append(f'<g class="settle" style="--from:{y - new}px">{card}</g>')
    return _svg(_WIDTH, height, f"The query as ranked, and as ranked after the update. {describe(one)}", parts)


def _slope(y1: float, y2: float) -> str:
    start, stop = _SLOPES, _RIGHT - 6
    return f"M{start} {y1}C{start + 30} {y1} {stop - 30} {y2} {stop} {y2}"


def _card(one: Round, i: int, place: int, x: float, scores: Floats, *, is_wrong: bool) -> str:
    y, grade = _TOP + _ROW * place, int(one.grades[i])
    middle = y + _CARD / 2
    kind = "card wrong" if is_wrong else "card"
    return (
        f'<rect class="{kind}" x="{x}" y="{y}" width="{_CARD_WIDTH}" height="{_CARD}" rx="7"/>'
        f"{_text(x + 12, middle + 6, letter(i), 'letter')}"
        f'<circle class="g{grade}" cx="{x + 50}" cy="{middle}" r="13"/>'
        f"{_text(x + 50, middle + 5, str(grade), f'on{grade}', 'middle')}"
        f"{_text(x + _CARD_WIDTH - 10, middle + 5, _score(scores[i]), 'score', 'end')}"
    )


def _score(value: float) -> str:
    return f"{value:.1f}".replace("-", "−")


def _arc(upper: int, lower: int) -> str:
    """Join a document with a higher-graded one further down."""
    y1, y2 = _TOP + _ROW * upper + _CARD / 2, _TOP + _ROW * lower + _CARD / 2
    out = _LEFT - 14 - 24 * min(1.0, (lower - upper) / 4)
    return f'<path class="arc" d="M{_LEFT - 4} {y1}C{out} {y1} {out} {y2} {_LEFT - 4} {y2}"/>'


def _move(share: float, value: float, y: float) -> str:
    if abs(value) < 5e-4:
        return ""
    length = max(2.0, abs(share) * _BAR)
    side, kind = (1, "up") if value > 0 else (-1, "down")
    x = _MIDDLE if value > 0 else _MIDDLE - length
    shown = f"{value:+.2f}".replace("-", "−")
    return (
        f'<rect class="bar {kind}" x="{x:.1f}" y="{y - 8:.1f}" width="{length:.1f}" height="16"/>'
        f"{_text(_MIDDLE + side * (length + 5), y + 5, shown, 'value', 'start' if side > 0 else 'end')}"
    )


class Plane:
    """The plane of the two features, turned so that w* points up, in one scale for all rounds."""

    def __init__(self, walk: Walkthrough) -> None:
        self._walk = walk
        up = walk.ranker
        self._turn = np.array([[up[1], up[0]], [-up[0], up[1]]])
        self._rows = [one.X @ self._turn for one in walk.rounds]
        self._length = 1.2 * float(max(rows[:, 1].max() for rows in self._rows))  # of w: beyond all documents
        tips = [_LONGEST * self._length * _unit(one.after @ self._turn) for one in walk.rounds]
        every = np.concatenate([*self._rows, tips, [[0.0, _LONGEST * self._length], [0.0, 0.0]]])
        low, high = every.min(axis=0), every.max(axis=0)
        room = np.array([_PLANE_WIDTH - 2 * _PAD - _GUTTER, _PLANE_HEIGHT - 2 * _PAD])
        self._scale = float((room / (high - low)).min())
        self._origin = _PAD + room / 2 - self._scale * (low + high) / 2 * [1, -1]

    def _at(self, point: Floats) -> tuple[float, float]:
        x, y = self._origin + self._scale * point * [1, -1]
        return float(x), float(y)

    def drawing(self, number: int) -> str:
        """Draw a round: its documents, those of earlier rounds, the weights before and after, and the margins of w*."""
        one, rows = self._walk.rounds[number], self._rows[number]
        parts = [*self._margins(), *self._past(number)]
        parts += [self._pair(rows, i, j) for i, j in one.mistakes]
        parts += self._axis(one, rows)
        x, y = self._at(np.zeros(2))
        parts.append(f'<circle class="origin" cx="{x:.1f}" cy="{y:.1f}" r="3"/>')
        for i, row in enumerate(rows):
            x, y = self._at(row)
            grade = int(one.grades[i])
            parts.append(f'<circle class="document g{grade}" cx="{x:.1f}" cy="{y:.1f}" r="11"/>')
            parts.append(_text(x, y + 5, letter(i), f"on{grade}", "middle"))
        return _svg(_PLANE_WIDTH, _PLANE_HEIGHT, f"The documents as points, and the weights. {turning(one)}", parts)

    def _margins(self) -> list[str]:
        """Draw the strips between grades that w* leaves empty."""
        walk, parts = self._walk, []
        grades = np.unique(np.concatenate([one.grades for one in walk.rounds]))
        heights = {grade: self._heights(grade) for grade in grades}
        for lower, upper in pairwise(grades):
            y1, y2 = self._at(np.array([0, heights[upper][0]]))[1], self._at(np.array([0, heights[lower][1]]))[1]
            parts.append(f'<rect class="strip" x="0" y="{y1:.1f}" width="{_PLANE_WIDTH}" height="{y2 - y1:.1f}"/>')
            parts.append(_text(_PLANE_WIDTH - 6, (y1 + y2) / 2 + 4, "margin", "best small", "end"))
        for grade in grades:
            y = self._at(np.array([0, sum(heights[grade]) / 2]))[1]
            parts.append(_text(_PLANE_WIDTH - 6, y + 5, f"grade {grade:g}", "soft", "end"))
        return parts

    def _heights(self, grade: float) -> tuple[float, float]:
        found = np.concatenate(
            [rows[one.grades == grade, 1] for one, rows in zip(self._walk.rounds, self._rows, strict=True)]
        )
        return float(found.min()), float(found.max())

    def _past(self, number: int) -> list[str]:
        parts = []
        for one, rows in zip(self._walk.rounds[:number], self._rows, strict=False):
            for grade, row in zip(one.grades, rows, strict=True):
                x, y = self._at(row)
                parts.append(f'<circle class="past g{int(grade)}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>')
        return parts

    def _pair(self, rows: Floats, i: int, j: int) -> str:
        (x1, y1), (x2, y2) = self._at(rows[j]), self._at(rows[i])
        return f'<path class="arc" d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"/>'

    def _axis(self, one: Round, rows: Floats) -> list[str]:
        """Draw the directions of the weights, and each document's place along them."""
        parts = [self._arrow(np.array([0.0, 1.0]), _LONGEST * self._length, "best", "w*")]
        unit = _unit(one.after @ self._turn)
        far = 20 * unit
        (x1, y1), (x2, y2) = self._at(-far), self._at(far)
        parts.append(f'<path class="axis" d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"/>')
        for row in rows:
            (x1, y1), (x2, y2) = self._at(row), self._at(unit * (unit @ row))
            parts.append(f'<path class="foot" d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"/>')
        if one.before.any() and one.step.any():
            before = _unit(one.before @ self._turn)
            parts.append(self._arrow(before, 0.97 * self._length, "former", "before", 1 if before[0] > unit[0] else -1))
        x, y = self._at(np.zeros(2))
        arrow = self._arrow(unit, self._length, "now", "w")
        parts.append(
            f'<g class="turn" style="--from:{turned(one):.1f}deg;transform-origin:{x:.1f}px {y:.1f}px">{arrow}</g>'
        )
        return parts

    def _arrow(self, unit: Floats, length: float, kind: str, name: str, side: int = 0) -> str:
        """Draw an arrow from the origin, its name beyond the tip, or to the left (-1) or right (1) of that."""
        (x1, y1), (x2, y2) = self._at(np.zeros(2)), self._at(unit * length)
        back, across = unit * [1, -1] * 11, np.array([unit[1], unit[0]]) * 5
        tip = " ".join(f"{x2 - back[0] + s * across[0]:.1f},{y2 - back[1] + s * across[1]:.1f}" for s in (1, -1))
        x3, y3 = self._at(unit * (length + (4 if side else 12) / self._scale))
        x3 = min(max(x3 + 7 * side, _NAME), _PLANE_WIDTH - _GUTTER - _NAME) if side else x3
        return (
            f'<path class="{kind}" d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"/>'
            f'<polygon class="{kind} tip-of" points="{x2:.1f},{y2:.1f} {tip}"/>'
            f"{_text(x3, y3 + 5, name, f'{kind} name', {-1: 'end', 0: 'middle', 1: 'start'}[side])}"
        )


def _unit(vector: Floats) -> Floats:
    length = float(np.linalg.norm(vector))
    return vector / length if length > 0 else vector


def turned(one: Round) -> float:
    """Return by how many degrees the weights were turned, as drawn with w* up: where they came from, clockwise."""
    if not one.before.any() or not one.step.any():
        return 0.0
    cross = one.before[0] * one.after[1] - one.before[1] * one.after[0]
    return math.degrees(math.atan2(cross, one.before @ one.after))


def turning(one: Round) -> str:
    """Say what the update did to the weights."""
    if not one.step.any():
        return "The weights stay as they are."
    if not one.before.any():
        return "The weights, all 0 before, get a direction."
    return f"The weights turn by {abs(turned(one)):.0f}°."


def describe(one: Round) -> str:
    """Say in words what a round shows."""
    if not one.mistakes:
        return "Nothing is wrong, so nothing is learned: every document stands before all of lower grade."
    outranked = [letter(i) for i in map(int, one.ranked) if i in {i for i, _ in one.mistakes}]
    n = len(one.mistakes)
    text = (
        "All weights are 0, so all documents are tied, which counts as the worst order. "
        if not one.before.any()
        else ""
    )
    text += (
        f"{_joined(outranked)} {'stands' if len(outranked) == 1 else 'stand'} below a document of lower grade: "
        f"{n} wrong pair{'s' if n > 1 else ''}. The update raises {_joined(_moved(one, 1))} and lowers "
        f"{_joined(_moved(one, -1))}. "
    )
    left = len(wrong_pairs(one.ranked_again, one.grades))
    repaired = "the query is in order" if left == 0 else f"{left} pair{'s are' if left > 1 else ' is'} still wrong"
    return f"{text}{turning(one)} Ranked again, {repaired}."


def _moved(one: Round, sign: int) -> list[str]:
    return [letter(i) for i in np.argsort(-sign * one.moves) if sign * one.moves[i] >= 5e-4]


def _joined(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    placed = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text class="{kind}" x="{x:.4g}" y="{y:.4g}"{placed}>{escape(text)}</text>'


def _svg(width: int, height: int, label: str, parts: list[str]) -> str:
    size = f'viewBox="0 0 {width} {height}"'
    return f'<svg class="drawn" {size} role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'
