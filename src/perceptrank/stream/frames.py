"""Convert to and from pandas and polars data frames, without importing either."""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from perceptrank.stream.columns import CLICKED, PLACE, QID, RELEVANCE, Column, recognized_columns
from perceptrank.stream.texts import Texts
from perceptrank.stream.validation import check_choice


def make_frame(columns: Mapping[str, Any], library: str) -> Any:
    """Build a pandas or polars data frame."""
    check_choice("library", library, ("pandas", "polars"))
    try:
        frames = importlib.import_module(library)
    except ImportError:
        raise ImportError(f"to_frame needs {library}: pip install {library}") from None
    listed = {name: values.tolist() if isinstance(values, Texts) else values for name, values in columns.items()}
    return frames.DataFrame(listed)


def feature_columns(
    feature_names: tuple[str, ...] | None, n_features: int, columns: Mapping[str, Any]
) -> tuple[str, ...]:
    """Return the column names of features of a stream with these columns; raise `ValueError` if they clash."""
    names = feature_names or tuple(f"f{j + 1}" for j in range(n_features))
    taken = {QID, RELEVANCE, *recognized_columns([*names, *columns])} & set(names)
    if taken or len(set(names)) < len(names):
        raise ValueError(f"feature names must be distinct, and not {sorted(taken)}, to be names of columns")
    return names


def split_frame(
    frame: Any, qid: str, relevance: str, features: Sequence[str] | None
) -> tuple[npt.NDArray[Any], list[str] | None, dict[str, Any]]:
    """Split a data frame into features, their names, and columns by name; see `QueryStream.from_frame`."""
    if not hasattr(frame, "columns") or not hasattr(frame, "to_numpy"):
        raise TypeError(f"frame must be a pandas or polars DataFrame, got {type(frame).__name__}")
    if isinstance(features, str):
        features = [features]
    names = list(frame.columns)
    has_clicks = {PLACE, CLICKED} <= set(names)
    needed = [qid, *([] if has_clicks else [relevance]), *(features or [])]
    missing = [name for name in needed if name not in names]
    if missing:
        raise ValueError(f"the frame has no column {', '.join(map(repr, missing))}; it has {names}")
    columns = {QID: frame[qid].to_numpy()}
    if relevance in names:
        columns[RELEVANCE] = frame[relevance].to_numpy()
    for name, column in recognized_columns(names).items():
        if name not in (qid, relevance, *(features or ())):
            values = _column_values(column, frame[name])
            if values is not None:
                columns[name] = values
    reserved = {qid, relevance, *(columns.keys() - {QID, RELEVANCE})}
    chosen = [name for name in names if name not in reserved] if features is None else list(features)
    if not chosen and has_clicks:
        return np.empty((len(frame), 0), np.float32), None, columns
    if not chosen:
        raise ValueError(f"the frame has no feature columns, only {names}")
    lists = _list_column(frame, chosen[0]) if len(chosen) == 1 else None
    if lists is not None:
        return lists, None, columns
    return frame[chosen].to_numpy(), [str(name) for name in chosen], columns


def _list_column(frame: Any, name: str) -> npt.NDArray[Any] | None:
    """Return a column of lists as a matrix, or None if the column is scalar."""
    values = frame[name].to_numpy()
    if values.ndim == 2:
        return cast(npt.NDArray[Any], values)
    if len(values) == 0 or not isinstance(values[0], (list, np.ndarray)):
        return None
    lengths = {len(row) if isinstance(row, (list, np.ndarray)) else 0 for row in values}
    if len(lengths) > 1:
        raise ValueError(f"the lists of column {name!r} must have one length, got {sorted(lengths)}")
    return np.stack(list(values))


def _column_values(column: Column, series: Any) -> Any:
    """Return the values of a declared column; None if it has text and the frame's has not: then it is a feature."""
    if not column.is_text:
        return series.to_numpy()
    values = series.to_list()
    if column.dtype == "id":
        return values
    texts = ["" if value is None or value != value else value for value in values]  # noqa: PLR0124
    is_text = any(isinstance(value, str) for value in values) and all(isinstance(text, str) for text in texts)
    return texts if is_text else None
