"""Transforms of features, query by query."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "scaling": ["Scaling"],
        "query_zscore": ["QueryZScore"],
        "query_minmax": ["QueryMinMax"],
        "running": ["RunningStandardizer"],
    },
)
