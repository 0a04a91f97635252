"""Explanations as text for terminals: tables that line up, and bars."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from perceptrank.deploy.explanation.contributions import Contributions, Difference
from perceptrank.deploy.explanation.effects import count_changes
from perceptrank.deploy.explanation.text_layout import (
    GAP,
    LONGEST_NAME,
    add_bars,
    beside,
    clip,
    number,
    spark,
    table,
    width_of,
    wrap,
)
from perceptrank.io.names import one_line

if TYPE_CHECKING:
    from perceptrank.deploy.explanation.effects import Curve
    from perceptrank.deploy.explanation.explanation import Explanation, FeatureEffect


def explanation_text(explanation: "Explanation", width: int, top: int) -> str:
    """Return an explanation in lines of at most so many characters."""
    rows = explanation.largest(top)
    blocks = [wrap([f"{explanation.name}: {explanation.settings}", *explanation.history.lines], width)]
    if rows:
        rest, without = max(0, explanation.n_weighted - top), explanation.n_features - explanation.n_weighted
        counts = ([f"{rest:,} more"] if rest else []) + ([f"{without:,} without weight"] if without else [])
        blocks.append(_feature_table(explanation, rows, width) + ([f"({', '.join(counts)})"] if counts else []))
        legend = [f"importance: {explanation.importance_is}", *_legend(explanation, rows)]
        blocks.append(wrap(legend, width, hanging=True))
        blocks.append(wrap([sentence(explanation, row) for row in rows[:3]], width, hanging=True))
    else:
        blocks.append(["All weights are 0: all documents have the same score."])
    if explanation.changes:
        blocks.append(_change_table(explanation, width, top))
    blocks.append(wrap([f"note: {note}" for note in explanation.notes], width, hanging=True))
    return "\n\n".join("\n".join(lines) for lines in blocks if lines) + "\n"


def _legend(explanation: "Explanation", rows: "tuple[FeatureEffect, ...]") -> list[str]:
    lines = [
        f"{form.label}: what the feature adds to the score, from its lowest value to its highest"
        if form.label.endswith("curve")
        else f"{form.label}: one more {form.unit} adds so much to the score"
        for form in explanation.forms
    ]
    if _has_raw(rows):
        lines.append("per unit: one unit more of the feature as it is adds so much to the score")
    return lines


def _has_raw(rows: "tuple[FeatureEffect, ...]") -> bool:
    """Tell whether weights in raw units are others than the weights."""
    return any(row.per_unit is not None and [*row.weights] != ["weight"] for row in rows)


def feature_columns(explanation: "Explanation", rows: "tuple[FeatureEffect, ...]") -> list[tuple[str, list[Any]]]:
    """Return headings and cells of a table of features: text, numbers, or None."""
    labels, curves = dict.fromkeys(label for row in rows for label in row.weights), explanation.curves
    columns: list[tuple[str, list[Any]]] = [("feature", [row.feature for row in rows])]
    columns.append(("", [row.sign for row in rows]))
    if not any(math.isnan(row.share) for row in rows):
        columns.append(("importance", [f"{100 * row.share:.1f} %" for row in rows]))
    columns += [(label, [row.weights.get(label) for row in rows]) for label in labels]
    if curves:
        columns.append(("curve", [" ".join(map(spark, curves.get(row.feature, []))) for row in rows]))
    if _has_raw(rows):
        columns.append(("per unit", [row.per_unit for row in rows]))
    return columns


def _feature_table(explanation: "Explanation", rows: "tuple[FeatureEffect, ...]", width: int) -> list[str]:
    columns = feature_columns(explanation, rows)
    heads = [head for head, _ in columns]
    cells = [[cell if isinstance(cell, str) else number(cell) for cell in own] for _, own in columns]
    lines = table(heads, cells, [head not in ("feature", "", "curve") for head in heads], width)
    largest = max(row.share for row in rows) or 1.0
    return add_bars(lines, [row.share / largest for row in rows], width) if "importance" in heads else lines


def _change_table(explanation: "Explanation", width: int, top: int) -> list[str]:
    moved = [change for change in explanation.changes if change.kind != "kept"]
    kinds = count_changes(explanation.changes)
    head = f"Since the other model: {kinds}. Shares of all that moves scores, with their signs:"
    lines = wrap([head], width)
    if moved:
        rows = [[row.feature, row.kind, _share(row.before), _share(row.now)] for row in moved[:top]]
        cells = list(map(list, zip(*rows, strict=True)))
        lines += table(["feature", "", "before", "now"], cells, [False, False, True, True], width)
    if len(moved) > top:
        lines.append(f"({len(moved) - top:,} more)")
    return lines


def _share(value: float) -> str:
    return f"{100 * value:+.1f} %" if value else "0"


def sentence(explanation: "Explanation", row: "FeatureEffect") -> str:
    """Say in words what a model does with a feature."""
    better = {"+": "more is better", "-": "less is better", "±": "it depends on its value"}[row.sign]
    units = {form.label: form.unit.partition(" (")[0] for form in explanation.forms}
    clauses = []
    if row.per_unit is not None:
        clauses.append(f"one unit more {_adds(row.per_unit)}")
    clauses += [f"one {units[label]} {_adds(value)}" for label, value in row.weights.items() if label != "weight"]
    clauses += [_of_curve(curve) for curve in explanation.curves.get(row.feature, [])]
    if not clauses:
        clauses = [f"one {units[label]} {_adds(value)}" for label, value in row.weights.items()]
    return f"{row.feature}: {better}; {', '.join(clauses)}."


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


def query_text(query: Contributions, *, width: int = 80, documents: int = 10) -> str:
    """Return the contributions to the best documents of a query, in lines of at most so many characters."""
    shown = range(len(query))[:documents]
    columns = {"rank": [str(rank + 1) for rank in shown], "document": list(query.documents[:documents])}
    if query.relevance is not None:
        columns["grade"] = list(map(number, query.relevance[:documents].tolist()))
    columns["score"] = list(map(number, query.scores[:documents].tolist()))
    are_numbers = [name != "document" for name in columns]
    lines = table(list(columns), list(columns.values()), are_numbers, width // 2)
    room = width - max(map(width_of, lines)) - len(GAP)
    contributions = ["contributions", *(_largest(query, rank, room) for rank in shown)]
    head = f"query {one_line(str(query.qid))}: {len(query):,} documents"
    head += f", the best {len(shown)}" if len(shown) < len(query) else ""
    return "\n".join([head, *beside(lines, contributions)]) + "\n"


def _largest(query: Contributions, rank: int, room: int) -> str:
    text = ""
    for name, value in query.largest(rank, 12):
        term = f"{clip(one_line(name), LONGEST_NAME)} {value:+.3g}"
        longer = f"{text}{GAP}{term}" if text else clip(term, room)
        if width_of(longer) > room:
            break
        text = longer
    return text


def why_text(query: Contributions, first: str, second: str, *, width: int = 80, top: int = 10) -> str:
    """Say why one document is above another: the features that put it there, and those that do not."""
    rank, other = query.find(first), query.find(second)
    ahead = float(query.scores[rank]) - float(query.scores[other])
    where, larger = "above" if rank < other else "below", "larger" if ahead > 0 else "smaller" if ahead < 0 else "apart"
    names = f"{one_line(first)} (rank {rank + 1}) is {where} {one_line(second)} (rank {other + 1})"
    head = f"Why {names}: its score is {abs(ahead):.4g} {larger}"
    rows = query.why(first, second)
    if not rows:
        return f"{head}.\nNo feature tells them apart.\n"
    shown, rest = rows[:top], rows[top:]
    if rest:
        sums = [math.fsum(getattr(row, name) for row in rest) for name in ("difference", "first", "second")]
        rows = [*shown, Difference(f"({len(rest):,} more)", *sums)]
    cells = [[row.feature, number(row.first), number(row.second), f"{row.difference:+.4g}"] for row in rows]
    columns = list(map(list, zip(*cells, strict=True)))
    lines = table(["feature", "first", "second", "difference"], columns, [False, True, True, True], width)
    largest = abs(shown[0].difference) or 1.0
    shares = [abs(row.difference) / largest for row in shown] + ([0.0] if rest else [])
    lines = add_bars(lines, shares, width)
    return "\n".join([*wrap([f"{head}."], width), *lines]) + "\n"
