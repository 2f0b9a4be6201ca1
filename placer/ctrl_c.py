"""Ctrl-C that is not lost in compiled code."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from types import FrameType

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
