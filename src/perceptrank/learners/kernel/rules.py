"""Rules of list-wise learners, applied to the scores of one query, whatever made these."""

from collections.abc import Callable
from typing import Any

from perceptrank.kernels.arrays import FloatRows, Floats, IntRows
from perceptrank.kernels.compiled import compiled, specialise
from perceptrank.kernels.levels import grades_differ, read_grades
from perceptrank.learners.listwise.places import places_rule
from perceptrank.learners.minimax import minimax_rule
from perceptrank.learners.rounds import rule
from perceptrank.learners.slam import slam_rule
from perceptrank.theory.hinges import move_widest_level_pair

ROWS = 8, 8  # of floats and integers


def apply_rule(
    settings: Any,
    binary: bool,
    margin: float,
    per_level: float,
    scores: Floats,
    relevance: Floats,
    discounts: Floats,
    coefficients: Floats,
    pair: Floats,
    floats: FloatRows,
    ints: IntRows,
) -> float:
    """Write the coefficients of a rule; return the mass that they move, -1 if grades are invalid.

    `pair` is the same mass on the one pair that is violated most, lower grades raised by the margin `per_level`.
    """
    m, grades, rows = len(scores), floats[0], (floats[1:], ints)
    for i in range(m):
        coefficients[i], pair[i] = 0.0, 0.0
    n_relevant = read_grades(relevance, 0, m, binary, grades)
    if n_relevant < 0:
        return -1.0
    if not grades_differ(grades, m, n_relevant):
        return 0.0
    query = scores, grades[:m], n_relevant, margin, discounts
    mass = rule(settings, query, coefficients, rows)
    if mass > 0.0:
        move_widest_level_pair(per_level, 0.0, query, pair, rows)
        for i in range(m):
            pair[i] *= mass
    return mass


def _compile(name: str, rule: Callable[..., float]) -> Callable[..., float]:
    return compiled(specialise(apply_rule, f"apply_{name}_rule", __name__, rule=rule))


RULES = {
    "listwise": _compile("listwise", places_rule),
    "minimax": _compile("minimax", minimax_rule),
    "slam": _compile("slam", slam_rule),
}
