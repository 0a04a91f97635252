"""The score of another ranker as one more feature."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.stream.sparse import SparseFeatures
from perceptrank.transforms.forms import Added
from perceptrank.transforms.transform import Transform

if TYPE_CHECKING:
    from perceptrank.learners.learner import Learner


class ScoreOf(Transform):
    """Add the score of another ranker as one more feature, after the others.

    A learner that starts as that ranker takes it as `production`: ``production="score"``.

    Parameters
    ----------
    ranker : Learner
        A model, or a `FixedRanker` of the weights that a search engine has. It does not learn. With features by name,
        it may know only some of them.

    Examples
    --------
    >>> import perceptrank as pr
    >>> now = pr.FixedRanker({"bm25": 2.0})
    >>> ranker = pr.ClickPerceptron(production="score", transforms=[ScoreOf(now), "auto"])
    >>> stream = pr.QueryStream.from_arrays([[1.0, 7.0], [3.0, 5.0]], [0, 1], feature_names=["bm25", "price"])
    >>> ScoreOf(now).transform(stream).X.tolist(), ranker.scores(stream).tolist()
    ([[1.0, 7.0, 2.0], [3.0, 5.0, 6.0]], [-1.0, 1.0])
    """

    name = "score-of"
    adds = "score"
    wraps = True
    scope = "document"

    def __init__(self, ranker: Learner) -> None:
        self.ranker = ranker
        self._names: tuple[str, ...] | None = None

    def apply(self, X: Any, offsets: Ints) -> Any:
        from perceptrank.learners.learning import ready_model

        names, known = self._names, self.ranker.model.feature_names
        own: Any = X
        is_sparse = isinstance(X, SparseFeatures)
        if names is not None and known is not None and names != known:
            if lacking := [name for name in known if name not in names]:
                raise ValueError(f"{self!r} needs the feature {lacking[0]!r}, which the data lacks")
            columns = np.array([names.index(name) for name in known])
            names, own = known, own.select(columns) if is_sparse else np.ascontiguousarray(own[:, columns])
        model = ready_model(self.ranker, own.shape[1], names, sparse=is_sparse)
        model.check_features(own.shape[1], names)
        scores = model.block_scores(own, offsets, names)[:, None].astype(X.dtype)
        if is_sparse:
            return SparseFeatures.beside([X, SparseFeatures.from_dense(scores)])
        outputs: Any = np.hstack([X, scores])
        return outputs

    def sum_with(self, weights: Floats, n_features: int) -> Added:
        return Added(keeps=True, ranker=self.ranker, factor=float(weights[-1]))

    def sparse_form(self) -> ScoreOf:
        return self

    def for_columns(self, names: tuple[str, ...] | None) -> ScoreOf:
        form = type(self)(self.ranker)
        form._names = names
        return form

    def n_outputs(self, n_features: int) -> int:
        return n_features + 1

    def output_names(self, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return None if names is None else (*names, self.adds)

    def state(self) -> dict[str, Any]:
        return {"ranker": self.ranker.as_document()}

    def restore(self, state: dict[str, Any]) -> None:
        from perceptrank.learners.registry import from_document

        type(self).__init__(self, from_document(state["ranker"]))

    def __deepcopy__(self, memo: Any) -> Self:
        return self  # the ranker never changes, and models are copied with every query

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.ranker!r})"
