"""Stamps of kernels: a hash of everything that the machine code of a kernel depends on.

A stamp covers the bytecode of the kernel, the kernels, constants and classes that it names, and theirs in turn. Read
from disk is only the source of modules whose intrinsics or plain functions a kernel uses, and of those that say how
kernels are compiled. An edit of a kernel changes the stamps of those that reach it and no others.
"""

import enum
import hashlib
import inspect
import sys
from contextlib import suppress
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import llvmlite
import numba
import numpy as np
from numba import extending, types

CONFIG: Any = numba.config
_INTRINSIC: Any = getattr(extending, "_Intrinsic", ())  # without it `cache` uses no stamps

# Packages whose versions are part of the key.
_VERSIONED = sys.stdlib_module_names | {"numpy", "numba", "llvmlite"}

# Settings of Numba that change the machine code and that its own cache overlooks.
_SETTINGS = (
    *("BOUNDSCHECK", "OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "ENABLE_AVX", "DISABLE_INTEL_SVML"),
    *("DEBUGINFO_DEFAULT", "EXTEND_VARIABLE_LIFETIMES", "DEBUG_NRT", "JIT_COVERAGE"),
    *("LLVM_REFPRUNE_PASS", "LLVM_REFPRUNE_FLAGS"),
)

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), range, slice)

# Hashes of the modules that say how kernels are compiled, read at once: a process may give up the right to read them.
_COMPILATION: list[bytes] = []
for _name in ("compiled.py", "pipeline.py"):
    with suppress(OSError):
        _COMPILATION.append(hashlib.sha256(Path(__file__).with_name(_name).read_bytes()).digest())


class NotStampedError(Exception):
    """A kernel depends on something that cannot be hashed."""


def stamp_of(dispatcher: Any) -> bytes:
    """Hash what a kernel says and calls."""
    stamp = _Stamp()
    stamp.add(dispatcher, ())
    return stamp.digest()


def key_of(signature: Any, codegen: Any) -> str:
    """Hash what a kernel is compiled for: types of arguments, processor, versions and settings."""
    stamp = _Stamp()
    for kind in signature if isinstance(signature, tuple) else (*signature.args, signature.return_type):
        stamp.add_type(kind)
    stamp.note(codegen.magic_tuple(), sys.hexversion, getattr(sys, "abiflags", ""))
    stamp.note(numba.__version__, llvmlite.__version__, np.__version__, *_COMPILATION)
    stamp.note(*(str(getattr(CONFIG, name, None)) for name in _SETTINGS))
    return stamp.digest().hex()[:24]


