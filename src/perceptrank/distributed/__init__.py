"""Learning on several machines: shards of queries learn side by side, and their weights are mixed after each epoch."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "comparing": ["compare"],
        "dask_executor": ["local_cluster"],
        "errors": ["ClusterError", "ShardError"],
        "executors": ["Executor", "InProcess"],
        "learning": ["Learned", "learn"],
        "mixing": ["mix"],
        "partitions": ["evaluate", "predict", "rank"],
    },
)
