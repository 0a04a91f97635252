"""Online learning to rank: perceptron-like learners, their measures, surrogates and guarantees.

The public names are those of the stub beside this file; each is imported when it is first used, so that importing the
package costs next to nothing.
"""

import importlib
import warnings
from typing import Any

import lazy_loader

__version__ = "0.2.0"

_getattr, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

_MOVED = {
    "comparison": "evaluation.comparison",
    "scaling": "transforms",
    "surrogates": "theory.surrogates",
    "trace": "evaluation.trace",
}


def __getattr__(name: str) -> Any:
    if name in _MOVED:
        warnings.warn(f"perceptrank.{name} is now perceptrank.{_MOVED[name]}", DeprecationWarning, stacklevel=2)
        return importlib.import_module(f"perceptrank.{_MOVED[name]}")
    return _getattr(name)
