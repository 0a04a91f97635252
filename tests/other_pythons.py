"""Run the tests of the reader, the stream and the command line with the other Pythons of this machine.

These are the distribution's own Python, if it is another one, and the versions that the metadata name. Each gets an
environment in .cache/pythons, with what these tests need and nothing else. The last lines say what could not be tried.
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
HOME = ROOT / ".cache" / "pythons"
NEEDED = [".[dask,duckdb,onnx,parquet,plot,sklearn,tables,trees,zstd]", "hypothesis", "ir-measures", "pandas", "pytest"]
TESTS = [
    "tests/cli",
    "tests/stream",
    *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("tests/io/test_letor*.py")),
]


def ask_version(python):
    """Return the full version of an interpreter, empty if it does not start."""
    try:
        command = [python, "-c", "import platform; print(platform.python_version())"]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""


def list_pythons():
    """Return the Pythons to run by full version, and the versions that were not found."""
    spec = importlib.util.spec_from_file_location("build", ROOT / "packaging" / "build.py")
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    known = {version: build.find_python(version) for version in build.named_versions()}
    pythons = {ask_version(python): python for python in ["/usr/bin/python3", *filter(None, known.values())]}
    oldest = tuple(map(int, build.named_versions()[0].split(".")))
    skipped = {"", ask_version(sys.executable)}
    others = {
        version: python
        for version, python in pythons.items()
        if version not in skipped and tuple(map(int, version.split(".")[:2])) >= oldest
    }
    return others, [version for version, python in known.items() if python is None]


def run_tests(version, python):
    """Return why the tests did not pass; empty if they did."""
    folder = HOME / version
    inside = str(folder / "bin" / "python")
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder / "kernels")}
    for what, command in (
        ("no environment could be made", [python, "-m", "venv", str(folder)]),
        ("not everything could be installed", [inside, "-m", "pip", "install", "--quiet", "--editable", *NEEDED]),
        ("tests failed", [inside, "-m", "pytest", "-q", "--assert=plain", "-p", "no:cacheprovider", *TESTS]),
    ):
        if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode:
            return what
    return ""


def main():
    pythons, missing = list_pythons()
    problems = {}
    for version, python in pythons.items():
        print(f"Python {version} ({python})", flush=True)
        problems[version] = run_tests(version, python)
    for version, problem in problems.items():
        print(f"Python {version}: {problem or 'passed'}")
    for version in missing:
        print(f"Python {version}: not found here, so not tried")
    sys.exit("tests failed" in problems.values())


if __name__ == "__main__":
    main()
