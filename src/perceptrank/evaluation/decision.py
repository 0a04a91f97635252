"""The rule that says whether a challenger may replace the incumbent, in numbers and in words."""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

from perceptrank.evaluation.bootstrap import FEWEST_QUERIES
from perceptrank.evaluation.differences import Difference

Answer = Literal["yes", "no", "undecided"]
NOT_CHECKED = "it is not checked whether a model has learned from them"
_QUANTILE_OF_POWER = 0.8416212335729143  # 0.8 of the normal distribution
_MOST = 10**9


class Decision(NamedTuple):
    """Answer to whether a challenger may go live.

    Attributes
    ----------
    model : str
        Name of the challenger.
    answer : "yes", "no", or "undecided"
    sentence : str
        The answer in words, with the numbers it is about.
    needed : int or None
        If it is not decided, the number of queries that would show a difference of the size that is seen here in four
        of five samples; None if there is no such number.
    """

    model: str
    answer: Answer
    sentence: str
    needed: int | None


def rule(measures: Sequence[str], margin: float, confidence: float) -> str:
    """Return the rule in words."""
    bar = "0" if margin == 0 else f"−{margin:g}"
    others = f", and no interval of {' or '.join(measures[1:])} lies wholly below {bar}" if len(measures) > 1 else ""
    below = "that of a measure" if len(measures) > 1 else "it"
    return (
        f"Yes if the {confidence * 100:g} % interval of the difference in {measures[0]} lies above {bar}{others}; "
        f"no if {below} lies wholly below {bar}; otherwise it is not decided. The intervals of all challengers and "
        "measures hold at once."
    )


def decide(incumbent: str, rows: Sequence[Difference], margin: float, confidence: float) -> Decision:
    """Apply the rule to the differences of one challenger, of which the first is that of the measure that decides."""
    first = rows[0]
    name = first.model
    losses = [row for row in rows if row.high < -margin]
    if losses:
        lost = f"{losses[0].measure} falls by {-losses[0].difference:.4f}"
        beyond = "" if margin == 0 else f", by more than {margin:g}"
        sentence = f"No: {name} must not replace {incumbent}: {lost}{beyond} ({_interval(losses[0], confidence)})."
        return Decision(name, "no", sentence, None)
    if first.low > -margin:
        if first.low > 0:
            gained = f"{first.measure} rises by {first.difference:.4f}"
        elif first.high < 0:
            gained = f"{first.measure} falls by {-first.difference:.4f}, which is less than {margin:g}"
        else:
            gained = f"{first.measure} changes by {first.difference:+.4f}, and falls by less than {margin:g} if at all"
        sentence = f"Yes: {name} may replace {incumbent}: {gained} ({_interval(first, confidence)})."
        return Decision(name, "yes", sentence, None)
    if first.is_small:
        are_uneven = first.n_queries >= FEWEST_QUERIES
        sentence = (
            f"Not decided: {_queries(first.n_queries)} cannot tell {name} from {incumbent} by {first.measure}; "
            f"an interval needs {FEWEST_QUERIES} or more{', of weights that differ less' if are_uneven else ''}."
        )
        return Decision(name, "undecided", sentence, None if are_uneven else FEWEST_QUERIES)
    if first.n_better == first.n_worse == 0:
        same = f"have the same {first.measure} in each of {_queries(first.n_queries)}"
        return Decision(name, "undecided", f"Not decided: {name} and {incumbent} {same}.", None)
    needed = n_needed(first, margin)
    seen = f"{first.measure} of {name} differs from that of {incumbent} by {first.difference:+.4f}"
    many = "a billion queries or more" if needed is None else f"about {needed:,} queries"
    size = "a difference of this size" if margin == 0 else f"that this is above or below −{margin:g}"
    sentence = f"Not decided: {seen} ({_interval(first, confidence)}). To see {size}, {many} of this kind are needed."
    return Decision(name, "undecided", sentence, needed)


def n_needed(row: Difference, margin: float) -> int | None:
    """Return how many queries would decide in four of five samples if the difference is what it is here.

    An interval of c standard errors to each side excludes the bar with probability 0.8 if the bar is c + 0.84 standard
    errors away. None if it takes more than a billion.
    """
    distance = abs(row.difference + margin)
    critical = row.critical if math.isfinite(row.critical) else 2.0
    if distance == 0 or distance * math.sqrt(_MOST) < (critical + _QUANTILE_OF_POWER) * row.deviation:
        return None
    exact = ((critical + _QUANTILE_OF_POWER) * row.deviation / distance) ** 2
    needed = max(math.ceil(exact), row.n_queries + 1)
    unit = 10 ** max(0, len(str(needed)) - 2)  # two digits are more than it is good for
    return int(-(-needed // unit) * unit)


def _queries(n: int) -> str:
    return "1 query" if n == 1 else f"{n:,} queries"


def _interval(row: Difference, confidence: float) -> str:
    return f"{confidence * 100:g} % interval {row.low:+.4f} to {row.high:+.4f}, {_queries(row.n_queries)}"


def summary(decisions: Sequence[Decision], means: Sequence[float]) -> tuple[Answer, str]:
    """Return the answer over all challengers, whose means of the first measure are given, and a sentence on each."""
    if len(decisions) == 1:
        return decisions[0].answer, decisions[0].sentence
    allowed = [(mean, own.model) for mean, own in zip(means, decisions, strict=True) if own.answer == "yes"]
    sentences = " ".join(decision.sentence for decision in decisions)
    if allowed:
        best = max(allowed, key=lambda pair: pair[0])[1]
        return "yes", f"{len(allowed)} of {len(decisions)} may go live; the best of these is {best}. {sentences}"
    answer: Answer = "undecided" if any(own.answer == "undecided" for own in decisions) else "no"
    return answer, f"None of {len(decisions)} may go live{' yet' if answer == 'undecided' else ''}. {sentences}"
