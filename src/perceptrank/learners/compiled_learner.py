"""The base of learners whose rule is compiled."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import KW_ONLY
from typing import Any, ClassVar

import numpy as np

from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.kernels.scratch import Scratch, borrow_scratch
from perceptrank.learners.learner import Learner
from perceptrank.learners.model import Model
from perceptrank.learners.rounds import Pass
from perceptrank.learners.tally import ListSettings, SparseIterates
from perceptrank.measures.gains import discounts
from perceptrank.stream.sparse import AnyFeatures, SparseFeatures
from perceptrank.stream.validation import check_positive
from perceptrank.transforms.transform import TransformLike

_SHARED = {"squares", "faded"}  # arrays that every pass has, in the squares and the tally of its state


class CompiledLearner(Learner):
    """A learner that hands blocks of queries to a compiled pass.

    A subclass names its pass, and says with which settings it is called: see docs/learners/your-own.md.

    Attributes
    ----------
    kernel : Pass
        What `list_pass` returns; or a compiled function `function(settings, block, state, record, scratch)`, with the
        arrays of `extra_state`, if any, as a tuple before `record`, that returns how many queries were learned before
        an invalid value; and the rows of scratch that it takes.
    accepts_sparse : bool
        True if its pass reads features by `open_query` and `close_query` alone: it then takes sparse ones as well.
    accepts_query_weights : bool
        True if its pass closes each query by `close_query`: query weights then scale its steps.
    """

    cost: ClassVar[str] = "that of its pass"
    kernel: ClassVar[Pass]

    _: KW_ONLY
    average: bool = False
    transforms: TransformLike = None

    @abstractmethod
    def _make_settings(self) -> tuple[Any, ...]:
        """Return the settings as the pass takes them, a tuple of plain numbers; raise if one is invalid."""

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._settings: tuple[Any, ...] = self._make_settings()

    def _pass(
        self, state: Model, X: AnyFeatures, relevance: Floats, offsets: Ints, predicted: Floats, masses: Floats
    ) -> int:
        function, rows, spare = self.kernel
        longest = len(relevance) if len(offsets) == 2 else int(np.diff(offsets).max())
        core: Any
        if isinstance(X, SparseFeatures):
            core, scratch = _sparse_arguments(state, X, offsets, longest, rows)
            block: Any = X.arrays, relevance, offsets, discounts(longest)
        else:
            core, scratch = state.core, borrow_scratch(longest, X.shape[1], *rows)
            block = X, relevance, offsets, discounts(longest)
        extra = tuple(values for name, values in state.more.items() if name not in _SHARED) if state.more else ()
        if not extra:
            return function(self._settings, block, core, (predicted, masses), scratch)
        extra += spare(longest) if spare else ()
        return function(self._settings, block, core, extra, (predicted, masses), scratch)


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
