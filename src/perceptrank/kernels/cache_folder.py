"""The folder that compiled kernels are kept in, and the conditions under which it is trusted.

A cached kernel is machine code in a pickle: whoever can write to the folder runs code as the user who reads it.
"""

import functools
import os
import stat
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numba

CONFIG: Any = numba.config
VARIABLE = "PERCEPTRANK_CACHE_DIR"
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_reasons: list[str] = []  # given so far


class CacheWarning(RuntimeWarning):
    """Kernels are compiled in memory, and again by the next process."""


@dataclass(frozen=True)
class CacheState:
    """The folder in use, or the reason why there is none."""

    folder: Path | None
    reason: str = ""


def cache_state() -> CacheState:
    """Choose the folder of compiled kernels and check that only its owner or root can write to it.

    The folder is ``perceptrank`` in ``PERCEPTRANK_CACHE_DIR``, else in ``NUMBA_CACHE_DIR``, else in
    ``XDG_CACHE_HOME``, else in ``~/.cache``. It need not exist.
    """
    base = os.environ.get(VARIABLE) or CONFIG.CACHE_DIR
    if not base:
        base = os.environ.get("XDG_CACHE_HOME", "")
        if not os.path.isabs(base):  # which the XDG specification says to ignore
            base = "~/.cache"
    base = os.path.expanduser(base)
    if base.startswith("~"):
        return CacheState(None, f"there is no home folder; set {VARIABLE} to a folder that only you can write")
    return _examine(os.path.join(base, "perceptrank"), _user())


def warn_uncached(reason: str) -> None:
    """Warn, once in a process, that kernels are compiled in memory."""
    _reasons.append(reason)
    if len(_reasons) == 1:
        message = f"kernels are compiled in memory, and again by the next process: {reason}"
        warnings.warn(message, CacheWarning, stacklevel=2)


def reasons_uncached() -> list[str]:
    """Return why kernels of this process were not kept or not loaded, in the order in which that was noticed."""
    return list(_reasons)


def make_folder(folder: Path) -> None:
    """Make the folder and its parents, writable by nobody else whatever the umask, and check it again."""
    for place in [*reversed(folder.parents), folder]:
        if not place.exists():
            # Readable by others, so that a cache baked into an image by root serves the user it is run by.
            place.mkdir(mode=0o755, exist_ok=True)
    if fault := _fault(str(folder), _user()):
        raise PermissionError(fault)


def read_trusted(path: Path) -> bytes | None:
    """Content of a file that belongs to the user or root and that nobody else can write; None if it cannot be read."""
    # Opening a pipe must not wait for somebody to write to it.
    flags = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_BINARY", "O_NOFOLLOW", "O_NONBLOCK"))
    try:
        descriptor = os.open(path, flags)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return None
            if fault := _fault_of(status, _user()):
                warn_uncached(f"{path} {fault}; delete it")
                return None
            with open(descriptor, "rb", closefd=False) as file:
                return file.read()
        finally:
            os.close(descriptor)
    except OSError:
        return None


def _user() -> int | None:
    """Effective user; None where files have no such owners, as on Windows, whose access lists are not checked."""
    return os.geteuid() if hasattr(os, "geteuid") else None


@functools.cache
def _examine(folder: str, user: int | None) -> CacheState:
    resolved = os.path.realpath(folder)
    if fault := _fault(resolved, user):
        remedy = f"let it belong to you and be writable by you alone, or set {VARIABLE} to such a folder"
        return CacheState(None, f"{fault}; {remedy}")
    return CacheState(Path(resolved))


def _fault(folder: str, user: int | None) -> str:
    """Reason not to trust a resolved folder: it, or a folder above it, can be changed by others."""
    for place in [Path(folder), *Path(folder).parents]:
        try:
            status = place.lstat()
        except FileNotFoundError:
            continue  # it is made when something is saved
        except OSError as error:
            return f"{place} cannot be examined ({error.strerror})"
        if not stat.S_ISDIR(status.st_mode):
            return f"{place} is not a folder"
        # In a folder such as /tmp others can add files but not replace ours.
        writers = 0 if status.st_mode & stat.S_ISVTX and str(place) != folder else _WRITABLE_BY_OTHERS
        if writers and status.st_mode & stat.S_IWGRP and _is_private(status.st_gid, user, place):
            writers = stat.S_IWOTH
        if fault := _fault_of(status, user, writers):
            return f"{place} {fault}"
    return ""


def _fault_of(status: os.stat_result, user: int | None, writers: int = _WRITABLE_BY_OTHERS) -> str:
    if user is None:
        return ""
    if status.st_uid not in (0, user):
        return f"belongs to user {status.st_uid}"
    if status.st_mode & writers:
        return f"can be written by others (mode {stat.S_IMODE(status.st_mode):o})"
    return ""


def _is_private(group: int, user: int | None, place: Path) -> bool:
    """Check for the user's own group, which many systems let write to what the user makes, without other members."""
    if user is None:
        return False
    import grp
    import pwd

    try:
        entry, members = pwd.getpwuid(user), grp.getgrgid(group)
    except KeyError:
        return False
    # With an access list, the group's permission is the most that anybody on the list may do.
    has_list = hasattr(os, "listxattr") and "system.posix_acl_access" in os.listxattr(place)
    is_own = entry.pw_gid == group and members.gr_name == entry.pw_name and set(members.gr_mem) <= {entry.pw_name}
    return is_own and not has_list
