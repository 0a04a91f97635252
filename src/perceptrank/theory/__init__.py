"""What can be promised, and what cannot."""

from perceptrank.data.adversary import Game, n_rounds, play
from perceptrank.theory import bounds
from perceptrank.theory.geometry import diameter, radius

__all__ = ["Game", "bounds", "diameter", "n_rounds", "play", "radius"]
