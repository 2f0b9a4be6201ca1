"""Ctrl-C where it would be dropped is answered a moment later, elsewhere at once."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import pytest
from numba import njit

from placer.base import keep_ctrl_c
from placer.base.ctrl_c import IMPORT, LLVMLITE, NUMBA, PROTOBUF


@pytest.fixture(autouse=True)
def answered() -> object:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    keep_ctrl_c()
    yield
    signal.signal(signal.SIGINT, before)


def interrupted_in(file: str, name: str) -> Callable[[], None]:
    """A function that seems to stand in `file` and gets a Ctrl-C."""
    names: dict[str, Callable[[], None]] = {}
    source = f"import signal\ndef {name}():\n    signal.raise_signal(signal.SIGINT)\n"
    exec(compile(source, file, "exec"), names)
    return names[name]


@pytest.mark.parametrize(
    ("file", "name"),
    [
        (f"{NUMBA}/core/dispatcher.py", "typeof_pyval"),
        (f"{NUMBA}/core/serialize.py", "_numba_unpickle"),
        (f"{LLVMLITE}/binding/ffi.py", "notify"),
        (f"{IMPORT}>", "exec_module"),
        (f"site-packages{PROTOBUF}descriptor_pool.py", "default"),
        ("enum.py", "__getattr__"),
    ],
)
def test_where_it_would_be_dropped_it_comes_later(file: str, name: str) -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupted_in(file, name)()
        time.sleep(10)  # reached: nothing was raised inside
        pytest.fail("it was dropped")


@pytest.mark.slow
def test_an_import_that_never_ends_is_left() -> None:
    keeps_on = "import time, signal\nsignal.raise_signal(signal.SIGINT)\nwhile True: time.sleep(0.01)"
    with pytest.raises(KeyboardInterrupt):
        exec(compile(keeps_on, f"{IMPORT}>", "exec"), {})


class Pair(NamedTuple):
    first: int
    second: int


raise_in_c = ctypes.CDLL(None)["raise"]
raise_in_c.argtypes, raise_in_c.restype = [ctypes.c_int], ctypes.c_int


@njit()
def press_and_return() -> Pair:
    raise_in_c(2)
    return Pair(1, 2)


def test_a_named_tuple_of_compiled_code_is_whole_before_it_comes() -> None:
    """Python would crash, as numba takes for granted that its class returns."""
    result: Pair | None = None
    with pytest.raises(KeyboardInterrupt):
        result = press_and_return()
        time.sleep(10)
    assert result == (1, 2)


def test_elsewhere_it_comes_at_once() -> None:
    reached = False
    with pytest.raises(KeyboardInterrupt):
        interrupted_in(f"{NUMBA}/core/compiler.py", "compile")()
        reached = True
    assert not reached


@pytest.mark.slow
def test_a_command_that_is_still_importing_ends_without_a_traceback() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "placer.place"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while "omegaconf" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        last = process.stderr.readlines()
    assert process.returncode in (-signal.SIGINT, 128 + signal.SIGINT)
    assert last[-1] == "interrupted\n"
    assert not any("Traceback" in line for line in last)
