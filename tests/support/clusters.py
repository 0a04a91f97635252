"""Engines by name, for tests that ask each of them for the same bits."""

import os
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

import perceptrank as pr

ENGINES = ["here", "backwards", *(pytest.param(name, marks=pytest.mark.engine) for name in ("dask", "spark"))]


class Backwards:
    """An engine whose shards are done in the opposite order."""

    def map(self, task, shards):
        for number in reversed(range(len(shards))):
            yield number, task.run(shards[number])


@contextmanager
def client_of(name):
    """Start an engine of two processes; skip the test where it is not installed."""
    if name == "dask":
        distributed = pytest.importorskip("distributed")
        with pr.distributed.local_cluster(2) as cluster, distributed.Client(cluster) as client:
            yield client
    elif name == "spark":
        pytest.importorskip("pyspark")
        if not has_java():
            pytest.skip("Spark needs Java")
        from perceptrank.distributed.spark_executor import spark_session

        with spark_session(None, 2) as session:
            yield session
    else:
        yield Backwards() if name == "backwards" else None


def has_java():
    java = Path(os.environ["JAVA_HOME"]) / "bin" / "java" if "JAVA_HOME" in os.environ else shutil.which("java")
    return java is not None and subprocess.run([java, "-version"], capture_output=True, check=False).returncode == 0
