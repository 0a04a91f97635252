"""Errors of shards."""

from __future__ import annotations


class ShardError(RuntimeError):
    """A shard could not be learned: its number and data, the worker's address and the worker's message.

    The traceback on the worker is a note of the error. In a comparison it is about a learner in place of a shard.

    What was learned in the epochs before is in the ranker, and in the checkpoint if there is one.

    Attributes
    ----------
    shard : int
        Number of the shard.
    problem : str
        The message.
    """

    def __init__(self, shard: int, problem: str) -> None:
        super().__init__(shard, problem)
        self.shard, self.problem = shard, problem

    def __str__(self) -> str:
        return self.problem


class ClusterError(RuntimeError):
    """A cluster without workers, which will not get any.

    What was learned in the epochs before is in the ranker, and in the checkpoint if there is one.
    """
