"""Contributions of features to the scores of a query's documents, to the last bit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from perceptrank.deploy.explanation.terms import Products, Terms
from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.stream.columns import RELEVANCE
from perceptrank.stream.frames import make_frame
from perceptrank.stream.query_stream import QueryStream


class Difference(NamedTuple):
    """The difference of a feature's contributions to two documents: the first minus the second."""

    feature: str
    difference: float
    first: float
    second: float


@dataclass(frozen=True, eq=False)
class Contributions:
    """Contributions of features to the scores of the documents of one query, best first.

    `math.fsum` of a document's row of `values` and of `rounding`, which is what floating point arithmetic adds, is its
    score by `predict`, bit for bit.

    Methods take:

    - `document`: rank of a document, from 0 on; the method `find` takes its id.
    - `first`, `second`: ids of documents. ValueError is raised if there is no such document, or several.
    - `n`, `n_documents`: largest number of features or documents; by default all.
    - `library`: library of a data frame, "pandas" or "polars", which must be installed.

    Attributes
    ----------
    qid : value
        Id of the query.
    documents : tuple of str
        Ids of the documents, in the order of the ranking; their numbers in the query, from 1 on, if they have none.
    places : array
        Their rows in the query.
    relevance : array of shape (documents,), or None
        Their grades; None if the stream has none.
    scores : array of shape (documents,)
        Their scores.
    features : tuple of str
        Names of the features that contribute to some document, first those that move documents apart the most.
    values : array of shape (documents, features)
        The contributions.
    rounding : array of shape (documents, terms)
        Almost always one term.
    """

    qid: Any
    documents: tuple[str, ...]
    places: Ints
    relevance: Floats | None
    scores: Floats
    features: tuple[str, ...]
    values: Floats
    rounding: Floats

    def __len__(self) -> int:
        return len(self.documents)

    def total(self, document: int) -> float:
        """Return the sum of all contributions to a document, and of rounding: its score."""
        return math.fsum([*self.values[document].tolist(), *self.rounding[document].tolist()])

    def largest(self, document: int, n: int | None = None) -> list[tuple[str, float]]:
        """Return names of features and their contributions to a document, without those that are 0.

        First come those that differ most from their mean in the query; of one document, those farthest from 0.
        """
        row = self.values[document]
        apart = np.abs(row - self.values.mean(axis=0)) if len(self) > 1 else np.abs(row)
        order = np.lexsort((-np.abs(row), -apart))
        chosen = [int(j) for j in order if row[j] != 0.0][:n]
        return [(self.features[j], float(row[j])) for j in chosen]

    def find(self, document: str) -> int:
        """Return the rank of a document, from 0 on, by its id; raise ValueError if there is none, or several."""
        ranks = [rank for rank, name in enumerate(self.documents) if name == str(document)]
        if len(ranks) != 1:
            some = ", ".join(map(repr, self.documents[:5])) + (", …" if len(self) > 5 else "")
            problem = "has no document" if not ranks else f"has {len(ranks)} documents"
            raise ValueError(f"query {self.qid!s} {problem} {document!r}: its documents are {some}")
        return ranks[0]

    def why(self, first: str, second: str) -> list[Difference]:
        """Return by how much each feature puts one document ahead of another, largest first."""
        values, others = self.values[self.find(first)].tolist(), self.values[self.find(second)].tolist()
        pairs = zip(self.features, values, others, strict=True)
        rows = [Difference(name, a - b, a, b) for name, a, b in pairs if a != b]
        return sorted(rows, key=lambda row: -abs(row.difference))

    def to_frame(self, library: str = "pandas") -> Any:
        """Return a data frame with a row for each document and a column for each feature."""
        columns: dict[str, Any] = {
            "rank": np.arange(1, len(self) + 1),
            "document": list(self.documents),
            **({} if self.relevance is None else {"relevance": self.relevance}),
            "score": self.scores,
        }
        for j, name in enumerate(self.features):
            columns[name if name not in columns else f"{name} (feature)"] = self.values[:, j]
        return make_frame(columns | {"(rounding)": self.rounding.sum(axis=1)}, library)

    def as_plain(self, n_documents: int | None = None) -> dict[str, Any]:
        """Return it as plain values, for JSON."""
        documents = [
            {
                "rank": rank + 1,
                "document": self.documents[rank],
                "relevance": None if self.relevance is None else float(self.relevance[rank]),
                "score": float(self.scores[rank]),
                "contributions": dict(self.largest(rank)),
                "rounding": self.rounding[rank].tolist(),
            }
            for rank in range(len(self))[:n_documents]
        ]
        qid = self.qid if isinstance(self.qid, int) else str(self.qid)
        return {"qid": qid, "n_documents": len(self), "documents": documents}

    def __str__(self) -> str:
        from perceptrank.deploy.explanation.text import query_text

        return query_text(self)

    def _repr_html_(self) -> str:
        from perceptrank.deploy.explanation.page import query_html

        return query_html(self)


