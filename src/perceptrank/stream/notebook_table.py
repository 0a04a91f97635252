"""A stream as notebooks show it: its first documents."""

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from perceptrank.stream.columns import QID, RELEVANCE
from perceptrank.stream.sparse import dense

if TYPE_CHECKING:
    from perceptrank.stream.query_stream import QueryStream

_ROWS, _FEATURES = 8, 8


def first_documents(stream: "QueryStream") -> str:
    """Return a table of the first documents, with their columns and the first features; all text is escaped."""
    n_rows = min(_ROWS, stream.n_documents)
    head = stream[: int(np.searchsorted(stream.offsets, n_rows))]
    columns: dict[str, Any] = {QID: np.repeat(head.qids, np.diff(head.offsets))}
    columns |= {RELEVANCE: head.relevance} if RELEVANCE in head.columns else {}
    columns |= head.per_document()
    names = stream.feature_names or [f"f{j + 1}" for j in range(min(_FEATURES, stream.n_features))]
    X = dense(head.X[:n_rows])
    columns |= {name: X[:, j] for j, name in enumerate(names[:_FEATURES])}
    cells = [[_shown(values[i]) for values in columns.values()] for i in range(n_rows)]
    rows = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in cells)
    heads = "".join(f"<th>{escape(name)}</th>" for name in columns)
    left = stream.n_documents - n_rows, stream.n_features - _FEATURES
    more = [f"{n:,} more {what}" for n, what in zip(left, ("documents", "features"), strict=True) if n > 0]
    return f"<div>{escape(repr(stream))}</div><table><tr>{heads}</tr>{rows}</table><div>{', '.join(more)}</div>"


def _shown(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float | np.floating) else escape(str(value))
