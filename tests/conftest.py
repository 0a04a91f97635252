"""Set-up that must happen before Numba is imported, and the fixtures that many tests share."""

import hashlib
import os
import tempfile
from pathlib import Path

import pytest

KERNELS = sorted((Path(__file__).parents[1] / "src" / "perceptrank" / "kernels").glob("*.py"))
STATE = hashlib.sha256(b"".join(path.read_bytes() for path in KERNELS)).hexdigest()[:16]

# Numba's cache does not notice an edit in a kernel that another kernel calls.
if "NUMBA_CACHE_DIR" not in os.environ:
    bounds = "-bounds" if os.environ.get("NUMBA_BOUNDSCHECK") == "1" else ""
    os.environ["NUMBA_CACHE_DIR"] = str(Path(tempfile.gettempdir()) / f"perceptrank-numba-{STATE}{bounds}")

from hypothesis import HealthCheck, settings

settings.register_profile(
    "suite",
    deadline=None,  # the first example compiles
    max_examples=int(os.environ.get("PERCEPTRANK_EXAMPLES", "60")),
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("suite")


@pytest.fixture(scope="session", params=["MSLR sample", "MQ2008 Fold1 train", "Yahoo sample", "Yandex IMAT2009 sample"])
def real_stream(request):
    """A real stream; tests that need one skip where the data is not there."""
    import real_streams

    path = real_streams.find(request.param)
    if path is None:
        pytest.skip(f"{request.param}: no {real_streams.FILES[request.param]} under {real_streams.FOLDER}")
    return real_streams.read_plainly(path)
