"""Clicks: simulated users, exploration policies, position bias, and judgements from clicks."""

from .bias.estimation import position_bias as position_bias
from .bias.result import PositionBias as PositionBias
from .bias.sums import PositionBiasSums as PositionBiasSums
from .policies import FairPairs as FairPairs
from .policies import NoExploration as NoExploration
from .policies import PlackettLuce as PlackettLuce
from .policies import Policy as Policy
from .policies import Shown as Shown
from .policies import Shuffle as Shuffle
from .policies import policy as policy
from .simulation import scan_simulated_clicks as scan_simulated_clicks
from .simulation import simulate_clicks as simulate_clicks
from .users.adversarial import contrary as contrary
from .users.adversarial import corrupted as corrupted
from .users.adversarial import only_place as only_place
from .users.by_place import position_based as position_based
from .users.by_place import trust_bias as trust_bias
from .users.by_place import ubm as ubm
from .users.mixed import mixture as mixture
from .users.scanning import cascade as cascade
from .users.scanning import dbn as dbn
from .users.scanning import user as user
from .users.user import Response as Response
from .users.user import User as User
