"""The protocol as a service: rank, log the answer, acknowledge it, learn from it; nothing acknowledged is lost."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
