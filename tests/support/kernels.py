"""Kernels of two small modules, called in processes with a cache of their own."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

NOBODY = 65534
needs_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="acts as other users, which takes root"
)

INNER = """
    from perceptrank.kernels.compiled import compiled

    STEP = 1.0

    @compiled
    def inner(x):
        return x + STEP
"""
OUTER = """
    import numpy as np
    from inner import inner
    from perceptrank.kernels.compiled import compiled, compiled_allocating

    @compiled
    def outer(x):
        return 2 * inner(x)

    @compiled
    def later(x):
        return outer(x) + 0.5

    @compiled
    def factorial(n):
        return 1 if n < 2 else n * factorial(n - 1)

    @compiled_allocating
    def ramp(n):
        values = np.zeros(n)
        for i in range(n):
            values[i] = outer(float(i))
        return values
"""

# Runs calls of kernels as a user. What this user may not be allowed to read (a checkout in root's home, the modules
# that Numba imports when it first compiles) is read before, by compiling a kernel of no module.
PROCESS = """
import json, os, sys, warnings
SPAWNING = "subprocess.Popen", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn"
folder, user, *calls = sys.argv[1:]
started = []
sys.addaudithook(lambda event, _: started.append(event) if event in SPAWNING else None)
sys.path.insert(0, folder)
import numba, numpy, outer
from perceptrank.kernels.cache_folder import CacheWarning, cache_state
from perceptrank.kernels.compiled import on_compile
if int(user):
    numba.njit(lambda n: numpy.zeros(n))(1)
    os.setgid(int(user)); os.setuid(int(user))
names = []
on_compile(names.append)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    values = [eval("outer." + call) for call in calls]
kernels = {call.partition("(")[0]: getattr(outer, call.partition("(")[0]) for call in calls}
print(json.dumps({
    "values": [value.tolist() if hasattr(value, "tolist") else value for value in values],
    "hits": {name: sum(kernel.stats.cache_hits.values()) for name, kernel in kernels.items()},
    "compiled": names,
    "started": started,
    "warnings": [str(warning.message) for warning in caught if issubclass(warning.category, CacheWarning)],
    "loaded": "numba.np.linalg" in sys.modules,
    "numba": numba.config.CACHE_DIR,
    "folder": str(cache_state().folder),
}))
"""


def write(folder, name, text):
    (folder / f"{name}.py").write_text(textwrap.dedent(text))


def start(place, *calls, user=0, **environment):
    """Run calls in a process with a cache below `place`; variables that are None are unset."""
    unset = {"NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "NUMBA_BOUNDSCHECK"}
    variables = {name: value for name, value in os.environ.items() if name not in unset}
    variables |= {"PERCEPTRANK_CACHE_DIR": str(place / "cache")} | environment
    variables = {name: value for name, value in variables.items() if value is not None}
    command = [sys.executable, "-c", PROCESS, str(place), str(user), *calls]
    return subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process):
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return json.loads(output)


def run(place, *calls, user=0, **environment):
    return finish(start(place, *calls, user=user, **environment))


def entries(place, kernel="*"):
    return sorted((place / "cache" / "perceptrank").glob(f"*.{kernel}-*.kernel"))
