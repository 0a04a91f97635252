"""Settings of Hypothesis, and the fixtures that many tests share."""

import os

import pytest
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite("support")

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
    from support import real_streams

    return real_streams.read_plainly(real_streams.find(request.param))
