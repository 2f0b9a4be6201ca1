"""Tasks in processes of this machine.

Each worker is one spawned process with a pipe of its own, also when there is only one: numerics are
single-threaded in it, and neither a crash nor Ctrl-C leaves anything half done in this process.
(Forking is unsafe once numba or torch have started threads.)

The pool of concurrent.futures is not used because its workers share their pipes: one death breaks
the whole pool without telling whose task it was, and each worker holds both ends of the pipes, so
that those of a killed parent never see its end and stay behind for ever. Here the end of a pipe
tells the parent which worker died, and a worker that its parent is gone.
"""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnContext
from types import FrameType
from typing import Any, Self, TypeVar

from placer.base.workers.attempt import SINGLE_THREADED, Failure, FailureLog, as_failure, attempt

_INTERRUPT = signal.SIGUSR1  # SIGINT may come from the terminal as well, and then twice

T = TypeVar("T")
R = TypeVar("R")


class _Worker:
    """A child process. It says once that it is ready, then answers each task with one message."""

    def __init__(self, context: SpawnContext, function: Callable[[Any], Any]) -> None:
        self.pipe, child_end = context.Pipe()
        self.task_index: int | None = None
        self.is_ready = False
        self._process = context.Process(target=_serve, args=(child_end, function), daemon=True)
        self._child_end = child_end

    def start(self) -> None:
        with _environment_of_workers():
            self._process.start()
        self._child_end.close()  # now the child alone holds it: when it dies, our end reads EOF

    def begin(self, index: int, task: object) -> None:
        self.task_index = index
        try:
            self.pipe.send(task)
        except BrokenPipeError:
            return  # it died while idle: its task is lost like any other

    def interrupt(self) -> None:
        """Raise KeyboardInterrupt in its task."""
        assert self._process.pid is not None
        os.kill(self._process.pid, _INTERRUPT)

    def stop(self) -> str:
        """Kill the process and say how it ended. An idle worker has nothing to lose."""
        self.pipe.close()
        self._child_end.close()
        if self._process.pid is None:
            return "not started"
        self._process.kill()  # the code of one that is ending already stays as it is
        self._process.join()
        code = self._process.exitcode
        self._process.close()
        if code is not None and code < 0:
            return f"ended by {signal.Signals(-code).name}"
        return f"exit code {code}"


class _Pool:
    """Up to `size` workers. One that is lost is replaced when there is work for it."""

    def __init__(self, function: Callable[[Any], Any], size: int) -> None:
        self._context = get_context("spawn")
        self._function = function
        self._size = size
        self.workers: list[_Worker] = []

    @property
    def is_busy(self) -> bool:
        return any(worker.task_index is not None for worker in self.workers)

    def hand_out(self, pending: deque[int], tasks: Sequence[Any]) -> None:
        """Give tasks to idle workers, and start workers for those that are left."""
        for worker in self.workers:
            if pending and worker.is_ready and worker.task_index is None:
                index = pending.popleft()
                worker.begin(index, tasks[index])
        num_starting = sum(not worker.is_ready for worker in self.workers)
        num_new = min(self._size - len(self.workers), len(pending) - num_starting)
        for _ in range(num_new):
            worker = _Worker(self._context, self._function)
            self.workers.append(worker)  # first, so that an interrupted start is cleaned up too
            worker.start()

    def answers(self, until: float) -> list[_Worker]:
        """Wait until workers have something to say (or died), and return those; none if it is too late."""
        left = None if math.isinf(until) else max(0.0, until - time.monotonic())
        ready = set(wait([worker.pipe for worker in self.workers], left))
        return [worker for worker in self.workers if worker.pipe in ready]

    def discard(self, worker: _Worker) -> str:
        """Remove a dead worker and say how it ended."""
        self.workers.remove(worker)
        return worker.stop()

    def give_up(self) -> None:
        """End the workers that are at work, and keep those that are not."""
        for worker in [worker for worker in self.workers if worker.task_index is not None]:
            self.discard(worker)

    def stop(self) -> None:
        while self.workers:
            self.workers.pop().stop()


