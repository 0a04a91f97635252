"""What can be promised, and what cannot."""

from perceptrank.data.adversary import Game, n_rounds, play

__all__ = ["Game", "n_rounds", "play"]
