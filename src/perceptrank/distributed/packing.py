"""Pack what travels to workers, with the classes and columns of the main program and the plugins that it needs."""

from __future__ import annotations

import atexit
import hashlib
import pickle
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

import perceptrank
from perceptrank.io.atomic import replaced_file
from perceptrank.kernels.cache_folder import cache_state, make_folder, read_trusted
from perceptrank.learners.registry import Plugin, load_plugin, plugins
from perceptrank.stream.columns import add_columns, added_columns

Dumps = Callable[[Any], bytes]

_loading = Lock()


def pack(thing: Any, dumps: Dumps) -> bytes:
    """Return an object as bytes; classes and columns of the main program go with it, others are imported by name.

    `dumps` is the engine's: workers have only that engine's pickle for sure.
    """
    return dumps((perceptrank.__version__, plugins(), dumps((added_columns(), thing))))


def unpack(packed: bytes) -> Any:
    """Return what was packed; raise, with advice, if this process has not got its classes."""
    version, needed, inner = pickle.loads(packed)
    if version != perceptrank.__version__:
        raise ImportError(
            f"the worker has perceptrank {perceptrank.__version__}, and this was sent by perceptrank {version}: "
            "install the same version everywhere"
        )
    with _loading:
        for plugin in needed:
            _load(plugin)
    try:
        columns, thing = pickle.loads(inner)
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
    folder = cache_state().folder
    return Path(_temporary()) if folder is None else folder / "plugins"


@cache
def _temporary() -> str:
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
