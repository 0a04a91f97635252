"""The learners, one file or folder each: docstring, class and compiled pass."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submod_attrs={"registry": ["algorithms", "load", "register", "unregister", "wrappers"]}
)
