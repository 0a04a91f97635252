"""Measures of logged clicks: declarations; `perceptrank.evaluation.off_policy` estimates their values."""

from dataclasses import dataclass
from typing import ClassVar

from perceptrank.kernels.arrays import Floats
from perceptrank.measures.kinds import MeasureAtCutoff
from perceptrank.measures.measure import Measure
from perceptrank.stream.validation import check_not_negative

RAREST_ORDER = 0.05  # the least probability of an order that counts as random: weights are at most 10


@dataclass(frozen=True, repr=False)
class ClickMeasure(Measure):
    """A measure of clicks on lists that a policy has randomised. Only `evaluate` has its values."""

    def check_grades(self, relevance: Floats) -> None:
        """Raise: there are no values from grades."""
        raise ValueError(f"{self} is a measure of clicks, not of grades: `evaluate` and the service know it")


@dataclass(frozen=True, repr=False)
class FairPreferences(ClickMeasure):
    """Fair preferences that a ranker agrees with, per pair of neighbours whose order was random.

    For documents i and j at neighbouring places, whose order the policy has drawn with probability p, let y = c_i - c_j
    be the difference of their clicks. The ranker gets |y| / 2p if it scores the one higher that was clicked more, half
    of that if it scores them alike. The value of an impression is the mean over its pairs. In the mean over the
    policy's draws, y / 2p is how many clicks i gets more than j if each is above the other equally often: no assumption
    about users is needed. Pairs with p < 0.05 or p > 0.95 get nothing; without others there is no value.

    Examples
    --------
    >>> import perceptrank as pr
    >>> pr.parse("preferences") == FairPreferences()
    True
    """

    name: ClassVar[str] = "preferences"


@dataclass(frozen=True, repr=False)
class TeamDraft(ClickMeasure):
    """Share of the clicks that go to a ranker's own documents in lists that two rankers have put together in turns.

    A coin decides who goes first in each round; then each adds its best document that is not in the list yet. Equal
    rankers get half of the clicks each. For others the measure is biased: the better one may get no more clicks. Only
    the service shows such lists.

    References
    ----------
    Radlinski, Kurup & Joachims, "How Does Clickthrough Data Reflect Retrieval Quality?", CIKM 2008; Oosterhuis &
    de Rijke, "Taking the Counterfactual Online", ICTIR 2020, on the bias.

    Examples
    --------
    >>> import perceptrank as pr
    >>> pr.parse("team-draft") == TeamDraft()
    True
    """

    name: ClassVar[str] = "team-draft"


@dataclass(frozen=True, repr=False)
class ExpectedClicks(MeasureAtCutoff, ClickMeasure):
    """Clicks on the first k places that the ranker's own list would have got, estimated by importance weights.

    With w_j the target's probability of what was shown at place j, divided by the policy's, c_j the click there, and
    b_j a guess of the click rate, the value of an impression is the sum of w_j (c_j - b_j) + v_j b_j over its places
    (doubly robust). For Plackett-Luce, w_j is the product over places up to j, and v_j = w_(j-1), which suits users who
    go from the top down. For other policies w_j is that of place j alone, and v_j = 1, which suits users whose click
    depends on the document and its place; the ranker reorders only what ``shuffle`` has randomised. Swaps of neighbours
    (``fair-pairs``) say too little about another list: use `FairPreferences`.
    The guess b_j is the self-normalised estimate from earlier impressions, so the value has no bias.

    Parameters
    ----------
    clip : float
        If it is not 0: largest weight of a challenger, and b = 0. The estimate can then only be too low, so it may
        speak for a challenger but not against it. The incumbent's weights are never clipped.

    Examples
    --------
    >>> import perceptrank as pr
    >>> pr.parse("clicks@3:clip=20")
    ExpectedClicks(k=3, clip=20)
    """

    name: ClassVar[str] = "clicks"

    clip: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_not_negative("clip", self.clip)

    @property
    def n_places(self) -> int:
        """Number of places that count; without a cut-off, 100."""
        return self.k or 100