class _Stamp:
    """A walk over the values that a kernel reaches, each visited once."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._order: dict[int, int] = {}
        self._modules: set[str] = set()

    def digest(self) -> bytes:
        return self._hash.digest()

    def note(self, *facts: object) -> None:
        self._hash.update(repr(facts).encode())

    def add(self, value: Any, names: tuple[str, ...]) -> None:
        """Add a value that a kernel refers to; of a module, the attributes in `names`."""
        if isinstance(value, _PLAIN) and not isinstance(value, enum.Enum):
            self.note(type(value).__name__, value)
        elif isinstance(value, tuple | frozenset):
            elements = value if isinstance(value, tuple) else sorted(value, key=repr)
            self.note(type(value).__name__, len(elements))
            for element in elements:
                self.add(element, names)
        elif isinstance(value, np.ndarray | np.generic):
            array = np.asarray(value)
            self.note("array", array.dtype.descr, array.shape, array.flags.c_contiguous, array.flags.writeable)
            self._hash.update(array.tobytes())
        elif isinstance(value, CodeType):
            raise NotStampedError("a code object outside its function")
        elif id(value) in self._order:
            self.note("seen", self._order[id(value)])
        else:
            self._order[id(value)] = len(self._order)
            self._add_object(value, names)

    def add_type(self, kind: Any) -> None:
        """Add one of Numba's types, with the fields of named tuples and enumerations, which its name leaves out."""
        text = str(kind)
        if " at 0x" in text or "jitclass" in text:
            raise NotStampedError(f"{text} differs from process to process")
        self.note(text)
        if (named := getattr(kind, "instance_class", None)) is not None:
            self.add(named, ())
        parts = [*getattr(kind, "types", ()), getattr(kind, "dtype", None), getattr(kind, "type", None)]
        for part in parts:
            if isinstance(part, types.Type):
                self.add_type(part)

    def _add_object(self, value: Any, names: tuple[str, ...]) -> None:
        home = _module_of(value)
        if extending.is_jitted(value):
            options = {name: _in_order(option) for name, option in value.targetoptions.items()}
            self.note("kernel", sorted(options.items()))
            self._add_function(value.py_func)
            self.add(getattr(value, "kernels", ()), ())  # that it is one of
        elif isinstance(value, enum.Enum):
            self.note("member", value.name)
            self.add(type(value), ())
        elif isinstance(value, type) and issubclass(value, enum.Enum):
            self.note("enumeration", home, value.__qualname__, [(member.name, member.value) for member in value])
        elif isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields"):
            self.note("fields", home, value.__qualname__, value._fields)
            self.add(tuple(value._field_defaults.values()), ())  # type: ignore[attr-defined]
        elif isinstance(value, ModuleType):
            self.note("module", home)
            if not _is_versioned(home):
                for name in names:
                    if name in vars(value):
                        self.note(name)
                        self.add(vars(value)[name], names)
        elif _is_versioned(home):
            text = repr(value)
            if isinstance(value, list | dict | set) or " at 0x" in text:
                if isinstance(value, _INTRINSIC) or type(value).__module__.startswith("numba."):
                    raise NotStampedError(f"{text} of Numba")
                text = f"{type(value).__name__} {getattr(value, '__qualname__', '')}"
            self.note(home, text)
        else:
            self.note("of module", getattr(value, "__qualname__", type(value).__qualname__))
            self._add_source(home)

    def _add_function(self, function: Any) -> None:
        # The machine code of two functions that one function defines has symbols of the same names, told apart by
        # numbers that repeat in another process: loaded together, one would run for the other.
        if "<locals>" in function.__qualname__ or function.__closure__:
            raise NotStampedError(f"{function.__qualname__} is defined inside a function")
        original = inspect.unwrap(function)  # of a specialised one
        module = sys.modules.get(original.__module__)
        if module is None or vars(module) is not original.__globals__:
            raise NotStampedError(f"{original.__module__} is not an imported module")
        self.note(function.__module__, function.__qualname__)
        self.add(function.__defaults__, ())
        self.add(tuple(sorted((function.__kwdefaults__ or {}).items())), ())
        self._add_code(function.__code__, function.__globals__)

    def _add_code(self, code: CodeType, names: dict[str, Any]) -> None:
        self.note(code.co_flags, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
        self.note(code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        self.note(code.co_code, code.co_exceptiontable)
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self._add_code(constant, names)
            else:
                self.add(constant, ())
        for name in code.co_names:
            if name in names:
                self.note(name)
                self.add(names[name], code.co_names)

    def _add_source(self, name: str) -> None:
        """Add the source of a module and of the modules that its names come from."""
        if name in self._modules or _is_versioned(name):
            return
        self._modules.add(name)
        module = sys.modules.get(name)
        if module is None or not (path := getattr(module, "__file__", None)):
            raise NotStampedError(f"{name} has no source")
        with open(path, "rb") as file:
            self.note(name, hashlib.sha256(file.read()).digest())
        for value in list(vars(module).values()):
            if (home := _module_of(value)) in sys.modules:
                self._add_source(home)


def _module_of(value: Any) -> str:
    if isinstance(value, ModuleType):
        return value.__name__
    defined = getattr(value, "_defn", None) if isinstance(value, _INTRINSIC) else value
    home = getattr(defined, "__module__", None)
    return home if isinstance(home, str) else type(value).__module__


def _is_versioned(module: str) -> bool:
    return module.partition(".")[0] in _VERSIONED


def _in_order(option: Any) -> object:
    return sorted(option) if isinstance(option, set | frozenset) else repr(option)
