"""Theorems, bounds, margins, certificates, and the adversary of the lower bound."""

from . import bounds as bounds
from . import drift as drift
from . import theorems as theorems
from .adversary import Game as Game
from .adversary import n_rounds as n_rounds
from .adversary import play as play
from .adversary import play_budget as play_budget
from .comparators import comparator as comparator
from .comparators import cumulative_surrogate as cumulative_surrogate
from .geometry import diameter as diameter
from .geometry import radius as radius
from .guarantees import Certificate as Certificate
from .guarantees import Promise as Promise
from .margin_adversary import CostlyStream as CostlyStream
from .margin_adversary import costly_stream as costly_stream
from .margins import Margin as Margin
from .margins import margin as margin
from .simplex_adversary import play_simplex as play_simplex
from .simplex_adversary import simplex_rounds as simplex_rounds
from .theorem import Comparator as Comparator
from .theorem import Theorem as Theorem
