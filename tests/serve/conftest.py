"""Services for tests."""

import pytest
from support.postgresql import PostgreSQL
from support.serving import Nursery


@pytest.fixture(scope="session")
def nursery():
    made = Nursery()
    yield made
    made.close()


@pytest.fixture(scope="session")
def server():
    """A server of PostgreSQL that nobody stops."""
    made = PostgreSQL()
    yield made
    made.close()


@pytest.fixture
def database(server):
    """The address of an empty database."""
    return server.new_database()
