"""Certificates: the bounds of a learner's theorem beside the observed values."""

from __future__ import annotations

from dataclasses import dataclass

_ROUNDING = 1 + 1e-6


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
        S, the sum of the weights moved in all rounds, which the theorems bound. It is at least the cumulative loss of
        the rankings by the current weights; for Algorithms 1 and 3, it is the number of mistakes.
    squared_steps : float
        Sum of squared lengths of all steps, before the learning rate.
    reach : float
        The longest step per weight moved, at most the stream's diameter.
    norm : float
        Norm of the current weights.
    promises : tuple of Promise
        The inequalities.
    is_averaged : bool
        True if the learner ranks with the mean of its weights, to which the inequalities about S do not apply.
    ranks_with : either "mean" or "current"
        The weights that rank the next query.
    mean_loss, current_loss, used_loss : float
        Cumulative losses, by the learner's measure, of rankings by the mean of all iterates, by the current weights,
        and by the one of them that ranked, of a learner that chooses between them (safe averaging); else 0.
    mixings : int
        How often weights that shards had learned side by side were mixed. S and the losses then count each shard by its
        weight in the mixture, and the inequalities are those of Theorem D.
    loss_bound : float
        What rankings by the current weights have lost at most, in the measure that is learned: S, or what the theorem
        says about that loss if it is less.

    Examples
    --------
    >>> import perceptrank as pr
    >>> made = pr.separable(500, margin=0.1, seed=0)
    >>> ranker = pr.MinimaxPerceptron()
    >>> trace = ranker.learn(made.stream)
    >>> certificate = ranker.certificate(margin=made.margin, diameter=pr.theory.diameter(made.stream))
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
        return all(one.holds for one in self.promises)

    def __str__(self) -> str:
        lines = [
            f"{self.algorithm}: {self.updates:,} updates in {self.rounds:,} rounds, S = {self.mass:.6g}, |w| = "
            f"{self.norm:.6g}"
        ]
        for one in self.promises:
            verdict = f"{one.used:.1%} used" if one.holds else "BROKEN"
            lines.append(f"  {one.name:<14} {one.quantity} <= {one.formula} = {one.bound:.6g}: {verdict}")
        if self.loss_bound < self.mass:
            lines.append(f"  Rankings by the current weights lost at most {self.loss_bound:.6g}.")
        if any(one.quantity == "loss" for one in self.promises):
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
