"""Pages of results: lists are shown to a user, and become impressions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from perceptrank.clicks.lists import pad
from perceptrank.clicks.policies import Policy
from perceptrank.clicks.users.user import User
from perceptrank.kernels.arrays import Bools, Floats
from perceptrank.stream.columns import (
    CLICKED,
    DOCID,
    EXAMINED,
    PLACE,
    POLICY,
    PROPENSITY,
    QID,
    RELEVANCE,
    SESSION,
    TIME,
    USER_QUERY,
    find_column,
)
from perceptrank.stream.query_stream import QueryStream, missing_columns
from perceptrank.stream.texts import Texts


@dataclass(frozen=True)
class Page:
    """Shows lists to a user; each of the two has random numbers of its own."""

    policy: Policy
    n: int
    user: User
    showing: np.random.Generator
    clicking: np.random.Generator

    def show(self, block: QueryStream, scores: Floats, first: int) -> QueryStream:
        """Return a block of queries as impressions, numbered from `first`."""
        shown = self.policy.show(pad(scores, block.offsets), self.n, self.showing)
        is_shown = shown.order >= 0
        rows = (shown.order + block.offsets[:-1, None])[is_shown]
        grades = np.full(shown.order.shape, np.nan)
        grades[is_shown] = block.relevance[rows]
        response = self.user.respond(grades, self.clicking)
        places = np.broadcast_to(np.arange(1, shown.order.shape[1] + 1), shown.order.shape)

        def by_document(values: npt.NDArray[Any], fill: float) -> Floats:
            column = np.full(block.n_documents, fill)
            column[rows] = values[is_shown]
            return column

        return block.with_columns(
            {
                QID: np.arange(first, first + len(block)),
                PLACE: by_document(places, 0.0),
                CLICKED: by_document(response.clicked, 0.0),
                EXAMINED: by_document(response.examined, 0.0),
                PROPENSITY: by_document(shown.propensity, np.nan),
                POLICY: Texts(shown.policy.tolist()),
            }
        )


def name_all(block: QueryStream) -> QueryStream:
    """Return graded queries with names of what the user asked and of documents, and without earlier times."""
    if RELEVANCE not in block.columns:
        raise missing_columns(block, "simulate_clicks", (RELEVANCE,))
    columns: dict[str, Any] = {TIME: None, SESSION: None}
    if USER_QUERY not in block.columns:
        columns[USER_QUERY] = Texts(map(str, block.qids.tolist()))
    if block.docids is None:
        columns[DOCID] = 1 + np.arange(block.n_documents) - np.repeat(block.offsets[:-1], np.diff(block.offsets))
    return block.with_columns(columns)


def keep_documents(stream: QueryStream, keep: Bools) -> QueryStream:
    """Copy a stream with some documents of each query."""
    rows = np.flatnonzero(keep)
    offsets = np.concatenate([[0], np.cumsum(np.add.reduceat(keep, stream.offsets[:-1], dtype=np.int64))])
    columns = {
        name: values[rows] if find_column(name).per == "document" else values for name, values in stream.columns.items()
    }
    return QueryStream(
        stream.X[rows],
        offsets=offsets,
        relevance=columns.pop(RELEVANCE),
        qids=columns.pop(QID),
        feature_names=stream.feature_names,
        columns=columns,
        missing="keep",
    )
