"""Online ListNet, the paper's baseline."""

from perceptrank.kernels.list_rules import SOFTMAX, SOFTMAX_GAINS, ListRule
from perceptrank.learners.lists import ListLearner
from perceptrank.stream.validation import check_choice, check_positive
from perceptrank.transforms.scaling import ScalingLike

TARGETS = {"grades": SOFTMAX, "gains": SOFTMAX_GAINS}


class OnlineListNet(ListLearner):
    """Online gradient descent on the cross entropy between softmax(grades) and softmax(scores).

    Every query whose grades differ: w -= learning_rate * X^T (softmax(X w) - softmax(R)). It has the regret bound of
    gradient descent and none on the measure itself.

    Parameters
    ----------
    learning_rate : float, positive
    target : "grades" or "gains"
        What the target's softmax is taken of: grades R, or gains 2^R - 1.
    average, scaling
        As in `SlamPerceptron`.

    Reference: Z. Cao, T. Qin, T.-Y. Liu, M.-F. Tsai, H. Li, "Learning to Rank: From Pairwise Approach to Listwise
    Approach".

    >>> ranker = OnlineListNet(learning_rate=1.0)
    >>> ranker.learn_one([[1.0], [0.0]], [1, 0])
    True
    >>> ranker.weights  # 1 / (1 + exp(-1)) - 1/2
    array([0.23105858])
    """

    algorithm = "listnet"
    cost = "m d"
    promise = "the regret of gradient descent"

    def __init__(
        self,
        learning_rate: float = 0.01,
        *,
        target: str = "grades",
        average: bool = False,
        scaling: ScalingLike = None,
    ) -> None:
        self.learning_rate = learning_rate
        self.target = target
        self.average = average
        self.scaling = scaling
        self._start()

    def _make_rule(self) -> ListRule:
        rate = check_positive("learning_rate", self.learning_rate)
        check_choice("target", self.target, TARGETS)
        return ListRule(TARGETS[self.target], averaging=bool(self.average), learning_rate=rate)
