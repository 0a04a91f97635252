"""Each `make` target finds what it imports among the packages that it installs, in an environment with nothing else.

What `pip install '.[docs]'` would not install is hidden from a process, in place of a new environment.
"""

import ast
import functools
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DOCS = """
sys.path.insert(0, "docs/tools")
import command_pages, print_theory, public_names, site_pages
public_names.on_page_markdown(public_names.MARKER)
"""
DEMO = "from perceptrank.cli.app import app; app(['reproduce', '--quick', '--out', {folder!r}], standalone_mode=False)"


def needed_by(package, extra):
    """Requirements of a package with an extra; those of this one as they are now, not as they were installed."""
    if package == PROJECT["name"]:
        extras = PROJECT["optional-dependencies"]
        return [Requirement(text) for text in PROJECT["dependencies"] + (extras[extra] if extra else [])]
    try:
        listed = map(Requirement, distribution(package).requires or ())
    except PackageNotFoundError:  # of another platform
        return []
    return [each for each in listed if each.marker is None or each.marker.evaluate({"extra": extra})]


def installed_by(extra):
    """Names of all packages that come with an extra of this one."""
    seen, left = set(), [(PROJECT["name"], extra)]
    while left:
        package = left.pop()
        if package not in seen:
            seen.add(package)
            for each in needed_by(*package):
                left += [(each.name.lower().replace("_", "-"), more) for more in ("", *each.extras)]
    return {name for name, _ in seen}


@functools.cache
def providers():
    """Packages of each module that can be imported here."""
    found = packages_distributions()
    return {module: {re.sub("[-_.]+", "-", name).lower() for name in names} for module, names in found.items()}


@pytest.mark.parametrize(
    ("stamp", "code"), [("docs", DOCS), pytest.param("user", DEMO, marks=pytest.mark.engine)], ids=["docs", "demo"]
)
def test_a_target_needs_what_it_installs(stamp, code, tmp_path):
    recipe = (ROOT / "Makefile").read_text().partition(f"$(VENV)/{stamp}: pyproject.toml")[2]
    extra = re.search(r"--editable '\.\[(\w+)\]'", recipe)[1]
    here = installed_by(extra)
    hidden = sorted(module for module, packages in providers().items() if not packages & here)
    assert "pytest" in hidden
    hide = f"import sys; sys.modules.update(dict.fromkeys({hidden}))\n"
    process = [sys.executable, "-c", hide + code.format(folder=str(tmp_path))]
    subprocess.run(process, cwd=ROOT, check=True, capture_output=True, text=True, timeout=600)


def test_the_demonstration_says_how_long_it_takes_and_where_the_command_is():
    command = ["make", "--dry-run", "--always-make", "demo"]
    shown = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    order = "a minute", "pip install", "half a minute", "perceptrank reproduce", "perceptrank is .venv/bin/perceptrank"
    assert re.search(".*".join(map(re.escape, order)), shown, re.S), shown


def imported_by(file):
    """First names of the modules that a file imports, wherever it does."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module.partition(".")[0]


@pytest.mark.parametrize(("folders", "extra"), [(("tests", "docs"), "dev"), (("packaging",), "")])
def test_what_is_imported_is_installed(folders, extra):
    """In tests, pages and the benchmarks that `make bench` runs; and by the plain Python that `make package` takes."""
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.py")]
    here = installed_by(extra)
    if extra == "dev":
        files += [ROOT / name for name in re.findall(r"benchmarks/\w+\.py", (ROOT / "Makefile").read_text())]
    beside = [*files, *(ROOT / "benchmarks").glob("*.py")]
    own = {part for file in beside for part in (file.stem, file.parent.name)} | {PROJECT["name"]}
    later = (
        {"pyspark"} if extra == "dev" else set()
    )  # it is large: `.ci/run` installs it, and tests are skipped without
    known = own | sys.stdlib_module_names | later
    imports = {(module, file) for file in files for module in imported_by(file) if module not in known}
    missing = [f"{file}: {module}" for module, file in imports if not providers().get(module, set()) & here]
    assert missing == []
