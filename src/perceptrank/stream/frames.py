"""Convert to and from pandas and polars data frames, without importing either, and to tables of notebooks."""

import importlib
import warnings
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, TypeGuard, cast

import numpy as np
import numpy.typing as npt

from perceptrank.stream.columns import CLICKED, PLACE, QID, RELEVANCE, Column, recognized_columns
from perceptrank.stream.sparse import dense
from perceptrank.stream.texts import Texts
from perceptrank.stream.validation import as_features, check_choice, is_missing

if TYPE_CHECKING:
    from perceptrank.stream.query_stream import QueryStream

_ROWS, _FEATURES = 8, 8  # that notebooks show


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


def is_frame(value: Any) -> TypeGuard[Any]:
    """Tell a data frame by what it can do."""
    return hasattr(value, "columns") and hasattr(value, "to_numpy")


def split_frame(
    frame: Any,
    qid: str,
    relevance: str,
    features: Sequence[str] | None,
    categories: Sequence[str] = (),
    known: Collection[str] = (),
    *,
    judged: bool = True,
) -> tuple[npt.NDArray[Any], list[str] | None, dict[str, Any]]:
    """Split a data frame into features, their names, and columns by name; see `QueryStream.from_frame`.

    Columns whose values are among the `known` features, as ``name=value``, are encoded as these. A frame that is not
    `judged` needs neither queries nor grades.
    """
    if not is_frame(frame):
        raise TypeError(f"frame must be a pandas or polars DataFrame, got {type(frame).__name__}")
    features = [features] if isinstance(features, str) else features
    categories = [categories] if isinstance(categories, str) else list(categories)
    names = list(frame.columns)
    if twice := [name for name, n in Counter(names).items() if n > 1]:
        raise ValueError(f"columns of a frame must have different names, got {twice[0]!r} twice")
    if taken := [name for name in (*(features or ()), *categories) if name in (qid, relevance)]:
        raise ValueError(f"features must not have {taken[0]!r}, which is the column of queries or grades")
    has_clicks = {PLACE, CLICKED} <= set(names)
    needed = [qid, *([] if has_clicks else [relevance])] if judged else []
    needed += [*categories, *(_source(name, names) or name for name in features or ())]
    missing = [name for name in needed if name not in names]
    if missing:
        raise ValueError(f"the frame has no column {', '.join(map(repr, missing))}; it has {names}")
    columns = {name: frame[own].to_numpy() for name, own in ((QID, qid), (RELEVANCE, relevance)) if own in names}
    for name, column in recognized_columns(names).items():
        if name not in (qid, relevance, *(features or ()), *categories):
            values = _column_values(column, frame[name])
            if values is not None:
                columns[name] = values
    reserved = {qid, relevance, *(columns.keys() - {QID, RELEVANCE})}
    chosen = [name for name in names if name not in reserved] if features is None else [*features]
    chosen += [name for name in categories if name not in chosen]
    if not chosen and has_clicks:
        return np.empty((len(frame), 0), np.float32), None, columns
    if not chosen:
        raise ValueError(f"the frame has no feature columns, only {names}")
    lists = _list_column(frame, chosen[0]) if len(chosen) == 1 and chosen[0] in names else None
    if lists is not None:
        return lists, None, columns
    return *encode_frame(frame, chosen, known, categories), columns


def encode_frame(
    frame: Any, names: Sequence[Any], known: Collection[str] = (), categories: Collection[str] = ()
) -> tuple[npt.NDArray[Any], list[str]]:
    """Return features and their names; a category ``name=value`` is 1 where its column has the value.

    A column of categories, or of `known` ones, has a feature for each of the known values, else for each that occurs.
    """
    columns = list(frame.columns)
    encoded: dict[str, list[str]] = {}  # known categories by their columns
    for feature in known:
        source = _source(feature, columns)
        if source is not None and source != feature and source not in known:
            encoded.setdefault(source, []).append(feature)
    texts: dict[Any, list[str | None]] = {}
    sources: dict[Any, Any] = {}  # the column that each feature is made of
    for name in names:
        source = _source(name, columns)
        if source == name and name not in categories and name not in encoded:
            sources[name] = name
            continue
        if source not in texts:
            texts[source] = _as_categories(frame[source])
        occurring = sorted({f"{name}={value}" for value in texts[source] if value is not None})
        sources |= dict.fromkeys([name] if source != name else encoded.get(name, occurring), source)
    if texts and sources.keys() == set(known):
        sources = {name: sources[name] for name in known}
    plain = [name for name, source in sources.items() if source not in texts]
    numbers = frame[plain].to_numpy()
    if not texts:
        return numbers, list(map(str, plain))
    kept = as_features(numbers, list(map(str, plain))) if plain else np.empty((len(frame), 0), np.float32)
    X, places = np.zeros((len(frame), len(sources)), kept.dtype), {name: j for j, name in enumerate(sources)}
    X[:, [places[name] for name in plain]] = kept
    for source, values in texts.items():
        found = np.array([places.get(f"{source}={value}", -1) for value in values])
        rows = np.flatnonzero(found >= 0)
        X[rows, found[rows]] = 1
        unseen = sorted({values[i] or "" for i in np.flatnonzero(found < 0).tolist()} - {""})
        if unseen:
            shown = ", ".join(map(repr, unseen[:5])) + (f" and {len(unseen) - 5} more" if len(unseen) > 5 else "")
            warnings.warn(f"values of column {source!r} that are no feature count as none: {shown}", stacklevel=4)
    return X, list(map(str, sources))


def _source(feature: Any, names: Sequence[Any]) -> Any:
    """Return the column that a feature is made of: its own, or that of the category ``name=value``; None if none is."""
    if feature in names or not isinstance(feature, str):
        return feature
    parts = feature.split("=")
    prefixes = ("=".join(parts[:k]) for k in range(len(parts) - 1, 0, -1))
    return next((prefix for prefix in prefixes if prefix in names), None)


def _as_categories(series: Any) -> list[str | None]:
    """Return values as texts, None where they are missing; 3.0 is "3": whole numbers with gaps are floats to pandas."""
    values = (None if is_missing(value) or value == "" else value for value in series.to_list())
    return [None if v is None else str(int(v)) if isinstance(v, float) and v.is_integer() else str(v) for v in values]


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
    texts = ["" if is_missing(value) else value for value in values]
    is_text = any(isinstance(value, str) for value in values) and all(isinstance(text, str) for text in texts)
    return texts if is_text else None


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
    cells = [[_as_cell(values[i]) for values in columns.values()] for i in range(n_rows)]
    rows = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in cells)
    heads = "".join(f"<th>{escape(name)}</th>" for name in columns)
    left = stream.n_documents - n_rows, stream.n_features - _FEATURES
    more = [f"{n:,} more {what}" for n, what in zip(left, ("documents", "features"), strict=True) if n > 0]
    return f"<div>{escape(repr(stream))}</div><table><tr>{heads}</tr>{rows}</table><div>{', '.join(more)}</div>"


def _as_cell(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float | np.floating) else escape(str(value))
