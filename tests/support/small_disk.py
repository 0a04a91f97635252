"""Small disks, which tests fill."""

import os
import shutil
import subprocess
from contextlib import contextmanager

import pytest


class Disk:
    """A small disk."""

    def __init__(self, path):
        self.path = path

    def fill(self, but=0):
        """Leave no more free space than that."""
        status = os.statvfs(self.path)
        (self.path / "filler").write_bytes(bytes(status.f_bavail * status.f_frsize - but))

    def free(self):
        (self.path / "filler").unlink()

    def contents(self):
        return {str(path): path.read_bytes() for path in self.path.rglob("*") if path.is_file()}


@contextmanager
def mounted(path, size):
    """Mount a disk of a size at a path; skip the test where that is not possible."""
    path.mkdir()
    if shutil.which("mount") is None:
        pytest.skip("there is no command mount")
    words = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", path]
    outcome = subprocess.run(words, capture_output=True, text=True, check=False)
    if outcome.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {outcome.stderr.strip()}")
    try:
        yield Disk(path)
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)
