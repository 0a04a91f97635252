"""Services for tests."""

import pytest
from support.serving import Nursery


@pytest.fixture(scope="session")
def nursery():
    made = Nursery()
    yield made
    made.close()
