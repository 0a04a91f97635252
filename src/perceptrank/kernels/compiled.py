"""The decorators that every kernel carries."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

# Sums may be reordered so that they use the whole vector unit; NaN and infinity keep their meaning.
REORDERED_SUMS = {"reassoc", "nsz", "contract", "arcp"}


# For loops over values already known to be numbers.
NO_NAN = {"nnan", "nsz"}


def _compile(function: Kernel, **options: Any) -> Kernel:
    options |= {"nogil": True, "error_model": "numpy"}
    try:
        return cast(Kernel, numba.njit(cache=True, **options)(function))
    except RuntimeError:  # neither the package's folder nor a home folder can be written
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
