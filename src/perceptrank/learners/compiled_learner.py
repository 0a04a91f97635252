"""The base of learners whose rule is compiled."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from perceptrank.kernels.arrays import Features, Floats, Ints
from perceptrank.kernels.scratch import borrow_scratch
from perceptrank.learners.learner import Learner
from perceptrank.learners.state import State
from perceptrank.measures.discounts import discounts
from perceptrank.stream.memory import free_memory


class CompiledLearner(Learner):
    """A learner that hands blocks of queries to a compiled pass.

    A subclass names its pass and the rows of scratch that it uses, and says with which settings it is called. See
    docs/learners.md for a complete one.

    Attributes
    ----------
    kernel : compiled function
        `kernel(rule, block, state, record, scratch)`, or with the arrays of `extra_state` as a tuple before `record`
        if there are any; returns how many queries were learned before an invalid value.
    rows : (int, int, int)
        How many rows of floats, of integers (one place per document, and two over) and of vectors (one place per
        feature) the pass uses.
    """

    cost: ClassVar[str] = "that of its pass"
    kernel: ClassVar[Callable[..., int]]
    rows: ClassVar[tuple[int, int, int]]

    _rule: tuple[Any, ...]

    @abstractmethod
    def _make_rule(self) -> tuple[Any, ...]:
        """Return the settings as the pass takes them, a tuple of plain numbers; raise if one is invalid."""

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._rule = self._make_rule()

    def _kernel(self) -> tuple[Callable[..., int], tuple[int, int, int]]:
        """Return the pass and its rows of scratch, for the settings at hand."""
        return type(self).kernel, self.rows

    def _pass(
        self, state: State, X: Features, relevance: Floats, offsets: Ints, predicted: Floats, masses: Floats
    ) -> int:
        kernel, rows = self._kernel()
        longest = len(relevance) if len(offsets) == 2 else int(np.diff(offsets).max())
        block = X, relevance, offsets, discounts(longest)
        scratch = borrow_scratch(longest, X.shape[1], *rows)
        if extra := self._extra(state, longest):
            return kernel(self._rule, block, state.core, extra, (predicted, masses), scratch)
        return kernel(self._rule, block, state.core, (predicted, masses), scratch)

    def _extra(self, state: State, longest: int) -> tuple[Any, ...]:
        """Return the arrays that only this learner's pass takes, those of `extra_state` in their order first."""
        return tuple(values for name, values in state.more.items() if name != "squares") if state.more else ()


def check_room(what: str, n_numbers: int) -> None:
    """Raise if so many float64 numbers, and a copy to go back to, do not fit into memory."""
    needed, free = min(16 * n_numbers, 10**300), free_memory()
    if needed > free:
        raise MemoryError(f"{what} takes {1e-9 * needed:.1f} GB of memory, and {1e-9 * free:.1f} GB are free")
