"""Guarantees of a learner before learning, and certificates after it, by its theorem."""

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from perceptrank.measures import AP, NDCG, parse
from perceptrank.stream.validation import check_positive
from perceptrank.theory.theorem import AnyComparator, Comparator, Theorem

_ROUNDING = 1 + 1e-6
_COUNTED = ("rounds", "updates", "mass", "squared_steps", "mean_loss", "current_loss", "used_loss", "mixings")


@dataclass(frozen=True)
class Promise:
    """One inequality of a certificate: observed value ≤ bound.

    Attributes
    ----------
    name : str
        "a posteriori", "from the steps" or "a priori".
    formula : str
        The bound in symbols.
    bound, happened : float
        Bound and observed value.
    quantity : str
        What is bounded: "S", the weight moved, or "loss", that of the rankings used.
    """

    name: str
    formula: str
    bound: float
    happened: float
    quantity: str = "S"

    @property
    def holds(self) -> bool:
        """True if the inequality holds up to rounding."""
        return self.happened <= self.bound * _ROUNDING

    @property
    def used(self) -> float:
        """Ratio of the observed value to the bound."""
        return self.happened / self.bound if self.bound > 0 else 0.0 if self.happened == 0 else float("inf")


@dataclass(frozen=True)
class Certificate:
    """Counts and sums of a learner, and the inequalities that follow from them.

    Attributes
    ----------
    algorithm : str
        Name of the learner.
    rounds, updates : int
        Number of rounds, and of those with an update.
    mass : float
        S, the weight moved in all rounds, which the theorems bound: at least the cumulative loss of the rankings by the
        current weights, or of what clicks show of them; for Algorithms 1 and 3, the number of mistakes.
    squared_steps : float
        Sum of squared lengths of all steps, before the learning rate.
    reach : float
        The longest step per weight moved, at most the stream's diameter.
    norm : float
        Norm of the current weights.
    promises : tuple of Promise
        The inequalities.
    is_averaged : bool
        True if it ranks with the mean of its weights, to which the inequalities about S do not apply.
    ranks_with : either "mean" or "current"
        The weights that rank the next query.
    mean_loss, current_loss, used_loss : float
        With safe averaging, cumulative losses by the learner's measure: of rankings by the mean of all iterates, by the
        current weights, and by whichever ranked; otherwise 0.
    mixings : int
        How often the weights of shards were mixed; S and the losses count each by its weight in the mixture.
    loss_bound : float
        Upper bound on the loss of rankings by the current weights; infinite if it learns from clicks, or from
        documents, whose classification says nothing about the order of relevant ones.

    Examples
    --------
    >>> import perceptrank as pr
    >>> simulated = pr.separable(500, margin=0.1, seed=0)
    >>> ranker = pr.MinimaxPerceptron()
    >>> trace = ranker.learn(simulated.stream)
    >>> certificate = ranker.certificate(margin=simulated.margin, diameter=pr.theory.diameter(simulated.stream))
    >>> [promise.name for promise in certificate.promises]
    ['a posteriori', 'from the steps', 'a priori']
    >>> all(promise.happened <= promise.bound for promise in certificate.promises)
    True
    """

    algorithm: str
    rounds: int
    updates: int
    mass: float
    squared_steps: float
    reach: float
    norm: float
    promises: tuple[Promise, ...]
    is_averaged: bool = False
    ranks_with: str = "current"
    mean_loss: float = 0.0
    current_loss: float = 0.0
    used_loss: float = 0.0
    mixings: int = 0
    loss_bound: float = float("inf")

    @property
    def holds(self) -> bool:
        """True if all inequalities hold."""
        return all(promise.holds for promise in self.promises)

    def __str__(self) -> str:
        lines = [
            f"{self.algorithm}: {self.updates:,} updates in {self.rounds:,} rounds, S = {self.mass:.6g}, |w| = "
            f"{self.norm:.6g}"
        ]
        for promise in self.promises:
            verdict = f"{promise.used:.1%} used" if promise.holds else "BROKEN"
            bound = f"{promise.quantity} <= {promise.formula} = {promise.bound:.6g}"
            lines.append(f"  {promise.name:<14} {bound}: {verdict}")
        if self.loss_bound < self.mass:
            lines.append(f"  Rankings by the current weights lost at most {self.loss_bound:.6g}.")
        if any(promise.quantity == "loss" for promise in self.promises):
            now = "the mean of its weights" if self.ranks_with == "mean" else "its current weights"
            lines.append(
                f"  It ranks with {now}. Lost by the mean: {self.mean_loss:.6g}, by the current weights: "
                f"{self.current_loss:.6g}, by the one that ranked: {self.used_loss:.6g}."
            )
        elif self.is_averaged:
            lines.append("  This learner ranks with the mean of its weights; the promises are about the current ones.")
        if self.mixings:
            lines.append(
                f"  Shards were mixed {self.mixings:,} times: S counts each by its weight in the mixture (Theorem D)."
            )
        return "\n".join(lines)


class Guaranteed(Protocol):
    """A learner with a theorem, or with `NO_THEOREM`."""

    algorithm: ClassVar[str]
    takes: ClassVar[str]
    average: bool

    @property
    def theorem(self) -> Theorem:
        """The guarantee for the current settings."""

    @property
    def model(self) -> Any:
        """Everything that was learned so far, a `perceptrank.learners.model.Model`."""


