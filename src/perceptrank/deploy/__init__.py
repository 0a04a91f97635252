"""Models on their way to an engine: folded to raw features, exported, and compared with the engine's ranking."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
