"""Clicks: simulated users, exploration policies, position bias, and judgements from clicks."""
from .bias.estimation import position_bias as position_bias
from .bias.result import PositionBias as PositionBias
from .bias.sums import PositionBiasSums as PositionBiasSums