def guarantee(
    learner: Guaranteed, *, comparator: AnyComparator | None, n_documents: int | None, **quantities: Any
) -> float:
    """Return the upper bound on the loss by a learner's theorem, as its method `guarantee` describes it."""
    theorem = _check_theorem(learner, comparator)
    start, product = _start_beside(learner, comparator)
    share = largest_share(learner, n_documents)
    return theorem.bound(comparator=comparator, start=start, product=product, share=share, **quantities)


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
    theorem = _check_theorem(learner, comparator)
    share = largest_share(learner, n_documents)
    model, promised, current_of = learner.model.require_learned(), theorem.of_moved, theorem.of_current
    weights, counts = model.weights, model.counts
    rate = float(getattr(learner, "learning_rate", 1.0))
    mass, norm = counts.mass, float(np.linalg.norm(weights))
    reach = float(np.sqrt(counts.largest_squared_reach))
    suffix = "/ margin²" if margin is not None else "as C in L + K/2 + √(K L + K²/4), K = U² C"
    if learner.model.beginning.ranks:
        suffix = "as C in Theorem S"
    formula = f"{promised.formula} {suffix}"
    start, product = _start_beside(learner, comparator)
    against: Any = {"margin": margin, "comparator": comparator, "start": start, "product": product}
    steps = Promise("from the steps", formula, promised.bound(diameter=reach, radius=reach, **against), mass)
    lost = [mass, current_of.bound(diameter=reach, radius=reach, **against)]
    first = learner.model.beginning.weights(model, len(weights))
    way, shown = (norm, "|w|") if first is None else (float(np.linalg.norm(weights - first)), "|w - w₁|")
    if comparator is None:
        bound, symbols = way / (rate * check_positive("margin", margin)), f"{shown} / (rate margin)"
    else:
        bound, symbols = comparator[1] + comparator[0] * way / rate, f"L + U {shown} / rate"
    promises = [Promise("a posteriori", symbols, bound, mass), steps]
    weighted, largest = not model.has_equal_weights, counts.largest_weight
    if diameter is not None or radius is not None:
        against["largest_weight"] = largest if weighted else 1.0
        bound = promised.bound(diameter=diameter, radius=radius, **against)
        size = "R²" if promised.size == "radius" else "D²"
        shown = f"{formula}, {largest:g} {size} being {size}" if weighted else formula
        promises.append(Promise("a priori", shown, bound, mass))
        lost.append(current_of.bound(diameter=diameter, radius=radius, **against))
    # Clicks do not show the whole loss, and classes do not show the order of grades.
    loss_bound = float("inf") if learner.takes in ("clicks", "documents") else share * min(lost)
    return certify(learner, norm, promises, loss_bound, is_safe=theorem.extra > 0)


def certify(
    learner: Guaranteed, norm: float, promises: list[Promise], loss_bound: float, *, is_safe: bool
) -> Certificate:
    """Return a certificate with the learner's counts; with safe averaging, add what that promises."""
    from perceptrank.theory import bounds

    model, counts = learner.model, learner.model.counts
    if counts.changes:
        raise ValueError(
            f"there is no certificate: settings of {learner.algorithm} were changed after learning had begun: learn "
            "anew with the settings of now"
        )
    if is_safe:
        formula, largest = "min(3 current + 2, (3 mean + 1) / 2)", None
        if not model.has_equal_weights:
            largest = counts.largest_weight
            formula = f"min(3 current + {2 * largest:g}, 3/2 mean + {largest:g})"
        bound = bounds.safe_averaging(counts.mean_loss, counts.current_loss, largest_weight=largest)
        promises = [*promises, Promise("safe averaging", formula, bound, counts.used_loss, "loss")]
    return Certificate(
        algorithm=learner.algorithm,
        reach=float(np.sqrt(counts.largest_squared_reach)),
        norm=norm,
        promises=tuple(promises),
        is_averaged=bool(learner.average),
        ranks_with=model.ranks_with,
        loss_bound=loss_bound,
        **{name: getattr(counts, name) for name in _COUNTED},
    )


def largest_share(learner: Guaranteed, n_documents: int | None) -> float:
    """Return the largest part of the weight of outranked documents that is lost, 1 if `n_documents` is unknown."""
    from perceptrank.theory import bounds

    if n_documents is None:
        return 1.0
    measure = getattr(learner, "measure", None)
    if measure is None:
        raise ValueError(f"n_documents must be None: {learner.algorithm} bounds mistakes, not the loss in a measure")
    if not isinstance(parse(measure), (AP, NDCG)):
        return 1.0
    return bounds.largest_share(measure, n_documents)


def _check_theorem(learner: Guaranteed, comparator: AnyComparator | None) -> Theorem:
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
    if not learner.model.beginning.ranks:
        return 0.0, None
    rate = float(getattr(learner, "learning_rate", 1.0))
    first = learner.model.beginning.weights(model, model.n_features) if model.has_begun else None
    if first is None:
        return learner.model.beginning.norm(model) / rate, None
    product = float(first @ ranker) / rate if ranker is not None and len(ranker) == len(first) else None
    return float(np.linalg.norm(first)) / rate, product
