"""One attempt at a task, and how the failures of a whole run are told."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from placer.base import InputError

T = TypeVar("T")
R = TypeVar("R")

MAX_ATTEMPTS = 3
MAX_LOST_IN_A_ROW = 20  # workers lost without one result between them: all tasks must be affected

# Numerical libraries read these when they are imported. Workers share the cores already.
SINGLE_THREADED = {
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}

log = logging.getLogger(__name__)


class TaskFailedError(RuntimeError):
    """The function raised an exception; the message ends with the traceback of the worker."""


class WorkerCrashError(InputError):
    """Tasks ended their worker process again and again; all other results were yielded."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception as text: not every exception survives pickling."""

    is_input_error: bool
    message: str
    traceback: str


def attempt(function: Callable[[T], R], task: T) -> R | Failure:
    """Return the result, or the exception as a Failure; this runs in the worker."""
    try:
        return function(task)
    except Exception as error:
        return as_failure(error)


def as_failure(error: Exception) -> Failure:
    text = "".join(traceback.format_exception(error))
    if isinstance(error, InputError):
        return Failure(is_input_error=True, message=str(error), traceback=text)
    return Failure(False, f"{type(error).__name__}: {error}", text)


@dataclass(slots=True)
class FailureLog:
    """What went wrong in a run so far: whether to try again, and what to raise at the end."""

    tasks: Sequence[Any]
    num_lost: dict[int, int] = field(default_factory=dict)  # task index -> workers lost
    how_lost: dict[int, str] = field(default_factory=dict)  # of the tasks given up
    failed: dict[int, Failure] = field(default_factory=dict)  # task index -> its exception
    failed_start: str | None = None  # how a worker ended before it was ready
    num_lost_in_a_row: int = 0

    @property
    def must_stop(self) -> bool:
        """Return whether no new task may be begun."""
        if self.failed or self.failed_start is not None:
            return True
        return self.num_lost_in_a_row >= MAX_LOST_IN_A_ROW

    def note_answer(self, index: int, answer: Any) -> bool:
        """Record what a worker sent back; returns whether it is a result."""
        if isinstance(answer, Failure):
            self.failed[index] = answer
            return False
        self.num_lost_in_a_row = 0
        return True

    def note_lost(self, index: int, how: str, attempts: int = 1) -> bool:
        """Record that the worker of a task was lost; returns whether to try the task again."""
        self.num_lost_in_a_row += 1
        self.num_lost[index] = self.num_lost.get(index, 0) + attempts
        log.warning(
            "task %d lost its worker: %s (attempt %d of %d)",
            index, how, self.num_lost[index], MAX_ATTEMPTS,
        )  # fmt: skip
        if self.num_lost[index] < MAX_ATTEMPTS and not self.must_stop:
            return True
        self.how_lost[index] = how
        return False

    def raise_if_any(self) -> None:
        """Raise for the failures of the run; an exception tells more than a lost worker."""
        if self.failed:
            self._raise_failed()
        if self.failed_start is not None:
            raise WorkerCrashError(
                f"a worker process could not start ({self.failed_start}, its own message is above);"
                " the function must be at the top of a module that can be imported, and a script "
                'must start its work under `if __name__ == "__main__"`'
            )
        if self.how_lost:
            self._raise_lost()

    def _raise_failed(self) -> None:
        index, failure = min(self.failed.items())
        if failure.is_input_error:
            raise InputError(f"task {index} ({self.tasks[index]}): {failure.message}")
        raise TaskFailedError(
            f"task {index} ({self.tasks[index]}) raised {failure.message}; in the worker:\n{failure.traceback}"
        )

    def _raise_lost(self) -> None:
        index, how = min(self.how_lost.items())
        more = len(self.how_lost) - 1
        also = f" and so did {more} other tasks" if more else ""
        raise WorkerCrashError(
            f"task {index} ({self.tasks[index]}) lost its worker {self.num_lost[index]} times "
            f"(last: {how}){also}; allowed are {MAX_ATTEMPTS} attempts, and {MAX_LOST_IN_A_ROW} "
            "lost workers without a result; out of memory is the usual cause: use fewer workers or "
            "smaller tasks"
        )
