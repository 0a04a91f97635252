"""Algorithm 1: the classification perceptron."""

import numpy as np
import numpy.typing as npt

from perceptrank.kernels.arrays import Features, Floats, Ints
from perceptrank.kernels.document_pass import perceptron_pass
from perceptrank.learners.base import Learner
from perceptrank.learners.state import State
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.validation import as_numbers, check_positive
from perceptrank.transforms.scaling import ScalingLike


class Perceptron(Learner):
    """The perceptron for classification (Algorithm 1): a document is a round, positive if its label is above 0.

    On a mistake, w += learning_rate * y * x, y = 1 or -1; a score of 0 is a mistake. Predictions do not depend on the
    learning rate. Number of mistakes, `n_updates`, on examples that a unit vector classifies with margin gamma: at most
    R^2 / gamma^2, R the largest norm of an example.

    On judged queries it learns relevant against irrelevant documents and ranks by score. As a plain classifier, give it
    labels -1 and 1 (or 0 and 1) and ask `classify`; every example is then a query of its own.

    Parameters
    ----------
    learning_rate : float, positive
    average, scaling
        As in `SlamPerceptron`.

    Reference: F. Rosenblatt, "The Perceptron: A Probabilistic Model for Information Storage and Organization in the
    Brain".

    >>> classifier = Perceptron()
    >>> classifier.learn_one([1.0, 2.0], -1), classifier.learn_one([1.0, -2.0], 1)
    (True, False)
    >>> classifier.classify([[0.0, 1.0], [0.0, -1.0]])
    array([-1,  1])
    """

    algorithm = "perceptron"
    cost = "m d"
    promise = "mistakes ≤ R²/γ², in classification"
    takes = "documents"
    depends_on_rate = False

    def __init__(self, learning_rate: float = 1.0, *, average: bool = False, scaling: ScalingLike = None) -> None:
        self.learning_rate = learning_rate
        self.average = average
        self.scaling = scaling
        self._start()

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_positive("learning_rate", self.learning_rate)

    def _constant(self, diameter: float | None, radius: float | None) -> tuple[float, str]:
        if radius is None:
            raise ValueError("give radius, the largest norm of an example")
        return float(radius) ** 2, "R²"

    def _pass(
        self, state: State, X: Features, relevance: Floats, offsets: Ints, predicted: Floats, masses: Floats
    ) -> int:
        return perceptron_pass(
            bool(self.average),
            float(self.learning_rate),
            X,
            relevance,
            offsets,
            *state.core,
            state.squares,
            predicted,
            masses,
        )

    def _as_query(self, X: npt.ArrayLike, relevance: npt.ArrayLike) -> tuple[npt.ArrayLike, npt.ArrayLike]:
        """One example and its label, or a query's documents."""
        one_example = not hasattr(X, "columns") and np.ndim(X) == 1
        return np.reshape(X, (1, -1)) if one_example else X, np.atleast_1d(_as_grades(relevance))

    def _as_stream(
        self,
        X: npt.ArrayLike | QueryStream,
        y: npt.ArrayLike | None,
        qid: npt.ArrayLike | None,
        group: npt.ArrayLike | None,
    ) -> QueryStream:
        if y is not None and not isinstance(X, QueryStream):
            y = _as_grades(y)
            if qid is None and group is None and y.ndim == 1 and y.size:
                group = np.ones(len(y), dtype=np.int64)
        return super()._as_stream(X, y, qid, group)

    def classify(self, X: npt.ArrayLike) -> Ints:
        """Labels -1 and 1."""
        return np.where(self.predict(X) > 0, 1, -1)


def _as_grades(labels: npt.ArrayLike) -> Floats:
    """Labels -1 and 1 as grades 0 and 1; grades as they are."""
    values = as_numbers("labels", labels).astype(np.float64)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    return np.where(values == -1.0, 0.0, values)
