"""The learners: one interface, and a class for each algorithm, in a file or folder of its own."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
