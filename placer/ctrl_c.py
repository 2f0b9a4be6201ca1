"""Ctrl-C that is not lost in compiled code."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from types import CodeType, FrameType

import llvmlite
import numba

NUMBA, LLVMLITE = (str(Path(str(module.__file__)).parent) for module in (numba, llvmlite))
IMPORT, PROTOBUF = "<frozen importlib._bootstrap", "/google/protobuf/"
SECONDS = 0.02  # until it is asked again


def keep_ctrl_c() -> None:
    """Do not raise KeyboardInterrupt where it would be dropped; raise it a moment later.

    Numba asks Python code about the types of a call, LLVM about its cache, libraries in C++ about
    protocol buffers: all go on whatever that code raises. A module that is half imported may be
    one of these libraries.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _answer)


def _answer(number: int, frame: FrameType | None) -> None:
    while frame is not None:
        if _drops_errors(frame.f_code):
            again = threading.Timer(SECONDS, os.kill, (os.getpid(), number))
            again.daemon = True
            again.start()
            return
        frame = frame.f_back
    raise KeyboardInterrupt


def _drops_errors(code: CodeType) -> bool:
    file = code.co_filename
    in_types = code.co_name == "typeof_pyval" and file.startswith(NUMBA)
    return in_types or file.startswith((LLVMLITE, IMPORT)) or PROTOBUF in file
