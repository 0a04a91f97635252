"""A learner as notebooks show it: its settings, what it has seen, and its largest weights."""

from typing import TYPE_CHECKING

import numpy as np

from perceptrank.evaluation.cards import FALLING, RISING, Bar, CardCell, card

if TYPE_CHECKING:
    from perceptrank.learners.learner import Learner
    from perceptrank.learners.model import Model

_TOP = 8
_MOST_NAMES = 100_000  # that are made up for features without any


def card_of(learner: "Learner") -> str:
    """Return a card of a learner."""
    state = learner.model
    title = f"{learner.name}: {learner!r}"
    if not state.has_begun:
        return card(title, ["has not learned anything yet"])
    seen = f"{learner.n_updates:,} of {learner.n_rounds:,} rounds were updates"
    lines = [f"learned from {state.queries:,} queries; {seen}"]
    lines += [f"features go through {', '.join(map(repr, state.transforms))}"] if state.transforms else []
    try:
        weights = state.coefficients
    except AttributeError:  # of a sum, whose members transform features each for itself
        return card(title, [*lines, f"members: {', '.join(member.name for member in state.members)}"])
    present = np.count_nonzero(weights)
    largest = np.argsort(-np.abs(weights), kind="stable")[: min(_TOP, present)]
    if not len(largest):
        return card(title, [*lines, "all weights are 0"])
    lines.append(f"{present:,} of {len(weights):,} weights are not 0; deploy.explain says more")
    names, top = _names(state, len(weights)), abs(float(weights[largest[0]]))
    rows: list[list[CardCell]] = []
    for k in largest.tolist():
        name, weight = names[k] if names else f"weight {k + 1}", float(weights[k])
        rows.append([name, weight, Bar(abs(weight) / top, RISING if weight > 0 else FALLING)])
    unit = "transformed feature" if state.all_transforms else "feature"
    return card(title, lines, [unit, "weight", ""], rows)


def _names(state: "Model", n_weights: int) -> tuple[str, ...] | None:
    if state.feature_names is None and max(state.n_inputs, n_weights) > _MOST_NAMES:
        return None
    names = state.input_names()
    for transform in state.all_transforms:
        renamed = transform.output_names(names)
        if renamed is None:
            return None
        names = renamed
    return names if len(names) == n_weights else None
