"""Tasks on a Ray cluster: one that runs already, or one started on this machine for the run.

Ray's authentication is left as it is set. The nodes of a cluster need this project installed.
"""

from __future__ import annotations

import logging
import math
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self, TypeVar

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # before the import: no statistics leave the machine

import ray
from ray.exceptions import RayError, RayTaskError

from placer.base import InputError
from placer.base.workers.attempt import MAX_ATTEMPTS, SINGLE_THREADED, FailureLog, as_failure, attempt

T = TypeVar("T")
R = TypeVar("R")

_PER_WORKER = 2  # tasks under way for each, so that no CPU waits for the next one
_CONNECT_SECONDS = 10.0


class RayCrew:
    """A connection that stays for several rounds of tasks; use as a context."""

    def __init__(self, function: Callable[[Any], Any], workers: int, address: str | None) -> None:
        self._function, self._workers = function, workers
        self._open = _connection(address, workers)

    def __enter__(self) -> Self:
        self._open.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._open.__exit__(*error)

    def run(self, tasks: Sequence[Any], until: float = math.inf) -> Iterator[tuple[int, Any]]:
        """Yield (task index, result) of every task; after `until` those under way are given up."""
        return run_on_ray(self._function, tasks, self._workers, None, until)


def run_on_ray(
    function: Callable[[T], R], tasks: Sequence[T], workers: int, address: str | None, until: float = math.inf
) -> Iterator[tuple[int, R]]:
    """Yield (task index, result) of every task; see `run_tasks`.

    Ray itself retries a task whose worker or node was lost, and runs it again if its result was
    lost with the node.
    """
    log = FailureLog(tasks)
    with _connection(address, workers):
        remote: Any = ray.remote(attempt).options(
            num_cpus=1, max_retries=MAX_ATTEMPTS - 1, runtime_env={"env_vars": SINGLE_THREADED}
        )
        pending = deque(range(len(tasks)))
        under_way: dict[Any, int] = {}  # reference of the result -> task index
        try:
            while (pending and not log.must_stop) or under_way:
                while pending and not log.must_stop and len(under_way) < _PER_WORKER * workers:
                    index = pending.popleft()
                    under_way[remote.remote(function, tasks[index])] = index
                left = None if math.isinf(until) else max(0.0, until - time.monotonic())
                finished, _ = ray.wait(list(under_way), num_returns=1, timeout=left)
                if not finished:
                    return
                for reference in finished:
                    yield from _take_answer(reference, under_way, log)
        finally:
            for reference in under_way:
                ray.cancel(reference, force=True)
    log.raise_if_any()


def _take_answer(reference: Any, under_way: dict[Any, int], log: FailureLog) -> Iterator[tuple[int, Any]]:
    """Fetch what a task gave: yield its result, if it is one, and else record what happened."""
    try:
        message = ray.get(reference)
    except RayTaskError as error:  # `attempt` lets no exception out: no pickle of the result
        message = as_failure(error)
    except RayError as error:  # Ray has tried again and given up
        log.note_lost(under_way.pop(reference), type(error).__name__, attempts=MAX_ATTEMPTS)
        return
    index = under_way.pop(reference)
    if log.note_answer(index, message):
        yield index, message


def _require_listener(address: str) -> None:
    """Raise OSError if nothing listens at host:port, which Ray would await for many minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdecimal():  # other forms, like "auto", are for Ray to find
        socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()


@contextmanager
def _connection(address: str | None, workers: int) -> Iterator[None]:
    """Connect to a cluster or start one; a connection of the caller is used and left open."""
    if ray.is_initialized():
        yield
        return
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    try:
        if address is None:
            # "local", or else Ray would join any cluster that it finds on the machine.
            ray.init(address="local", num_cpus=workers, include_dashboard=False, **quiet)
        else:
            _require_listener(address)
            ray.init(address=address, **quiet)
    except (OSError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
        raise InputError(
            f"ray_address: {address!r}; no Ray cluster can be used there ({error}); start one with "
            "`ray start --head` and give its address, or leave it out to start one here"
        ) from error
    try:
        yield
    finally:
        ray.shutdown()
