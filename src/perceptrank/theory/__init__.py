"""What can be promised, and what cannot."""

from perceptrank.theory import bounds
from perceptrank.theory.adversary import Game, n_rounds, play
from perceptrank.theory.bounds import Comparator
from perceptrank.theory.certificates import Certificate, Promise
from perceptrank.theory.comparators import comparator, cumulative_surrogate
from perceptrank.theory.geometry import diameter, radius
from perceptrank.theory.margins import Margin, margin

__all__ = [
    "Certificate",
    "Comparator",
    "Game",
    "Margin",
    "Promise",
    "bounds",
    "comparator",
    "cumulative_surrogate",
    "diameter",
    "margin",
    "n_rounds",
    "play",
    "radius",
]
