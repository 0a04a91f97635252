"""The forest that a ranker of the leaves of trees has become."""

from __future__ import annotations

from perceptrank.learners.learner import Learner
from perceptrank.learners.learning import ready_model
from perceptrank.transforms.trees.forest import Forest
from perceptrank.transforms.trees.tree_leaves import TreeLeaves


def forest_of(ranker: Learner) -> Forest:
    """Return the forest that scores as a ranker does whose only transform is `TreeLeaves`: leaves have its weights.

    Raises `ValueError` if it has other transforms, or does not rank by one vector of weights yet.

    Parameters
    ----------
    ranker : Learner

    Examples
    --------
    >>> import perceptrank as pr
    >>> from perceptrank.transforms.trees.reading import ForestBuilder
    >>> builder = ForestBuilder()
    >>> builder.add([0], [0.5], [-1], [-2], [0], [0.0, 2.0])
    >>> ranker = pr.ListwisePerceptron(measure="ap", transforms=pr.TreeLeaves(builder.forest(n_features=1)))
    >>> ranker.learn_one([[0.0], [1.0]], [1, 0])
    True
    >>> forest_of(ranker).values
    array([ 1., -1.])
    """
    transforms = ranker.transforms_
    if len(transforms) != 1 or not isinstance(transforms[0], TreeLeaves):
        raise ValueError(f"transforms of the ranker must be TreeLeaves alone, got {transforms!r}")
    forest = transforms[0].forest
    state = ready_model(ranker, forest.n_features, forest.names)
    if not state.has_begun:
        raise ValueError("the ranker must have learned, or have initial weights, got one without weights")
    try:
        return forest.with_values(state.coefficients)
    except AttributeError as error:  # of an ensemble
        raise ValueError(f"the ranker must rank by one vector of weights: {error}") from None
