"""Traces, hold-out evaluation, comparisons and plots of rankers."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "trace": ["Trace"],
        "holdout": ["evaluate"],
        "evaluation": ["Evaluation"],
        "decision": ["Decision"],
        "differences": ["Difference", "Slice"],
        "worst": ["MovedDocument", "QueryChange"],
        "comparison": ["Comparison", "Standing", "compare"],
        "order_comparison": ["OrderComparison", "OrderDifference", "OrderStanding"],
        "orders": ["compare_orders"],
    },
)
