"""The theorems of kernel perceptrons; docs/theory/ has the proofs."""

from __future__ import annotations

from dataclasses import KW_ONLY, replace

import numpy as np

from perceptrank.learners.kernel.supports import KernelModel
from perceptrank.learners.learner import Learner
from perceptrank.learners.tally import LARGEST_REACH
from perceptrank.measures import MeasureLike
from perceptrank.stream.validation import ParameterError, check_positive
from perceptrank.theory import bounds, theorems
from perceptrank.theory.guarantees import Certificate, Promise, certify, largest_share
from perceptrank.theory.theorem import AnyComparator, Theorem
from perceptrank.transforms.transform import TransformLike

# The largest distance of two images under a kernel with K(x, x) = 1 and K >= 0.
DIAMETER = float(np.sqrt(2.0))
_PAIR = 2


class KernelGuarantees(Learner):
    """The theorems of a kernel perceptron. All lengths are those of images in the space of the kernel."""

    measure: MeasureLike = "ndcg"
    _: KW_ONLY
    rule: str = "listwise"
    kernel: str = "gaussian"
    width: float | None = None
    relative_width: float = 0.5
    linear: float = 2.0
    degree: int = 2
    budget: int | None = 1000
    policy: str = "merge"
    decay: float = 2.0
    relative_margin: float | None = 1.0
    seed: int = 0
    average: bool = True
    transforms: TransformLike = "auto"

    def _kernel_state(self) -> KernelModel:
        state = self._model.require_learned()
        assert isinstance(state, KernelModel)
        return state

    @property
    def _margin(self) -> float:
        """The relative margin, which the minimax rule does not have."""
        return 0.0 if self.rule == "minimax" else float(self.relative_margin or 0.0)

    @property
    def _diameter(self) -> float | None:
        """The largest distance of two images, if it is known before anything is seen."""
        return None if self.linear or self.kernel == "polynomial" else DIAMETER

    @property
    def _decay(self) -> float:
        """The share of a unit that a removal forgets."""
        return float(self.decay) if self.policy == "bogd" else 1.0

    def _constant_of(self, state: KernelModel) -> float:
        """Return C = (1 + 2 ρ) D², D the largest distance of images; beside a linear part, of those so far."""
        seen = float(state.tally[LARGEST_REACH]) if self.linear else 0.0
        return (1 + 2 * self._margin) * max(DIAMETER**2, seen)

    @property
    def theorem(self) -> Theorem:
        if self.policy == "exact":
            promised = theorems.listwise(self._margin, "level-pair")
            return theorems.in_kernel_space(theorems.safe_averaging(promised) if self.average else promised)
        if self.policy == "merge" or (self.policy == "forgetron" and self.linear):
            promised = theorems.measured_budget()
        elif self.policy == "forgetron":
            promised = theorems.forgetron()
        else:
            promised = theorems.random_budget(decay=self._decay, beside_weights=bool(self.linear))
        if not self.average:
            return promised
        what, bound = promised.statement.split(" ≤ ")
        averaged = theorems.safe_averaging(promised)
        return replace(averaged, statement=f"{what} ≤ 3 ({bound}) + 2", assumption=promised.assumption)

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
        """Return the upper bound on the loss by the learner's theorem.

        A comparator is a pair of the norm of a function in the space of the kernel and its cumulative surrogate. The
        diameter is that of the images of documents, by default √2, its largest value for the Gaussian and the Laplacian
        kernel; give it, or the radius, for the polynomial kernel, or if there is a linear part. With a budget that
        removes, bounds are known beforehand for the minimax rule only. Of removals by chance they are on the expected
        loss; `bounds.random_budget` takes other rules. The Forgetron has one, without a linear part, for a budget of at
        least 166 and functions of small norm: `bounds.forgetron`. For merging, see `certificate`.
        """
        if largest_weight != 1.0:
            raise ParameterError("largest_weight", "must be 1: kernel takes no query weights", largest_weight)
        if diameter is None and radius is None:
            diameter = self._diameter
        if self.policy == "exact":
            return super().guarantee(
                diameter=diameter, radius=radius, margin=margin, comparator=comparator, n_documents=n_documents
            )
        if self.policy == "merge" or self.rule != "minimax" or (self.policy == "forgetron" and self.linear):
            raise ValueError(
                f"kernel with policy={self.policy!r} and rule={self.rule!r} has no theorem of this kind: its bound "
                "depends on the stream"
            )
        if diameter is None and radius is None:
            raise ValueError("give diameter or radius, whichever is known of the images of documents")
        diameter, n_units = diameter if diameter is not None else 2 * (radius or 0.0), (self.budget or 0) // _PAIR
        if self.policy == "forgetron":
            widest = max(diameter, DIAMETER)  # it spends by this diameter
            bound = bounds.forgetron(diameter=widest, n_units=n_units, margin=margin, comparator=comparator)
        else:
            bound = bounds.random_budget(
                diameter=diameter,
                n_units=n_units,
                relative_margin=0.0,
                decay=self._decay,
                beside_weights=bool(self.linear),
                margin=margin,
                comparator=comparator,
            )
        promised = self.theorem
        return promised.multiple * largest_share(self, n_documents) * bound + promised.extra

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

        Without a budget they are those of the linear learner, in the space of the kernel. With the Forgetron,
        S ≤ 2 L + C U² (1 + s / 2) + Q, with Q what it spent on removals and s the logarithm of how far it shrank. With
        merging, and with the Forgetron beside a linear part, S ≤ L + U (|f| + E), E the lengths that were lost. Of a
        budget that removes by chance, only the expected loss is bounded, and there is no certificate of one run.
        """
        self.theorem.check_comparator(comparator, None)
        state = self._kernel_state()
        if self.policy in ("random", "bogd"):
            raise ValueError(
                f"kernel with policy={self.policy!r} has a theorem about the expected loss only: there is no "
                "certificate of one run"
            )
        norm, mass, reach = self._norm(state), state.counts.mass, float(np.sqrt(state.tally[LARGEST_REACH]))
        if comparator is None:
            size, loss = 1 / check_positive("margin", margin), 0.0
        else:
            size, loss = comparator[0], comparator[1]
        if self.policy == "merge" or (self.policy == "forgetron" and self.linear):
            bound = loss + size * (norm + state.lost)
            promises = [Promise("a posteriori", "L + U (|f| + E)", bound, mass)]
        elif self.policy == "forgetron":
            bound = 2 * loss + self._constant_of(state) * size**2 * (1 + state.shrunk / 2) + state.spent
            promises = [Promise("from what it spent", "2 L + C U² (1 + s / 2) + Q", bound, mass)]
        else:
            promised, against = self.theorem.of_current, (size, loss)
            formula = f"{promised.formula} as C in L + K/2 + √(K L + K²/4), K = U² C"
            bound = promised.bound(diameter=reach, comparator=against)
            promises = [Promise("a posteriori", "L + U |f|", loss + size * norm, mass)]
            promises.append(Promise("from the steps", formula, bound, mass))
            if diameter is None and radius is None:
                diameter = self._diameter
            if diameter is not None or radius is not None:
                bound = promised.bound(diameter=diameter, radius=radius, comparator=against)
                promises.append(Promise("a priori", formula, bound, mass))
        lost = largest_share(self, n_documents) * min(mass, *(promise.bound for promise in promises))
        return certify(self, norm, promises, lost, is_safe=self.average)

    def _norm(self, state: KernelModel) -> float:
        """Return the norm of the current function, in time quadratic in the number of supports."""
        supports, squared = state.supports, 0.0
        for start in range(0, len(supports), 256):
            rows = slice(start, start + 256)
            around = state.values(supports.X[rows], supports.norms[rows], supports.X, supports.norms)
            squared += float(supports.coefficients[rows] @ (around @ supports.coefficients))
        if self.linear and state.width > 0.0:
            squared += float(state.weights @ state.weights) / state.linear_part
        return float(np.sqrt(max(0.0, squared)))
