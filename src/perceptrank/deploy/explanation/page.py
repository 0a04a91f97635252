"""Explanations as notebooks show them."""

import math
from typing import TYPE_CHECKING

from perceptrank.deploy.explanation.effects import count_changes
from perceptrank.deploy.explanation.text import feature_columns, sentence
from perceptrank.evaluation.cards import SIGN_COLORS, Bar, CardCell, card

if TYPE_CHECKING:
    from perceptrank.deploy.explanation.contributions import Contributions
    from perceptrank.deploy.explanation.explanation import Explanation

_TOP = 15
_DOCUMENTS = 10
_SHOWN_FEATURES = 6


def explanation_html(explanation: "Explanation") -> str:
    """Return a card of an explanation, and one of what has changed."""
    shown = explanation.largest(_TOP)
    columns = feature_columns(explanation, shown)
    if shown and columns[2][0] == "importance":
        largest = max(row.share for row in shown) or 1.0
        columns.insert(3, ("", [Bar(row.share / largest, SIGN_COLORS[row.sign]) for row in shown]))
    below = [f"importance: {explanation.importance_is}"]
    below += [f"{form.label}: one more {form.unit}" for form in explanation.forms if not form.label.endswith("curve")]
    below += [sentence(explanation, row) for row in shown[:3]]
    below += [f"note: {note}" for note in explanation.notes]
    title = f"{explanation.name}: {explanation.n_weighted:,} of {explanation.n_features:,} features have a weight"
    headings, rows = [head for head, _ in columns], list(zip(*(cells for _, cells in columns), strict=True))
    html = card(title, explanation.history.lines, headings, rows, below)
    if not explanation.changes:
        return html
    moved = [change for change in explanation.changes if change.kind != "kept"][:_TOP]
    changed = [
        [change.feature, change.kind, f"{100 * change.before:+.1f} %", f"{100 * change.now:+.1f} %"] for change in moved
    ]
    title = f"since the other model: {count_changes(explanation.changes)}"
    return html + card(title, [], ["feature", "", "before", "now"], changed)


def query_html(query: "Contributions") -> str:
    """Return a card of the best documents of a query, with a column for each of the features that tell them apart."""
    features = query.features[:_SHOWN_FEATURES]
    rest = len(query.features) - len(features)
    rows: list[list[CardCell]] = []
    for rank in range(min(len(query), _DOCUMENTS)):
        values = query.values[rank].tolist()
        row: list[CardCell] = [str(rank + 1), query.documents[rank]]
        row += [] if query.relevance is None else [float(query.relevance[rank])]
        row += [float(query.scores[rank]), *values[: len(features)]]
        others = math.fsum([*values[len(features) :], *query.rounding[rank].tolist()])
        rows.append([*row, *([others] if rest else [])])
    grade = [] if query.relevance is None else ["grade"]
    headings = ["", "document", *grade, "score", *features, *([f"{rest:,} more"] if rest else [])]
    title = f"query {query.qid!s}: {len(query):,} documents"
    return card(title, ["what each feature contributes; contributions add up to the score"], headings, rows)
