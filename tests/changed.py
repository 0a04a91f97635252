"""Print the tests of what differs from the branch main, or the core's tests if nothing does.

A changed test file stands for itself, a module for the tests of its room and its own doctests.
"""

import subprocess
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


if __name__ == "__main__":
    print(*select_tests(list_changes()), sep="\n")
