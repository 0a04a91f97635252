"""Build the wheel and the source, install each into fresh environments and use it there, with every Python there is.

python packaging/build.py [--only 3.12] [--without-extras]

The Pythons are those that the metadata names. One is found as `python3.12` on the path, or among those of pyenv and uv;
those that are not found are named at the end. With the oldest Python, the oldest versions of what the package needs are
tried as well. Everything is made in `dist` and `.cache/package`.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST, WORK = ROOT / "dist", ROOT / ".cache" / "package"
NOT_OURS = ("PYTHON", "PERCEPTRANK_", "NUMBA_", "VIRTUAL_ENV", "MAKE")
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(NOT_OURS)}


def named_versions() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    prefix = "Programming Language :: Python :: 3."
    return [one.rpartition(" ")[2] for one in project["classifiers"] if one.startswith(prefix)]


def find_python(version: str) -> str | None:
    """Return an interpreter of a version, such as 3.12, that starts."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    uv = Path.home() / ".local" / "share" / "uv" / "python"
    installed = [*_list_folders(pyenv / "versions", f"{version}."), *_list_folders(uv, f"cpython-{version}.")]
    pythons = [sys.executable, shutil.which(f"python{version}"), *(str(folder / "bin/python") for folder in installed)]
    for python in filter(None, pythons):
        command = [python, "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])"]
        try:
            answer = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT)
        except OSError:  # not there, or not ours to start
            continue
        if answer.stdout.strip() == version:  # a launcher may start another version, or none
            return python
    return None


def _list_folders(home: Path, prefix: str) -> list[Path]:
    """Return the folders below `home` whose name has a prefix, newest first; none if it cannot be read."""
    try:
        return sorted((folder for folder in home.iterdir() if folder.name.startswith(prefix)), reverse=True)
    except OSError:
        return []


def run(*command: object, cwd: Path = ROOT) -> str:
    said = subprocess.run(
        [str(one) for one in command],
        cwd=cwd,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    text = said.stdout.decode(errors="replace")
    if said.returncode:
        sys.exit(f"{text}\n{' '.join(map(str, command))} failed, with exit status {said.returncode}")
    return text


def fresh_environment(python: str, folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    run(python, "-m", "venv", folder)
    return folder / "bin" / "python"


def check_contents() -> None:
    """Compare what is in the wheel and in the source with the commit."""
    if not (ROOT / ".git").exists():
        print("this is not a clone, so what should be in the wheel and in the source is not known")
        return
    known = set(run("git", "ls-files", "-z").strip("\0").split("\0"))
    with tarfile.open(next(DIST.glob("*.tar.gz"))) as source:
        _compare("the source", {one.name.partition("/")[2] for one in source if one.isfile()}, known | {"PKG-INFO"})
    with zipfile.ZipFile(next(DIST.glob("*.whl"))) as wheel:
        found = set(wheel.namelist())
    about = next(one for one in found if one.endswith(".dist-info/METADATA")).removesuffix("METADATA")
    package = {one.removeprefix("src/") for one in known if one.startswith("src/")}
    added = {about + one for one in ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")}
    _compare("the wheel", found, package | added)


def _compare(what: str, found: set[str], expected: set[str]) -> None:
    if found != expected:
        wrong = [f"lacks {one}" for one in sorted(expected - found)] + [
            f"has {one}" for one in sorted(found - expected)
        ]
        sys.exit("\n".join(f"{what} {one}" for one in wrong))
    print(f"{what} has its {len(found)} files", flush=True)


def build() -> list[Path]:
    """Make the source, and from the source the wheel; check both."""
    shutil.rmtree(DIST, ignore_errors=True)
    python = fresh_environment(sys.executable, WORK / "build")
    run(python, "-m", "pip", "install", "--quiet", "build", "twine")
    run(python, "-m", "build", "--outdir", DIST, ROOT)
    check_contents()
    files = [next(DIST.glob("*.whl")), next(DIST.glob("*.tar.gz"))]
    run(python, "-m", "twine", "check", "--strict", *files)
    print(*(f"{one.name}: {one.stat().st_size / 1000:,.0f} kB" for one in files), sep="\n", flush=True)
    return files


def lowest() -> list[str]:
    """Return the oldest versions that the metadata allow."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [one.replace(">=", "==") for one in project["dependencies"]]


def use(python: str, file: Path, *, extras: bool = False, pins: Sequence[str] = ()) -> None:
    """Install a file into an environment of its own, and use it from a folder that has no source in it."""
    folder = WORK / "use"
    inside = fresh_environment(python, folder)
    scratch = folder / "scratch"
    scratch.mkdir()
    for wanted, kind in [(str(file), "core")] + [(f"{file}[all]", "extras")] * extras:
        run(inside, "-m", "pip", "install", "--quiet", wanted, *pins)
        run(inside, "-m", "pip", "check")
        said = run(inside, "-I", ROOT / "packaging" / "smoke.py", kind, folder, cwd=scratch)
        oldest = f" with {', '.join(pins)}" if pins else ""
        print(f"  {file.name}, {kind}{oldest}: {said.strip().splitlines()[-1]}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="VERSION", action="append", help="such as 3.12; default all that are named")
    parser.add_argument("--without-extras", action="store_true", help="do not install what the extras need")
    options = parser.parse_args()
    versions = options.only or named_versions()
    pythons = {version: find_python(version) for version in versions}
    if not any(pythons.values()):
        sys.exit(f"there is no Python {' or '.join(versions)} here")
    files = build()
    for python in filter(None, pythons.values()):
        print(f"{run(python, '--version').strip()} ({python})", flush=True)
        for file in files:
            use(python, file, extras=file.suffix == ".whl" and not options.without_extras)
    if python := pythons.get(named_versions()[0]):  # newer Pythons need newer packages
        use(python, files[0], pins=lowest())
    shutil.rmtree(WORK / "use", ignore_errors=True)
    missing = [version for version, python in pythons.items() if python is None]
    print(f"used with Python {', '.join(one for one in versions if one not in missing)}")
    if missing:
        print(f"not found here, so not tried: Python {', '.join(missing)}")


if __name__ == "__main__":
    main()
