"""Explanations as text for terminals: tables that line up, and bars."""

import math
from typing import TYPE_CHECKING

import numpy as np

from perceptrank.deploy.explanation.changes import summary
from perceptrank.deploy.explanation.text_layout import (
    GAP,
    LONGEST_NAME,
    clipped,
    number,
    padded,
    spark,
    table,
    width_of,
    with_bars,
    wrapped,
)
from perceptrank.io.names import one_line

if TYPE_CHECKING:
    from perceptrank.deploy.explanation.contributions import Contributions
    from perceptrank.deploy.explanation.effects import Curve
    from perceptrank.deploy.explanation.explanation import Explanation, FeatureEffect

_IN_WORDS = 3


def explanation_text(found: "Explanation", width: int, top: int) -> str:
    """Return an explanation in lines of at most so many characters."""
    rows = found.largest(top)
    blocks = [wrapped([f"{found.name}: {found.settings}", *found.history.lines], width)]
    if rows:
        blocks.append([*_feature_table(found, rows, width), *_left_out(found, top)])
        blocks.append(wrapped([f"importance: {found.importance_is}", *_legend(found, rows)], width, hanging=True))
        blocks.append(wrapped([sentence(found, row) for row in rows[:_IN_WORDS]], width, hanging=True))
    else:
        blocks.append(["All weights are 0: all documents have the same score."])
    if found.changes:
        blocks.append(_change_table(found, width, top))
    if found.notes:
        blocks.append(wrapped([f"note: {note}" for note in found.notes], width, hanging=True))
    return "\n\n".join("\n".join(lines) for lines in blocks if lines) + "\n"


def _left_out(found: "Explanation", top: int) -> list[str]:
    rest, without = max(0, found.n_weighted - top), found.n_features - found.n_weighted
    said = ([f"{rest:,} more"] if rest else []) + ([f"{without:,} without weight"] if without else [])
    return [f"({', '.join(said)})"] if said else []


def _legend(found: "Explanation", rows: "tuple[FeatureEffect, ...]") -> list[str]:
    lines = []
    for form in found.forms:
        if form.label.endswith("curve"):
            lines.append(f"{form.label}: what the feature adds to the score, from its lowest value to its highest")
        else:
            lines.append(f"{form.label}: one more {form.unit} adds so much to the score")
    if _has_raw(rows):
        lines.append("per unit: one unit more of the feature as it is adds so much to the score")
    return lines


def _has_raw(rows: "tuple[FeatureEffect, ...]") -> bool:
    """Tell whether weights in raw units are others than the weights."""
    return any(one.per_unit is not None and [*one.weights] != ["weight"] for one in rows)


def _feature_table(found: "Explanation", rows: "tuple[FeatureEffect, ...]", width: int) -> list[str]:
    curves = found.curves
    labels = list(dict.fromkeys(label for row in rows for label in row.weights))
    heads, cells, right = ["feature", ""], [[row.feature for row in rows], [row.sign for row in rows]], [False, False]
    known = not math.isnan(rows[0].share)
    if known:
        heads, right = [*heads, "importance"], [*right, True]
        cells.append([f"{100 * row.share:.1f} %" for row in rows])
    for label in labels:
        heads, right = [*heads, label], [*right, True]
        cells.append([number(row.weights.get(label)) for row in rows])
    if curves:
        heads, right = [*heads, "curve"], [*right, False]
        cells.append([" ".join(map(spark, curves.get(row.feature, []))) for row in rows])
    if _has_raw(rows):
        heads, right = [*heads, "per unit"], [*right, True]
        cells.append([number(row.per_unit) for row in rows])
    lines = table(heads, cells, right, width)
    largest = max(row.share for row in rows) or 1.0
    return with_bars(lines, [row.share / largest for row in rows], width) if known else lines


def _change_table(found: "Explanation", width: int, top: int) -> list[str]:
    moved = [one for one in found.changes if one.kind != "kept"]
    head = f"Since the other model: {summary(found.changes)}. Shares of all that moves scores, with their signs:"
    lines = wrapped([head], width)
    if moved:
        shown = moved[:top]
        cells = [
            [one.feature for one in shown],
            [one.kind for one in shown],
            [_share(one.before) for one in shown],
            [_share(one.now) for one in shown],
        ]
        lines += table(["feature", "", "before", "now"], cells, [False, False, True, True], width)
    if len(moved) > top:
        lines.append(f"({len(moved) - top:,} more)")
    return lines


def _share(value: float) -> str:
    return f"{100 * value:+.1f} %" if value else "0"


