"""A learner with trees: LambdaMART's score of each document as one more feature."""

from __future__ import annotations

from typing import Any

from perceptrank.kernels.arrays import Floats
from perceptrank.learners.learner import Learner
from perceptrank.learners.learning import takes_clicks
from perceptrank.learners.listwise.perceptron import ListwisePerceptron
from perceptrank.learners.model import Model, fixed_copy
from perceptrank.learners.wrappers.wrapper import StepWrapper
from perceptrank.stream.validation import ParameterError
from perceptrank.theory.guarantees import Certificate
from perceptrank.theory.theorem import Theorem
from perceptrank.transforms.registry import make_transforms
from perceptrank.transforms.transform import Transform
from perceptrank.transforms.trees.trees import Trees


class WithTrees(StepWrapper):
    """Let a learner use trees: LambdaMART, fitted to the queries so far, scores each document, as one more feature.

    Linear learners are good from the first query on, trees once there are thousands. Here the weight of the trees
    begins at 0, and grows as far as their scores have been right about queries that they had not seen. They are fitted
    again whenever the number of queries has doubled, while the learner goes on: see `Trees`.

    The theorem of the learner holds, against every fixed ranker of the features and of the score as they were: the
    score of a query depends on earlier queries alone.

    Parameters
    ----------
    learner : learner, optional
        Settings of the learner, one that learns from grades; by default a `ListwisePerceptron`. Its transforms apply to
        the features and the score.
    n_trees : int
        Number of trees.
    memory : float > 0
        Megabytes for queries to remember.
    first_fit : int
        Number of queries before the first fit.

    Examples
    --------
    >>> import perceptrank as pr
    >>> stream = pr.mslr_shaped(400, n_documents=10, n_features=5, seed=1)
    >>> ranker = WithTrees(n_trees=20, first_fit=200)
    >>> trace = ranker.learn(stream)
    >>> ranker.trees.forest.n_trees, ranker.trees.n_remembered, len(ranker.coef_)
    (20, 400, 12)
    """

    algorithm = "trees"
    learner: Learner | None  # type: ignore[assignment]
    fixed = ("n_trees", "memory", "first_fit", "seed")
    cost = "that of its learner, the depth of N trees a document, and a fit whenever the queries have doubled"

    def __init__(
        self,
        learner: Learner | None = None,
        *,
        n_trees: int = 100,
        memory: float = 256.0,
        first_fit: int = 250,
        seed: int = 0,
    ) -> None:
        self.learner = learner
        self.n_trees = n_trees
        self.memory = memory
        self.first_fit = first_fit
        self.seed = seed
        self.__post_init__()

    def _wrapped(self) -> Any:
        return ListwisePerceptron() if self.learner is None else self.learner

    @property
    def theorem(self) -> Theorem:
        return self._copy.theorem

    @property
    def trees(self) -> Trees:
        """The trees as they are now: `trees.forest`, the number of `queries`, and how many are remembered."""
        return next(transform for transform in self._model.transforms if isinstance(transform, Trees))

    def _own_transform(self) -> list[Transform]:
        trees = Trees(self.n_trees, self.memory, self.first_fit, self.seed)
        own = make_transforms(self._copy._own_transform())
        # What fills in missing values, or adds a score, stays first.
        first = [each for each in own[:1] if each.accepts_missing or each.adds]
        return [*first, trees, *own[len(first) :]]

    def _configured(self, model: Model | None = None) -> Model:
        if model is None:
            inner = self._copy.model.copy()
            model = self._copy.model_class(make_transforms(self._own_transform()))
            model.members = inner.members
        return super()._configured(model)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        learner = self._wrapped()
        if not learner.learns or takes_clicks(learner):
            raise ParameterError("learner", "must be one that learns from grades, which trees are fitted to", learner)
        Trees(self.n_trees, self.memory, self.first_fit, self.seed)

    def _without_trees(self) -> Learner:
        """Return the learner that works on the features and the score, with what was learned."""
        model = self._model.copy()
        model.kind, model.inner = self._copy.model.kind, self._copy.model.inner
        return self._copy.with_model(model)

    def guarantee(self, **quantities: Any) -> float:
        return self._without_trees().guarantee(**quantities)

    def certificate(self, **quantities: Any) -> Certificate:
        return self._without_trees().certificate(**quantities)

    @property
    def weights(self) -> Floats:
        return fixed_copy(self._without_trees().weights)

    @property
    def n_rounds(self) -> int:
        return self._without_trees().n_rounds

    @property
    def n_updates(self) -> int:
        return self._without_trees().n_updates
