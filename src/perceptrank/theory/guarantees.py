"""Guarantees of a learner before learning, and certificates after it, by its theorem."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from perceptrank.measures import parse
from perceptrank.stream.validation import check_positive
from perceptrank.theory.theorem import AnyComparator, Comparator, Theorem

if TYPE_CHECKING:  # learning needs none of it
    from perceptrank.theory.certificates import Certificate


class Guaranteed(Protocol):
    """A learner with a theorem, or with `NO_THEOREM`."""

    algorithm: ClassVar[str]
    average: bool

    @property
    def theorem(self) -> Theorem:
        """The guarantee for the current settings."""

    @property
    def model(self) -> Any:
        """Everything that was learned so far, a `perceptrank.learners.model.Model`."""

    @property
    def beginning(self) -> Any:
        """The weights to start from, a `perceptrank.learners.starting.Beginning`."""


def guarantee(
    learner: Guaranteed,
    *,
    diameter: float | None = None,
    radius: float | None = None,
    margin: float | None = None,
    comparator: AnyComparator | None = None,
    largest_weight: float = 1.0,
    n_documents: int | None = None,
) -> float:
    """Return the upper bound on the loss by a learner's theorem, as its method `guarantee` describes it."""
    theorem = check_theorem(learner, comparator)
    start, product = _start_beside(learner, comparator)
    return theorem.bound(
        diameter=diameter,
        radius=radius,
        margin=margin,
        comparator=comparator,
        start=start,
        product=product,
        largest_weight=largest_weight,
        share=largest_share(learner, n_documents),
    )


def certificate(
    learner: Guaranteed,
    *,
    margin: float | None = None,
    comparator: AnyComparator | None = None,
    diameter: float | None = None,
    radius: float | None = None,
    n_documents: int | None = None,
) -> Certificate:
    """Return the bounds on a learner's loss so far, beside its observed value, as its method `certificate` does."""
    from perceptrank.theory import bounds
    from perceptrank.theory.certificates import Certificate, Promise

    theorem = check_theorem(learner, comparator)
    share = largest_share(learner, n_documents)
    model, promised, current_of = learner.model.require_learned(), theorem.of_moved, theorem.of_current
    weights, counts = model.weights, model.counts
    rate = float(getattr(learner, "learning_rate", 1.0))
    mass, norm = counts.mass, float(np.linalg.norm(weights))
    reach = float(np.sqrt(counts.largest_squared_reach))
    suffix = "/ margin²" if margin is not None else "as C in L + K/2 + √(K L + K²/4), K = U² C"
    if learner.beginning.ranks:
        suffix = "as C in Theorem S"
    formula = f"{promised.formula} {suffix}"
    start, product = _start_beside(learner, comparator)
    against: Any = {"margin": margin, "comparator": comparator, "start": start, "product": product}
    steps = Promise("from the steps", formula, promised.bound(diameter=reach, radius=reach, **against), mass)
    lost = [mass, current_of.bound(diameter=reach, radius=reach, **against)]
    first = learner.beginning.weights(model, len(weights))
    way, shown = (norm, "|w|") if first is None else (float(np.linalg.norm(weights - first)), "|w - w₁|")
    if comparator is None:
        bound = way / (rate * check_positive("margin", margin))
        promises = [Promise("a posteriori", f"{shown} / (rate margin)", bound, mass), steps]
    else:
        bound = comparator[1] + comparator[0] * way / rate
        promises = [Promise("a posteriori", f"L + U {shown} / rate", bound, mass), steps]
    weighted, largest = not model.has_equal_weights, counts.largest_weight
    if diameter is not None or radius is not None:
        against["largest_weight"] = largest if weighted else 1.0
        bound = promised.bound(diameter=diameter, radius=radius, **against)
        size = "R²" if promised.size == "radius" else "D²"
        shown = f"{formula}, {largest:g} {size} being {size}" if weighted else formula
        promises.append(Promise("a priori", shown, bound, mass))
        lost.append(current_of.bound(diameter=diameter, radius=radius, **against))
    mean, current, used = counts.mean_loss, counts.current_loss, counts.used_loss
    if theorem.extra:
        formula = "min(3 current + 2, (3 mean + 1) / 2)"
        if weighted:
            formula = f"min(3 current + {2 * largest:g}, 3/2 mean + {largest:g})"
        bound = bounds.safe_averaging(mean, current, largest_weight=largest if weighted else None)
        promises.append(Promise("safe averaging", formula, bound, used, "loss"))
    return Certificate(
        learner.algorithm,
        counts.rounds,
        counts.updates,
        mass,
        counts.squared_steps,
        reach,
        norm,
        tuple(promises),
        bool(learner.average),
        model.ranks_with,
        mean,
        current,
        used,
        counts.mixings,
        share * min(lost),
    )


def largest_share(learner: Guaranteed, n_documents: int | None) -> float:
    """Return the largest part of the weight of outranked documents that is lost, of queries of so many."""
    from perceptrank.theory import bounds

    if n_documents is None:
        return 1.0
    measure = getattr(learner, "measure", None)
    if measure is None:
        raise ValueError(
            f"{learner.algorithm} learns no ranking measure: its bound is on mistakes; leave n_documents out"
        )
    return bounds.largest_share(measure, n_documents)


def check_theorem(learner: Guaranteed, comparator: AnyComparator | None) -> Theorem:
    """Return the theorem of a learner; raise if it has none, or the comparator does not belong to it."""
    theorem, measure = learner.theorem, getattr(learner, "measure", None)
    if theorem.symbol is None:
        raise ValueError(f"{learner.algorithm} has no theorem of this kind")
    theorem.check_comparator(comparator, None if measure is None else parse(measure))
    return theorem


def _start_beside(learner: Guaranteed, comparator: AnyComparator | None) -> tuple[float, float | None]:
    """Return the norm of the weights to start from per learning rate, and their product with a comparator, if known."""
    model, ranker = learner.model, comparator.ranker if isinstance(comparator, Comparator) else None
    if ranker is not None and model.has_begun and len(ranker) == model.n_features:
        model.check_signs("comparator", np.asarray(ranker))
    if not learner.beginning.ranks:
        return 0.0, None
    rate = float(getattr(learner, "learning_rate", 1.0))
    first = learner.beginning.weights(model, model.n_features) if model.has_begun else None
    if first is None:
        return learner.beginning.norm(model) / rate, None
    product = float(first @ ranker) / rate if ranker is not None and len(ranker) == len(first) else None
    return float(np.linalg.norm(first)) / rate, product
