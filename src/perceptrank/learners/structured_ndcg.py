"""Structured large-margin steps for NDCG."""

from perceptrank.kernels.pair_rules import STRUCTURED_GAIN, PairRule
from perceptrank.learners.pairs import PairLearner
from perceptrank.measures.measure import NDCG, MeasureLike, parse
from perceptrank.stream.validation import ParameterError
from perceptrank.transforms.scaling import ScalingLike


class StructuredNdcg(PairLearner):
    """A subgradient step on the structured hinge of NDCG: 1 - NDCG of a ranking plus its lead in score.

    The joint score of a ranking is the sum over documents of their score divided by log2(1 + place). The loss of a
    query is the largest 1 - NDCG + joint score - joint score of the ideal ranking, over all rankings; documents of one
    grade are ideally ranked by score. Which ranking that is, is an assignment problem, solved in time cubic, and
    memory square, in the number of documents of a query: some tenths of a second for 1,000. Learns from lists.

    Parameters
    ----------
    measure : "ndcg" or "ndcg@k"
    learning_rate : float, positive
    average, scaling
        As in `SlamPerceptron`.

    References: O. Chapelle, Q. Le and A. Smola, "Large Margin Optimization of Ranking Measures"; S. Chakrabarti,
    R. Khanna, U. Sawant and C. Bhattacharyya, "Structured Learning for Non-Smooth Ranking Losses".

    >>> ranker = StructuredNdcg(learning_rate=1.0)
    >>> ranker.learn_one([[1.0], [0.0]], [1, 0])  # the wrong order loses 1 - 1 / log2(3) for a lead of 0
    True
    >>> ranker.weights  # 1 - 1 / log2(3)
    array([0.36907025])
    """

    algorithm = "structured-ndcg"
    cost = "m d + m³"

    def __init__(
        self,
        measure: MeasureLike = "ndcg@10",
        *,
        learning_rate: float = 0.1,
        average: bool = False,
        scaling: ScalingLike = None,
    ) -> None:
        self.measure = measure
        self.learning_rate = learning_rate
        self.average = average
        self.scaling = scaling
        self._start()

    def _make_rule(self) -> PairRule:
        parsed = parse(self.measure)
        if not isinstance(parsed, NDCG) or parsed.gain != "exp2":
            raise ParameterError("measure", "must be ndcg or ndcg@k", str(parsed))
        return self._pair_rule(STRUCTURED_GAIN, parsed)
