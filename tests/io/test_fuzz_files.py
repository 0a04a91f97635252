import subprocess
import sys
from pathlib import Path

import pytest

FUZZ = Path(__file__).parents[1] / "fuzz_files.py"


def run(*options):
    command = [sys.executable, str(FUZZ), *options]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_changed_files_are_read_or_refused():
    assert run("--cases", "300").startswith("300 cases, ")


@pytest.mark.deep
def test_changed_files_are_read_or_refused_at_length():
    run("--seconds", "60", "--seed", "1000000")
