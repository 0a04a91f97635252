"""Profiles of Hypothesis, and the fixtures that many tests share."""

import os

import pytest
from hypothesis import HealthCheck, settings

import perceptrank as pr

pytest.register_assert_rewrite("support")


def add_profile(name, max_examples, **options):
    """Register a profile; PERCEPTRANK_EXAMPLES overrides its number of examples."""
    settings.register_profile(
        name,
        deadline=None,  # the first example compiles
        database=None,  # what was drawn on another day must not change what is drawn today
        max_examples=int(os.environ.get("PERCEPTRANK_EXAMPLES") or max_examples),
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
        **options,
    )


add_profile("suite", 15, derandomize=True)  # `make test`: the same examples in every run
add_profile("deep", 600)  # `make deep`: new ones in every run
settings.load_profile("suite")


@pytest.fixture(scope="session", params=["MSLR sample", "MQ2008 Fold1 train", "Yahoo sample", "Yandex IMAT2009 sample"])
def real_stream(request):
    """A real stream; tests that need one skip where the data is not there."""
    from support import real_streams

    return pr.read_letor(real_streams.find(request.param))
