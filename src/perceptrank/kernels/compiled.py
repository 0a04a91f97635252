"""The decorators that every kernel carries."""

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import event

CONFIG: Any = numba.config
Kernel = TypeVar("Kernel", bound=Callable[..., Any])

# Sums may be reordered so that they use the whole vector unit; NaN and infinity keep their meaning.
REORDERED_SUMS = {"reassoc", "nsz", "contract", "arcp"}

# For loops over values already known to be numbers.
NO_NAN = {"nnan", "nsz"}


def cache_folder() -> Path:
    """Where machine code is kept: a folder for this state of all kernels.

    Numba's cache looks at the file of a kernel, not at the files of the kernels it calls, nor at its own settings.
    """
    state = hashlib.sha256(f"bounds {CONFIG.BOUNDSCHECK}".encode())
    for source in sorted(Path(__file__).parents[1].rglob("*.py")):
        text = source.read_bytes()
        if b"kernels.compiled" in text:
            state.update(text)
    base = CONFIG.CACHE_DIR or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "perceptrank" / state.hexdigest()[:16]


_CACHE_FOLDER = str(cache_folder())


@contextmanager
def _own_cache_folder() -> Iterator[None]:
    before = CONFIG.CACHE_DIR
    CONFIG.CACHE_DIR = _CACHE_FOLDER
    try:
        yield
    finally:
        CONFIG.CACHE_DIR = before


def _compile(function: Kernel, **options: Any) -> Kernel:
    options |= {"nogil": True, "error_model": "numpy"}
    try:
        with _own_cache_folder():
            return cast(Kernel, numba.njit(cache=True, **options)(function))
    except RuntimeError:  # there is no folder that can be written
        return cast(Kernel, numba.njit(**options)(function))


def compiled(function: Kernel) -> Kernel:
    """Compile a kernel on its first call, keep the machine code on disk, release the GIL while it runs."""
    return _compile(function)


def compiled_sums(function: Kernel) -> Kernel:
    """As `compiled`, for loops whose sums may be taken in any order."""
    return _compile(function, fastmath=REORDERED_SUMS)


def compiled_extrema(function: Kernel) -> Kernel:
    """As `compiled`, for minima and maxima of values that were checked not to be NaN."""
    return _compile(function, fastmath=NO_NAN)


class _Compiling(event.Listener):
    def __init__(self, callback: Callable[[str], object]) -> None:
        self._callback = callback

    def on_start(self, compilation: Any) -> None:
        self._callback(compilation.data["dispatcher"].py_func.__name__)

    def on_end(self, compilation: Any) -> None:
        """Nothing is reported at the end."""


def on_compile(callback: Callable[[str], object]) -> Callable[[], None]:
    """Call `callback` with the name of each kernel about to be compiled; returns a function that ends the reports."""
    listener = _Compiling(callback)
    cast(Any, event).register("numba:compile", listener)
    return lambda: cast(Any, event).unregister("numba:compile", listener)
