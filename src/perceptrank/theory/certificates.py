"""What a learner's theorem promises for what it has learned so far, and what happened."""

from dataclasses import dataclass

_ROUNDING = 1 + 1e-6


@dataclass(frozen=True)
class Promise:
    """One inequality: what happened is at most the bound."""

    name: str
    formula: str
    bound: float
    happened: float

    @property
    def holds(self) -> bool:
        """Whether it is kept, but for rounding."""
        return self.happened <= self.bound * _ROUNDING

    @property
    def used(self) -> float:
        """The part of the bound that was used up."""
        return self.happened / self.bound if self.bound > 0 else 0.0 if self.happened == 0 else float("inf")


@dataclass(frozen=True)
class Certificate:
    """A learner's tally, and the promises that follow from it.

    `mass` is S, the sum of the weights moved in all rounds, which the theorems bound: it is at least the cumulative
    loss of the rankings by the current weights (for Algorithms 1 and 3, the number of mistakes). `squared_steps` is the
    sum of squared lengths of all steps, before the learning rate; `reach` the longest step per weight moved, at most
    the stream's diameter; `norm` the length of the current weights. If the learner ranks with the mean of its weights,
    `is_averaged`, the promises are not about the rankings that it shows.
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

    @property
    def holds(self) -> bool:
        """Whether all promises are kept."""
        return all(one.holds for one in self.promises)

    def __str__(self) -> str:
        lines = [
            f"{self.algorithm}: {self.updates:,} updates in {self.rounds:,} rounds, S = {self.mass:.6g}, |w| = "
            f"{self.norm:.6g}"
        ]
        for one in self.promises:
            verdict = f"{one.used:.1%} used" if one.holds else "BROKEN"
            lines.append(f"  {one.name:<14} S <= {one.formula} = {one.bound:.6g}: {verdict}")
        if self.is_averaged:
            lines.append("  This learner ranks with the mean of its weights; the promises are about the current ones.")
        return "\n".join(lines)
