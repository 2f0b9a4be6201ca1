"""Ctrl-C that is not lost in compiled code."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from types import FrameType

import llvmlite
import numba

NUMBA, LLVMLITE = (str(Path(str(module.__file__)).parent) for module in (numba, llvmlite))
ASKED_BY_NUMBA = ("typeof_pyval", "_numba_unpickle")  # functions that its C code calls
IMPORT, PROTOBUF = "<frozen importlib._bootstrap", "/google/protobuf/"
NAMED_TUPLE = "namedtuple_"  # where the code of their classes stands
SECONDS = 0.02  # until it is asked again


def keep_ctrl_c() -> None:
    """Do not raise KeyboardInterrupt where it would be dropped; raise it a moment later.

    Numba asks Python code about the types of a call and has it make named tuples of results, LLVM
    asks about its cache, numpy about attributes, libraries in C++ about protocol buffers: all go
    on, or crash, whatever that code raises. A module that is half imported may be one of these
    libraries.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _answer)


def _answer(number: int, frame: FrameType | None) -> None:
    while frame is not None:
        if _drops_errors(frame):
            again = threading.Timer(SECONDS, os.kill, (os.getpid(), number))
            again.daemon = True
            again.start()
            return
        frame = frame.f_back
    raise KeyboardInterrupt


def _drops_errors(frame: FrameType) -> bool:
    file, name = frame.f_code.co_filename, frame.f_code.co_name
    is_asked_by_numba = name in ASKED_BY_NUMBA and file.startswith(NUMBA)
    makes_named_tuple = str(frame.f_globals.get("__name__")).startswith(NAMED_TUPLE)
    is_in_library = file.startswith((LLVMLITE, IMPORT)) or PROTOBUF in file
    return name == "__getattr__" or is_asked_by_numba or makes_named_tuple or is_in_library
