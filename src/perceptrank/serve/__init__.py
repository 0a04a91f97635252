"""The protocol as a service: rank, log the answer, acknowledge it, learn from it; nothing acknowledged is lost."""

from typing import Any

import lazy_loader

_getattr, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    try:
        return _getattr(name)
    except ModuleNotFoundError as error:
        if str(error.name).startswith("perceptrank"):
            raise
        raise ImportError(f"perceptrank.serve.{name} needs {error.name}: pip install 'perceptrank[serve]'") from None