def contributions_of(terms: Terms, query: QueryStream) -> Contributions:
    """Return the contributions of features to the scores of a stream of one query."""
    query = terms.aligned(query)
    scores = terms.state.scores(query)
    products = terms.contributions(query)
    if isinstance(products, Products):
        active, columns = np.unique(products.features, return_inverse=True)
        values = np.zeros((query.n_documents, len(active)))
        values[products.rows, columns] = products.values
    else:
        active = np.flatnonzero(products.any(axis=0))
        values = products[:, active]
    if not np.isfinite(values).all():
        raise ValueError("contributions overflow: the features are too large")
    apart = ((values - values.mean(axis=0)) ** 2).sum(axis=0)
    important = np.lexsort((-np.abs(values).sum(axis=0), -apart))
    active, values = active[important], values[:, important]
    order = np.argsort(-scores, kind="stable")
    values, scores = values[order], scores[order]
    rows = [_rounding(score, row) for score, row in zip(scores.tolist(), values.tolist(), strict=True)]
    rounding = np.zeros((len(rows), max(map(len, rows), default=1)))
    for row, terms_of_row in zip(rounding, rows, strict=True):
        row[: len(terms_of_row)] = terms_of_row
    names, qid = document_names(query), query.qids.tolist()[0]
    documents = tuple(names[place] for place in order.tolist())
    features = tuple(terms.features[j] for j in active.tolist())
    relevance = query.relevance[order] if RELEVANCE in query.columns else None
    return Contributions(qid, documents, order, relevance, scores, features, values, rounding)


def _rounding(score: float, values: list[float]) -> list[float]:
    """Return numbers with which values add up to a score exactly: one, unless the score has lost almost all digits.

    Examples
    --------
    >>> _rounding(0.3, [0.1, 0.2])
    [-2.7755575615628914e-17]
    >>> _rounding(0.0, [1e16, -1e16, 1.0, 1e-20])
    [-1.0, -1e-20]
    """
    rests: list[float] = []
    while not rests or math.fsum([*values, *rests]) != score:
        rests.append(math.fsum([score, *(-value for value in values), *(-rest for rest in rests)]))
    return rests


def document_names(block: QueryStream) -> list[str]:
    """Name documents by their id, else by the first word of their comment, else by number in the query.

    First words that are not all different within a query are remarks, not names.
    """
    docids = [""] * block.n_documents if block.docids is None else block.docids.tolist()
    comments = [""] * block.n_documents if block.comments is None else block.comments.tolist()
    words = [next(iter(comment.removesuffix("docid =").split()), "") for comment in comments]
    names = [docid or word for docid, word in zip(docids, words, strict=True)]  # an id that is empty is none
    for start, stop in pairwise(block.offsets.tolist()):
        unnamed = [row for row in range(start, stop) if not docids[row]]
        own_words = [words[row] for row in unnamed if words[row]]
        for row in unnamed:
            if not words[row] or len(set(own_words)) < len(own_words):
                names[row] = str(row - start + 1)
    return names
