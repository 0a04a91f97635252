"""The modules of kernels that tests of the cache share."""

import shutil
import tempfile
from pathlib import Path

import pytest
from support.kernels import INNER, OUTER, write


@pytest.fixture
def place():
    """A folder that other users can reach, unlike pytest's, with two modules of kernels."""
    folder = Path(tempfile.mkdtemp(prefix="perceptrank-"))
    folder.chmod(0o755)
    write(folder, "inner", INNER)
    write(folder, "outer", OUTER)
    yield folder
    shutil.rmtree(folder)
