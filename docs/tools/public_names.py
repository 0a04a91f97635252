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
# What links are not put into; code, perhaps at the beginning of a cell, where parameters stand; and names of documents.
_PLACES = re.compile(r"<(a|autoref|pre|h\d)\b.*?</\1>|(<td[^>]*>\s*)?<code>([^<]+)</code>|\bdocs/(\w+)\.md", re.S)


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


def on_page_content(content: str, page: Any, files: Any, **_: Any) -> str:
    """Make links of names in code, such as the types of parameters, and of the documents that docstrings name."""
    if not page.file.src_uri.startswith("reference/"):
        return content

    def replaced(match: re.Match[str]) -> str:
        _, cell, code, document = match.groups()
        if code is not None:
            return f"{cell or ''}<code>{_linked(code, is_name=cell is not None)}</code>"
        places = (f"{document}.md", f"{document}/index.md")
        found = next((file for place in places if (file := files.get_file_from_path(place))), None)
        return match[0] if found is None else f'<a href="{found.url_relative_to(page.file)}">{document}</a>'

    return _PLACES.sub(replaced, content)


def _linked(text: str, *, is_name: bool) -> str:
    """Return code with links; a word that may be a parameter is none."""
    known = _names()
    whole = html.unescape(text).removesuffix("()")
    name = whole.removeprefix("perceptrank.").removeprefix("pr.")
    if name in known and (name[0].isupper() or name != whole or ("_" in name and not is_name)):
        return _link(known[name], text)
    # Among other words, only those that cannot be anything but a class.
    classes = {match[0] for match in re.finditer(r"\b[A-Z][A-Za-z]{2,}\b", text)}
    for one in classes & set(known):
        text = re.sub(rf"\b{one}\b(?![^<]*>)", _link(known[one], one), text)
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
