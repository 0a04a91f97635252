"""Learning on several machines: shards of queries learn side by side, and their weights are mixed after each epoch."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
