"""Convert to and from pandas and polars data frames, without importing either."""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from perceptrank.stream.validation import check_choice


class FrameColumns(NamedTuple):
    """The parts of a data frame that make up a stream."""

    X: npt.NDArray[Any]
    relevance: npt.NDArray[Any]
    qid: npt.NDArray[Any]
    feature_names: list[str] | None
    comments: list[str] | None
    docids: list[Any] | None
    weights: npt.NDArray[Any] | None


def make_frame(columns: Mapping[str, Any], library: str) -> Any:
    """Build a pandas or polars data frame."""
    check_choice("library", library, ("pandas", "polars"))
    try:
        frames = importlib.import_module(library)
    except ImportError:
        raise ImportError(f"to_frame needs {library}: pip install {library}") from None
    return frames.DataFrame(dict(columns))


def feature_columns(feature_names: tuple[str, ...] | None, n_features: int) -> tuple[str, ...]:
    """Return the column names of features; raise `ValueError` if they clash."""
    names = feature_names or tuple(f"f{j + 1}" for j in range(n_features))
    taken = {"qid", "relevance", "comment", "docid", "query_weight"} & set(names)
    if taken or len(set(names)) < len(names):
        raise ValueError(f"feature names must be distinct, and not {sorted(taken)}, to be names of columns")
    return names


def split_frame(frame: Any, qid: str, relevance: str, features: Sequence[str] | None) -> FrameColumns:
    """Split a data frame into features, grades, identifiers and comments; see `QueryStream.from_frame`."""
    if not hasattr(frame, "columns") or not hasattr(frame, "to_numpy"):
        raise TypeError(f"frame must be a pandas or polars DataFrame, got {type(frame).__name__}")
    if isinstance(features, str):
        features = [features]
    columns = list(frame.columns)
    missing = [name for name in [qid, relevance, *(features or [])] if name not in columns]
    if missing:
        raise ValueError(f"the frame has no column {', '.join(map(repr, missing))}; it has {columns}")
    free = [name for name in ("comment", "docid", "query_weight") if name not in (qid, relevance, *(features or ()))]
    comments = _text_column(frame, "comment") if "comment" in free else None
    docids = frame["docid"].to_list() if "docid" in free and "docid" in columns else None
    weights = frame["query_weight"].to_numpy() if "query_weight" in free and "query_weight" in columns else None
    taken = zip(("comment", "docid", "query_weight"), (comments, docids, weights), strict=True)
    reserved = {qid, relevance, *(name for name, values in taken if values is not None)}
    chosen = [name for name in columns if name not in reserved] if features is None else list(features)
    if not chosen:
        raise ValueError(f"the frame has no feature columns, only {columns}")
    lists = _list_column(frame, chosen[0]) if len(chosen) == 1 else None
    return FrameColumns(
        frame[chosen].to_numpy() if lists is None else lists,
        frame[relevance].to_numpy(),
        frame[qid].to_numpy(),
        None if lists is not None else [str(name) for name in chosen],
        comments,
        docids,
        weights,
    )


def _list_column(frame: Any, name: str) -> npt.NDArray[Any] | None:
    """Return a column of lists as a matrix, or None if the column is scalar."""
    values = frame[name].to_numpy()
    if values.ndim == 2:
        return cast(npt.NDArray[Any], values)
    if len(values) == 0 or not isinstance(values[0], (list, np.ndarray)):
        return None
    lengths = {len(one) if isinstance(one, (list, np.ndarray)) else 0 for one in values}
    if len(lengths) > 1:
        raise ValueError(f"the lists of column {name!r} must have one length, got {sorted(lengths)}")
    return np.stack(list(values))


def _text_column(frame: Any, name: str) -> list[str] | None:
    """Return a column of text with missing values as "", or None if it is absent or not text."""
    if name not in list(frame.columns):
        return None
    values = frame[name].to_list()
    texts = ["" if one is None or one != one else one for one in values]  # noqa: PLR0124
    return texts if any(isinstance(one, str) for one in values) and all(isinstance(one, str) for one in texts) else None
