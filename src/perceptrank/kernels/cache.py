"""The cache of compiled kernels on disk: one file for a kernel and the types of its arguments.

docs/architecture.md says what it does that Numba's own cache does not.
"""

import hashlib
import os
import pickle
import re
import sys
import time
import uuid
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite.binding

from perceptrank.kernels.cache_folder import CONFIG, cache_state, make_folder, read_trusted, warn_uncached
from perceptrank.kernels.pipeline import UNFIT, look_up
from perceptrank.kernels.stamps import NotStampedError, key_of, stamp_of

# Numba does not promise to keep these names. Without one of them, nothing else of this module is used.
(_REBUILD, _, _NUMBERS, _DUMPS, _RUNTIME_SYMBOLS, _), _UNFIT = look_up(
    "numba.core.compiler:CompileResult._rebuild",
    "numba.core.compiler:CompileResult._reduce",
    "numba.core.bytecode:FunctionIdentity._unique_ids",
    "numba.core.serialize:dumps",
    "numba.core.runtime._nrt_python:c_helpers",
    "numba.extending:_Intrinsic",
)
_UNFIT = _UNFIT or UNFIT

_NOTHING = llvmlite.binding.parse_assembly("").as_bitcode()

# A file is magic, stamp, checksum of name and payload, payload.
_MAGIC = b"perceptrank kernel 3\n"
_STAMP_END = len(_MAGIC) + 32
_HEADER_END = _STAMP_END + 4
_SUFFIX = ".kernel"
_UNUSED_SECONDS = 180 * 86400
_ABANDONED_SECONDS = 86400


class _Entry(NamedTuple):
    """A file of the cache and the stamp that it must have."""

    path: Path
    stamp: bytes


class KernelCache:
    """Cache of one kernel, in the place of the one that Numba gives to a dispatcher.

    An entry is named after kernel, source file, types of arguments, processor, versions and settings. Saving one
    deletes those of the same kernel with other stamps, and, once in a process, all not used for half a year.
    """

    _has_tidied = False

    def __init__(self, dispatcher: Any) -> None:
        self._dispatcher = dispatcher
        self._missed: dict[Any, _Entry] = {}

    @property
    def cache_path(self) -> str | None:
        """Folder in use."""
        folder = cache_state().folder
        return str(folder) if folder else None

    def flush(self) -> None:
        """Delete the entries of this kernel."""
        if folder := cache_state().folder:
            for path in folder.glob(f"{self._name()}-*{_SUFFIX}"):
                with suppress(OSError):
                    path.unlink()

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Load the machine code for a signature, or return None."""
        try:
            return self._load(signature, target_context)
        except Exception as error:  # such as a name of Numba's that has changed: the kernel can still be compiled
            warn_uncached(f"loading {self._dispatcher.py_func.__qualname__} failed ({error!r})")
            return None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Save the machine code of a signature that was not found; if that fails, warn."""
        entry = self._missed.pop(signature, None)
        if entry is None:
            return
        try:
            self._save(entry, result)
        except OSError as error:
            reason = error.strerror or str(error)
            warn_uncached(
                f"{entry.path.parent} cannot be written ({reason}); set PERCEPTRANK_CACHE_DIR to a folder that can, "
                "or compile ahead with 'perceptrank warm-up' where it can"
            )
        except Exception as error:
            warn_uncached(f"saving {self._dispatcher.py_func.__qualname__} failed ({error!r})")

    def _load(self, signature: Any, target_context: Any) -> Any:
        entry = self._entry(signature, target_context.codegen())
        if entry is None:
            return None
        self._missed[signature] = entry
        content = read_trusted(entry.path)
        if content is None or content[:_STAMP_END] != _MAGIC + entry.stamp:
            return None
        payload = memoryview(content)[_HEADER_END:]
        if checksum(entry.path, payload) != content[_STAMP_END:_HEADER_END]:
            return None  # as after a crash of the machine; LLVM would end the process
        result = _link(target_context, *pickle.loads(payload))
        del self._missed[signature]
        return result

    def _save(self, entry: _Entry, result: Any) -> None:
        if result.library.has_dynamic_globals or any(not part.can_cache for part in result.lifted):
            return
        (name, kind, (machine_code, _)), *parts, environments = result._reduce()
        # Intermediate code would be for kernels that call this one, which have it from its helper.
        parts.insert(0, (name, kind, (machine_code, _NOTHING)))
        # Without constants they are of use in object mode only, but loading them imports half of Numba.
        parts.append(tuple(environment for environment in environments if environment.consts))
        payload = _DUMPS((next(_NUMBERS), *_symbols(result.library), parts))
        make_folder(entry.path.parent)
        _write(entry.path, b"".join([_MAGIC, entry.stamp, checksum(entry.path, payload), payload]))
        with suppress(OSError):  # as another process tidies too
            self._tidy(entry)

    def _entry(self, signature: Any, codegen: Any) -> _Entry | None:
        state = cache_state()
        if _UNFIT or state.folder is None:
            warn_uncached(_UNFIT or state.reason)
            return None
        try:
            stamp, key = stamp_of(self._dispatcher), key_of(signature, codegen)
        except NotStampedError:
            return None
        return _Entry(state.folder / f"{self._name()}-{key}{_SUFFIX}", stamp)

    def _name(self) -> str:
        function = self._dispatcher.py_func
        source = f"{sys.implementation.cache_tag} {os.path.abspath(function.__code__.co_filename)}".encode()
        name = re.sub(r"[^\w.]", "_", f"{function.__module__}.{function.__qualname__}")
        return f"{name[-120:]}-{hashlib.sha256(source).hexdigest()[:12]}"

    def _tidy(self, entry: _Entry) -> None:
        own = f"{self._name()}-"
        now = time.time()
        tidies_all = not KernelCache._has_tidied
        KernelCache._has_tidied = True
        for path in list(entry.path.parent.iterdir()):
            if path.name.startswith(own) and path.suffix == _SUFFIX and path.is_file():
                with open(path, "rb") as file:
                    if file.read(_STAMP_END) != _MAGIC + entry.stamp:
                        path.unlink(missing_ok=True)
            elif tidies_all and (path.suffix == _SUFFIX or ".kernel.tmp." in path.name):
                status = path.stat()
                age = now - max(status.st_atime, status.st_mtime)
                if age > (_UNUSED_SECONDS if path.suffix == _SUFFIX else _ABANDONED_SECONDS):
                    path.unlink(missing_ok=True)


