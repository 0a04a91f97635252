"""Validate and convert user input to the arrays that kernels take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from perceptrank.kernels.arrays import Features, Floats, Ints
from perceptrank.stream.sparse import AnyFeatures, SparseFeatures, is_scipy
from perceptrank.stream.texts import Texts

_CHECKED_ROWS_BYTES = 2**20
_KEPT = (np.dtype(np.float32), np.dtype(np.float64))


class ParameterError(ValueError):
    """A parameter breaks its rule; a `ValueError` that has `parameter`, `rule` and `value`.

    Examples
    --------
    >>> str(ParameterError("learning_rate", "must be a number > 0", -1.0))
    'learning_rate must be a number > 0, got -1.0'
    """

    def __init__(self, parameter: str, rule: str, value: Any) -> None:
        super().__init__(f"{parameter} {rule}, got {value!r}")
        self.parameter, self.rule, self.value = parameter, rule, value

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.parameter, self.rule, self.value)


def are_finite(X: AnyFeatures) -> bool:
    """Tell whether no feature is NaN or infinite."""
    values = X.values[X.starts[0] : X.starts[-1]] if isinstance(X, SparseFeatures) else X
    return bool(np.isfinite(values).all())


def read_only(array: Any) -> Any:
    """Return a read-only view."""
    if isinstance(array, (SparseFeatures, Texts)):
        return array
    view = array.view()
    view.flags.writeable = False
    return view


def column_names(X: Any) -> list[str] | None:
    """Return the column names of a data frame; None if X is not one, or a name is not text."""
    columns = getattr(X, "columns", None)
    return None if columns is None or not all(isinstance(name, str) for name in columns) else list(columns)


def as_features(X: Any, names: Sequence[str] | None = None, *, may_be_empty: bool = False) -> Features:
    """Convert X to a C-contiguous float32 or float64 matrix, without a copy if it is one; names are for errors."""
    if type(X) is np.ndarray and X.ndim == 2 and X.dtype in _KEPT and X.shape[1]:
        flags = X.flags
        if flags.c_contiguous and flags.aligned:
            return X
    if isinstance(X, SparseFeatures) or is_scipy(X):
        raise TypeError("X must be a dense array, got a sparse one; X.toarray() makes it dense")
    matrix = as_numbers("X", X, names or column_names(X))
    if matrix.ndim != 2:
        hint = ". Reshape your data: one document is X.reshape(1, -1)" if matrix.ndim == 1 else ""
        raise ValueError(f"X must be a matrix (documents x features), got {matrix.ndim} dimension(s){hint}")
    if matrix.shape[1] == 0 and not may_be_empty:
        raise ValueError(f"X has 0 feature(s) (shape={matrix.shape}) while a minimum of 1 is required.")
    keep = np.dtype(np.float32 if np.can_cast(matrix.dtype, np.float32) else np.float64)
    return cast(Features, as_laid_out(matrix, keep))


def as_any_features(X: Any, names: Sequence[str] | None = None, *, may_be_empty: bool = False) -> AnyFeatures:
    """Convert X to dense features, or to sparse ones if it is sparse; names are for errors."""
    if isinstance(X, SparseFeatures):
        return X
    return SparseFeatures.from_scipy(X) if is_scipy(X) else as_features(X, names, may_be_empty=may_be_empty)


def as_offsets(offsets: Any, n_documents: int) -> Ints:
    """Convert offsets to int64: rising from 0 to the number of documents, so that every query has one."""
    bounds = offsets if type(offsets) is np.ndarray else as_numbers("offsets", offsets)
    if bounds.dtype.kind not in "iu":
        raise ValueError(f"offsets must be whole numbers, got {offsets!r}")
    if bounds.ndim != 1 or len(bounds) == 0 or bounds[0] != 0 or bounds[-1] != n_documents:
        raise ValueError(f"offsets must run from 0 to the number of documents ({n_documents}), got {offsets!r}")
    is_one_query = len(bounds) == 2 and n_documents > 0  # of which all is known by now
    if not is_one_query and not (rises := bounds[1:] > bounds[:-1]).all():
        q = int(np.argmin(rises))
        raise ValueError(f"offsets must increase, every query having a document, but not after query number {q}")
    return as_laid_out(bounds, np.dtype(np.int64))


def as_grouped(X: Any, offsets: Any) -> tuple[Features, Ints]:
    """Convert features and the offsets of their queries; features are not checked to be finite."""
    features = as_features(X)
    return features, as_offsets(offsets, len(features))


def as_laid_out(array: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Convert to a contiguous array in the byte order and at the addresses that machine code expects."""
    laid_out = np.ascontiguousarray(array, dtype=dtype)
    return laid_out if laid_out.flags.aligned else laid_out.copy()


