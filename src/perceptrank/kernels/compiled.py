"""The decorators that every kernel carries."""

import functools
import gc
import signal
import threading
from collections.abc import Callable
from types import FrameType, FunctionType
from typing import Any, Self, TypeVar, cast

import numba
from numba import extending

from perceptrank.kernels.cache import KernelCache
from perceptrank.kernels.pipeline import UNFIT, HelperCompiler, KernelCompiler, look_up

(_EVENT, _LISTENER), _ = look_up("numba.core.event", "numba.core.event:Listener")
_JITTED: Any = numba.njit(lambda: None)
_DISPATCHER: Any = type(_JITTED) if extending.is_jitted(_JITTED) else object  # that with NUMBA_DISABLE_JIT
_OPTIONS: Any = getattr(getattr(_DISPATCHER, "targetdescr", None), "options", None)
_PASS = "numba:run_pass"
Kernel = TypeVar("Kernel", bound=Callable[..., Any])

# Sums may be reordered so that they use the whole vector unit; NaN and infinity keep their meaning.
REORDERED_SUMS = {"reassoc", "nsz", "contract", "arcp"}

# Products may be added without rounding them first. Unlike sums in any order, x + c - c is left as it is.
FUSED = {"contract"}

# For loops over values already known to be numbers.
NO_NAN = {"nnan", "nsz"}


class _Listener(_LISTENER or object):  # type: ignore[misc]
    """A listener to Numba's events; without those, it hears nothing."""

    def listen(self, kind: str) -> Callable[[], None]:
        """Begin to listen to events of a kind; return what ends it."""
        if _EVENT is None:
            return lambda: None
        _EVENT.register(kind, self)
        return lambda: _EVENT.unregister(kind, self)

    def on_end(self, compilation: Any) -> None:
        """Do nothing at the end, which may be an error."""


class InterruptsPostponed(_Listener):
    """Context in which Ctrl-C is noted, and handled at the next safe place; without effect inside another one.

    An exception that a signal raises where Numba and LLVM call each other back is lost, and a kernel without machine
    code remains. So the handler runs where nothing is half done: when a pass of the compiler begins, or at the end.
    """

    def __init__(self) -> None:
        self._handler: Any = None
        self._noted: tuple[int, FrameType | None] | None = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            handler = signal.getsignal(signal.SIGINT)
            if callable(handler) and not isinstance(getattr(handler, "__self__", None), InterruptsPostponed):
                self._handler = handler
                signal.signal(signal.SIGINT, self._note)
                self._stop = self.listen(_PASS)
        return self

    def __exit__(self, *_: object) -> None:
        if self._handler is not None:
            self._stop()
            if signal.getsignal(signal.SIGINT) == self._note:
                signal.signal(signal.SIGINT, self._handler)
            self._handle()

    def on_start(self, compilation: Any) -> None:
        """Handle what was noted; other threads may compile while this one waits for them."""
        if threading.current_thread() is threading.main_thread():
            self._handle()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._noted = number, frame

    def _handle(self) -> None:
        noted, self._noted = self._noted, None
        if noted is not None:
            self._handler(*noted)


class _Kernel(_DISPATCHER):  # type: ignore[misc]
    """A kernel whose compilation can be interrupted and started again."""

    def compile(self, sig: Any) -> Any:
        """Load or compile the kernel for a signature."""
        collects = gc.isenabled()
        gc.disable()  # it would look through all that Numba keeps, again and again
        try:
            with InterruptsPostponed():
                return super().compile(sig)
        finally:
            if collects:
                gc.enable()


class _Entry(_Kernel):
    """A kernel that Python calls; for other kernels, it is a helper."""

    helper: Any

    def get_call_template(self, args: Any, kws: Any) -> Any:
        return self.helper.get_call_template(args, kws)

    def get_overload(self, sig: Any) -> Any:
        return self.helper.get_overload(sig)


class _Helper(_Kernel):
    """A kernel without an entry for Python, and without machine code of its own."""

    def add_overload(self, cres: Any) -> None:
        """Keep what was compiled for a signature, by which other kernels call it."""
        compiled = cres._replace(entry_point=object())
        cres.target_context.insert_user_function(compiled.entry_point, cres.fndesc, [cres.library])
        self.overloads[tuple(cres.signature.args)] = compiled

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise TypeError(f"{self.py_func.__name__} can only be called from a kernel")


def _compile(function: Kernel, *, allocates: bool = False, helps: bool = False, **options: Any) -> Kernel:
    # Without a memory manager there are no references to count: less to compile, and less to do on a short query.
    shortcuts = {"_nrt": allocates, "no_cpython_wrapper": helps, "no_cfunc_wrapper": True}  # without documents
    more: dict[str, Any] = {name: value for name, value in shortcuts.items() if hasattr(_OPTIONS, name)}
    if not UNFIT and not allocates:
        more["pipeline_class"] = HelperCompiler if helps else KernelCompiler
    kernel: Any = numba.njit(nogil=True, error_model="numpy", **options | more)(function)
    is_jitted = extending.is_jitted(kernel)
    if is_jitted:  # not so with NUMBA_DISABLE_JIT
        kernel.__class__ = _Kernel if UNFIT or allocates else _Helper if helps else _Entry
        if kernel.__class__ is _Entry:
            kernel.helper = _compile(function, helps=True, **options)
        if kernel.__class__ is not _Helper:
            kernel._cache = KernelCache(kernel)
    return cast(Kernel, kernel)