def checksum(path: Path, payload: bytes | memoryview) -> bytes:
    """Checksum of an entry; with its name, as machine code for other types of arguments has the same stamp."""
    return zlib.crc32(payload, zlib.crc32(path.name.encode())).to_bytes(4, "big")


def _symbols(library: Any) -> tuple[list[str], list[str]]:
    """Symbols that the machine code expects outside of itself, and those that it defines."""
    outer: list[str] = []
    defined: list[str] = []
    for value in [*library._final_module.functions, *library._final_module.global_variables]:
        (outer if value.is_declaration else defined).append(value.name)
    return [name for name in outer if not name.startswith("llvm.")], defined


def _link(target_context: Any, number: int, outer: list[str], defined: list[str], parts: list[Any]) -> Any:
    """Make a compiled kernel of its saved parts."""
    # Symbols contain numbers that Numba counts in each process. Ours must go on where those of this kernel end, else
    # an edited kernel that is imported again could share symbols with the old one.
    while next(_NUMBERS) < number:
        pass
    if not all(_is_defined(symbol) for symbol in outer):
        target_context.refresh()
    target_context.codegen()._engine._defined_symbols.update(defined)
    return _REBUILD(target_context, *parts)


def _is_defined(symbol: str) -> bool:
    """Check that machine code with this symbol can be linked; LLVM aborts the process if it cannot.

    To let Numba load all its declarations, as it does, would take longer than the rest of a warm start.
    """
    address = _RUNTIME_SYMBOLS.get(symbol.removeprefix("NRT_"))
    if address and not CONFIG.NRT_STATS:
        llvmlite.binding.add_symbol(symbol, address)
    return llvmlite.binding.address_of_symbol(symbol) is not None


def _write(path: Path, content: bytes) -> None:
    """Write a file at once, so that other processes, and those after a power cut, see all of it or nothing."""
    temporary = path.with_name(f"{path.name}.tmp.{uuid.uuid4().hex}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o644)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
