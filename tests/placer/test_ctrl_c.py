"""Ctrl-C where Python code is called from C is answered a moment later, elsewhere at once."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import pytest

from placer.ctrl_c import IMPORT, LLVMLITE, NUMBA, PROTOBUF, keep_ctrl_c


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
        (f"{LLVMLITE}/binding/ffi.py", "notify"),
        (f"{IMPORT}>", "exec_module"),
        (f"site-packages{PROTOBUF}descriptor_pool.py", "default"),
    ],
)
def test_where_it_would_be_dropped_it_comes_later(file: str, name: str) -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupted_in(file, name)()
        time.sleep(10)  # reached: nothing was raised inside
        pytest.fail("it was dropped")


def test_elsewhere_it_comes_at_once() -> None:
    reached = False
    with pytest.raises(KeyboardInterrupt):
        interrupted_in(f"{NUMBA}/core/compiler.py", "compile")()
        reached = True
    assert not reached
