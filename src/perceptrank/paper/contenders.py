"""Learners under comparison: the paper's algorithms, its baseline and the listwise perceptron, at nine rates."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from perceptrank.learners.learner import Learner
from perceptrank.learners.listwise import ListwisePerceptron
from perceptrank.learners.minimax import MinimaxPerceptron
from perceptrank.learners.perceptron import Perceptron
from perceptrank.learners.published.listnet import OnlineListNet
from perceptrank.learners.slam import SlamPerceptron

# Powers of two, so that rankings that do not depend on the rate agree bit for bit.
RATES = [8.0**exponent for exponent in range(-5, 4)]
MEASURES = ["ndcg@10", "ap"]


class Run(NamedTuple):
    """A learner's name, the measure it optimises and is evaluated with, and its learning rate."""

    learner: str
    measure: str
    rate: float


@dataclass(frozen=True)
class Contender:
    """A learner under comparison, which `kind` constructs."""

    name: str
    label: str
    short: str  # where room is scarce
    color: int
    kind: Callable[..., Learner]
    has_rate: bool = False  # that has to be tuned
    takes_measure: bool = True
    default_rate: float = 1.0  # the one of RATES nearest to the learner's default

    def make(self, measure: str, rate: float) -> Learner:
        """Construct the learner for a measure and a learning rate."""
        return self.kind(measure, learning_rate=rate) if self.takes_measure else self.kind(learning_rate=rate)


def _listwise(measure: str, learning_rate: float) -> ListwisePerceptron:
    """Make a listwise perceptron with default settings, and the weights of AP or NDCG."""
    return ListwisePerceptron("ap" if measure == "ap" else "ndcg", learning_rate=learning_rate, transforms=None)


CONTENDERS = {
    contender.name: contender
    for contender in (
        Contender("listwise", "listwise (ours)", "listwise", 0, _listwise),
        Contender("slam", "Algorithm 2 (SLAM)", "SLAM", 1, SlamPerceptron, has_rate=True, default_rate=RATES[4]),
        Contender("minimax", "Algorithm 3 (minimax)", "minimax", 2, MinimaxPerceptron),
        Contender("listnet", "ListNet", "ListNet", 3, OnlineListNet, True, takes_measure=False, default_rate=RATES[3]),
        Contender("perceptron", "Algorithm 1 (classification)", "Algorithm 1", 4, Perceptron, takes_measure=False),
    )
}

# The theorem is about ranking with the current weights, not with their average.
_current = partial(ListwisePerceptron, average=False, transforms=None)
LAST_ITERATE = Contender("listwise-last", "listwise (last iterate)", "last iterate", 5, _current)
SLAM_AS_IN_THE_PAPER = Contender("slam-paper", "Algorithm 2 (paper’s rate)", "SLAM, paper", 6, SlamPerceptron)


def all_runs() -> dict[Run, Learner]:
    """Make every contender at every rate, for every measure it depends on."""
    return {
        Run(name, measure, rate): contender.make(measure, rate)
        for name, contender in CONTENDERS.items()
        for measure in (MEASURES if contender.takes_measure else MEASURES[:1])
        for rate in RATES
    }
