"""Files that a command reads and writes: what is read is never replaced, and what cannot be written is said at once.

Options are annotated with `Reads` and `Writes`. Files are compared by identity, which sees through links, patterns,
folders and redirected streams.
"""

import glob
import os
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from fnmatch import fnmatch
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

Identity = tuple[int, int]


class What(Enum):
    """Kinds of paths."""

    file = "one file"
    image = "an image file"
    data = "judged queries: a file, a store, a folder or pattern of files, or a standard stream"
    tree = "a folder with data sets anywhere below it"
    report = "the folder of a report"


class Reads(NamedTuple):
    """An option that names what is read.

    The option `becomes` may replace it, since that happens in one step; with `in_place`, a store may be rewritten.
    """

    what: What = What.file
    becomes: str = ""
    part: slice = slice(None)
    in_place: bool = False


class Writes(NamedTuple):
    """An option that names what is written; an argument, which has no name for users, is `called` something."""

    what: What = What.file
    part: slice = slice(None)
    called: str = ""


class _Input(NamedTuple):
    """Something that is read: a file, a folder or pattern of files (a pattern has no identity), or a store."""

    kind: str
    identity: Identity | None
    shown: str


class _Output(NamedTuple):
    """A path that is written, and the option that names it."""

    option: str
    path: str
    what: What
    called: str = ""


_STANDARD_OUTPUT = _Output("standard output", "-", What.data, "standard output")


def roles_of(annotations: Mapping[str, Any]) -> dict[str, list[Reads | Writes]]:
    """Return what options are for, by their annotations."""
    roles = {
        name: [role for role in getattr(annotation, "__metadata__", ()) if isinstance(role, (Reads, Writes))]
        for name, annotation in annotations.items()
    }
    return {name: several for name, several in roles.items() if several}


def check_files(
    roles: Mapping[str, Sequence[Reads | Writes]], values: Mapping[str, Any], plugins: Sequence[Path]
) -> None:
    """Raise if something that is to be written is read as well, is to be written twice, or cannot be written."""
    from perceptrank.io.atomic import check_writable

    read = [(source, Reads()) for path in plugins for source in _inputs(os.fspath(path), What.file)]
    written: list[_Output] = []
    for option, role in ((option, role) for option, several in roles.items() for role in several):
        for value in _values(values.get(option))[role.part]:
            if isinstance(role, Reads):
                read += [(source, role) for source in _inputs(value, role.what)]
            else:
                written += [_Output(option, path, role.what, role.called) for path in _outputs(value, role.what)]
    for output in [*written, _STANDARD_OUTPUT]:
        identity = _identity_of("stdout") if output.path == "-" else _identity(output.path)
        folders = [] if output.path == "-" else [_identity(folder) for folder in _real(output).parents]
        for source, role in read:
            is_rewritten = role.in_place and source.kind == "store" and source.identity == identity
            if role.becomes == output.option or is_rewritten or (source.identity is None and source.kind != "pattern"):
                continue
            if harm := _harm(output, identity, folders, source):
                shown = "" if output.path == "-" else f" {output.path}"
                named = output.called or f"`{output.option}`"
                raise ValueError(f"{named}{shown} would {harm}: name another file")
    for output, other in combinations(written, 2):
        if output.option != other.option and _are_one(output.path, other.path):
            raise ValueError(f"`{output.option}` and `{other.option}` must be different files")
    for output in written:
        if output.what in (What.file, What.image):
            check_writable(output.path)
        if output.what is What.image:
            from perceptrank.evaluation.plots import check_drawable

            check_drawable(output.path)


def _values(value: Any) -> list[str]:
    values = value if isinstance(value, (list, tuple)) else [] if value is None else [value]
    return [os.fspath(path) for path in values]


def _inputs(value: str, what: What) -> Iterator[_Input]:
    """List what is read; what is missing has no identity, and is left to the command to report."""
    from perceptrank.io.paths import find_files, is_store

    path = Path(value)
    if value == "-" and what is What.data:
        yield _Input("file", _identity_of("stdin"), "standard input")
    elif what is What.tree:
        from perceptrank.paper.real_sets import data_folders

        for _, candidates in data_folders(path, []):
            for candidate in candidates:
                yield from _inputs(os.fspath(candidate), What.data)
    elif what is What.data and is_store(path):
        yield _Input("store", _identity(path), value)
        for file in path.iterdir():
            yield _Input("file", _identity(file), os.fspath(file))
    elif what is What.data:
        if path.is_dir():
            yield _Input("folder", _identity(path), value)
        elif glob.has_magic(value) and not path.exists():
            yield _Input("pattern", None, value)
        with suppress(OSError, ValueError):
            for name in find_files(value):
                yield _Input("file", _identity(name), str(name))
    else:
        yield _Input("file", _identity(path), value)


def _outputs(value: str, what: What) -> Iterator[str]:
    if what is not What.report:
        yield value
        return
    for name in ("report.html", "results.json"):
        yield os.path.join(value, name)
    for name in ("figures", "curves"):
        folder = Path(value, name)
        yield from (os.fspath(file) for file in (folder.iterdir() if folder.is_dir() else ()))


def _harm(output: _Output, identity: Identity | None, folders: list[Identity | None], read: _Input) -> str:
    """Say what writing to a path in these folders would do to something that is read; nothing if it does no harm."""
    if read.kind == "pattern":
        return f"be one of the files that {read.shown} matches, which are read" if _matches(read.shown, output) else ""
    if identity == read.identity:
        return f"replace {read.shown}, which is read"
    if read.kind == "store" and read.identity in folders:
        return f"change the store {read.shown}, which is read"
    is_hidden = _real(output).name.startswith((".", "_"))
    if read.kind == "folder" and read.identity in folders[:1] and not is_hidden and not _becomes_store(output):
        return f"be one of the files in {read.shown}, which are read"
    return ""


def _real(output: _Output) -> Path:
    return Path(os.path.realpath(output.path))


def _becomes_store(output: _Output) -> bool:
    from perceptrank.io.sources import format_for

    try:
        return output.what is What.data and format_for(output.path) == "store"
    except ValueError:
        return False


def _matches(pattern: str, output: _Output) -> bool:
    """Tell if a pattern will match a file that is written, which need not be there yet; stores are folders."""
    if output.path == "-" or _becomes_store(output):
        return False
    head, tail = os.path.split(pattern)
    if tail == "**":  # files at any depth
        head, tail = pattern, "*"
    searched = os.path.join(glob.escape(os.getcwd()), head, "")
    folders = {os.path.realpath(folder) for folder in glob.glob(searched, recursive=True)}
    folder, name = os.path.split(output.path)
    return any(
        parent in folders and fnmatch(name, tail) and (not name.startswith(".") or tail.startswith("."))
        for parent, name in ((os.path.realpath(folder), name), os.path.split(_real(output)))
    )


def _are_one(path: str, other: str) -> bool:
    identity = _identity(path)
    return os.path.realpath(path) == os.path.realpath(other) or (identity is not None and identity == _identity(other))


def _identity(path: Any) -> Identity | None:
    try:
        status = os.stat(path)
    except (OSError, ValueError, TypeError):
        return None
    return status.st_dev, status.st_ino


def _identity_of(stream: str) -> Identity | None:
    """Identify the file that a standard stream is redirected to or from, None if it is no file."""
    try:
        status = os.fstat(getattr(sys, stream).fileno())
    except (OSError, ValueError, AttributeError):
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None