class LocalCrew:
    """Processes that stay for several rounds of tasks; use as a context."""

    def __init__(self, function: Callable[[Any], Any], workers: int) -> None:
        self._pool = _Pool(function, workers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.stop()

    def run(
        self, tasks: Sequence[Any], until: float = math.inf, has_last_words: bool = False
    ) -> Iterator[tuple[int, Any]]:
        """Yield (task index, result) of every task; see `run_tasks`.

        When `time.monotonic()` has passed `until`, what is under way is given up without a word.
        """
        log, pool = FailureLog(tasks), self._pool
        pending = deque(range(len(tasks)))
        try:
            while True:
                if log.must_stop:
                    pending.clear()
                pool.hand_out(pending, tasks)
                if not pending and not pool.is_busy:
                    break
                answers = pool.answers(until)
                if not answers:
                    return
                for worker in answers:
                    yield from _take_answer(worker, pool, pending, log)
        except KeyboardInterrupt:
            if has_last_words:
                yield from _last_words(pool)
            raise
        finally:
            pool.give_up()
        log.raise_if_any()


def run_local(
    function: Callable[[T], R], tasks: Sequence[T], workers: int, has_last_words: bool = False
) -> Iterator[tuple[int, R]]:
    """Yield (task index, result) of every task; see `run_tasks`.

    With `has_last_words`, Ctrl-C becomes a KeyboardInterrupt in the tasks under way. What the
    function returns in spite of it is yielded, then the generator raises it too. A second Ctrl-C
    ends the workers at once.
    """
    with LocalCrew(function, workers) as crew:
        yield from crew.run(tasks, has_last_words=has_last_words)


def _take_answer(worker: _Worker, pool: _Pool, pending: deque[int], log: FailureLog) -> Iterator[tuple[int, Any]]:
    """Receive from a worker: yield its result, if it is one, and else record what happened."""
    index = worker.task_index
    try:
        message = worker.pipe.recv()
    except (EOFError, OSError):  # it died, maybe in the midst of its message
        how = pool.discard(worker)
        if not worker.is_ready:
            log.failed_start = how
        elif index is not None and log.note_lost(index, how):
            pending.append(index)
        return
    worker.task_index = None
    if index is None:
        worker.is_ready = True
    elif log.note_answer(index, message):
        if not log.must_stop:
            pool.hand_out(pending, log.tasks)  # before the caller takes its time with the result
        yield index, message


def _last_words(pool: _Pool) -> Iterator[tuple[int, Any]]:
    busy = [worker for worker in pool.workers if worker.task_index is not None]
    for worker in busy:
        worker.interrupt()
    for worker in busy:
        try:
            message = worker.pipe.recv()
        except (EOFError, OSError):  # its task ended without a result
            continue
        if worker.task_index is not None and not isinstance(message, Failure):
            yield worker.task_index, message


class _Interrupt:
    """The signal of the parent is Ctrl-C for the task under way, or else for the next one."""

    def __init__(self) -> None:
        self._is_asked = self._is_at_work = False
        signal.signal(_INTERRUPT, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._is_asked = True
        answer = signal.getsignal(signal.SIGINT)  # raises KeyboardInterrupt unless the task chose
        if self._is_at_work and callable(answer):
            answer(signal.SIGINT, frame)

    def attempt(self, function: Callable[[Any], Any], task: object) -> Any:
        self._is_at_work = True
        if self._is_asked:
            raise KeyboardInterrupt
        message = attempt(function, task)
        self._is_at_work = False
        return message


def _serve(pipe: Connection, function: Callable[[Any], Any]) -> None:
    """Live as a worker: say ready, then take tasks and send results until the parent is gone."""
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    interrupt = _Interrupt()
    message: Any = None
    while True:
        try:
            pipe.send(message)
            task = pipe.recv()
        except (EOFError, OSError):
            return
        except Exception as error:  # what cannot be pickled: nothing of it was sent yet
            message = as_failure(error)
            continue
        try:
            message = interrupt.attempt(function, task)
        except KeyboardInterrupt:
            return


def _exit_with_parent() -> None:
    """End a worker in the midst of a task when its parent was killed."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


@contextmanager
def _environment_of_workers() -> Iterator[None]:
    """Let processes started inside inherit one thread for numerics, and no SIGINT.

    Ctrl-C in a terminal reaches all processes; only the parent shall answer it, also while a worker
    is still importing. That is why both are set here and not by the worker itself.
    """
    resource_tracker.ensure_running()  # else started with the first worker, which unblocks SIGINT
    before = {name: os.environ.get(name) for name in SINGLE_THREADED}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    os.environ.update(SINGLE_THREADED)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
