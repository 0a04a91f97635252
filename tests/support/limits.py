"""Limits of memory and time for a process that reads files of others."""

import faulthandler
import resource
import time
from contextlib import contextmanager


def memory(which):
    """Bytes that this process has in memory ("VmRSS"), the most it had ("VmHWM"), or its addresses ("VmSize")."""
    with open("/proc/self/status") as lines:
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith(which))


def forget_peak():
    """Let "VmHWM" begin again with what is in memory now."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def limit_memory(more_bytes):
    """Let this process have so much more memory than it has now, and no more."""
    resource.setrlimit(resource.RLIMIT_AS, (memory("VmSize") + more_bytes, resource.RLIM_INFINITY))


@contextmanager
def time_limit(seconds):
    """End the process, showing where it is, if what follows takes longer: even what never returns to Python."""
    faulthandler.dump_traceback_later(seconds, exit=True)
    start = time.monotonic()
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
    assert time.monotonic() - start < seconds
