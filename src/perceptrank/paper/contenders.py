"""Who takes part: the paper's algorithms, its baseline and the listwise perceptron, each at nine rates."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from perceptrank.learners.learner import Learner
from perceptrank.learners.listnet import OnlineListNet
from perceptrank.learners.listwise import ListwisePerceptron
from perceptrank.learners.minimax import MinimaxPerceptron
from perceptrank.learners.perceptron import Perceptron
from perceptrank.learners.slam import SlamPerceptron

# Powers of two: where rankings do not depend on the rate, they agree to the bit.
RATES = [8.0**exponent for exponent in range(-5, 4)]
MEASURES = ["ndcg@10", "ap"]


class Run(NamedTuple):
    """A learner's name, the measure it learns for and is judged by, and its rate."""

    learner: str
    measure: str
    rate: float


@dataclass(frozen=True)
class Contender:
    """A kind of learner: how it is made for a measure and a rate, and whether the rate has to be chosen."""

    name: str
    label: str
    color: int
    make: Callable[[str, float], Learner]
    has_rate: bool = False
    takes_measure: bool = True
    default_rate: float = 1.0  # among RATES, the one nearest to the learner's default


def _listwise(measure: str, rate: float) -> ListwisePerceptron:
    """Its defaults, with the weights of the family that the measure belongs to."""
    return ListwisePerceptron("ap" if measure == "ap" else "ndcg", learning_rate=rate)


CONTENDERS = {
    one.name: one
    for one in (
        Contender("listwise", "listwise (ours)", 0, _listwise),
        Contender(
            "slam",
            "Algorithm 2 (SLAM)",
            1,
            lambda measure, rate: SlamPerceptron(measure, learning_rate=rate),
            has_rate=True,
            default_rate=RATES[4],
        ),
        Contender(
            "minimax", "Algorithm 3 (minimax)", 2, lambda measure, rate: MinimaxPerceptron(measure, learning_rate=rate)
        ),
        Contender(
            "listnet",
            "ListNet",
            3,
            lambda measure, rate: OnlineListNet(learning_rate=rate),
            has_rate=True,
            takes_measure=False,
            default_rate=RATES[3],
        ),
        Contender(
            "perceptron",
            "Algorithm 1 (classification)",
            4,
            lambda measure, rate: Perceptron(learning_rate=rate),
            takes_measure=False,
        ),
    )
}

# What the theorem is about: the ranking by the current weights, not by their mean.
LAST_ITERATE = Contender(
    "listwise-last",
    "listwise, last iterate",
    5,
    lambda measure, rate: ListwisePerceptron(measure, learning_rate=rate, average=False),
)


def all_runs() -> dict[Run, Learner]:
    """Every contender at every rate, for every measure it can learn for."""
    runs = {}
    for one in CONTENDERS.values():
        for measure in MEASURES if one.takes_measure else MEASURES[:1]:
            for rate in RATES:
                runs[Run(one.name, measure, rate)] = one.make(measure, rate)
    return runs
