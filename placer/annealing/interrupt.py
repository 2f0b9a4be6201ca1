"""Ctrl-C while a search runs: noted, and answered between moves."""

from __future__ import annotations

import signal
import threading
from types import TracebackType
from typing import Self


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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._is_main:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: object) -> None:
        self.is_asked = True
        signal.signal(signal.SIGINT, self._before)
