"""Feature hashing: columns by name, in a fixed number of places."""

from __future__ import annotations

import copy
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Self, TypeAlias

import numpy as np

from perceptrank.kernels.arrays import Features, Floats, Ints
from perceptrank.kernels.compiled import compiled
from perceptrank.stream.sparse import SparseFeatures
from perceptrank.stream.validation import check_flag, check_positive_whole, check_seed, read_only
from perceptrank.transforms.forms import Folding
from perceptrank.transforms.transform import Transform, WritingTransform

_MOST_NAMES = 2**17  # of columns that go by their numbers, for all of which places are found, once

Places: TypeAlias = tuple[Ints, Ints, Floats]  # columns in the order of their names, where each goes, and its sign


class Hash(WritingTransform):
    """Send every column to a place that depends on its name alone, and add up columns that meet there.

    As the first transform of a learner it lets named columns come, go and change their order from stream to stream:
    weights belong to places, and a new column has the weight 0, unless it shares its place. Without names, and after
    other transforms, a column's name is its number, as text, from 0 on.

    With h the BLAKE2b digest of the name in UTF-8, keyed with the seed, as a 64-bit number (lowest byte first), the
    place is h // 2 modulo n_features, and the sign -1 if h is odd. Columns are added in the order of their names, so
    their order in X does not change a bit.

    Parameters
    ----------
    n_features : int
        Number of places. Of d columns, about d (d - 1) / (2 n_features) pairs share one.
    signed : bool
        Give every column a sign, so that columns that meet cancel out in the mean, rather than add up.
    seed : int
        Seed of the hash function.

    References
    ----------
    K. Weinberger, A. Dasgupta, J. Langford, A. Smola and J. Attenberg, "Feature Hashing for Large Scale Multitask
    Learning".

    Examples
    --------
    >>> import perceptrank as pr
    >>> stream = pr.QueryStream.from_arrays([[1.0, 2.0]], [0], feature_names=["age", "price"])
    >>> other = pr.QueryStream.from_arrays([[2.0, 0.0, 1.0]], [0], feature_names=["price", "new", "age"])
    >>> Hash(4).transform(stream).X, Hash(4).transform(other).X
    (array([[-1.,  0., -2.,  0.]]), array([[-1.,  0., -2.,  0.]]))
    """

    name = "hash"
    accepts_any_columns = True

    def __init__(self, n_features: int = 1024, *, signed: bool = True, seed: int = 0) -> None:
        self.n_features = check_positive_whole("n_features", n_features)
        self.signed, self.seed = check_flag("signed", signed), check_seed(seed)
        self._columns: tuple[str, ...] | None = None

    def for_columns(self, names: tuple[str, ...] | None) -> Self:
        if names == self._columns:
            return self
        form = copy.copy(self)
        form._columns = names
        return form

    def write(self, X: Features, offsets: Ints, outputs: Features, first: int, *, learning: bool) -> None:
        hash_pass(read_only(X), self._places(X.shape[1]), self.n_features, outputs, first)

    def _places(self, n_columns: int) -> Places:
        names = self._columns
        if names is None:
            names = _numbers(n_columns)
        elif len(names) != n_columns:
            raise ValueError(f"X must have a column for each of {len(names)} names, got {n_columns}")
        return find_places(names, self.n_features, self.signed, self.seed)

    def sparse_form(self) -> Transform:
        return self

    def _apply(self, X: Any, offsets: Ints, *, learning: bool) -> Any:
        if not isinstance(X, SparseFeatures):
            return super()._apply(X, offsets, learning=learning)
        chosen = slice(X.starts[0], X.starts[-1])
        indices, row_of, n_columns = X.indices[chosen], np.repeat(np.arange(len(X)), np.diff(X.starts)), X.n_features
        if self._columns is None and n_columns > _MOST_NAMES:  # only those that occur have names
            present, places_of = np.unique(indices, return_inverse=True)
            indices = places_of.astype(np.int32)
            names, n_columns = tuple(str(j) for j in present.tolist()), len(present)
            columns, places, signs = _find_places(names, self.n_features, self.signed, self.seed)
        else:
            columns, places, signs = self._places(n_columns)
        rank, target, sign = np.empty(n_columns, np.int64), np.empty(n_columns, np.int64), np.empty(n_columns)
        rank[columns], target[columns], sign[columns] = np.arange(len(columns)), places, signs
        in_order = np.lexsort((rank[indices], target[indices], row_of))
        indices, row_of = indices[in_order], row_of[in_order]
        hashed = target[indices]
        values = (sign[indices] * X.values[chosen][in_order]).astype(X.dtype)
        firsts = np.flatnonzero(np.diff(hashed, prepend=-1) | np.diff(row_of, prepend=-1))
        sums = np.add.reduceat(values, firsts) if len(firsts) else values
        starts = np.searchsorted(row_of[firsts], np.arange(len(X) + 1))
        return SparseFeatures(sums, hashed[firsts], starts, self.n_features)

    def n_outputs(self, n_features: int) -> int:
        return self.n_features

    def output_names(self, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return None if names is None else tuple(f"place {k}" for k in range(self.n_features))

    def fold_weights(self, weights: Floats, n_features: int) -> Folding:
        columns, places, signs = self._places(n_features)
        by_column = np.zeros(n_features)
        by_column[columns] = weights[places] * signs
        n_shared = n_features - len(np.unique(places))
        notes = [f"{n_shared} of {n_features} columns share the place of another, and its weight"] if n_shared else []
        return Folding(by_column, notes)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return copy.copy(self)  # nothing in it changes

    def __repr__(self) -> str:
        return f"Hash({self.n_features}, signed={self.signed}, seed={self.seed})"


@lru_cache(maxsize=64)
def _numbers(n: int) -> tuple[str, ...]:
    return tuple(str(j) for j in range(n))


def _find_places(names: tuple[str, ...], n_features: int, signed: bool, seed: int) -> Places:
    """Return the columns in the order of their names, the place of each, and its sign."""
    order = sorted(range(len(names)), key=names.__getitem__)
    key = seed.to_bytes(8, "little")
    hashes = [
        int.from_bytes(blake2b(names[j].encode("utf-8", "surrogatepass"), digest_size=8, key=key).digest(), "little")
        for j in order
    ]
    places = [number // 2 % n_features for number in hashes]
    signs = [-1.0 if signed and number % 2 else 1.0 for number in hashes]
    return read_only(np.array(order, np.int64)), read_only(np.array(places, np.int64)), read_only(np.array(signs))


find_places = lru_cache(maxsize=64)(_find_places)


@compiled
def hash_pass(X: Features, places: Places, n_features: int, outputs: Features, first: int) -> None:
    """Write the sums of the columns of each place, with their signs."""
    columns, targets, signs = places
    for i in range(X.shape[0]):
        for k in range(n_features):
            outputs[i, first + k] = 0.0
        for j in range(len(columns)):
            outputs[i, first + targets[j]] += signs[j] * X[i, columns[j]]
