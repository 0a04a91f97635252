"""Guarantees of a learner, before learning, and certificates after it."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from perceptrank.kernels.arrays import Floats
from perceptrank.learners.model import Model
from perceptrank.learners.starting import check_signs
from perceptrank.learners.tally import (
    CURRENT_LOSS,
    LARGEST_REACH,
    LARGEST_WEIGHT,
    MASS,
    MEAN_LOSS,
    MIXINGS,
    ROUNDS,
    SQUARED_STEPS,
    UPDATES,
    USED_LOSS,
)
from perceptrank.measures import parse
from perceptrank.stream.validation import check_positive
from perceptrank.theory import bounds
from perceptrank.theory.certificates import Certificate, Promise
from perceptrank.theory.theorem import NO_THEOREM, AnyComparator, Comparator, Theorem


class Guaranteed:
    """A learner with a theorem, or with `NO_THEOREM`."""

    algorithm: ClassVar[str]
    average: bool
    _model: Model

    @property
    def theorem(self) -> Theorem:
        """The guarantee for the current settings."""
        return NO_THEOREM

    @abstractmethod
    def _learned(self) -> Model:
        """Return the state; raise if nothing was learned."""

    def guarantee(
        self,
        *,
        diameter: float | None = None,
        radius: float | None = None,
        margin: float | None = None,
        comparator: AnyComparator | None = None,
        largest_weight: float = 1.0,
        n_documents: int | None = None,
    ) -> float:
        """Return the upper bound on the loss by the learner's theorem, see `perceptrank.theory.Theorem`.

        The theorem applies to rankings by the current weights, not by their mean, except for `ListwisePerceptron`,
        which chooses between the two: its theorem depends on `average`. If weights are constrained, margin and
        comparator must be those of a ranker that satisfies the constraints. If the learner starts from weights that are
        not 0, a `Comparator` with its `ranker` has a smaller bound than its norm and loss alone, the closer its
        direction is to that of the start.

        Parameters
        ----------
        diameter, radius : float, optional
            Those of the stream; give either, since 2R bounds the diameter if that is unknown.
        margin : float, optional
            Margin of a separable stream; give this or `comparator`.
        comparator : Comparator or (norm, loss), optional
            Norm and cumulative surrogate of some fixed ranker.
        largest_weight : float > 0
            Largest weight of a query; the bound is then that of the sum of losses times weights, and so must be the
            comparator's loss.
        n_documents : int, optional
            Most documents of a query, if known: the bound is then smaller, as one ranking of m documents loses at most
            1 - 1 / m in AP and 1 - 1 / log2(1 + m) in NDCG (without a cut-off before m).

        Returns
        -------
        float

        Raises
        ------
        ValueError
            If the learner has no theorem of this kind, the comparator does not belong to it, an argument is not a
            positive number, or not exactly one of `margin` and `comparator` is given.
        """
        self._check_comparator(comparator)
        start, product = self._start_beside(comparator)
        return self._own_theorem().bound(
            diameter=diameter,
            radius=radius,
            margin=margin,
            comparator=comparator,
            start=start,
            product=product,
            largest_weight=largest_weight,
            share=self._largest_share(n_documents),
        )

    def _largest_share(self, n_documents: int | None) -> float:
        """Return the largest part of the weight of outranked documents that is lost, of queries of so many."""
        if n_documents is None:
            return 1.0
        measure = getattr(self, "measure", None)
        if measure is None:
            raise ValueError(
                f"{self.algorithm} learns no ranking measure: its bound is on mistakes; leave n_documents out"
            )
        return bounds.largest_share(measure, n_documents)

    def certificate(
        self,
        *,
        margin: float | None = None,
        comparator: AnyComparator | None = None,
        diameter: float | None = None,
        radius: float | None = None,
        n_documents: int | None = None,
    ) -> Certificate:
        """Return the bounds on the loss so far, beside its observed value.

        - a posteriori, an inequality of the proof: S ≤ |w| / (learning_rate margin), or with |w - w₁| in place of |w|
          if the learner started from weights w₁ that are not 0;
        - from the steps: the theorem with the longest step per weight moved in place of the diameter;
        - a priori: the theorem itself, if `diameter` or `radius` is given;
        - safe averaging: the loss of the rankings used, against those by the mean and by the current weights, for
          `ListwisePerceptron` with `average`.

        S, the weight moved in all rounds, is at least the cumulative loss of rankings by the current weights; the least
        of S and what the theorem says about that loss is `loss_bound`. The bounds apply to transformed features, and to
        settings that have not changed since learning began. If queries have weights, S, the losses and the longest step
        are weighted, and a comparator's loss must be. If shards were learned side by side (`perceptrank.distributed`),
        S and the losses of each count by its weight in the mixture, and so must a comparator's loss: Theorem D.

        Parameters
        ----------
        margin : float, optional
            Margin of the stream, or of any unit vector on it; give this or `comparator`.
        comparator : Comparator or (norm, loss), optional
            Norm and cumulative surrogate of some fixed ranker.
        diameter, radius : float, optional
            Those of the stream.
        n_documents : int, optional
            Most documents of a query, if known: `loss_bound` is then smaller.

        Returns
        -------
        Certificate

        Raises
        ------
        AttributeError
            If nothing was learned.
        ValueError
            If the learner has no theorem of this kind, the comparator does not belong to it, an argument is not a
            positive number, or not exactly one of `margin` and `comparator` is given.
        """
        self._check_comparator(comparator)
        share = self._largest_share(n_documents)
        state, promised, current_of = self._learned(), self._own_theorem().of_moved, self._own_theorem().of_current
        weights, tally = state.weights, state.tally
        rate = float(getattr(self, "learning_rate", 1.0))
        mass, norm = float(tally[MASS]), float(np.linalg.norm(weights))
        reach = float(np.sqrt(tally[LARGEST_REACH]))
        suffix = "/ margin²" if margin is not None else "as C in L + K/2 + √(K L + K²/4), K = U² C"
        if self._starts_somewhere():
            suffix = "as C in Theorem S"
        formula = f"{promised.formula} {suffix}"
        start, product = self._start_beside(comparator)
        given: Any = {"margin": margin, "comparator": comparator, "start": start, "product": product}
        steps = Promise("from the steps", formula, promised.bound(diameter=reach, radius=reach, **given), mass)
        lost = [mass, current_of.bound(diameter=reach, radius=reach, **given)]
        first = self._first_weights(state, len(weights))
        way, shown = (norm, "|w|") if first is None else (float(np.linalg.norm(weights - first)), "|w - w₁|")
        if comparator is None:
            bound = way / (rate * check_positive("margin", margin))
            promises = [Promise("a posteriori", f"{shown} / (rate margin)", bound, mass), steps]
        else:
            bound = comparator[1] + comparator[0] * way / rate
            promises = [Promise("a posteriori", f"L + U {shown} / rate", bound, mass), steps]
        weighted, largest = not state.has_equal_weights, float(tally[LARGEST_WEIGHT])
        if diameter is not None or radius is not None:
            given["largest_weight"] = largest if weighted else 1.0
            bound = promised.bound(diameter=diameter, radius=radius, **given)
            size = "R²" if promised.size == "radius" else "D²"
            shown = f"{formula}, {largest:g} {size} being {size}" if weighted else formula
            promises.append(Promise("a priori", shown, bound, mass))
            lost.append(current_of.bound(diameter=diameter, radius=radius, **given))
        mean, current, used = (float(tally[place]) for place in (MEAN_LOSS, CURRENT_LOSS, USED_LOSS))
        if self.theorem.extra:
            formula = "min(3 current + 2, (3 mean + 1) / 2)"
            if weighted:
                formula = f"min(3 current + {2 * largest:g}, 3/2 mean + {largest:g})"
            bound = bounds.safe_averaging(mean, current, largest_weight=largest if weighted else None)
            promises.append(Promise("safe averaging", formula, bound, used, "loss"))
        return Certificate(
            self.algorithm,
            int(tally[ROUNDS]),
            int(tally[UPDATES]),
            mass,
            float(tally[SQUARED_STEPS]),
            reach,
            norm,
            tuple(promises),
            bool(self.average),
            state.ranks_with,
            mean,
            current,
            used,
            int(tally[MIXINGS]),
            share * min(lost),
        )

    @abstractmethod
    def _starts_somewhere(self) -> bool:
        """Tell whether it starts from weights that were given."""

    @abstractmethod
    def _first_weights(self, state: Model, n_features: int) -> Floats | None:
        """Return the weights to start from, None if they are 0."""

    @abstractmethod
    def _given_norm(self) -> float:
        """Return the norm of the weights to start from, before features are known; raise if it depends on them."""

    def _start_beside(self, comparator: AnyComparator | None) -> tuple[float, float | None]:
        """Return the norm of the weights to start from, and their product with a comparator, per learning rate.

        The product is None if it is not known. Raises if a comparator does not satisfy the constraints.
        """
        state, ranker = self._model, comparator.ranker if isinstance(comparator, Comparator) else None
        if ranker is not None and state.has_begun and len(ranker) == state.n_features:
            check_signs("comparator", np.asarray(ranker), state.signs)
        if not self._starts_somewhere():
            return 0.0, None
        rate = float(getattr(self, "learning_rate", 1.0))
        first = self._first_weights(state, state.n_features) if state.has_begun else None
        if first is None:
            return self._given_norm() / rate, None
        product = float(first @ ranker) / rate if ranker is not None and len(ranker) == len(first) else None
        return float(np.linalg.norm(first)) / rate, product

    def _own_theorem(self) -> Theorem:
        if self.theorem.symbol is None:
            raise ValueError(f"{self.algorithm} has no theorem of this kind")
        return self.theorem

    def _check_comparator(self, comparator: AnyComparator | None) -> None:
        measure = getattr(self, "measure", None)
        self._own_theorem().check_comparator(comparator, None if measure is None else parse(measure))
