"""Impressions: lists that were shown, and what click learners read of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from perceptrank.clicks.policies import KINDS, NONE, OTHER, PAIRS, policy_kind, policy_kinds
from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.stream.columns import CLICKED, EXAMINED, PLACE, POLICY, PROPENSITY, find_column
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.sparse import AnyFeatures

# A row of answers is a document: its place, whether it was clicked and examined, its propensity, and the kind of policy
# that showed it, which for fair pairs from place 2 on has a code of its own.
AT, CLICK, SEEN, CHANCE, KIND, N_ANSWERS = range(6)
PAIRS_FROM_2 = -1
_CLICKS, _EXAMINED = replace(find_column(CLICKED), argument="clicks"), find_column(EXAMINED)


def kinds_in(stream: QueryStream) -> set[str]:
    """Return the kinds of policies that showed the impressions of a stream, such as "fair-pairs"."""
    return {KINDS[kind] for kind in np.unique(policy_kinds(stream)[0]).tolist()}


def policy_code(kind: Any, number: Any) -> Any:
    """Return the code of a kind of policy with its number, or of several."""
    starts = np.select([number == 1, number == 2], [PAIRS, PAIRS_FROM_2], OTHER)  # where no policy of ours starts
    return np.where(kind == PAIRS, starts, kind)


@dataclass(frozen=True, eq=False)
class Impression:
    """A list that was shown, and what learning from its clicks needs; `show` of a click learner returns it.

    Attributes
    ----------
    X : array or SparseFeatures
        Features of all documents that were ranked.
    names : tuple of str or None
        Names of the features, if they have any.
    order : array of int
        Rows of the documents shown, best first.
    propensity : array of float
        Probability of each of these documents at its place, as `perceptrank.clicks.Shown` has it.
    policy : str
        The exploration policy, as the column ``policy`` of a log has it.
    """

    X: AnyFeatures
    names: tuple[str, ...] | None
    order: Ints
    propensity: Floats
    policy: str

    def __post_init__(self) -> None:
        rows, m = self.order.tolist(), self.X.shape[0]
        if len(set(rows)) < len(rows) or not all(0 <= row < m for row in rows):
            raise ValueError(f"order must be different rows of the {m} documents, got {rows}")

    def columns(self, clicks: npt.ArrayLike, examined: npt.ArrayLike | None = None) -> dict[str, Any]:
        """Return the impression as the columns of a log: one value per document, and the policy.

        Parameters
        ----------
        clicks : array of shape (places,)
            A number from 0 to 1 for each place shown: 1 for a click, 0 for none.
        examined : array of shape (places,), optional
            1 for each place that the user looked at, 0 for others, NaN where that is unknown.

        Examples
        --------
        >>> import numpy as np
        >>> import perceptrank as pr
        >>> shown = pr.ClickPerceptron().show(np.eye(3), n=2, rng=1)
        >>> shown.order, shown.columns([0, 1])["clicked"]
        (array([2, 0]), array([1., 0., 0.]))
        """
        m, k = self.X.shape[0], len(self.order)
        place, propensity = np.zeros(m, np.int32), np.full(m, np.nan)
        place[self.order], propensity[self.order] = np.arange(1, k + 1), self.propensity
        columns: dict[str, Any] = {PLACE: place, PROPENSITY: propensity, POLICY: self.policy}
        for column, values, fill in ((_CLICKS, clicks, 0.0), (_EXAMINED, examined, np.nan)):
            if values is not None or column is _CLICKS:
                columns[column.name] = np.full(m, fill)
                columns[column.name][self.order] = column.convert(values, k, "place")
        return columns


def answers_of(impression: Impression, clicks: npt.ArrayLike, examined: npt.ArrayLike | None) -> Floats:
    """Return the answers to one impression, a row per document."""
    columns = impression.columns(clicks, examined)
    answers = np.empty((impression.X.shape[0], N_ANSWERS))
    answers[:, AT], answers[:, CLICK], answers[:, CHANCE] = columns[PLACE], columns[CLICKED], columns[PROPENSITY]
    answers[:, SEEN], answers[:, KIND] = columns.get(EXAMINED, np.nan), policy_code(*policy_kind(impression.policy))
    return answers


def answers_in(stream: QueryStream, needing: str, *, needs_chances: bool) -> Floats:
    """Return the answers to the impressions of a stream, a row per document; raise if propensities are missing.

    Coins of fair pairs are taken to be fair where the log does not say.
    """
    columns = stream.columns
    answers = np.empty((stream.n_documents, N_ANSWERS))
    for name, place in ((PLACE, AT), (CLICKED, CLICK), (EXAMINED, SEEN), (PROPENSITY, CHANCE)):
        answers[:, place] = columns.get(name, np.nan)
    answers[:, KIND] = np.repeat(policy_code(*policy_kinds(stream)), np.diff(stream.offsets))
    unknown = (answers[:, AT] > 0) & np.isnan(answers[:, CHANCE]) & ~np.isin(answers[:, KIND], (OTHER, NONE))
    answers[unknown & np.isin(answers[:, KIND], (PAIRS, PAIRS_FROM_2)), CHANCE] = 0.5
    unknown &= np.isnan(answers[:, CHANCE])
    if needs_chances and unknown.any():
        q = int(np.searchsorted(stream.offsets, np.argmax(unknown), side="right")) - 1
        raise ValueError(
            f"{needing} needs the propensity of every document that {columns[POLICY][q]} has shown: the column is "
            f"missing, or is NaN in impression {stream.qids[q]}"
        )
    return answers