def sentence(found: "Explanation", row: "FeatureEffect") -> str:
    """Say in words what a model does with a feature."""
    better = {"+": "more is better", "-": "less is better", "±": "it depends on its value"}[row.sign]
    units = {form.label: form.unit.partition(" (")[0] for form in found.forms}
    said = []
    if row.per_unit is not None:
        said.append(f"one unit more {_adds(row.per_unit)}")
    said += [f"one {units[label]} {_adds(value)}" for label, value in row.weights.items() if label != "weight"]
    said += [_of_curve(curve) for curve in found.curves.get(row.feature, [])]
    if not said:
        said = [f"one {units[label]} {_adds(value)}" for label, value in row.weights.items()]
    return f"{row.feature}: {better}; {', '.join(said)}."


def _adds(value: float) -> str:
    return f"adds {number(value)} to the score" if value >= 0 else f"takes {number(-value)} from the score"


def _of_curve(curve: "Curve") -> str:
    best, worst = int(np.argmax(curve.values)), int(np.argmin(curve.values))
    of = f" of its {curve.of}" if curve.of else ""
    high, low = float(curve.values[best]), float(curve.values[worst])
    return f"best {_place(curve, best)}{of} ({high:+.4g}), worst {_place(curve, worst)}{of} ({low:+.4g})"


def _place(curve: "Curve", place: int) -> str:
    edges = edge_texts(curve)
    if curve.is_linear:
        first = int(np.argmax(curve.edges == curve.edges[place]))
        if curve.edges[place] in (curve.edges[0], curve.edges[-1]):
            return f"up to {edges[0]}" if first == 0 else f"from {edges[-1]} on"
        return f"at {edges[place]}"
    if place == 0:
        return f"up to {edges[0]}"
    return f"above {edges[-1]}" if place == len(edges) else f"above {edges[place - 1]} up to {edges[place]}"


def edge_texts(curve: "Curve") -> list[str]:
    """Write edges in as few digits as tell them apart, at least four."""
    distinct = len(np.unique(curve.edges))
    for digits in range(4, 18):
        texts = [f"{edge + 0.0:.{digits}g}" for edge in curve.edges.tolist()]
        if len(set(texts)) >= distinct:
            break
    return texts


def query_text(found: "Contributions", *, width: int = 80, documents: int = 10) -> str:
    """Return the contributions to the best documents of a query, in lines of at most so many characters."""
    shown = range(len(found))[:documents]
    cells = [
        [str(rank + 1) for rank in shown],
        [found.documents[rank] for rank in shown],
        [number(float(found.relevance[rank])) for rank in shown],
        [number(float(found.scores[rank])) for rank in shown],
    ]
    lines = table(["rank", "document", "grade", "score"], cells, [True, False, True, True], width // 2)
    widest = max(map(width_of, lines))
    room = width - widest - len(GAP)
    said = ["contributions", *(_largest(found, rank, room) for rank in shown)]
    head = f"query {one_line(str(found.qid))}: {len(found):,} documents" + (
        f", the best {len(shown)}" if len(shown) < len(found) else ""
    )
    lines = [f"{padded(line, widest)}{GAP}{one}".rstrip() for line, one in zip(lines, said, strict=True)]
    return "\n".join([head, *lines]) + "\n"


def _largest(found: "Contributions", rank: int, room: int) -> str:
    said = ""
    for name, value in found.largest(rank, 12):
        one = f"{clipped(one_line(name), LONGEST_NAME)} {value:+.3g}"
        longer = f"{said}{GAP}{one}" if said else clipped(one, room)
        if width_of(longer) > room:
            break
        said = longer
    return said


def why_text(found: "Contributions", first: str, second: str, *, width: int = 80, top: int = 10) -> str:
    """Say why one document is above another: the features that put it there, and those that do not."""
    one, other = found.find(first), found.find(second)
    ahead = float(found.scores[one]) - float(found.scores[other])
    where = "above" if one < other else "below"
    names = f"{one_line(first)} (rank {one + 1}) is {where} {one_line(second)} (rank {other + 1})"
    head = (
        f"Why {names}: its score is {abs(ahead):.4g} {'larger' if ahead > 0 else 'smaller' if ahead < 0 else 'apart'}"
    )
    rows = found.why(first, second)
    if not rows:
        return f"{head}.\nNo feature tells them apart.\n"
    shown, rest = rows[:top], rows[top:]
    cells = [
        [row.feature for row in shown],
        [number(row.first) for row in shown],
        [number(row.second) for row in shown],
        [f"{row.difference:+.4g}" for row in shown],
    ]
    if rest:
        sums = [math.fsum(getattr(row, name) for row in rest) for name in ("first", "second", "difference")]
        for column, text in zip(
            cells, [f"({len(rest):,} more)", number(sums[0]), number(sums[1]), f"{sums[2]:+.4g}"], strict=True
        ):
            column.append(text)
    lines = table(["feature", "first", "second", "difference"], cells, [False, True, True, True], width)
    largest = abs(shown[0].difference) or 1.0
    shares = [abs(row.difference) / largest for row in shown] + ([0.0] if rest else [])
    lines = with_bars(lines, shares, width)
    return "\n".join([*wrapped([f"{head}."], width), *lines]) + "\n"
