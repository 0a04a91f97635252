"""Public names of the reference: the table of all of them, and links from where they are mentioned."""

import functools
import html
import importlib
import re
from pathlib import Path
from types import ModuleType
from typing import Any

MARKER = "<!-- names -->"
_OTHER_NAMES = {"perceptrank.datasets.catalogue.datasets": "perceptrank.datasets"}  # it has the name of its room
_FOLDER = Path(__file__).parents[1] / "reference"
# What links are not put into, and what they are put into: code that consists of text.
_CODE = re.compile(r"<(a|autoref|pre|h\d)\b.*?</\1>|<code>([^<]+)</code>", re.S)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the marker of the page by a table of all public names."""
    if MARKER not in markdown:
        return markdown
    rows = ["| Name | Description |", "|---|---|"]
    described = {path: text for path in _identifiers() if (text := _described(path))}
    for path in sorted(described, key=lambda one: one.rpartition(".")[2].lower()):
        name = _OTHER_NAMES.get(path, path).removeprefix("perceptrank.")
        rows.append(f"| [`{name}`][{path}] | {described[path]} |")
    return markdown.replace(MARKER, "\n".join(rows))


def on_page_content(content: str, page: Any, **_: Any) -> str:
    """Make links of public names in code, such as the types of parameters."""
    if not page.file.src_uri.startswith("reference/"):
        return content
    return _CODE.sub(lambda match: match[0] if match[2] is None else f"<code>{_linked(match[2])}</code>", content)


def _linked(text: str) -> str:
    known = _names()
    whole = html.unescape(text).removeprefix("perceptrank.").removeprefix("pr.").removesuffix("()")
    if whole in known:
        return _link(known[whole], text)
    # Among other words, only those that cannot be anything but a class.
    classes = (match[0] for match in re.finditer(r"\b[A-Z][A-Za-z]{2,}\b", text))
    for name in {one for one in classes if one in known}:
        text = re.sub(rf"\b{name}\b(?![^<]*>)", _link(known[name], name), text)
    return text


def _link(path: str, text: str) -> str:
    return f'<autoref optional identifier="{path}">{text}</autoref>'


@functools.cache
def _identifiers() -> list[str]:
    """Return what the pages describe, by full names."""
    return _found(r"^::: (\S+)")


def _found(pattern: str) -> list[str]:
    pages = sorted(_FOLDER.glob("*.md"))
    return [one for page in pages for one in re.findall(pattern, page.read_text(encoding="utf-8"), re.M)]


@functools.cache
def _names() -> dict[str, str]:
    """Return full names by the shorter ones that docstrings use: those of one thing alone, or of a top-level one."""
    found: dict[str, set[str]] = {}
    for path in [*_identifiers(), *_found(r"\{ #(perceptrank\S+) \}")]:
        words = path.split(".")[1:]
        for start in range(len(words)):
            found.setdefault(".".join(words[start:]), set()).add(path)
    short = {name: min(paths, key=len) for name, paths in found.items()}
    return {name: path for name, path in short.items() if len(found[name]) == 1 or path == f"perceptrank.{name}"}


def _described(path: str) -> str:
    """Return the first line of a docstring; nothing of a module, whose names have lines of their own."""
    room, _, name = path.rpartition(".")
    value = getattr(importlib.import_module(room), name)
    if isinstance(value, ModuleType):
        return ""
    return re.sub(r"([|*_])", r"\\\1", (value.__doc__ or "").strip().partition("\n")[0])
