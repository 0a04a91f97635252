"""Slices: which queries belong together, by a label, a number or a feature of each."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from perceptrank.kernels.arrays import Bools
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.sparse import SparseFeatures
from perceptrank.stream.validation import ParameterError, is_whole

LENGTH, FEATURE = "length", "feature:"
NO_LABEL = "(none)"
_MOST_NUMBERS = 10  # different ones, that are labels and not grouped by size
_LARGEST_NUMBER = 2**53

By: TypeAlias = str | npt.ArrayLike | Mapping[Any, Any]


class LabelCollector:
    """Collects what queries are sliced by, block by block; `by` is that of `evaluate`."""

    def __init__(self, by: By) -> None:
        self._by = by
        self._parts: list[npt.NDArray[Any]] = []
        if isinstance(by, str):
            if by != LENGTH and not (by.startswith(FEATURE) and len(by) > len(FEATURE)):
                rule = "must be 'length', 'feature:NAME', an array with a label per query, or a mapping from query ids"
                raise ParameterError("by", rule, by)
        elif not isinstance(by, Mapping):
            labels = np.asarray(by if hasattr(by, "__array__") or not isinstance(by, Iterable) else list(by))
            if labels.ndim != 1:
                raise ParameterError("by", "must have one label per query", f"shape {labels.shape}")
            self._parts.append(labels)

    def add(self, block: QueryStream) -> None:
        """Take the next queries."""
        if isinstance(self._by, Mapping):
            self.take(block.qids)
        elif isinstance(self._by, str):
            labels = np.diff(block.offsets)
            if self._by != LENGTH:
                values = _feature(block, self._by.removeprefix(FEATURE))
                labels = np.add.reduceat(values, block.offsets[:-1]) / labels
            self._parts.append(labels)

    def take(self, qids: npt.NDArray[Any]) -> None:
        """Look up the next queries by their ids."""
        assert isinstance(self._by, Mapping)
        labels = np.empty(len(qids), dtype=object)
        for q, qid in enumerate(qids.tolist()):
            key = qid if qid in self._by else str(qid)
            if key not in self._by:
                raise ParameterError("by", f"must have a label for query {qid!r}", f"{len(self._by)} others")
            labels[q] = self._by[key]
        self._parts.append(labels)

    def labels(self, n_queries: int) -> npt.NDArray[Any]:
        """Return one label per query, of so many in all."""
        labels = np.concatenate(self._parts)
        if len(labels) != n_queries:
            raise ParameterError("by", f"must have one label for each of the {n_queries} queries", f"{len(labels)}")
        return labels


def _feature(block: QueryStream, name: str) -> npt.NDArray[np.float64]:
    names = block.feature_names or tuple(f"f{j + 1}" for j in range(block.n_features))
    if name not in names:
        raise ParameterError("by", f"must name a feature, one of {', '.join(names[:20])}", f"{FEATURE}{name}")
    j = names.index(name)
    column = block.X.select([j]).toarray() if isinstance(block.X, SparseFeatures) else block.X[:, [j]]
    return column[:, 0].astype(np.float64)


def grouped(labels: npt.NDArray[Any]) -> list[tuple[str, Bools]]:
    """Group queries by their labels, the largest group first; numbers of many different values by quarters, in order.

    >>> [(label, int(part.sum())) for label, part in grouped(np.array(["tail", "head", "tail", None]))]
    [('tail', 2), ('head', 1), ('(none)', 1)]
    >>> [(label, int(part.sum())) for label, part in grouped(np.arange(1, 14))]
    [('1 to 4', 4), ('5 to 7', 3), ('8 to 10', 3), ('11 to 13', 3)]
    """
    labels = _as_numbers(labels)
    if labels.dtype.kind in "iuf":
        present = ~np.isnan(labels) if labels.dtype.kind == "f" else np.ones(len(labels), dtype=bool)
        if len(np.unique(labels[present])) > _MOST_NUMBERS:
            edges = np.unique(np.quantile(labels[present], [0.25, 0.5, 0.75], method="lower"))
            numbers = np.searchsorted(edges, labels)
            parts = [present & (numbers == g) for g in range(len(edges) + 1)]
            groups = [(_range(labels[part]), part) for part in parts if part.any()]
            return groups + ([(NO_LABEL, ~present)] if not present.all() else [])
    queries: dict[str, list[int]] = {}
    for q, label in enumerate(labels.tolist()):
        queries.setdefault(_text(label), []).append(q)
    groups = []
    for text, own in queries.items():
        part = np.zeros(len(labels), dtype=bool)
        part[own] = True
        groups.append((text, part))
    return sorted(groups, key=lambda group: -int(group[1].sum()))


def _as_numbers(labels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return labels that are all numbers, or missing, as an array of numbers."""
    numbers = [label for label in labels if label is not None] if labels.dtype == object else []
    if not all(isinstance(label, (int, float, np.number)) and not isinstance(label, bool) for label in numbers):
        return labels
    if labels.dtype != object or not len(labels) or any(abs(n) > _LARGEST_NUMBER for n in numbers if is_whole(n)):
        return labels  # the last are identifiers, several of which would become the same float
    is_exact = len(numbers) == len(labels) and all(float(n).is_integer() for n in numbers)
    kind = np.int64 if is_exact else np.float64
    return np.array([np.nan if label is None else label for label in labels], dtype=kind)


def _text(label: Any) -> str:
    if label is None or label == "" or (isinstance(label, float) and label != label):  # noqa: PLR0124
        return NO_LABEL
    if not isinstance(label, float):
        return str(label)
    short = _short(label)
    return short if float(short) == label else repr(label)  # others that look alike have slices of their own


def _short(number: float) -> str:
    is_exact = isinstance(number, int) or (number.is_integer() and abs(number) <= _LARGEST_NUMBER)
    return str(int(number)) if is_exact else f"{number:g}"


def _range(values: npt.NDArray[Any]) -> str:
    low, high = _short(values.min().item()), _short(values.max().item())
    return low if low == high else f"{low} to {high}"
