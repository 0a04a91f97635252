"""Explanations as notebooks show them."""

import math
from typing import TYPE_CHECKING

from perceptrank.deploy.explanation.changes import summary
from perceptrank.deploy.explanation.text import sentence
from perceptrank.deploy.explanation.text_layout import spark
from perceptrank.evaluation.cards import FALLING, OTHER, RISING, Bar, CardCell, card

if TYPE_CHECKING:
    from perceptrank.deploy.explanation.contributions import Contributions
    from perceptrank.deploy.explanation.explanation import Explanation

_TOP = 15
_DOCUMENTS = 10
_SHOWN_FEATURES = 6
_COLORS = {"+": RISING, "-": FALLING, "±": OTHER}


def explanation_html(found: "Explanation") -> str:
    """Return a card of an explanation, and one of what has changed."""
    rows: list[list[CardCell]] = []
    shown, curves = found.largest(_TOP), found.curves
    labels = list(dict.fromkeys(label for row in shown for label in row.weights))
    largest = max((row.share for row in shown), default=1.0) or 1.0
    known = bool(shown) and not math.isnan(largest)
    is_raw = any(row.per_unit is not None for row in shown)
    for row in shown:
        cells: list[CardCell] = [row.feature, row.sign]
        cells += [f"{100 * row.share:.1f} %", Bar(row.share / largest, _COLORS[row.sign])] if known else []
        cells += [row.weights.get(label) for label in labels]
        cells += [" ".join(map(spark, curves.get(row.feature, [])))] if curves else []
        rows.append([*cells, *([row.per_unit] if is_raw else [])])
    headings = ["feature", "", *(["importance", ""] if known else []), *labels]
    headings += [*(["curve"] if curves else []), *(["per unit"] if is_raw else [])]
    below = [f"importance: {found.importance_is}"]
    below += [f"{form.label}: one more {form.unit}" for form in found.forms if not form.label.endswith("curve")]
    below += [sentence(found, row) for row in shown[:3]]
    below += [f"note: {note}" for note in found.notes]
    title = f"{found.name}: {found.n_weighted:,} of {found.n_features:,} features have a weight"
    made = card(title, found.history.lines, headings, rows, below)
    if not found.changes:
        return made
    moved = [one for one in found.changes if one.kind != "kept"][:_TOP]
    changed: list[list[CardCell]] = [
        [one.feature, one.kind, f"{100 * one.before:+.1f} %", f"{100 * one.now:+.1f} %"] for one in moved
    ]
    return made + card(
        f"since the other model: {summary(found.changes)}", [], ["feature", "", "before", "now"], changed
    )


def query_html(found: "Contributions") -> str:
    """Return a card of the best documents of a query, with a column for each of the features that tell them apart."""
    features = found.features[:_SHOWN_FEATURES]
    rest = len(found.features) - len(features)
    rows: list[list[CardCell]] = []
    for rank in range(min(len(found), _DOCUMENTS)):
        values = found.values[rank].tolist()
        row: list[CardCell] = [str(rank + 1), found.documents[rank], float(found.relevance[rank])]
        row += [float(found.scores[rank]), *values[: len(features)]]
        others = math.fsum([*values[len(features) :], *found.rounding[rank].tolist()])
        rows.append([*row, *([others] if rest else [])])
    headings = ["", "document", "grade", "score", *features, *([f"{rest:,} more"] if rest else [])]
    title = f"query {found.qid!s}: {len(found):,} documents"
    return card(title, ["what each feature contributes; contributions add up to the score"], headings, rows)
