"""Theorems as values: a learner's guarantee in words, in symbols and as a number.

With a constant C that depends on the learner and the stream, and K = U² C, a learner loses at most L + K / 2 +
√(K L + K² / 4) against every ranker of norm U whose cumulative surrogate is L. On a stream that a unit vector ranks
with margin γ, that vector / γ has L = 0, which leaves C / γ². If the margin counts only for documents that are not
outranked, the bound is smaller: Theorem A', `largest_lost`.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from perceptrank.kernels.arrays import Floats
from perceptrank.measures import Measure
from perceptrank.stream.validation import check_choice, check_not_negative, check_positive

SURROGATES = ("slam", "max-pair", "level-pair")  # of any ranker, none is larger than the next


class Comparator(NamedTuple):
    """A fixed ranker that a learner is compared with.

    Attributes
    ----------
    norm : float
        Its norm U.
    loss : float
        Its cumulative surrogate L.
    ranker : array or None
        Its weights.
    excess : float or None
        Upper bound of the distance of its objective from the minimum.
    surrogate : str or None
        The surrogate that L is the sum of.
    measure : Measure or None
        The measure that defines grades and weights in L.
    """

    norm: float
    loss: float
    ranker: "Floats | None" = None
    excess: float | None = None
    surrogate: str | None = None
    measure: Measure | None = None


AnyComparator = Comparator | tuple[float, float]


@dataclass(frozen=True)
class Theorem:
    """A statement about a learner, and the constant C of its bound if it has one.

    Attributes
    ----------
    statement : str
        The guarantee in symbols, as tables show it.
    symbol : str or None
        C in symbols; None if the theorem has no constant of this kind.
    formula : str
        C with the numbers of the learner's settings.
    factor, offset : float
        C = factor * size² + offset.
    splits : bool
        True if the part of C beyond size², the margin's, is moved only by documents that are not outranked. The bound
        on the loss is then smaller than that on the weight moved.
    multiple, extra : float
        The loss is at most multiple * the bound above + extra; 1 and 0 except for safe averaging. The largest weight of
        a query multiplies factor and extra.
    size : either "diameter" or "radius"
        D, the largest distance of two differently graded documents of a query (2R if unknown), or R, the largest norm
        of a document.
    surrogate : str or None
        The surrogate of a comparator's loss L; None if the theorem only takes margins, or another loss.
    starts : bool
        True if the learner starts from weights w₁ that are not 0, which the bound depends on.
    cutoff : int or None
        Margin, diameter and surrogate may be those of the pairs that `perceptrank.theory.margin` takes with this
        cut-off.
    assumption : str
        Condition of the statement.

    Notes
    -----
    Arguments that mean the same in all methods:

    - `diameter`, `radius`: those of the stream; give either.
    - `largest_weight`: largest weight of a query; losses of learner and comparator are then weighted sums.
    - `margin`, `comparator`: margin of a separable stream; or norm and cumulative surrogate of some fixed ranker, a
      `Comparator` or a pair. Give one of the two.
    - `start`: norm of the weights that the learner starts from, divided by the learning rate.
    - `product`: inner product of the comparator and these weights, divided by the learning rate; by default the worst.
    - `share`: that of `bounds.largest_share`.
    - `by_radius`: write 4 R² in place of D².
    - `measure`: the measure that is learned.

    Examples
    --------
    >>> import perceptrank as pr
    >>> theorem = pr.MinimaxPerceptron().theorem
    >>> theorem.symbol, theorem.bound(diameter=2.0, margin=0.5)
    ('D²', 16.0)
    """

    statement: str
    symbol: str | None = None
    formula: str = ""
    factor: float = 0.0
    offset: float = 0.0
    splits: bool = False
    multiple: float = 1.0
    extra: float = 0.0
    size: str = "diameter"
    surrogate: str | None = None
    starts: bool = False
    cutoff: int | None = None
    assumption: str = "a linear ranker has margin γ on the stream; rankings by the current weights"

    def __str__(self) -> str:
        return self.statement

    def constant(
        self, *, diameter: float | None = None, radius: float | None = None, largest_weight: float = 1.0
    ) -> float:
        """Return the constant C."""
        size = self._size_of(diameter, radius)
        with np.errstate(over="ignore", under="ignore"):
            largest = np.float64(check_positive("largest_weight", largest_weight))
            return float(largest * (self.factor * size**2) + self.offset)

    def _size_of(self, diameter: float | None, radius: float | None) -> np.float64:
        """Return D, or 2R if it is unknown; or R."""
        if self.symbol is None:
            raise ValueError(f"this theorem has no constant to compute: {self.statement}")
        for name, value in (("diameter", diameter), ("radius", radius)):
            if value is not None:
                check_not_negative(name, value)
        if self.size == "radius":
            if radius is None:
                raise ValueError("give radius, the largest norm of a document")
            return np.float64(radius)
        if diameter is None and radius is None:
            raise ValueError("give diameter or radius of the stream")
        return np.float64(diameter) if diameter is not None else 2 * np.float64(radius or 0.0)

    def bound(
        self,
        *,
        diameter: float | None = None,
        radius: float | None = None,
        margin: float | None = None,
        comparator: AnyComparator | None = None,
        start: float = 0.0,
        product: float | None = None,
        largest_weight: float = 1.0,
        share: float = 1.0,
    ) -> float:
        """Return the bound on the learner's loss, given the margin of a separable stream or a comparator."""
        size, largest = self._size_of(diameter, radius), check_positive("largest_weight", largest_weight)
        norm, loss = norm_and_loss(margin, comparator)
        with np.errstate(over="ignore", under="ignore"):
            # D and the margin may both be so small, or so large, that their squares are no numbers.
            reach = size * norm if margin is None else size / np.float64(margin)
            base, price = largest * reach**2, self.offset * norm * norm
            if self.splits:
                price += (self.factor - 1) * base if self.factor > 1 else 0.0  # base may be infinite
            else:
                base, price = self.factor * base + price, np.float64(0.0)
            current = largest_lost(base, price, loss, start * norm, None if product is None else np.float64(product))
            return float(self.multiple * share * current + self.extra * largest)

    @property
    def of_current(self) -> "Theorem":
        """The bound on the loss of rankings by the current weights."""
        return replace(self, multiple=1.0, extra=0.0)

    @property
    def of_moved(self) -> "Theorem":
        """The bound on the weight moved, at least the loss of rankings by the current weights."""
        return replace(self, multiple=1.0, extra=0.0, splits=False)

    def separable_formula(self, *, by_radius: bool = False) -> str:
        """Return the bound on the loss on a separable stream in symbols.

        Examples
        --------
        >>> Theorem("mistakes ≤ D²/γ²", "D²", "D²", 1.0).separable_formula(by_radius=True)
        '4 R² / γ²'
        """
        constant, where = self.formula, ""
        if self.splits and self.offset > 0:
            constant, where = "(D² + b)² / 4b", f", b = max(D², {constant.removeprefix('(D² + ').removesuffix(')')})"
        elif self.splits:
            excess = max(1.0, self.factor - 1)
            constant = f"{(1 + excess) ** 2 / (4 * excess):g} D²"
        constant = constant.removeprefix("1 ")
        if by_radius:
            constant, where = constant.replace("D²", "4 R²"), where.replace("D²", "4 R²")
        current = f"{constant} / γ²"
        current = f"({current} + 2 |w₁| / (rate γ))" if self.starts else current
        return (f"{self.multiple:g} · {current} + {self.extra:g}" if self.extra else current) + where

    def check_comparator(self, comparator: AnyComparator | None, measure: Measure | None) -> None:
        """Raise if a comparator's surrogate may be smaller than the theorem's; a pair is not checked."""
        if not isinstance(comparator, Comparator) or comparator.surrogate is None:
            return
        check_choice("surrogate of the comparator", comparator.surrogate, SURROGATES)
        if self.surrogate is None:
            surrogate = comparator.surrogate
            raise ValueError(f"comparator must be a pair of a norm and a loss here, got one of surrogate={surrogate!r}")
        if SURROGATES.index(comparator.surrogate) < SURROGATES.index(self.surrogate):
            raise ValueError(f"comparator must be of surrogate={self.surrogate!r}, got {comparator.surrogate!r}")
        if comparator.measure is not None and measure is not None and _learned(comparator.measure) != _learned(measure):
            learned, other = str(measure), str(comparator.measure)
            raise ValueError(f"comparator must be for {learned!r}, which the learner learns, got one for {other!r}")


