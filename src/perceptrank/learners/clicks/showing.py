"""Show lists, and learn from their clicks: methods of click learners, and of wrappers around them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from perceptrank.clicks.policies import Policy, Shown
from perceptrank.clicks.policies import policy as as_policy
from perceptrank.kernels.arrays import Floats
from perceptrank.learners.clicks.impression import Impression, answers_of
from perceptrank.learners.learning import (
    advance,
    check_policies,
    learn_query,
    one_query,
    policies_of,
    ready_model,
    takes_clicks,
)
from perceptrank.learners.model import Model, as_named_features
from perceptrank.stream.sparse import AnyFeatures, SparseFeatures
from perceptrank.stream.validation import ParameterError, check_positive_whole

if TYPE_CHECKING:
    from perceptrank.learners.clicks.click_learner import ClickLearner
    from perceptrank.learners.learner import Learner


class Showing:
    """Methods of learners that show lists, and learn from what was clicked."""

    def show(
        self: Any,
        X: npt.ArrayLike,
        n: int = 10,
        *,
        policy: str | Policy | None = None,
        keep: int = 0,
        rng: np.random.Generator | int,
    ) -> Impression:
        """Choose the documents to show for a query, best first, randomised so that clicks can be learned from.

        Parameters
        ----------
        X : array of shape (documents, features), sparse matrix or data frame
            The documents.
        n : int
            Number of documents to show; shorter lists are shown in full.
        policy : str or Policy, optional
            Exploration policy, see `perceptrank.clicks.policy`; by default the learner's own. "none" does not explore.
        keep : int
            Number of best documents that are shown as ranked, above those that are randomised.
        rng : numpy.random.Generator or int
            Random numbers, or a seed of them.

        Raises
        ------
        ValueError
            If there are no documents, the features are not those that were learned, the learner cannot learn from this
            policy, or it learns from grades.
        """
        return show_list(self, *as_named_features(X, self.model), n, policy, np.random.default_rng(rng), keep)

    def learn_clicks(
        self: Any,
        impression: Impression,
        clicks: npt.ArrayLike,
        *,
        examined: npt.ArrayLike | None = None,
        weight: float = 1.0,
    ) -> bool:
        """Learn from the clicks on a list that was shown, at any time after; return whether there was an update.

        An error or an interrupt leaves the learner as it was before the call.

        Parameters
        ----------
        impression : Impression
            What `show` returned.
        clicks : array of shape (places,)
            A number from 0 to 1 for each place shown, best first: 1 for a click, 0 for none.
        examined : array of shape (places,), optional
            1 for each place that the user looked at, 0 for others, NaN where that is unknown.
        weight : float
            Weight of the impression, which scales what is learned from it.

        Raises
        ------
        ValueError
            If there is not one valid value for each place, or the features are not those that were learned before.
        """
        if not isinstance(impression, Impression):
            raise ParameterError("impression", "must be what `show` returned", impression)
        _check_takes_clicks(self)
        answers = answers_of(impression, clicks, examined)
        return advance(self, learn_query, impression.X, impression.names, answers, weight)


def _check_takes_clicks(learner: Learner) -> None:
    if not takes_clicks(learner):
        raise ValueError(f"{learner.name} learns from grades, with learn_one: only click learners show lists")


def leaf_of(learner: Learner, model: Model) -> tuple[ClickLearner, Model]:
    """Return the click learner that explores for a learner, itself or one inside, and the model with its counts.

    Of several, it is the leader, or the first that needs lists that are randomised, so that all can learn from them.
    """
    parts = [part for part in (getattr(model, "leader", None), *model.members, *model.learners) if part is not None]
    parts = sorted(filter(takes_clicks, parts), key=lambda part: not policies_of(part))
    if not parts:
        return learner, model  # type: ignore[return-value]
    leaf, state = leaf_of(parts[0], parts[0].model)
    return leaf, state if state.has_begun else model  # a wrapper of steps has the state itself


def show_list(
    learner: Learner,
    features: AnyFeatures,
    names: tuple[str, ...] | None,
    n: int,
    policy: str | Policy | None,
    rng: np.random.Generator,
    keep: int = 0,
) -> Impression:
    """Choose the documents to show, of features with these names; see `Showing.show`."""
    _check_takes_clicks(learner)
    check_positive_whole("n", n)
    if not features.shape[0]:
        raise ValueError("a query must have at least one document, got none")
    model = learner.model
    model.check_features(features.shape[1], names)
    model = ready_model(learner, features.shape[1], names, sparse=isinstance(features, SparseFeatures), model=model)
    leaf, state = leaf_of(learner, model)
    usable = policies_of(learner)
    chosen = as_policy(leaf.own_policy(state) if policy is None else policy)
    if policy is None and usable and chosen.name not in usable:
        chosen = as_policy(usable[0])
    if chosen.name != "none":  # which a service may show now and then, to learn nothing from it
        check_policies(learner, {chosen.name})
    scores = _scores_to_show(leaf, state, model, features, names, chosen)
    if keep > 0:  # of the ranking, which may be by the mean of weights
        own = model.block_scores(features, one_query(features.shape[0]), names or model.feature_names)
        head = np.argsort(-own, kind="stable")[:keep]
        scores = scores.copy()
        scores[head] = scores.max() + np.arange(len(head), 0, -1)
    shown: Shown = chosen.show(scores, n, rng, keep=keep)
    kept = features if isinstance(features, SparseFeatures) else features.copy()  # the caller may reuse the array
    return Impression(kept, names, shown.order, shown.propensity, shown.policy)


def _scores_to_show(
    leaf: ClickLearner, state: Model, model: Model, X: AnyFeatures, names: tuple[str, ...] | None, policy: Policy
) -> Floats:
    """Return the scores that a policy draws lists by: random policies take those of the current weights."""
    names, offsets = names or model.feature_names, one_query(X.shape[0])
    if policy.name == "none" or not model.has_begun or model.members:
        scores = model.block_scores(X, offsets, names)
    else:
        scores = model.linear_scores(model.transformed(model.all_transforms, X, offsets, names), names, current=True)
    if policy.name != "plackett-luce":
        return scores
    sharpness = leaf.sharpness(state)
    if sharpness is None:
        return scores
    spread = float(scores.std())
    return (scores - scores.mean()) * (sharpness / spread) if spread > 0.0 else np.zeros(len(scores))
