"""Run the tests of what differs from the branch main, or the core's tests if nothing does.

A changed test file stands for itself, a module for the tests of its room and its own doctests. With the name of a
measure, transform or learner: its own doctests, the checks that find it by its place, and those of public names.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
CORE = [
    "tests/test_public.py",
    "tests/measures",
    "tests/stream",
    "tests/learners/test_rules.py",
    "tests/cli/test_cli.py",
]


def ask_git(*arguments):
    """Return the lines that git prints; none if it fails."""
    answer = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return answer.stdout.splitlines() if answer.returncode == 0 else []


def list_changes():
    """Return the files that differ from where this branch left main, or from the last commit if this is main."""
    base = next(iter(ask_git("merge-base", "HEAD", "main")), "HEAD")
    changed = ask_git("diff", "--name-only", base) + ask_git("ls-files", "--others", "--exclude-standard")
    return [Path(name) for name in changed if (ROOT / name).exists()]


def select_tests(changed):
    """Return the paths to give to pytest for some changed files."""
    selected = []
    for path in changed:
        if path.parts[0] == "tests" and path.name.startswith("test_") and path.suffix == ".py":
            selected.append(str(path))
        elif path.parts[:2] == ("src", "perceptrank") and path.suffix == ".py":
            room = path.parts[2]
            selected += [str(path)] + [f"tests/{room}"] * (ROOT / "tests" / room).is_dir()
    rooms = {path for path in selected if not path.endswith(".py")}
    return sorted({path for path in selected if path in rooms or str(Path(path).parent) not in rooms}) or CORE


def select_named(name):
    """Return the arguments of pytest for a measure, a transform or a learner."""
    declares = re.compile(rf'^    (?:name|algorithm)\b[^=\n]*= "{re.escape(name)}"', re.M)
    rooms = {"measures": ["test_measures"], "transforms": ["test_composition", "test_sparse"], "learners": []}
    for room, shared in rooms.items():
        for path in sorted((ROOT / "src" / "perceptrank" / room).rglob("*.py")):
            if declares.search(path.read_text()):
                words = [name, path.stem, *shared, "test_public", "test_docstrings"]
                files = [
                    str(path.relative_to(ROOT)),
                    f"tests/{room}",
                    "tests/test_public.py",
                    "tests/test_docstrings.py",
                ]
                return [*files, "-k", " or ".join(dict.fromkeys(words))]
    sys.exit(f"no class in measures, transforms or learners has the name {name!r}")


if __name__ == "__main__":
    selected = select_named(sys.argv[1]) if sys.argv[1:] else select_tests(list_changes())
    sys.exit(subprocess.call([sys.executable, "-m", "pytest", "-q", "--assert=plain", *selected], cwd=ROOT))
