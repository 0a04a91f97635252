"""Profiles of Hypothesis, and the fixtures that many tests share."""

import functools
import os
import re

import pytest
from hypothesis import HealthCheck, settings

import perceptrank as pr
from perceptrank.deploy import agreement

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


add_profile("suite", 6, derandomize=True)  # `make test`: the same examples in every run
add_profile("deep", 60)  # `make deep`: new ones in every run
settings.load_profile("suite")


# Fixtures that start a server, a Java engine, a browser or a cluster, or build the site.
ENGINE_FIXTURES = {"browser", "nursery", "opensearch", "postgresql", "processes", "server", "site", "solr", "walked"}


def pytest_collection_modifyitems(items):
    """Mark the tests that use an engine, directly or through other fixtures."""
    for item in items:
        if ENGINE_FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.engine)


DEEP_STREAMS = [pytest.param(name, marks=pytest.mark.deep) for name in ("Yahoo sample", "Yandex IMAT2009 sample")]


@pytest.fixture(scope="session", params=["MSLR sample", "MQ2008 Fold1 train", *DEEP_STREAMS])
def real_stream(request):
    """A real stream; tests that need one skip where the data is not there."""
    from support import real_streams

    return pr.read_letor(real_streams.find(request.param))


# The engines that have ranked documents beside a model, for the last lines of a run: what is skipped or emulated is not
# among them.
ENGINES = set()
_parity = agreement.parity


@functools.wraps(_parity)
def _noted(*args, **options):
    found = _parity(*args, **options)
    if not re.search("^emulated|of a stand-in", found.engine):
        ENGINES.add(re.sub(r" at https?://.*", "", found.engine))
    return found


agreement.parity = _noted  # before any test imports it


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):  # a process of xdist
        session.config.workeroutput["engines"] = sorted(ENGINES)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    ENGINES.update(getattr(node, "workeroutput", {}).get("engines", []))


def pytest_terminal_summary(terminalreporter):
    if ENGINES:
        terminalreporter.write_line(f"engines that ranked documents: {', '.join(sorted(ENGINES))}")
