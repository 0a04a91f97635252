"""Ctrl-C while a kernel is compiled.

Numba's compiler and LLVM call each other back, and an exception that a signal raises in such a callback is lost: the
interrupt disappears and a kernel without machine code remains, which the next call fails on. So the handler of the
signal runs where nothing is half done: when a pass of the compiler begins, or at the end.
"""

import signal
import threading
from types import FrameType
from typing import Any, Self

import numba.core.event

_EVENT: Any = numba.core.event
_PASS = "numba:run_pass"


class InterruptsPostponed(numba.core.event.Listener):
    """Context in which Ctrl-C is noted, and handled at the next safe place; without effect inside another one.

    Signals are handled in the main thread, so there is nothing to do in others.
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
                _EVENT.register(_PASS, self)
        return self

    def __exit__(self, *_: object) -> None:
        if self._handler is not None:
            _EVENT.unregister(_PASS, self)
            if signal.getsignal(signal.SIGINT) == self._note:
                signal.signal(signal.SIGINT, self._handler)
            self._handle()

    def on_start(self, compilation: Any) -> None:
        """Handle what was noted; other threads may compile while this one waits for them."""
        if threading.current_thread() is threading.main_thread():
            self._handle()

    def on_end(self, compilation: Any) -> None:
        """Nothing is handled where a pass ends, as it may end with an error."""

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._noted = number, frame

    def _handle(self) -> None:
        noted, self._noted = self._noted, None
        if noted is not None:
            self._handler(*noted)
