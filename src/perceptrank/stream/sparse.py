"""Features of which most are zero, by their non-zeros."""

from __future__ import annotations

from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from perceptrank.kernels.arrays import Columns, Features, Ints, SparseArrays
from perceptrank.stream.memory import free_memory

MOST_FEATURES = 2**31 - 1


class SparseFeatures:
    """Rows of features of which only the non-zeros are held: compressed sparse rows.

    Row i has the values ``values[starts[i] : starts[i + 1]]`` in the columns ``indices[starts[i] : starts[i + 1]]``,
    which increase. Slices are views. Whatever takes features takes these, and SciPy's sparse matrices and arrays.

    Parameters
    ----------
    values : array of shape (non-zeros,)
        float32 and float64 are kept, without a copy; other dtypes become float32 if it holds them exactly, else
        float64.
    indices : array of int of shape (non-zeros,)
        Column of each value; copied, since compiled code relies on them.
    starts : array of int of shape (rows + 1,)
        Where each row begins; copied.
    n_features : int
        Number of columns.

    Examples
    --------
    >>> rows = SparseFeatures([5.0, 7.0, 1.0], [0, 4, 2], [0, 2, 3], 6)
    >>> rows
    SparseFeatures(2 rows, 6 columns, 3 non-zeros)
    >>> rows[:1].toarray()
    array([[5., 0., 0., 0., 7., 0.]])
    """

    __slots__ = ("indices", "n_features", "starts", "values")

    values: Features
    indices: Columns
    starts: Ints
    n_features: int

    ndim = 2

    def __init__(self, values: npt.ArrayLike, indices: npt.ArrayLike, starts: npt.ArrayLike, n_features: int) -> None:
        if isinstance(n_features, bool) or not isinstance(n_features, (int, np.integer)) or n_features < 1:
            raise ValueError(f"n_features must be a whole number > 0, got {n_features!r}")
        if n_features > MOST_FEATURES:
            raise ValueError(f"n_features must be at most {MOST_FEATURES}, got {n_features}")
        numbers = _as_values(values)
        columns = _as_vector("indices", indices, "iu")
        bounds = _as_starts(starts, len(numbers), len(columns))
        # Checked after it was copied, so that whoever changes the given array changes nothing here.
        copied = columns.astype(np.int32 if columns.dtype.itemsize <= 4 and columns.dtype.kind == "i" else np.int64)
        _check_indices(copied, bounds, int(n_features))
        self._set(numbers, copied.astype(np.int32, copy=False), bounds, int(n_features))

    def _set(self, values: Features, indices: Columns, starts: Ints, n_features: int) -> None:
        for name, array in (("values", values), ("indices", indices), ("starts", starts)):
            view = array.view()
            view.flags.writeable = False
            object.__setattr__(self, name, view)
        object.__setattr__(self, "n_features", n_features)

    def __setattr__(self, name: str, value: Any) -> None:
        # Compiled code does not check again that the arrays fit together.
        raise AttributeError(f"{name} of sparse features cannot be replaced: make new ones")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{name} of sparse features cannot be deleted")

    def __reduce__(self) -> Any:
        whole = self._rebased()
        return SparseFeatures, (whole.values, whole.indices, whole.starts, self.n_features)

    @classmethod
    def _trusted(cls, values: Features, indices: Columns, starts: Ints, n_features: int) -> SparseFeatures:
        """Construct from arrays that fit together; starts need not begin at 0."""
        rows = cls.__new__(cls)
        rows._set(values, indices, starts, n_features)
        return rows

    @classmethod
    def from_scipy(cls, X: Any) -> SparseFeatures:
        """Convert a SciPy sparse matrix or array of any format.

        Entries at the same place are added, but are an error in CSR. Values of a CSR matrix are shared: do not change
        it in place while they are in use.

        Parameters
        ----------
        X : SciPy sparse matrix or array
        """
        rows = X.tocsr()
        if len(rows.shape) != 2:
            raise ValueError(f"X must be a matrix (documents x features), got {len(rows.shape)} dimension(s)")
        if rows.dtype.kind == "c":
            raise ValueError("X must hold real numbers. Complex data not supported")
        if rows.shape[1] == 0:
            raise ValueError(f"X has 0 feature(s) (shape={rows.shape}) while a minimum of 1 is required.")
        values, indices, starts = rows.data, rows.indices, rows.indptr
        if len(starts) != rows.shape[0] + 1:
            raise ValueError(f"starts must be one more than the rows of X ({rows.shape[0]}), got {len(starts)}")
        if 0 <= starts[-1] < len(values):  # SciPy allows room at the end
            values, indices = values[: starts[-1]], indices[: starts[-1]]
        starts = _as_starts(starts, len(values), len(indices))
        if _first_unsorted(indices, starts, allow_equal=True) >= 0:
            order = np.lexsort((indices, np.repeat(np.arange(len(starts) - 1), np.diff(starts))))
            values, indices = values[order], indices[order]
        return cls(values, indices, starts, rows.shape[1])

    @classmethod
    def from_dense(cls, X: npt.ArrayLike) -> SparseFeatures:
        """Convert a dense matrix; its zeros are left out.

        Parameters
        ----------
        X : array of shape (rows, columns)
        """
        from scipy.sparse import csr_array

        matrix = np.asarray(X)
        if matrix.ndim != 2 or not 0 < matrix.shape[1] <= MOST_FEATURES:
            raise ValueError(f"X must be a matrix of 1 to {MOST_FEATURES} columns, got shape {matrix.shape}")
        return cls._from_csr(csr_array(_as_values(matrix.ravel()).reshape(matrix.shape)))

    @classmethod
    def _from_csr(cls, rows: Any) -> SparseFeatures:
        """Take over the arrays of a `csr_array` with sorted indices."""
        return cls._trusted(rows.data, rows.indices.astype(np.int32), rows.indptr.astype(np.int64), rows.shape[1])

    @classmethod
    def concatenate(cls, parts: list[SparseFeatures]) -> SparseFeatures:
        """Join the rows of several, which have the same number of columns, one after the other.

        Parameters
        ----------
        parts : list of SparseFeatures
        """
        from scipy.sparse import vstack

        if len(widths := {part.n_features for part in parts}) != 1:
            raise ValueError(f"parts must have the same number of columns, got {sorted(widths)}")
        return cls._from_csr(vstack([part.to_scipy() for part in parts], format="csr"))

    @classmethod
    def beside(cls, parts: list[SparseFeatures]) -> SparseFeatures:
        """Join the columns of several, which have the same number of rows, side by side.

        Parameters
        ----------
        parts : list of SparseFeatures
        """
        from scipy.sparse import hstack

        if (total := sum(part.n_features for part in parts)) > MOST_FEATURES:
            raise ValueError(f"n_features must be at most {MOST_FEATURES}, got {total}")
        return cls._from_csr(hstack([part.to_scipy() for part in parts], format="csr"))

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return len(self.starts) - 1, self.n_features

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values."""
        return self.values.dtype

    @property
    def n_nonzeros(self) -> int:
        """Number of values that are held; some may be zeros that were given as such."""
        return int(self.starts[-1] - self.starts[0])

    @property
    def nbytes(self) -> int:
        """Number of bytes of the arrays."""
        return self.n_nonzeros * (self.values.itemsize + self.indices.itemsize) + self.starts.nbytes

    @property
    def arrays(self) -> SparseArrays:
        """Values, indices and starts, as kernels take them."""
        return self.values, self.indices, self.starts

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __repr__(self) -> str:
        return f"SparseFeatures({len(self)} rows, {self.n_features} columns, {self.n_nonzeros} non-zeros)"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SparseFeatures) or self.shape != other.shape or self.dtype != other.dtype:
            return False
        return all(map(np.array_equal, self._rebased().arrays, other._rebased().arrays))

    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, rows: slice | Ints) -> SparseFeatures:
        """Select rows by a slice or an array of numbers or booleans: views for a slice without steps, else a copy."""
        if isinstance(rows, slice) and rows.step in (None, 1):
            start, stop, _ = rows.indices(len(self))
            return self._trusted(self.values, self.indices, self.starts[start : max(start, stop) + 1], self.n_features)
        return self._from_csr(self.to_scipy()[np.arange(len(self))[rows]])

    def _rebased(self) -> SparseFeatures:
        """Return the same rows, of arrays that hold nothing else."""
        first, last = self.starts[0], self.starts[-1]
        if first == 0 and last == len(self.values):
            return self
        return self._trusted(self.values[first:last], self.indices[first:last], self.starts - first, self.n_features)

    def with_values(self, values: npt.ArrayLike) -> SparseFeatures:
        """Replace the values, keeping their places.

        Parameters
        ----------
        values : array of shape (non-zeros,)
        """
        whole, numbers = self._rebased(), _as_values(values)
        if len(numbers) != whole.n_nonzeros:
            raise ValueError(f"values must be one for each of {whole.n_nonzeros} non-zeros, got {len(numbers)}")
        return self._trusted(numbers, whole.indices, whole.starts, self.n_features)

    def astype(self, dtype: npt.DTypeLike) -> SparseFeatures:
        """Copy with values of another dtype.

        Parameters
        ----------
        dtype : dtype
            float32 or float64.
        """
        if (kept := np.dtype(dtype)) not in (np.float32, np.float64):
            raise ValueError(f"dtype must be float32 or float64, got {kept}")
        return self.with_values(self._rebased().values.astype(kept))

    def select(self, columns: npt.ArrayLike) -> SparseFeatures:
        """Select columns, in the order given.

        Parameters
        ----------
        columns : array of int or bool
            Numbers of columns, all different, or one boolean per column.
        """
        chosen = np.arange(self.n_features, dtype=np.int32)[np.asarray(columns)]
        return self._from_csr(self.to_scipy()[:, chosen].sorted_indices())

    def without_empty_columns(self) -> SparseFeatures:
        """Leave out the columns that hold no value; the others keep their order."""
        whole = self._rebased()
        columns, indices = np.unique(whole.indices, return_inverse=True)
        return self._trusted(whole.values, indices.astype(np.int32), whole.starts, max(1, len(columns)))

    def toarray(self) -> Features:
        """Copy to a dense array; raise `MemoryError` if it would not fit into memory."""
        needed = len(self) * self.n_features * self.dtype.itemsize
        if needed > free_memory():
            size = f"{len(self)} rows of {self.n_features} columns"
            raise MemoryError(f"{size} take {needed / 1e9:.1f} GB as a dense array, more than is available")
        return cast(Features, self.to_scipy().toarray())

    def to_scipy(self) -> Any:
        """Convert to a SciPy sparse array, which shares values and indices."""
        from scipy.sparse import csr_array

        values, indices, starts = self._rebased().arrays
        if len(values) <= np.iinfo(np.int32).max:  # else indices are copied to have the dtype of starts
            starts = starts.astype(np.int32)
        return csr_array((values, indices, starts), shape=self.shape)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("sparse features are not an array; toarray() makes one of them")


AnyFeatures: TypeAlias = Features | SparseFeatures


def dense(X: AnyFeatures) -> Features:
    """Return dense features: X itself, or a dense copy."""
    return X.toarray() if isinstance(X, SparseFeatures) else X


def concatenate_features(parts: list[AnyFeatures]) -> AnyFeatures:
    """Join the rows of several matrices, as a copy; sparse if the first one is."""
    if isinstance(parts[0], SparseFeatures):
        return SparseFeatures.concatenate(
            [part if isinstance(part, SparseFeatures) else SparseFeatures.from_dense(part) for part in parts]
        )
    return np.concatenate([dense(part) for part in parts])


def is_scipy(X: Any) -> bool:
    """Tell whether X is a sparse matrix or array of SciPy, which is not imported for it."""
    return hasattr(X, "tocsr") and hasattr(X, "nnz")


def _as_vector(name: str, values: npt.ArrayLike, kinds: str) -> npt.NDArray[Any]:
    array = np.asarray(values)
    if array.ndim != 1 or (array.dtype.kind not in kinds and len(array)):
        what = "whole numbers" if kinds == "iu" else "numbers"
        raise ValueError(f"{name} must be a vector of {what}, got {array.dtype} of shape {array.shape}")
    return array if array.dtype.kind in kinds else array.astype(np.int64 if kinds == "iu" else np.float64)


def _as_values(values: npt.ArrayLike) -> Features:
    """Convert values as kernels take them, without a copy if they are so."""
    numbers = _as_vector("values", values, "biuf")
    kept = np.float32 if np.can_cast(numbers.dtype, np.float32) else np.float64
    laid_out = np.ascontiguousarray(numbers, kept)
    return cast(Features, laid_out if laid_out.flags.aligned else laid_out.copy())


def _as_starts(starts: npt.ArrayLike, n_values: int, n_indices: int) -> Ints:
    """Convert starts to a copy that rises from 0 to the number of values; raise if that is not the one of indices."""
    bounds: Ints = _as_vector("starts", starts, "iu").astype(np.int64)
    if n_indices != n_values:
        raise ValueError(f"indices must be as many as values ({n_values}), got {n_indices}")
    if len(bounds) == 0 or bounds[0] != 0 or bounds[-1] != n_values or (bounds[1:] < bounds[:-1]).any():
        raise ValueError(f"starts must increase from 0 to the number of values ({n_values}), got {starts!r}")
    return bounds


def _first_unsorted(indices: npt.NDArray[Any], starts: npt.NDArray[Any], *, allow_equal: bool) -> int:
    """Return the first place whose index is not larger than the one before it in its row, -1 if there is none."""
    if len(indices) < 2:
        return -1
    falls = indices[1:] < indices[:-1] if allow_equal else indices[1:] <= indices[:-1]
    firsts = starts[1:-1]
    firsts = firsts[(firsts > 0) & (firsts < len(indices))]
    falls[firsts - 1] = False
    return int(np.argmax(falls)) + 1 if falls.any() else -1


def _check_indices(indices: npt.NDArray[Any], starts: Ints, n_features: int) -> None:
    rule, found = "", ""
    if len(indices) and not (indices.min() >= 0 and indices.max() < n_features):
        place = int(np.argmax((indices < 0) | (indices >= n_features)))
        rule = f"be from 0 to {n_features - 1}"
    elif (place := _first_unsorted(indices, starts, allow_equal=False)) >= 0:
        rule = "increase within a row"
        found = " duplicated" if indices[place] == indices[place - 1] else f" after {indices[place - 1]}"
    if rule:
        row = int(np.searchsorted(starts, place, side="right")) - 1
        raise ValueError(f"indices must {rule}, got {indices[place]}{found} in row {row}")
