"""Objects as bytes for workers, with the learners' plugins that their classes are defined in."""

import atexit
import hashlib
import shutil
import tempfile
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from perceptrank.io.atomic import replaced_file
from perceptrank.kernels.cache_folder import cache_folder, make_folder, read_trusted
from perceptrank.learners.registry import Plugin, load_plugin, plugins
from perceptrank.stream.columns import add_columns, added_columns

_loading = Lock()


def pack(thing: Any) -> bytes:
    """Return an object as bytes; classes and columns of the main program go with it, others are imported by name."""
    from distributed.protocol.pickle import dumps

    packed: bytes = dumps((plugins(), dumps((added_columns(), thing))))
    return packed


def unpack(packed: bytes) -> Any:
    """Return what was packed; raise, with advice, if this process has not got its classes."""
    from distributed.protocol.pickle import loads

    found, inner = loads(packed)
    with _loading:
        for plugin in found:
            _load(plugin)
    try:
        columns, thing = loads(inner)
    except (ImportError, AttributeError) as error:
        raise type(error)(
            f"{error}: the worker must be able to import all classes of rankers, transforms and streams; install "
            "the package there, or define them in the main program"
        ) from None
    add_columns(columns)
    return thing


def _load(plugin: Plugin) -> None:
    """Load a plugin as if this process had been started with it."""
    if plugin in plugins():
        return
    folder = _folder() / hashlib.sha256(plugin.source).hexdigest()[:16]
    make_folder(folder)
    path = folder / plugin.file_name
    if not path.exists() or read_trusted(path) != plugin.source:
        with replaced_file(path) as file:
            file.write(plugin.source)
    load_plugin(plugin, path)


def _folder() -> Path:
    """Return a folder that nobody else can write: beside compiled kernels, which are kept by the names of files."""
    found = cache_folder()
    return Path(_temporary()) if found is None else found / "plugins"


@cache
def _temporary() -> str:
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
