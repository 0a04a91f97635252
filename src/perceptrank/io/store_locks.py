"""Locks between processes that write a store, and those that read its files one after the other.

Writers lock the folder, one at a time. A reader that maps segments only when it needs them holds the first one: while
anyone holds a segment that the manifest no longer lists, writers leave such segments in place.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: there are no such locks, but files in use cannot be removed either
    fcntl = None  # type: ignore[assignment]


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a store against other writers, where the system has file locks."""
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def hold(path: Path) -> int:
    """Open a file so that `is_held` is True for it until the returned handle is closed."""
    handle = os.open(path, os.O_RDONLY)
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_SH)
    except OSError:  # a file system without locks: readers can only hope that nobody overwrites the store
        pass
    except BaseException:
        os.close(handle)
        raise
    return handle


def is_held(path: Path) -> bool:
    """Return True if a reader holds a file."""
    if fcntl is None:
        return False
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no locks, so nobody holds it
        return False
    finally:
        os.close(handle)
    return False
