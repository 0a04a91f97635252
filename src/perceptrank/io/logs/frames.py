"""Data frames of polars, which is optional: it is imported when it is first used."""

from typing import Any

from perceptrank.io.tables.delimited import import_polars


class _Polars:
    def __getattr__(self, name: str) -> Any:
        return getattr(import_polars(), name)


pl: Any = _Polars()


def count_where(frame: Any, condition: Any) -> int:
    """Count the rows for which a condition holds."""
    return int(frame.select(condition.sum()).item())
