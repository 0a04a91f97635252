"""Theorems, bounds, margins, certificates, and the adversary of the lower bound."""

from perceptrank.theory import bounds, drift, theorems
from perceptrank.theory.adversary import Game, n_rounds, play
from perceptrank.theory.budget_adversary import BudgetGame, play_budget
from perceptrank.theory.certificates import Certificate, Promise
from perceptrank.theory.comparators import comparator, cumulative_surrogate
from perceptrank.theory.geometry import diameter, radius
from perceptrank.theory.margin_adversary import CostlyStream, costly_stream
from perceptrank.theory.margins import Margin, margin
from perceptrank.theory.theorem import Comparator, Theorem

__all__ = [
    "BudgetGame",
    "Certificate",
    "Comparator",
    "CostlyStream",
    "Game",
    "Margin",
    "Promise",
    "Theorem",
    "bounds",
    "comparator",
    "costly_stream",
    "cumulative_surrogate",
    "diameter",
    "drift",
    "margin",
    "n_rounds",
    "play",
    "play_budget",
    "radius",
    "theorems",
]
