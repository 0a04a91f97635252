"""Learners that take judged documents or pairs one after the other, and carry more than weights."""

from typing import ClassVar

from perceptrank.learners.base import Learner
from perceptrank.stream.memory import free_memory


class SequentialLearner(Learner):
    """A learner whose pass may stop in the middle of a query; then everything is put back."""

    _by_blocks: ClassVar[bool] = True


def check_room(what: str, n_numbers: int) -> None:
    """Raise if so many float64 numbers, and a copy to go back to, do not fit into memory."""
    needed, free = min(16 * n_numbers, 10**300), free_memory()
    if needed > free:
        raise MemoryError(f"{what} takes {1e-9 * needed:.1f} GB of memory, and {1e-9 * free:.1f} GB are free")
