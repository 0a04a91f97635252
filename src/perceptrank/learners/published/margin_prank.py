"""PRank with a margin on its thresholds."""

from __future__ import annotations

from dataclasses import KW_ONLY

from perceptrank.learners.published.prank import PRank, PRankSettings
from perceptrank.stream.validation import check_not_negative
from perceptrank.theory import theorems


class MarginPRank(PRank):
    """PRank that wants scores to be on the right sides of thresholds by a margin.

    For a document of grade y and every threshold r, the score should be more than `margin` above b_r if y ≥ r, and
    more than `margin` below it if not. With s_r = 1 or -1 for thresholds that violate this and 0 for others,
    w += (the sum of s_r) x and b_r -= s_r. With a margin of 0 it is `PRank`. Thresholds stay in order. Learns from
    documents one by one.

    With n thresholds, on documents of norm at most R that a unit vector (u, c) puts on the right sides of all
    thresholds with margin γ: with K = n R² + 1, the scores are on the wrong sides of at most K / γ²
    thresholds in sum over documents, as long as margin ≤ K / 2 (`perceptrank.theory.bounds.prank` has the general
    bound). Once nothing is violated any more, (w, b) divided by its norm has a margin of at least
    γ margin / (K + 2 margin).

    Parameters
    ----------
    margin : float ≥ 0
        Distance that scores should keep from thresholds, which move in steps of 1.

    References
    ----------
    Margins in the ordinal setting are those of Ni et al. (2008), whom the paper of Chaudhuri and Tewari cites as
    ni2008; a margin in a perceptron is Krauth and Mezard's. Rule and bound as stated here are proved in docs/theory/.

    Examples
    --------
    >>> ranker = MarginPRank(1.0, n_grades=3)
    >>> ranker.learn_one([[1.0]], [2]), ranker.learn_one([[1.0]], [2])  # the score 2 is 3 above both, at -1
    (True, False)
    >>> ranker.weights, ranker.thresholds
    (array([2.]), array([-1., -1.]))
    """

    algorithm = "margin-prank"
    theorem = theorems.prank(margin=1.0)

    margin: float = 1.0
    _: KW_ONLY
    n_grades: int = 5

    def _make_settings(self) -> PRankSettings:
        check_not_negative("margin", self.margin)
        return super()._make_settings()
