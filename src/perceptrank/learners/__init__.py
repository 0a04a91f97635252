"""The learners, one file or folder each: docstring, class and compiled pass."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
