"""The numbers of values in columns of lists, from the footer of a Parquet file.

They tell how long lists are before any is decoded. pyarrow has them too, but ends the process if a column's metadata
are damaged, so the footer is read here: a `FileMetaData` structure of parquet.thrift in Thrift's compact protocol.
"""

import os
from typing import Any

_TAIL_BYTES = 8
_MAX_DEPTH = 16
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
_WHOLE_NUMBERS = (4, 5, 6)

# Fields of parquet.thrift.
_ROW_GROUPS, _COLUMNS, _N_ROWS, _COLUMN_METADATA, _PATH, _N_VALUES = 4, 1, 3, 3, 3, 5


def count_values(path: str, column: str) -> list[tuple[int, int]]:
    """Return (rows, values in a column of lists) of every row group; raise `ValueError` if the footer is damaged."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - _TAIL_BYTES))
        length = int.from_bytes(file.read(4), "little")
        file.seek(max(0, size - _TAIL_BYTES - length))
        footer = file.read(length)
    counts = []
    try:
        for group in _Compact(footer).read(_STRUCT)[_ROW_GROUPS]:
            described = [chunk[_COLUMN_METADATA] for chunk in group[_COLUMNS]]
            n_values = sum(one[_N_VALUES] for one in described if one[_PATH][0] == column.encode())
            counts.append((max(0, int(group[_N_ROWS])), max(0, int(n_values))))
    except (IndexError, KeyError, TypeError) as error:
        raise ValueError(f"its footer is not what it should be: {error!r}") from None
    return counts


class _Compact:
    """Reads values of Thrift's compact protocol: structures as dictionaries of fields by number."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def read(self, kind: int, depth: int = 0) -> Any:
        if depth > _MAX_DEPTH:
            raise ValueError("its footer is nested too deeply")
        if kind in (_TRUE, _FALSE, _BYTE):  # in a list; a field's type tells its truth
            return self._byte()
        if kind in _WHOLE_NUMBERS:
            number = self._varint()
            return (number >> 1) ^ -(number & 1)
        if kind in (_DOUBLE, _BINARY):
            return self._take(8 if kind == _DOUBLE else self._varint())
        if kind in (_LIST, _SET):
            head = self._byte()
            length = self._varint() if head >> 4 == 15 else head >> 4
            return [self.read(head & 15, depth + 1) for _ in range(length)]
        if kind == _MAP:
            length = self._varint()
            kinds = self._byte() if length else 0
            return [(self.read(kinds >> 4, depth + 1), self.read(kinds & 15, depth + 1)) for _ in range(length)]
        if kind == _STRUCT:
            return self._struct(depth)
        raise ValueError(f"its footer has a value of unknown type {kind}")

    def _struct(self, depth: int) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self.read(_WHOLE_NUMBERS[0])
            kind = head & 15
            fields[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self.read(kind, depth + 1)
        return fields

    def _varint(self) -> int:
        number = shift = 0
        while (byte := self._byte()) & 128:
            number |= (byte & 127) << shift
            shift += 7
        return number | byte << shift

    def _byte(self) -> int:
        byte = self._data[self._at]
        self._at += 1
        return byte

    def _take(self, length: int) -> bytes:
        taken = self._data[self._at : self._at + length]
        if len(taken) != length:
            raise ValueError("its footer is truncated")
        self._at += length
        return taken
