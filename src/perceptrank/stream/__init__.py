"""Judged queries as arrays, and validation of user input."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "query_stream": ["Query", "QueryStream"],
        "blocks": ["Scan"],
        "sparse": ["SparseFeatures"],
        "texts": ["Texts"],
    },
)
