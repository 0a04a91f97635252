"""Scorers: measures of rankings for scikit-learn's tools, which hand over rows and know no queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from perceptrank.learners.sklearn_adapter import ROUTING, Estimator, mean_over_queries
from perceptrank.measures import Measure, MeasureLike, parse
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.sparse import dense


@dataclass(frozen=True)
class Scorer:
    """A function of an estimator and judged rows, and what it tells scikit-learn's routing; see `make_scorer`."""

    measure: Measure
    qid: Any = None

    def __call__(
        self,
        estimator: Any,
        X: Any,
        y: npt.ArrayLike,
        *,
        qid: npt.ArrayLike | None = None,
        sample_weight: npt.ArrayLike | None = None,
    ) -> float:
        """Return the mean of the measure over the queries of the rows."""
        queries = self.qid if qid is None else qid
        if queries is None:
            raise ValueError(
                f"a scorer needs the query of each row: the line {ROUTING} lets scikit-learn hand on qid, or give it "
                "to make_scorer"
            )
        n, n_rows = len(np.asarray(queries)), len(np.asarray(y))
        if n != n_rows:
            raise ValueError(
                f"qid of make_scorer must be that of the rows that are scored, got {n} for {n_rows} rows: in "
                f"cross-validation, leave it out and pass qid to the search, after the line {ROUTING}"
            )
        last = estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator
        known = {"qid": queries} if isinstance(last, Estimator) else {}
        scores = np.asarray(estimator.predict(X, **known), np.float64)
        stream = QueryStream.from_arrays(scores[:, None], y, qid=queries, query_weights=sample_weight)
        return mean_over_queries(self.measure, np.ravel(dense(stream.X)).astype(np.float64), stream)

    def get_metadata_routing(self) -> Any:
        """Return the metadata that scoring takes: `qid`, unless it is known."""
        from sklearn.utils.metadata_routing import MetadataRequest

        request = MetadataRequest(owner="make_scorer")
        request.score.add_request(param="qid", alias=self.qid is None)
        return request


def make_scorer(measure: MeasureLike, *, qid: npt.ArrayLike | None = None) -> Scorer:
    """Return a measure as the `scoring` of scikit-learn's tools, for any estimator whose predictions rank.

    Tools that route metadata hand on `qid`, such as `GridSearchCV` and `cross_validate` after
    ``sklearn.set_config(enable_metadata_routing=True)``. For others, such as `permutation_importance`, give it here.

    Parameters
    ----------
    measure : str or Measure
        What the score is, as the mean over queries.
    qid : array of shape (documents,), optional
        Query of each row that will be scored.

    Examples
    --------
    >>> import numpy as np
    >>> import perceptrank as pr
    >>> stream = pr.separable(30, seed=1).stream
    >>> X, y, qid = np.array(stream.X), stream.relevance, np.repeat(stream.qids, np.diff(stream.offsets))
    >>> ranker = pr.ListwisePerceptron().fit(X, y, qid=qid)
    >>> scorer = make_scorer("ndcg@5", qid=qid)
    >>> scorer(ranker, X, y) == pr.evaluate(ranker, stream, "ndcg@5").mean("ndcg@5")
    True
    """
    return Scorer(parse(measure), qid)
