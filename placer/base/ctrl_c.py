"""Ctrl-C: not lost in compiled code, and answered between the moves of a search."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Self

import llvmlite
import numba

NUMBA, LLVMLITE = (str(Path(str(module.__file__)).parent) for module in (numba, llvmlite))
ASKED_BY_NUMBA = ("typeof_pyval", "_numba_unpickle")  # functions that its C code calls
IMPORT, PROTOBUF = "<frozen importlib._bootstrap", "/google/protobuf/"
NAMED_TUPLE = "namedtuple_"  # where the code of their classes stands
SECONDS = 0.02  # until it is asked again
PATIENCE = 2.0  # seconds that an import is waited for: it may be code of the user that never ends


def keep_ctrl_c() -> None:
    """Do not raise KeyboardInterrupt where it would be dropped; raise it a moment later.

    Numba asks Python code about the types of a call and has it make named tuples of results, LLVM
    asks about its cache, numpy about attributes, libraries in C++ about protocol buffers: all go
    on, or crash, whatever that code raises. A module that is half imported may be one of these
    libraries.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _Answer())


class _Answer:
    """To a Ctrl-C, and to those that ask again."""

    def __init__(self) -> None:
        self._asked_at: float | None = None  # the first time

    def __call__(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        self._asked_at = now if self._asked_at is None else self._asked_at
        waits_for_imports = now - self._asked_at < PATIENCE
        while frame is not None:
            is_importing = frame.f_code.co_filename.startswith(IMPORT)
            if _drops_errors(frame) or (is_importing and waits_for_imports):
                again = threading.Timer(SECONDS, os.kill, (os.getpid(), number))
                again.daemon = True
                again.start()
                return
            frame = frame.f_back
        self._asked_at = None
        raise KeyboardInterrupt


def _drops_errors(frame: FrameType) -> bool:
    file, name = frame.f_code.co_filename, frame.f_code.co_name
    is_asked_by_numba = name in ASKED_BY_NUMBA and file.startswith(NUMBA)
    makes_named_tuple = str(frame.f_globals.get("__name__")).startswith(NAMED_TUPLE)
    is_in_library = file.startswith(LLVMLITE) or PROTOBUF in file
    return name == "__getattr__" or is_asked_by_numba or makes_named_tuple or is_in_library


class Interrupt:
    """`with Interrupt() as interrupt:` the first Ctrl-C inside only sets `interrupt.is_asked`.

    A KeyboardInterrupt could come in the midst of a change of state, or while numba hands over a
    result, which makes a SystemError of it. The second Ctrl-C is raised like any other. Threads
    get no signals; there is nothing to do in them.
    """

    def __init__(self) -> None:
        self.is_asked = False
        self._is_main = threading.current_thread() is threading.main_thread()

    def __enter__(self) -> Self:
        if self._is_main:
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *error: object) -> None:
        if self._is_main:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: object) -> None:
        self.is_asked = True
        signal.signal(signal.SIGINT, self._before)
