"""The kernel perceptron: the rules of the linear learners with a function of a kernel, on a memory budget."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from perceptrank.kernels.arrays import FloatRows, Floats, Ints
from perceptrank.kernels.scratch import borrow_scratch
from perceptrank.learners.kernel.guarantees import KernelGuarantees
from perceptrank.learners.kernel.policies import SPENDING, forget_oldest, make_room_by_chance, merge_into_nearest
from perceptrank.learners.kernel.rules import ROWS, RULES
from perceptrank.learners.kernel.supports import KernelModel
from perceptrank.learners.kernel.values import KERNELS
from perceptrank.learners.listwise import safe_averaging
from perceptrank.learners.listwise.safe_averaging import safe_pass
from perceptrank.learners.model import Model, fixed_copy
from perceptrank.learners.tally import (
    LARGEST_REACH,
    LARGEST_SQUARED_NORM,
    LARGEST_WEIGHT,
    MASS,
    ROUND_WEIGHT,
    ROUNDS,
    SQUARED_REACH,
    SQUARED_STEPS,
    UPDATE_WEIGHT,
    UPDATES,
)
from perceptrank.measures.gains import discounts
from perceptrank.stream.memory import check_room
from perceptrank.stream.validation import (
    ParameterError,
    as_number,
    check_choice,
    check_not_negative,
    check_positive,
    check_positive_whole,
    check_seed,
    is_whole,
    read_only,
)
from perceptrank.theory.surrogates import weighing_of

POLICIES = ("exact", "random", "forgetron", "bogd", "merge")
SMALLEST_BUDGET = 2  # a pair of documents
SMALLEST_WIDTH, LARGEST_WIDTH = 1e-100, 1e100  # whose squares, and theirs, are numbers
_DOCUMENTS_OF_WIDTH = 100
_LARGEST_DEGREE = 16
_LARGEST_PART = 1e6  # of the linear part: beyond, the kernel would be lost in rounding


class KernelPerceptron(KernelGuarantees):
    """Rank by f(x) = w . x + the sum of c_s K(x_s, x) over documents x_s of past queries, by the rule of a perceptron.

    Each query that the rule updates on adds its documents with a non-zero coefficient as supports, with their
    coefficients: f moves as the weights of the linear learner of that rule do, in the space of the kernel, and the
    theorems about those hold there. The kernel is K(x, y) + linear x . y / width², where K is one of

    - "gaussian": exp(-|x - y|² / (2 width²));
    - "laplacian": exp(-|x - y| / width), with the Euclidean distance;
    - "polynomial": (1 + x . y / width²)^degree.

    The linear part of f is a vector w of weights. It needs no supports, and nothing of it is ever removed.

    A budget is a number of supports, which is never exceeded. The documents that one query adds are a unit. When there
    is no room for another,

    - "merge": supports stay, and the image of each new document is projected onto that of the nearest one: its
      coefficient, times their value of K, is added to that one's.

    With the other policies older units go, as a whole:

    - "exact": none goes, and there is no budget;
    - "random": as many units as needed, each drawn from all with the same chance (the randomised budget perceptron);
    - "forgetron": the oldest, after all coefficients have shrunk as far as the proof needs (the self-tuned Forgetron);
    - "bogd": as "random", and the coefficients of the k units from which one went are multiplied by
      (k - decay) / (k - 1), or 0 if that is negative (bounded online gradient descent: the removal is unbiased, the
      decay is decay / k).

    A query with more documents to add than the whole budget adds its most violated pair instead, with the same weight.
    A query takes the time of one product of matrices, documents by supports.

    Parameters
    ----------
    rule : "listwise", "slam", or "minimax"
        The rule of `ListwisePerceptron`, of `SlamPerceptron` with a relative margin, or of `MinimaxPerceptron`, which
        has no margin and adds two supports an update.
    kernel : "gaussian", "laplacian", or "polynomial"
        The kernel.
    width : float or None
        Width of the kernel. By default `relative_width` times the median of the distances, other than 0, between up to
        100 documents of the first query with an update.
    relative_width : float > 0
        The width in units of that median.
    linear : float ≥ 0
        Weight of the linear part; 0 for none, so that a function is made of supports alone.
    degree : int
        Degree of the polynomial kernel.
    budget : int or None
        Largest number of supports; None with the policy "exact".
    policy : "merge", "forgetron", "random", "bogd", or "exact"
        What happens when there are too many. "merge" ranks best where documents of later queries are like those of the
        first ones; the others forget old ones.
    decay : float ≥ 1
        Of "bogd": how much is forgotten when a unit goes, in shares of a unit.
    relative_margin : float or None
        The margin in units of the mean squared step per weight moved, in the space of the kernel; 0 or None for none.
    average : bool
        Rank with the mean of all iterates, as far as supports are left, while it is safe, as `ListwisePerceptron`
        does. Where units go by chance, the last one is better: those that happen to stay would count for too much.

    References
    ----------
    - G. Cavallanti, N. Cesa-Bianchi and C. Gentile, "Tracking the Best Hyperplane with a Simple Budget Perceptron".
    - O. Dekel, S. Shalev-Shwartz and Y. Singer, "The Forgetron: A Kernel-Based Perceptron on a Budget".
    - P. Zhao, J. Wang, P. Wu, R. Jin and S. C. H. Hoi, "Fast Bounded Online Gradient Descent Algorithms for Scalable
      Kernel-Based Online Learning".

    Examples
    --------
    >>> ranker = KernelPerceptron(rule="minimax", linear=0, relative_width=1, transforms=None)
    >>> for x in ([[1.0, 0.0], [0.0, 0.0]], [[-1.0, 0.0], [0.0, 0.0]]):
    ...     ranker.learn_one(x, [1, 0])  # the first feature should be far from 0
    True
    True
    >>> ranker.rank([[0.1, 0.0], [-2.0, 0.0], [2.0, 0.0]]), ranker.n_supports
    (array([2, 1, 0]), 4)
    """

    algorithm = "kernel"
    model_class = KernelModel
    without_query_weights = "its bounds count the updates that a budget keeps"
    cost = "m B d + m (log m + g)"
    depends_on_rate = False
    fixed = ("rule", "kernel", "width", "relative_width", "linear", "degree", "budget", "policy", "decay")

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("rule", self.rule, RULES)
        check_choice("kernel", self.kernel, KERNELS)
        check_choice("policy", self.policy, POLICIES)
        if self.width is not None and not SMALLEST_WIDTH <= as_number(self.width) <= LARGEST_WIDTH:
            rule = f"must be a number from {SMALLEST_WIDTH:g} to {LARGEST_WIDTH:g}, or None"
            raise ParameterError("width", rule, self.width)
        check_positive("relative_width", self.relative_width)
        if check_not_negative("linear", self.linear) > _LARGEST_PART:
            raise ParameterError("linear", f"must be at most {_LARGEST_PART:g}", self.linear)
        if check_positive_whole("degree", self.degree) > _LARGEST_DEGREE:
            raise ParameterError("degree", f"must be at most {_LARGEST_DEGREE}", self.degree)
        if self.policy == "exact" and self.budget is not None:
            raise ParameterError("budget", 'must be None with policy="exact", which keeps all supports', self.budget)
        if self.policy != "exact" and not (is_whole(self.budget) and (self.budget or 0) >= SMALLEST_BUDGET):
            rule = f'must be a whole number >= {SMALLEST_BUDGET}, a pair; policy="exact" is the one without a budget'
            raise ParameterError("budget", rule, self.budget)
        if self.policy == "forgetron" and self.kernel == "polynomial":
            rule = 'must not be "forgetron" with kernel="polynomial", whose values are unbounded'
            raise ParameterError("policy", rule, self.policy)
        if check_positive("decay", self.decay) < 1:
            rule = "must be at least 1, so that coefficients do not grow without end"
            raise ParameterError("decay", rule, self.decay)
        if self.relative_margin is not None:
            check_not_negative("relative_margin", self.relative_margin)
        check_seed(self.seed)
        self._weighing = weighing_of(self.measure)

    def _configured(self, model: Model | None = None) -> Model:
        model = super()._configured(model)
        assert isinstance(model, KernelModel)
        model.kernel, model.degree, model.linear = self.kernel, int(self.degree), float(self.linear)
        return model

    def extra_state(self, n_features: int) -> dict[str, Floats]:
        check_room(f"a budget of {self.budget} supports", (self.budget or 0) * (n_features + 3))
        return {}

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Self:
        learner = super().from_document(document)
        if learner.model.has_begun:
            learner._check_supports(learner._kernel_state())
        return learner

    def _check_supports(self, state: KernelModel) -> None:
        if self.budget is not None and len(state.supports) > self.budget:
            raise ValueError(f"there are {len(state.supports)} supports, more than the budget of {self.budget}")
        if not self.linear and (state.weights.any() or state.total.any()):
            raise ValueError("weights must be 0 with linear=0")
        if state.width and not SMALLEST_WIDTH <= state.width <= LARGEST_WIDTH:
            raise ValueError(f"width must be from {SMALLEST_WIDTH:g} to {LARGEST_WIDTH:g}, got {state.width}")
        if state.width == 0.0 and (state.weights.any() or state.center.any()):
            raise ValueError("weights and center must be 0 while there is no width")
        if len(state.supports.products) != (state.supports.n_units if self.policy == "forgetron" else 0):
            raise ValueError('products must be there for each pair of units with policy="forgetron", and only then')
        if self.policy == "forgetron" and state.spent > SPENDING * float(state.tally[MASS]) * (1 + 1e-9) + 1e-9:
            raise ValueError(f"spent must be at most {SPENDING} of the mass, got {state.spent}")

    # Learning

    def _pass(
        self, state: Model, X: FloatRows, relevance: Floats, offsets: Ints, predicted: Floats, masses: Floats
    ) -> int:
        assert isinstance(state, KernelModel)
        n, n_documents, largest = len(offsets) - 1, len(relevance), float(state.tally[LARGEST_WEIGHT])
        longest = n_documents if n == 1 else int(np.diff(offsets).max())
        scores, room = np.zeros(2 * n_documents), np.empty(0)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            for q in range(n):
                rows = slice(offsets[q], offsets[q + 1])
                here = slice(n_documents + offsets[q], n_documents + offsets[q + 1])
                needed = longest * len(state.supports)
                room = room if room.size >= needed else np.empty(max(needed, longest * (self.budget or 0)))
                if not self._learn_round(
                    state, X[rows], relevance[rows], longest, scores[rows], scores[here], masses, q, room
                ):
                    return q
        if not self.average:
            predicted[:] = scores[n_documents:]
            return n
        floats, ints, _ = borrow_scratch(longest, 0, *safe_averaging.ROWS, 0)
        block = relevance, offsets, discounts(longest)
        safe_pass(self._weighing[:3], block, np.ones(n), largest, scores, state.tally, predicted, floats, ints)
        return n

    def _learn_round(
        self,
        state: KernelModel,
        X: FloatRows,
        relevance: Floats,
        longest: int,
        by_mean: Floats,
        by_current: Floats,
        masses: Floats,
        q: int,
        room: Floats,
    ) -> bool:
        """Score a query and learn from it; return whether all numbers were valid."""
        X, norms = state.placed(X)
        if not (norms <= LARGEST_SQUARED_NORM).all():
            return False
        supports = state.supports
        out = room[: len(X) * len(supports)].reshape(len(X), len(supports))
        values = state.values(X, norms, supports.X, supports.norms, out)
        if not state.score(X, values, by_current, by_mean):
            return False
        floats, ints, _ = borrow_scratch(longest, 0, ROWS[0] + 2, ROWS[1], 0)
        m, tally = len(relevance), state.tally
        coefficients, pair = floats[ROWS[0], :m], floats[ROWS[0] + 1, :m]
        margin = self._margin * tally[SQUARED_REACH] / tally[UPDATES] if tally[UPDATES] > 0 else 0.0
        settings = (True, self._weighing) if self.rule == "slam" else self._weighing
        margins = float(margin), float(margin) if self.rule == "listwise" else 0.0
        judged = by_current, relevance, discounts(longest)
        mass = float(RULES[self.rule](settings, self._weighing[0], *margins, *judged, coefficients, pair, floats, ints))
        if mass < 0.0:
            return False
        if mass > 0.0 and not self._update(state, X, norms, values, relevance, mass, coefficients, pair):
            return False
        tally[ROUNDS] += 1.0
        tally[ROUND_WEIGHT] += 1.0
        tally[LARGEST_WEIGHT] = 1.0
        masses[q] = mass
        state.supports.count_round()
        if self.linear:
            state.total[:] += state.weights
        return True

    def _update(
        self,
        state: KernelModel,
        X: FloatRows,
        norms: Floats,
        values: FloatRows,
        relevance: Floats,
        mass: float,
        coefficients: Floats,
        pair: Floats,
    ) -> bool:
        """Add the documents that a rule moves, remove others if they are too many; `values` are those of scoring."""
        tally, supports, budget = state.tally, state.supports, self.budget or 0
        if state.width == 0.0:
            X, norms = self._find_width(state, X, norms)
        moved = np.flatnonzero(coefficients)
        if budget and len(moved) > budget:
            coefficients = pair
            moved = np.flatnonzero(coefficients)
        X, norms, shares = X[moved], norms[moved], -coefficients[moved] / mass
        reach = inner = 0.0  # squared lengths per weight moved, the second without the linear part
        if state.width > 0.0:
            reach = inner = max(0.0, float(shares @ (state.values(X, norms, X, norms) @ shares)))
            if self.linear:
                step, part = shares @ X, state.linear_part
                reach += part * float(step @ step)
                state.weights[:] += (part * mass) * step
                if not float(state.weights @ state.weights) <= LARGEST_SQUARED_NORM:
                    return False
        if not reach <= LARGEST_SQUARED_NORM:
            return False
        tally[UPDATES] += 1.0
        tally[UPDATE_WEIGHT] += 1.0
        tally[MASS] += mass
        tally[SQUARED_REACH] += reach
        tally[SQUARED_STEPS] += reach * mass * mass
        tally[LARGEST_REACH] = max(tally[LARGEST_REACH], reach)
        if state.width == 0.0:  # all documents are the same, and the step is 0
            return True
        added = shares * mass
        if self.policy == "merge" and len(supports) + len(moved) > budget:
            lengths = None
            if self.kernel == "polynomial":  # of the images; of other kernels, they are 1
                lengths = (1.0 + supports.norms / state.width / state.width) ** int(self.degree)
            merge_into_nearest(state, moved, values, lengths, added, inner * mass * mass)
        elif self.policy == "forgetron":
            # The proof counts a pair once for each grade between its documents.
            grades = relevance > 0 if self._weighing[0] else relevance
            lower = np.unique(grades, return_inverse=True)[1][moved]
            worth, own = (float(added @ lower) if self.rule == "listwise" else mass), inner * mass * mass
            beside = supports.sums_by_unit((-coefficients @ values) * supports.coefficients)
            n_before = supports.n_units
            factor = forget_oldest(state, len(moved), beside, own, budget, self._constant_of(state))
            supports.add(X, norms, factor * added, worth, factor, budget)
            kept = beside[n_before - supports.n_units + 1 :]
            supports.add_products(factor**2 * kept, factor**2 * own)
        else:
            if self.policy in ("random", "bogd"):
                make_room_by_chance(state, len(moved), budget, int(self.seed), self._decay)
            supports.add(X, norms, added, mass, 1.0, budget)
        assert not budget or len(supports) <= budget
        return True

    def _find_width(self, state: KernelModel, X: FloatRows, norms: Floats) -> tuple[FloatRows, Floats]:
        """Set width and center by the first query with an update; return its documents as they are then placed."""
        if self.kernel != "polynomial":
            state.center = X[0].copy()
            X, norms = state.placed(X)
        if not (X[0] != X).any():
            state.center = np.zeros(X.shape[1])
            return X, norms
        width = float(self.width or 0.0)
        if self.width is None:
            apart = _distances(X[:_DOCUMENTS_OF_WIDTH])
            if not apart.any():  # the first ones are all the same
                apart = np.linalg.norm(X - X[0], axis=1)
            width = float(self.relative_width * np.median(apart[apart > 0.0])) if apart.any() else 0.0
        if not SMALLEST_WIDTH <= width <= LARGEST_WIDTH:
            raise ValueError(
                f"relative_width times the median distance of documents, {width:g}, cannot be the width of a kernel: "
                f"it must be from {SMALLEST_WIDTH:g} to {LARGEST_WIDTH:g}; scale the features, for "
                "example with `transforms='running'`"
            )
        state.width = width
        return X, norms

    # The learned state

    @property
    def ranks_with(self) -> str:
        """The function that ranks the next query: "mean" or "current"; "current" without `average`."""
        return self._model.require_learned().ranks_with

    @property
    def supports_(self) -> FloatRows:
        """The supports, transformed documents, the oldest first; read-only."""
        state = self._kernel_state()
        return read_only(state.supports.X + state.center)

    @property
    def dual_coef_(self) -> Floats:
        """The coefficients of the supports in the function that ranks, read-only."""
        state = self._kernel_state()
        mean = state.ranks_with == "mean"
        return fixed_copy(state.supports.totals / state.tally[ROUNDS] if mean else state.supports.coefficients)

    @property
    def linear_coef_(self) -> Floats:
        """The weights of transformed features in the linear part of the function that ranks, read-only."""
        state = self._kernel_state()
        return fixed_copy(state.mean() if state.ranks_with == "mean" else state.weights)

    @property
    def grows(self) -> bool:
        """True without a budget: every update adds supports."""
        return self.policy == "exact"

    @property
    def n_supports(self) -> int:
        """Number of supports, never more than the budget."""
        return len(self._kernel_state().supports) if self._model.has_begun else 0

    @property
    def n_units(self) -> int:
        """Number of queries the supports come from."""
        return self._kernel_state().supports.n_units if self._model.has_begun else 0

    @property
    def width_(self) -> float | None:
        """The width of the kernel, None while it is not known."""
        return self._kernel_state().width or None

    @property
    def weights(self) -> Floats:
        """Unavailable: a kernel perceptron has no weight vector."""
        return self._model.require_learned().coefficients


def _distances(X: FloatRows) -> Floats:
    """Return the Euclidean distances of all pairs of rows, in the order of the first row, then of the second."""
    parts = []
    with np.errstate(over="ignore", invalid="ignore"):
        for i in range(len(X) - 1):
            gaps = X[i + 1 :] - X[i]
            # Division by a power of 2 changes no bit, but keeps the squares of very small gaps.
            power = np.minimum(np.frexp(np.abs(gaps).max(axis=1))[1], 0)
            lengths = np.sqrt(np.square(np.ldexp(gaps, -power[:, None])).sum(axis=1))
            parts.append(np.ldexp(lengths, power))
    return np.concatenate(parts) if parts else np.zeros(0)