def as_numbers(name: str, values: Any, columns: Sequence[str] | None = None) -> npt.NDArray[Any]:
    """Convert to an array of real numbers; objects and numeric text become float64. Columns have names for errors."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.getmaskarray(values).any():
        raise ValueError(f"{name} must not have masked values")
    array = np.empty(0)
    try:
        array = np.asarray(values)
        if array.dtype.kind in "OUS":
            array = _as_floats(array)
    except (TypeError, ValueError, OverflowError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        if array.ndim == 2:
            raise kind(_describe_columns(name, array, columns, error)) from None
        raise kind(f"{name} must hold numbers: {error}") from None
    if array.dtype.kind == "c":
        raise ValueError(f"{name} must hold real numbers. Complex data not supported")
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must hold numbers, got {array.dtype}")
    return array


def _describe_columns(name: str, array: npt.NDArray[Any], names: Sequence[str] | None, error: Exception) -> str:
    """Return the message about the columns of a matrix that do not hold numbers, by their names or numbers."""
    problems: dict[str, Exception] = {}
    for j in range(array.shape[1]):
        try:
            _as_floats(array[:, j])
        except (TypeError, ValueError, OverflowError) as problem:
            problems[repr(names[j]) if names and len(names) == array.shape[1] else f"{j} (from 0)"] = problem
    first = next(iter(problems.values()), error)
    listed, several = ", ".join(problems), len(problems) > 1
    ways = f"leave {'them' if several else 'it'} out, or encode {'them' if several else 'it'}"
    if names and problems:
        ways += f": `QueryStream.from_frame(…, categories=[{listed}])` makes a feature of each value"
    what = f"but columns {listed} do not" if several else f"but column {listed} does not"
    return f"{name} must hold numbers, {what}: {first}; {ways}" if problems else f"{name} must hold numbers: {error}"


def _as_floats(array: npt.NDArray[Any]) -> Floats:
    """Convert objects or text to float64; what is missing, None or pandas.NA, becomes NaN."""
    try:
        return array.astype(np.float64)
    except TypeError:
        places = np.array([_has_no_truth(value) for value in array.flat], dtype=bool).reshape(array.shape)
        return np.where(places, np.nan, array).astype(np.float64)


def _has_no_truth(value: Any) -> bool:
    """Detect pandas.NA, which cannot be said to differ from itself or not."""
    try:
        bool(value != value)  # noqa: PLR0124
    except TypeError:
        return True
    except ValueError:  # an array
        pass
    return False


def as_grades(relevance: Any, n_documents: int) -> Floats:
    """Convert grades to float64: one per document, finite, non-negative."""
    grades = as_numbers("relevance", relevance)
    if grades.ndim == 2 and grades.shape[1] == 1:
        grades = grades[:, 0]
    if grades.shape != (n_documents,):
        raise ValueError(f"relevance must have one grade per document ({n_documents}), got shape {grades.shape}")
    grades = as_laid_out(grades, np.dtype(np.float64))
    if len(grades) and not (grades.min() >= 0 and grades.max() < np.inf):
        i = int(np.argmax(~((grades >= 0) & np.isfinite(grades))))
        raise ValueError(f"relevance must be finite and not negative, got {grades[i]} at document {i}")
    return grades


def check_finite(X: AnyFeatures, names: tuple[str, ...] | None, *, keep_missing: bool = False) -> None:
    """Raise if a feature is infinite, or NaN unless those are kept."""
    if (error := find_bad_feature(X, names, keep_missing=keep_missing)) is not None:
        raise error


def without_missing(X: AnyFeatures) -> AnyFeatures:
    """Return features with 0 for NaN: themselves if there is none, else a copy."""
    values = X.values if isinstance(X, SparseFeatures) else X
    if not np.isnan(values).any():
        return X
    filled = np.where(np.isnan(values), values.dtype.type(0), values)
    return X.with_values(filled[X.starts[0] : X.starts[-1]]) if isinstance(X, SparseFeatures) else filled


def find_bad_feature(
    X: AnyFeatures, names: tuple[str, ...] | None, *, keep_missing: bool, first_row: int = 0
) -> ValueError | None:
    """Return the error for a feature that is infinite, or NaN unless those are kept; None if there is none.

    It reads in pieces that fit in the cache. Sparse features cannot be missing: what they leave out is 0.
    """
    if isinstance(X, SparseFeatures):
        return None if are_finite(X) else bad_feature(X, first_row, names)
    if not X.size:
        return None
    rows = max(1, _CHECKED_ROWS_BYTES // (X.shape[1] * X.itemsize))
    for start in range(0, len(X), rows):
        piece = X[start : start + rows]
        if not (np.isfinite(piece.max()) and np.isfinite(piece.min())):
            if not keep_missing:
                return bad_feature(piece, first_row + start, names)
            if np.isinf(piece).any():
                return bad_feature(np.where(np.isnan(piece), piece.dtype.type(0), piece), first_row + start, names)
    return None


def bad_feature(X: AnyFeatures, first_row: int, names: tuple[str, ...] | None) -> ValueError:
    """Return the error for the first non-finite value of X, with what to do about one that is missing."""
    hint = ""
    if isinstance(X, SparseFeatures):
        places = np.flatnonzero(~np.isfinite(X.values))
        place = int(places[np.searchsorted(places, X.starts[0])])
        i, j = int(np.searchsorted(X.starts, place, side="right")) - 1, int(X.indices[place])
        value = X.values[place]
    else:
        i, j = (int(place) for place in np.argwhere(~np.isfinite(X))[0])
        value = X[i, j]
        if np.isnan(value):
            hint = "; missing values are for streams with `missing='keep'` and learners with `transforms='missing'` as "
            hint += "first transform"
    name = f" ({names[j]!r})" if names and len(names) == X.shape[1] else ""
    shown = "NaN" if np.isnan(value) else "infinity"
    return ValueError(f"X must be finite, got {shown} at document {first_row + i}, feature {j}{name}{hint}")


def as_names(names: Sequence[str] | None, n_features: int) -> tuple[str, ...] | None:
    """Convert feature names to a tuple of one name per feature."""
    if names is None:
        return None
    if len(names) != n_features:
        raise ValueError(f"feature_names must name each of the {n_features} features, got {len(names)} names")
    return tuple(str(name) for name in names)


def as_texts(name: str, values: Any, n: int, *, whole_numbers: bool, per: str) -> Texts:
    """Convert to n texts, one per document or query; if they are ids, whole numbers become text."""
    noun, rule = ("id", "text or whole numbers") if whole_numbers else ("text", "text")
    if isinstance(values, Texts):
        texts = values
    else:
        if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
            raise ValueError(f"{name} must have one {noun} per {per} ({n}), got {values!r}")
        listed = values.tolist() if hasattr(values, "tolist") else list(values)
        for i, value in enumerate(listed):
            if not isinstance(value, str) and not (whole_numbers and is_whole(value)):
                raise ValueError(f"{name} must be {rule}, got {value!r} at {per} {i}")
        strings = [str(value) for value in listed]
        for i, string in enumerate(() if "".join(strings).isascii() else strings):
            if string.encode(errors="replace").decode() != string:
                raise ValueError(f"{name} must be text that UTF-8 can hold, got {string!r} at {per} {i}")
        texts = Texts(strings)
    if len(texts) != n:
        raise ValueError(f"{name} must have one {noun} per {per} ({n}), got {len(texts)}")
    return texts


def as_identifiers(qid: Any) -> npt.NDArray[Any]:
    """Convert query identifiers to an array without missing values; mixed lists keep their types."""
    if isinstance(qid, np.ma.MaskedArray) and np.ma.getmaskarray(qid).any():
        raise ValueError("qid must not have masked values")
    identifiers = np.asarray(qid)
    if isinstance(qid, (list, tuple)):
        mixed = len({isinstance(value, str) for value in qid}) > 1
        rounded = identifiers.dtype.kind == "f" and all(isinstance(value, int) for value in qid)
        identifiers = np.array(qid, dtype=object) if mixed or rounded else identifiers
    missing = np.zeros(len(identifiers) if identifiers.ndim else 0, dtype=bool)
    if identifiers.dtype.kind == "f":
        missing = np.isnan(identifiers)
    elif identifiers.dtype.kind in "mM":
        missing = np.isnat(identifiers)
    elif identifiers.dtype.kind == "O" and identifiers.ndim == 1:
        missing = np.array([is_missing(value) for value in identifiers], dtype=bool)
    if missing.any():
        i = int(np.argmax(missing))
        raise ValueError(f"qid must not be missing, got {identifiers[i]} at document {i}")
    return identifiers


def is_missing(value: Any) -> bool:
    """Detect None and values unequal to themselves: NaN, NaT, pandas.NA."""
    try:
        return value is None or bool(value != value)  # noqa: PLR0124
    except (TypeError, ValueError):
        return True


def check_choice(name: str, value: Any, choices: Iterable[str]) -> None:
    """Raise unless a parameter is one of its allowed values."""
    if value not in (known := list(choices)):
        raise ParameterError(name, f"must be one of {', '.join(map(repr, known))}", value)


def check_flag(name: str, value: Any) -> bool:
    """Return a boolean; raise unless it is one."""
    if not isinstance(value, (bool, np.bool_)):
        raise ParameterError(name, "must be True or False", value)
    return bool(value)


def check_positive(name: str, value: Any) -> float:
    """Return a positive finite number as a float."""
    number = as_number(value)
    if not 0 < number < np.inf:
        raise ParameterError(name, "must be a number > 0", value)
    return number


def check_not_negative(name: str, value: Any) -> float:
    """Return a non-negative finite number as a float."""
    number = as_number(value)
    if not 0 <= number < np.inf:
        raise ParameterError(name, "must be a number >= 0", value)
    return number


def check_seed(seed: Any) -> int:
    """Return a seed as an int; raise unless it is an integer in [0, 2**63)."""
    if not is_whole(seed) or not 0 <= seed < 2**63:
        raise ParameterError("seed", "must be a whole number >= 0 and below 2**63", seed)
    return int(seed)


def check_positive_whole(name: str, value: Any, *, least: int = 1) -> int:
    """Return a positive integer, at least `least`, as an int."""
    if not is_whole(value) or value < 1:
        raise ParameterError(name, "must be a whole number > 0", value)
    if value < least:
        raise ParameterError(name, f"must be at least {least}", value)
    return int(value)


def is_whole(value: Any) -> bool:
    """Return True for integers, but not for booleans."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def check_confidence(confidence: Any) -> float:
    """Return a confidence level as a float; raise unless it is between 0 and 1."""
    if not 0 < (level := as_number(confidence)) < 1:
        raise ParameterError("confidence", "must be between 0 and 1", confidence)
    return level


def as_number(value: Any) -> float:
    """Return a real number as a float, anything else as NaN."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        return float("nan")
    try:
        return float(value)
    except OverflowError:
        return float("inf")


def as_scores(scores: Any) -> Floats:
    """Convert scores to a finite float64 vector."""
    values = as_laid_out(as_numbers("scores", scores), np.dtype(np.float64))
    if values.ndim != 1:
        raise ValueError(f"scores must be a vector, one per document, got {values.ndim} dimensions")
    if not np.isfinite(values).all():
        i = int(np.argmax(~np.isfinite(values)))
        raise ValueError(f"scores must be finite, got {values[i]} at document {i}")
    return values
