"""The base of learners whose rule is compiled."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import Any, ClassVar

import numpy as np

from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.kernels.scratch import Scratch, borrow_scratch
from perceptrank.learners.learner import Learner
from perceptrank.learners.model import Model
from perceptrank.learners.tally import ListSettings, SparseIterates
from perceptrank.measures.gains import discounts
from perceptrank.stream.sparse import AnyFeatures, SparseFeatures
from perceptrank.stream.validation import check_positive
from perceptrank.transforms.transform import TransformLike


class CompiledLearner(Learner):
    """A learner that hands blocks of queries to a compiled pass.

    A subclass names its pass and the rows of scratch that it uses, and says with which settings it is called. See
    docs/learners/your-own.md for a complete one.

    Attributes
    ----------
    kernel : compiled function
        `kernel(settings, block, state, record, scratch)`, with the arrays of `extra_state`, if any, as a tuple before
        `record`; returns how many queries were learned before an invalid value.
    accepts_sparse : bool
        True if its pass reads features by `open_query` and `close_query` alone: it then takes sparse ones as well.
    accepts_query_weights : bool
        True if its pass closes each query by `close_query`: weights of queries then scale its steps.
    rows : (int, int, int)
        How many rows of floats, of integers (one place per document, and two over) and of vectors (one place per
        feature) the pass uses.
    """

    cost: ClassVar[str] = "that of its pass"
    kernel: ClassVar[Callable[..., int]]
    rows: ClassVar[tuple[int, int, int]]

    _: KW_ONLY
    average: bool = False
    transforms: TransformLike = None

    @abstractmethod
    def _make_settings(self) -> tuple[Any, ...]:
        """Return the settings as the pass takes them, a tuple of plain numbers; raise if one is invalid."""

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._settings: tuple[Any, ...] = self._make_settings()

    def _kernel(self) -> tuple[Callable[..., int], tuple[int, int, int]]:
        """Return the pass and its rows of scratch, for the settings at hand."""
        return type(self).kernel, self.rows

    def _pass(
        self, state: Model, X: AnyFeatures, relevance: Floats, offsets: Ints, predicted: Floats, masses: Floats
    ) -> int:
        kernel, rows = self._kernel()
        longest = len(relevance) if len(offsets) == 2 else int(np.diff(offsets).max())
        core: Any
        if isinstance(X, SparseFeatures):
            core, scratch = _sparse_arguments(state, X, offsets, longest, rows)
            block: Any = X.arrays, relevance, offsets, discounts(longest)
        else:
            core, scratch = state.core, borrow_scratch(longest, X.shape[1], *rows)
            block = X, relevance, offsets, discounts(longest)
        if extra := self._extra(state, longest):
            return kernel(self._settings, block, core, extra, (predicted, masses), scratch)
        return kernel(self._settings, block, core, (predicted, masses), scratch)

    def _extra(self, state: Model, longest: int) -> tuple[Any, ...]:
        """Return the arrays that only this learner's pass takes, those of `extra_state` in their order first."""
        shared = {"squares", "faded"}  # which every pass has, in the squares and the tally of its state
        return tuple(values for name, values in state.more.items() if name not in shared) if state.more else ()


def list_settings(
    learner: Any, *settings: Any, margin: float = 0.0, relative_margin: float = 0.0, binary: bool = False
) -> ListSettings:
    """Return the settings of a learner as the pass of a list-wise rule takes them; `settings` are the rule's own."""
    rate = check_positive("learning_rate", learner.learning_rate)
    return (bool(learner.average), rate, margin, relative_margin, binary), settings


def _sparse_arguments(
    state: Model, X: SparseFeatures, offsets: Ints, longest: int, rows: tuple[int, int, int]
) -> tuple[SparseIterates, Scratch]:
    """Return the state as a pass over sparse features takes it, with its scratch."""
    tally, squares = state.core[2], state.core[3]
    floats, ints, _ = borrow_scratch(longest, 1, *rows)
    # AdaGrad makes a step in zeros, which are given out again as they are needed.
    vectors = np.zeros((rows[2], X.n_features if len(squares) else 1))
    most = max(longest, int(np.diff(X.starts[offsets]).max()))
    room = np.empty(most if len(squares) else 0, np.int64), np.empty(most)
    iterates = state.table, room, tally, squares
    return (*iterates, state.signs) if len(state.signs) else iterates, (floats, ints, vectors)
