"""OAP-BPM: a committee of PRanks."""

from __future__ import annotations

from dataclasses import KW_ONLY

from perceptrank.learners.published.prank import PRank, PRankSettings
from perceptrank.stream.validation import ParameterError, as_number, check_positive_whole, check_seed
from perceptrank.theory.theorem import NO_THEOREM


class OapBpm(PRank):
    """Train several PRanks, each on a random sample of the documents; rank with the mean of their weights.

    The mean approximates the Bayes point of the rankers consistent with the data. Learns from documents one by one.

    Parameters
    ----------
    share : float
        Probability that a member learns from a document.

    References
    ----------
    E. F. Harrington, "Online Ranking/Collaborative Filtering Using the Perceptron Algorithm".

    Examples
    --------
    >>> ranker = OapBpm(n_members=2, share=1.0, n_grades=2)
    >>> ranker.learn_one([[1.0, 2.0]], [1])
    True
    >>> ranker.weights
    array([1., 2.])
    """

    algorithm = "oap-bpm"
    fixed = ("n_members", "n_grades")
    cost = "N m (d + g)"
    theorem = NO_THEOREM

    n_members: int = 20
    _: KW_ONLY
    share: float = 0.3
    n_grades: int = 5
    seed: int = 0

    def _make_settings(self) -> PRankSettings:
        check_positive_whole("n_members", self.n_members)
        if not 0 < as_number(self.share) <= 1:
            raise ParameterError("share", "must be a probability above 0", self.share)
        check_seed(self.seed)
        return super()._make_settings()