def _decorator(**options: Any) -> Callable[[Kernel], Kernel]:
    return functools.partial(_compile, **options)


# Compile a kernel on its first call, keep the machine code on disk, release the GIL while it runs. The kernel must not
# allocate arrays; it is handed those that it works in.
compiled = _decorator()
# As `compiled`, for kernels that allocate arrays.
compiled_allocating = _decorator(allocates=True)
# As `compiled`, with products and sums in one instruction; what it calls must be inlined and fused as well.
compiled_fused = _decorator(fastmath=FUSED)
# As `compiled`, for loops whose sums may be taken in any order.
compiled_sums = _decorator(fastmath=REORDERED_SUMS)
# As `compiled`, for what only other kernels call: it is compiled as a part of them, and Python cannot call it.
helper = _decorator(helps=True)
# As `helper`, for short ones with many arguments: passing them would take longer than the work itself.
helper_inlined = _decorator(helps=True, forceinline=True)
# As `helper_inlined`, with products and sums in one instruction.
helper_fused = _decorator(helps=True, fastmath=FUSED, forceinline=True)
# As `helper`, for loops whose sums may be taken in any order.
helper_sums = _decorator(helps=True, fastmath=REORDERED_SUMS)
# As `helper_sums`, for long ones that one kernel calls.
helper_sums_inlined = _decorator(helps=True, fastmath=REORDERED_SUMS, forceinline=True)
# As `helper`, for minima and maxima of values that were checked not to be NaN.
helper_extrema = _decorator(helps=True, fastmath=NO_NAN)


def by_layout(dense: Kernel, sparse: Callable[..., Any]) -> Kernel:
    """Return a helper that is one of two, as the features that it is given are dense or sparse.

    These are its argument `X`, or the first part of its argument `block`; sparse ones are a tuple of arrays.
    """
    if not extending.is_jitted(dense):  # with NUMBA_DISABLE_JIT
        return cast(Kernel, lambda *values: (sparse if _has_tuple(dense, values, tuple) else dense)(*values))
    chosen: Any = helper(cast(Any, dense).py_func)
    chosen.__class__ = _ByLayout
    chosen.kernels = dense, sparse
    return cast(Kernel, chosen)


def specialise(generic: Callable[..., Any], name: str, module: str, **meanings: Any) -> Callable[..., Any]:
    """Return a copy of a plain function in which some global names have other meanings, to be compiled on its own.

    Its machine code is kept on disk, which that of a closure cannot be: see `stamps`. So module and name must be those
    of no other kernel.
    """
    function = cast(FunctionType, generic)
    code = function.__code__.replace(co_name=name, co_qualname=name)
    copy = FunctionType(code, {**function.__globals__, **meanings}, name, function.__defaults__)
    copy.__module__, copy.__doc__ = module, function.__doc__
    copy.__dict__["__wrapped__"] = function
    return copy


class _ByLayout(_Helper):
    """One of two helpers, chosen by the types of the arguments."""

    kernels: tuple[Any, Any]

    def _for(self, types: Any) -> Any:
        dense, sparse = self.kernels
        return sparse if _has_tuple(self.py_func, types, numba.types.BaseTuple) else dense

    def get_call_template(self, args: Any, kws: Any) -> Any:
        return self._for(args).get_call_template(args, kws)

    def get_overload(self, sig: Any) -> Any:
        return self._for(sig.args if hasattr(sig, "args") else sig).get_overload(sig)


def _has_tuple(function: Any, values: Any, kind: type) -> bool:
    names = function.__code__.co_varnames
    features = values[names.index("X")] if "X" in names[: len(values)] else values[names.index("block")][0]
    return isinstance(features, kind)


def on_compile(callback: Callable[[str], object]) -> Callable[[], None]:
    """Call `callback` with the qualified name of each kernel that is about to be compiled, as it is in no cache.

    A kernel is named before the kernels that it calls. Returns a function that ends the reports.
    """
    return _CompileListener(callback).listen("numba:compile")


class _CompileListener(_Listener):
    """Listener to Numba's compilations that reports those of our kernels."""

    def __init__(self, callback: Callable[[str], object]) -> None:
        self._callback = callback

    def on_start(self, compilation: Any) -> None:
        kernel = compilation.data["dispatcher"]
        if isinstance(kernel, _Kernel):
            self._callback(f"{kernel.py_func.__module__}.{kernel.py_func.__qualname__}")
