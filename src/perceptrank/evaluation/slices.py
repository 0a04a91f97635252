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
    """Collects what queries are sliced by, block by block.

    Parameters
    ----------
    by : str, array, or mapping
        "length", the number of documents; "feature:NAME", the mean of a feature over a query's documents; an array with
        one label per query; or a mapping from query ids to labels.
    """

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
            sizes = np.diff(block.offsets)
            if self._by == LENGTH:
                self._parts.append(sizes)
            else:
                values = _feature(block, self._by.removeprefix(FEATURE))
                self._parts.append(np.add.reduceat(values, block.offsets[:-1]) / sizes)

    def take(self, qids: npt.NDArray[Any]) -> None:
        """Look up the next queries by their ids."""
        assert isinstance(self._by, Mapping)
        self._parts.append(_looked_up(self._by, qids))

    def labels(self, n_queries: int) -> npt.NDArray[Any]:
        """Return one label per query, of so many in all."""
        labels = np.concatenate(self._parts)
        if len(labels) != n_queries:
            raise ParameterError("by", f"must have one label for each of the {n_queries} queries", f"{len(labels)}")
        return labels


def _looked_up(labels: Mapping[Any, Any], qids: npt.NDArray[Any]) -> npt.NDArray[Any]:
    found = np.empty(len(qids), dtype=object)
    for q, qid in enumerate(qids.tolist()):
        if qid not in labels and str(qid) not in labels:
            raise ParameterError("by", f"must have a label for query {qid!r}", f"{len(labels)} others")
        found[q] = labels[qid] if qid in labels else labels[str(qid)]
    return found


def _feature(block: QueryStream, name: str) -> npt.NDArray[np.float64]:
    names = block.feature_names or tuple(f"f{j + 1}" for j in range(block.n_features))
    if name not in names:
        raise ParameterError("by", f"must name a feature, one of {', '.join(names[:20])}", f"{FEATURE}{name}")
    j = names.index(name)
    if isinstance(block.X, SparseFeatures):
        values, indices, starts = block.X._rebased().arrays
        rows = np.repeat(np.arange(block.n_documents), np.diff(starts))
        found = np.zeros(block.n_documents)
        found[rows[indices == j]] = values[indices == j]
        return found
    return block.X[:, j].astype(np.float64)


def grouped(labels: npt.NDArray[Any]) -> list[tuple[str, Bools]]:
    """Group queries by their labels, the largest group first; numbers of many different values by quarters, in order.

    Examples
    --------
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
    texts = np.array([_text(one) for one in labels.tolist()], dtype=object)
    found = {text: [] for text in dict.fromkeys(texts)}  # type: dict[str, list[int]]
    for q, text in enumerate(texts):
        found[text].append(q)
    groups = []
    for text, queries in found.items():
        part = np.zeros(len(labels), dtype=bool)
        part[queries] = True
        groups.append((text, part))
    return _by_size(groups)


def _as_numbers(labels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return labels that are all numbers, or none, as an array of such."""
    if labels.dtype != object or not len(labels):
        return labels
    if all(one is None or (isinstance(one, (int, float, np.number)) and not isinstance(one, bool)) for one in labels):
        if any(abs(one) > _LARGEST_NUMBER for one in labels if is_whole(one)):
            return labels  # identifiers, some of which one float stands for
        kind = np.float64 if any(one is None or not float(one).is_integer() for one in labels) else np.int64
        return np.array([np.nan if one is None else one for one in labels], dtype=kind)
    return labels


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


def _by_size(groups: list[tuple[str, Bools]]) -> list[tuple[str, Bools]]:
    return sorted(groups, key=lambda group: -int(group[1].sum()))