NO_THEOREM = Theorem("-")


def _learned(measure: Measure) -> tuple[object, ...]:
    """Return the parts of a measure that learning depends on: all but its policies for ties and empty queries."""
    return type(measure), measure.cutoff, getattr(measure, "gain", None)


def norm_and_loss(margin: float | None, comparator: AnyComparator | None) -> tuple[np.float64, np.float64]:
    """Return U and L of a comparator, or of the ranker that has this margin, divided by it."""
    if (margin is None) == (comparator is None):
        raise ValueError("give either margin or comparator")
    if comparator is None:
        with np.errstate(over="ignore"):
            return 1 / np.float64(check_positive("margin", margin)), np.float64(0.0)
    if not isinstance(comparator, tuple) or len(comparator) < 2:
        raise ValueError(f"comparator must be a pair of a norm and a loss, got {comparator!r}")
    norm, loss = (np.float64(check_not_negative("comparator", value)) for value in comparator[:2])
    return norm, loss


def largest_lost(
    base: float, price: float, loss: float, start: float = 0.0, product: float | np.float64 | None = None
) -> float:
    """Return the largest M ≤ S with S - L + p ≤ √(start² + base S + price (S - M)), infinite if it overflows.

    The proofs of all theorems come down to this. S is the weight moved, M the part moved by outranked documents, L the
    comparator's surrogate, base = U² D², price = U² 2 margin / rate, start = U |w₁| / rate, and p the product of u and
    w₁ / rate, by default the worst, -start. Without a price M = S.

    >>> largest_lost(16.0, 0.0, 0.0), largest_lost(16.0, 32.0, 0.0), largest_lost(16.0, 0.0, 3.0)
    (16.0, 18.0, 21.583005244258363)
    """
    base, price, start = np.float64(base), np.float64(price), np.float64(start)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        behind = np.float64(loss) - (-start if product is None else np.float64(product))
        half, inner = base / 2, start * start + base * behind
        root = np.hypot(half, np.sqrt(inner)) if inner >= 0 else np.sqrt(np.maximum(half * half + inner, 0.0))
        most = behind + half + root
        if price > 2 * root:  # more rounds with a margin's updates let more be lost
            both = base + price
            most = both / price * (behind + both / 4) + start * start / price
        return float(np.maximum(most, 0.0)) if not np.isnan(most) else float("inf")
