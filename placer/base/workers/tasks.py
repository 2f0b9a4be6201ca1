"""Spread independent work items over local processes or a Ray cluster.

    for index, result in run_tasks(make_shard, tasks, kind=ExecutorKind.LOCAL, workers=8):
        ...

Results come in the order in which they finish; what they contain is up to the function and its
task alone, never to the number of workers. Both kinds treat trouble alike:

1. A worker that dies (out of memory, SIGKILL, a lost node) costs only its own task, which is tried
   again after a warning in the log. A task that loses its worker `MAX_ATTEMPTS` times is given up:
   all others are finished and yielded first, then `WorkerCrashError` is raised.
2. An exception in the function is no accident: it would come again, and often in every task. No new
   task is begun, those under way are finished and yielded, then the error is raised: `InputError`
   for an input error, `TaskFailedError` with the traceback of the worker for any other.
3. On Ctrl-C, or when the generator is closed, the workers stop at once and without a word
   (`run_local` can ask for last results). What was yielded is the caller's; besides tasks under
   way, only results are lost that finished while the caller was busy with another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Any, Protocol, Self, TypeVar

from placer.base import InputError
from placer.base.workers.local import LocalCrew, run_local

T = TypeVar("T")
R = TypeVar("R")


class ExecutorKind(Enum):
    """Where tasks run."""

    LOCAL = "local"  # processes of this machine
    RAY = "ray"  # a Ray cluster: the one at `ray_address`, or one started for the run


class Crew(Protocol):
    """Workers that stay for several rounds of tasks; use as a context."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: Any) -> None: ...

    def run(self, tasks: Sequence[Any], until: float = ...) -> Iterator[tuple[int, Any]]:
        """Yield (task index, result) of every task, as `run_tasks` does.

        When `time.monotonic()` has passed `until`, what is under way is given up without a word.
        """
        ...


def open_crew(
    function: Callable[[Any], Any], *, kind: ExecutorKind, workers: int, ray_address: str | None = None
) -> Crew:
    """Return workers for several rounds of tasks. Raises InputError for bad arguments, as `run_tasks` does."""
    _require(kind, workers, ray_address)
    if kind is ExecutorKind.LOCAL:
        return LocalCrew(function, workers)
    from placer.base.workers.on_ray import RayCrew

    return RayCrew(function, workers, ray_address)


def _require(kind: ExecutorKind, workers: int, ray_address: str | None) -> None:
    if workers < 1:
        raise InputError(f"workers: {workers}; must be at least 1")
    if kind is ExecutorKind.LOCAL and ray_address is not None:
        raise InputError(f"ray_address: {ray_address!r} with executor 'local'; leave it out or use 'ray'")


def run_tasks(
    function: Callable[[T], R], tasks: Sequence[T], *, kind: ExecutorKind, workers: int, ray_address: str | None = None
) -> Iterator[tuple[int, R]]:
    """Yield (task index, result) of every task, as they finish.

    `function` must be defined at the top of a module that the workers can import (on every node of
    a cluster), tasks and results must be picklable. A task should take a second or more: each is
    handed over singly, and at most `2 * workers` are under way, so memory stays flat.

    workers: tasks that run at once; with `ray_address`, best the number of CPUs of the cluster.

    Raises InputError at once for bad arguments; WorkerCrashError, TaskFailedError and InputError
    at the end as the module says.
    """
    _require(kind, workers, ray_address)
    if kind is ExecutorKind.LOCAL:
        return run_local(function, tasks, workers)
    from placer.base.workers.on_ray import run_on_ray  # ray takes a second to import

    return run_on_ray(function, tasks, workers, ray_address)
