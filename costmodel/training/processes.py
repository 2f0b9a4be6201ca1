"""Processes that train together: this one, and partners on the same machine.

    with partners(world, function, *arguments) as place:
        ...  # this process is rank 0; the others run function(place, *arguments)

All of them do the same steps and average gradients by Lightning's DDP. This process alone logs and
decides. They connect before anything else, so that all notice at once when one is lost: its
connections break.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from multiprocessing import resource_tracker
from typing import Any

import torch.distributed
from lightning.fabric.plugins.environments import LightningEnvironment
from lightning.pytorch.strategies import DDPStrategy
from torch._C._distributed_c10d import TCPStore
from torch.multiprocessing import ProcessContext, ProcessExitedException, start_processes
from torch.multiprocessing.spawn import ProcessException

from placer.base.workers import WorkerCrashError

HOST = "127.0.0.1"
READY = "ready"  # in the store: how many have reached it
MAX_WAIT = timedelta(minutes=10)  # of a process for the slowest one, which is not lost


@dataclass(frozen=True, slots=True)
class Place:
    """Which of the processes this is."""

    rank: int
    world: int  # how many there are
    port: int = 0  # of the store where they meet, in the process with rank 0

    def strategy(self) -> DDPStrategy | str:
        """Return what Lightning needs to know."""
        if self.world == 1:
            return "auto"
        return DDPStrategy(cluster_environment=_Environment(self.rank))


ALONE = Place(0, 1)


class _Environment(LightningEnvironment):
    """Tells Lightning that the processes are there already, and connected."""

    creates_processes_externally = True

    def __init__(self, rank: int) -> None:
        super().__init__()
        self._rank = rank

    def local_rank(self) -> int:
        return self._rank


@contextmanager
def partners(world: int, function: Callable[..., Any], *arguments: Any) -> Iterator[Place]:
    """Give the place of this process while `world - 1` others run `function(place, *arguments)`.

    Raises WorkerCrashError when one of them is lost.
    """
    if world == 1:
        yield ALONE
        return
    store = TCPStore(HOST, 0, world, is_master=True, wait_for_workers=False)
    here = Place(0, world, store.port)
    others = _start(here, function, *arguments)
    try:
        try:
            _wait_until_ready(others, store)
            _connect(here, store)
            yield here
        except RuntimeError:
            others.join(timeout=2.0, grace_period=1.0)
            raise
    except ProcessException as error:
        raise WorkerCrashError(
            f"training process {error.error_index + 1} of {world} was lost: {_reason(error)}; "
            "the same command goes on after the last finished epoch"
        ) from error
    finally:
        for other in others.processes:
            other.kill()
            other.join()
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()


def _start(here: Place, function: Callable[..., Any], *arguments: Any) -> ProcessContext:
    resource_tracker.ensure_running()  # else started with the process, which unblocks SIGINT
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # Ctrl-C is for rank 0
    try:
        others: ProcessContext = start_processes(  # type: ignore[no-untyped-call]
            _serve, (here, function, *arguments), here.world - 1, join=False, daemon=True
        )
        return others
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _serve(number: int, here: Place, function: Callable[..., Any], *arguments: Any) -> None:
    place = replace(here, rank=number + 1)
    store = TCPStore(HOST, place.port, place.world, wait_for_workers=False)
    store.add(READY, 1)
    _connect(place, store)
    function(place, *arguments)


def _wait_until_ready(others: ProcessContext, store: TCPStore) -> None:
    """Wait for all of them. Raises ProcessException when one is lost before."""
    while store.add(READY, 0) < len(others.processes):
        others.join(timeout=0.05, grace_period=1.0)


def _reason(error: ProcessException) -> str:
    if isinstance(error, ProcessExitedException):
        return f"ended by {error.signal_name or f'exit code {error.exit_code}'}"
    return str(error).strip().splitlines()[-1]


def _connect(place: Place, store: TCPStore) -> None:
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    torch.distributed.init_process_group(
        backend, store=store, rank=place.rank, world_size=place.world, timeout=MAX_WAIT
    )
