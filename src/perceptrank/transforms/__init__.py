"""Transforms of features, query by query."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "bins": ["Bins"],
        "clip": ["Clip"],
        "composition": ["Chain", "Join"],
        "fastfood": ["Fastfood"],
        "hashing": ["Hash"],
        "missing": ["Missing"],
        "query_minmax": ["QueryMinMax"],
        "query_normal": ["QueryNormal"],
        "query_rank": ["QueryRank"],
        "query_zscore": ["QueryZScore"],
        "random_fourier": ["RandomFourier"],
        "random_relu": ["RandomRelu"],
        "running": ["RunningStandardizer"],
        "running_spread": ["RunningSpread"],
        "signed_log": ["SignedLog"],
        "transform": ["Scaling", "Transform"],
    },
)
