"""Harnesses of engines that are written in Java, whose artefacts come from Maven's local repository.

PERCEPTRANK_FETCH=1 lets Maven download them.
"""

import functools
import os
import shutil
from pathlib import Path

import pytest

from perceptrank.deploy.engines.programs import build_classpath

ENGINES = Path(__file__).parents[1] / "engines"


def harness(engine: str) -> str:
    """The folder of an engine's harness; the test that asks is skipped if it cannot be run."""
    if shutil.which("mvn") is None or shutil.which("java") is None:
        pytest.skip("there is no mvn or no java")
    folder = str(ENGINES / engine)
    if not (_is_here(folder) or os.environ.get("PERCEPTRANK_FETCH")):
        pytest.skip(f"{engine} is not in Maven's local repository: set PERCEPTRANK_FETCH=1 to download it")
    return folder


@functools.cache
def _is_here(folder):
    try:
        build_classpath(folder, offline=True)
    except OSError:
        return False
    return True
