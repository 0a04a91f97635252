"""The plane of the two features, round after round: documents, weights and margins."""

from itertools import pairwise

import numpy as np

from perceptrank.kernels.arrays import Floats
from perceptrank.paper.report.walkthrough_figure import describe_turn, drawing, letter, text, turn_angle
from perceptrank.paper.walkthrough import Round, Walkthrough

_WIDTH, _HEIGHT = 460, 360
_PAD, _GUTTER = 20, 56  # around the documents, and for the names of grades at the right
_NAME = 54  # the width of a name beside a tip
_LONGEST = 1.1  # of arrows, in lengths of w


class Plane:
    """The plane of the two features, turned so that w* points up, in one scale for all rounds."""

    def __init__(self, walk: Walkthrough) -> None:
        self._walk = walk
        up = walk.ranker
        self._turn = np.array([[up[1], up[0]], [-up[0], up[1]]])
        self._rows = [shown.X @ self._turn for shown in walk.rounds]
        self._length = 1.2 * float(max(rows[:, 1].max() for rows in self._rows))  # of w: beyond all documents
        tips = [_LONGEST * self._length * _unit(shown.after @ self._turn) for shown in walk.rounds]
        every = np.concatenate([*self._rows, tips, [[0.0, _LONGEST * self._length], [0.0, 0.0]]])
        low, high = every.min(axis=0), every.max(axis=0)
        room = np.array([_WIDTH - 2 * _PAD - _GUTTER, _HEIGHT - 2 * _PAD])
        self._scale = float((room / (high - low)).min())
        self._origin = _PAD + room / 2 - self._scale * (low + high) / 2 * [1, -1]

    def _at(self, point: Floats) -> tuple[float, float]:
        x, y = self._origin + self._scale * point * [1, -1]
        return float(x), float(y)

    def picture(self, number: int) -> str:
        """Draw a round: its documents, those of earlier rounds, the weights before and after, and the margins of w*."""
        shown, rows = self._walk.rounds[number], self._rows[number]
        parts = [*self._margins(), *self._past(number)]
        parts += [self._line("arc", rows[j], rows[i]) for i, j in shown.mistakes]
        parts += self._axis(shown, rows)
        x, y = self._at(np.zeros(2))
        parts.append(f'<circle class="origin" cx="{x:.1f}" cy="{y:.1f}" r="3"/>')
        for i, row in enumerate(rows):
            x, y = self._at(row)
            grade = int(shown.grades[i])
            parts.append(f'<circle class="document g{grade}" cx="{x:.1f}" cy="{y:.1f}" r="11"/>')
            parts.append(text(x, y + 5, letter(i), f"on{grade}", "middle"))
        return drawing(_WIDTH, _HEIGHT, f"The documents as points, and the weights. {describe_turn(shown)}", parts)

    def _margins(self) -> list[str]:
        """Draw the strips between grades that w* leaves empty."""
        walk, parts = self._walk, []
        grades = np.unique(np.concatenate([shown.grades for shown in walk.rounds]))
        heights = {grade: self._heights(grade) for grade in grades}
        for lower, upper in pairwise(grades):
            y1, y2 = self._at(np.array([0, heights[upper][0]]))[1], self._at(np.array([0, heights[lower][1]]))[1]
            parts.append(f'<rect class="strip" x="0" y="{y1:.1f}" width="{_WIDTH}" height="{y2 - y1:.1f}"/>')
            parts.append(text(_WIDTH - 6, (y1 + y2) / 2 + 4, "margin", "best small", "end"))
        for grade in grades:
            y = self._at(np.array([0, sum(heights[grade]) / 2]))[1]
            parts.append(text(_WIDTH - 6, y + 5, f"grade {grade:g}", "soft", "end"))
        return parts

    def _heights(self, grade: float) -> tuple[float, float]:
        rounds = zip(self._walk.rounds, self._rows, strict=True)
        heights = np.concatenate([rows[shown.grades == grade, 1] for shown, rows in rounds])
        return float(heights.min()), float(heights.max())

    def _past(self, number: int) -> list[str]:
        parts = []
        for shown, rows in zip(self._walk.rounds[:number], self._rows, strict=False):
            for grade, row in zip(shown.grades, rows, strict=True):
                x, y = self._at(row)
                parts.append(f'<circle class="past g{int(grade)}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>')
        return parts

    def _line(self, kind: str, start: Floats, stop: Floats) -> str:
        (x1, y1), (x2, y2) = self._at(start), self._at(stop)
        return f'<path class="{kind}" d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"/>'

    def _axis(self, shown: Round, rows: Floats) -> list[str]:
        """Draw the directions of the weights, and each document's place along them."""
        parts = [self._arrow(np.array([0.0, 1.0]), _LONGEST * self._length, "best", "w*")]
        unit = _unit(shown.after @ self._turn)
        parts.append(self._line("axis", -20 * unit, 20 * unit))
        parts += [self._line("foot", row, unit * (unit @ row)) for row in rows]
        if shown.before.any() and shown.step.any():
            before = _unit(shown.before @ self._turn)
            parts.append(self._arrow(before, 0.97 * self._length, "former", "before", 1 if before[0] > unit[0] else -1))
        x, y = self._at(np.zeros(2))
        arrow = self._arrow(unit, self._length, "now", "w")
        style = f"--from:{turn_angle(shown):.1f}deg;transform-origin:{x:.1f}px {y:.1f}px"
        parts.append(f'<g class="turn" style="{style}">{arrow}</g>')
        return parts

    def _arrow(self, unit: Floats, length: float, kind: str, name: str, side: int = 0) -> str:
        """Draw an arrow from the origin, its name beyond the tip, or to the left (-1) or right (1) of that."""
        x2, y2 = self._at(unit * length)
        back, across = unit * [1, -1] * 11, np.array([unit[1], unit[0]]) * 5
        tip = " ".join(f"{x2 - back[0] + s * across[0]:.1f},{y2 - back[1] + s * across[1]:.1f}" for s in (1, -1))
        x3, y3 = self._at(unit * (length + (4 if side else 12) / self._scale))
        x3 = min(max(x3 + 7 * side, _NAME), _WIDTH - _GUTTER - _NAME) if side else x3
        return (
            f"{self._line(kind, np.zeros(2), unit * length)}"
            f'<polygon class="{kind} tip-of" points="{x2:.1f},{y2:.1f} {tip}"/>'
            f"{text(x3, y3 + 5, name, f'{kind} name', {-1: 'end', 0: 'middle', 1: 'start'}[side])}"
        )


def _unit(vector: Floats) -> Floats:
    length = float(np.linalg.norm(vector))
    return vector / length if length > 0 else vector
