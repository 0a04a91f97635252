"""Traces, hold-out evaluation, comparisons and plots of rankers."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "trace": ["Trace"],
        "holdout": ["evaluate"],
        "comparison": ["Comparison", "Standing", "compare"],
    },
)
