"""Pages of the documentation, followed as a reader would: Python and commands, one after the other."""

import json
import re
import shlex
import shutil
import tomllib
from pathlib import Path
from typing import NamedTuple

from typer.testing import CliRunner

from perceptrank.cli.app import app

ROOT = Path(__file__).parents[2]
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
}
# What is not ours to run: tests of packaging, of the service and of engines do.
OTHERS = ("cat", "cd", "curl", "docker", "git", "install", "java", "make", "pip", "psql", "python", "python3", "sh")
OTHERS += ("source", "systemctl", "vespa")
ASKS_A_SERVER = re.compile(r"--url|\burl=|tcp://|postgresql://|harness=|perceptrank serve(?!.*--(?:check|verify))")


class Block(NamedTuple):
    """A block of code, the file that it is, if any, and the line of the page that it starts at."""

    kind: str
    title: str
    text: str
    line: int


def blocks_of(page: str) -> list[Block]:
    """All fenced blocks of a page."""
    found = re.finditer(r'^```([\w-]*)(?: title="([^"]*)")?\n(.*?)^```$', page, re.S | re.M)
    return [Block(one[1], one[2] or "", one[3], page[: one.start()].count("\n") + 2) for one in found]


def commands_of(text: str, mark: str = "") -> list[tuple[str, list[str]]]:
    """Commands of a block and the lines of output below each; with a mark, only what follows it is a command."""
    found: list[tuple[str, list[str]]] = []
    for line in text.replace("\\\n", " ").splitlines():
        if not mark or line.startswith(mark):
            found += [(line.removeprefix(mark), [])] if line.strip() else []
        else:
            found[-1][1].append(line)
    return found


def follow(path: Path, names: dict | None = None) -> dict:
    """Run the blocks of a page in the current folder, write those with a title; return the names of its Python."""
    names = {"__name__": "__main__"} if names is None else names
    for kind, title, text, line in blocks_of(path.read_text(encoding="utf-8")):
        place = f"{path.name}:{line}"
        if title:
            Path(title).parent.mkdir(parents=True, exist_ok=True)
            Path(title).write_text(text, encoding="utf-8")
        elif kind == "python":
            exec(compile("\n" * (line - 1) + text, str(path), "exec"), names)
        elif kind == "bash":
            for command, _ in commands_of(text):
                run(command, place)
        elif kind == "console":
            for command, shown in commands_of(text, "$ "):
                said = run(command, place)
                missing = [one for one in shown if one != "..." and one.rstrip() not in said]
                assert not missing, f"{place}: {command} did not say {missing[0]!r}\n{said}"
        elif kind == "json":
            for one in [text] if text.count("\n{") == 0 else text.splitlines():
                json.loads(one)
        elif kind == "toml":
            tomllib.loads(text)
    return names


def run(command: str, place: str) -> str:
    """Run a command line of ours; return what it says. Programs of others are left out."""
    words = shlex.split(command, comments=True)
    if not words or words[0] in OTHERS or ASKS_A_SERVER.search(command):
        return ""
    if "javascript" in words and not shutil.which("node"):
        return ""
    assert words[0] == "perceptrank", f"{place}: {command} is not a command that this test knows"
    done = CliRunner().invoke(app, words[1:])
    # 3 and 4 are verdicts.
    assert done.exit_code in ((0, 3, 4) if words[1] in ("evaluate", "hybrid") else (0,)), (
        f"{place}: {command}\n{done.output}"
    )
    return done.output
