"""Processes that train together: this one, and partners on the same machine.

    with partners(world, function, *arguments) as place:
        ...  # this process is rank 0; the others run function(place, *arguments)

All of them do the same steps and average gradients by Lightning's DDP. This process alone logs and
decides. They connect before anything else, so that all notice at once when one is lost: its
connections break.
"""

from __future__ import annotations

import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

import torch.distributed
from lightning.fabric.plugins.environments.cluster_environment import ClusterEnvironment
from lightning.pytorch.strategies import DDPStrategy
from torch._C._distributed_c10d import TCPStore

from placer.executor import WorkerCrashError

HOST = "127.0.0.1"
MAX_WAIT = timedelta(minutes=10)  # of a process for the slowest one, which is not lost


@dataclass(frozen=True, slots=True)
class Place:
    """Which of the processes this is."""

    rank: int
    world: int  # how many there are
    port: int = 0  # of the store where they meet, in the process with rank 0

    def strategy(self) -> DDPStrategy | str:
        """What Lightning needs to know."""
        if self.world == 1:
            return "auto"
        return DDPStrategy(cluster_environment=_Environment(self))


ALONE = Place(0, 1)


class _Environment(ClusterEnvironment):
    """Tells Lightning that the processes are there already, and connected."""

    creates_processes_externally = True
    main_address = HOST

    def __init__(self, place: Place) -> None:
        super().__init__()
        self._place = place

    @property
    def main_port(self) -> int:
        return self._place.port

    @staticmethod
    def detect() -> bool:
        return False

    def world_size(self) -> int:
        return self._place.world

    def global_rank(self) -> int:
        return self._place.rank

    def local_rank(self) -> int:
        return self._place.rank

    def node_rank(self) -> int:
        return 0

    def set_world_size(self, size: int) -> None:
        """It is known."""

    def set_global_rank(self, rank: int) -> None:
        """It is known."""


class _Partner:
    """Another process. It says that it is ready, then nothing, or why it failed."""

    def __init__(self, place: Place, function: Callable[..., Any], *arguments: Any) -> None:
        context = get_context("spawn")
        self.rank = place.rank
        self._pipe, child_end = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(child_end, place, function, *arguments), daemon=True
        )
        resource_tracker.ensure_running()  # else started with the process, which unblocks SIGINT
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # Ctrl-C is for rank 0
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        child_end.close()

    def wait_until_ready(self) -> None:
        """Raises EOFError when it ended before."""
        wait([self._pipe])
        self._pipe.recv()

    def failure(self, seconds: float) -> str | None:
        """Why it ended within the next seconds; None: it runs, or ended as it should."""
        self._process.join(seconds)
        try:
            if self._pipe.poll():
                return str(self._pipe.recv())
        except EOFError:  # it could not tell
            pass
        code = self._process.exitcode
        return None if code in (0, None) else f"ended by {_ending(code)}"

    def stop(self) -> None:
        self._process.kill()
        self._process.join()
        self._pipe.close()


@contextmanager
def partners(world: int, function: Callable[..., Any], *arguments: Any) -> Iterator[Place]:
    """The place of this process while `world - 1` others run `function(place, *arguments)`.

    Raises WorkerCrashError when one of them is lost.
    """
    if world == 1:
        yield ALONE
        return
    store = TCPStore(HOST, 0, world, is_master=True, wait_for_workers=False)
    others: list[_Partner] = []
    try:
        for rank in range(1, world):
            others.append(_Partner(Place(rank, world, store.port), function, *arguments))
        for other in others:
            other.wait_until_ready()
        _connect(Place(0, world, store.port), store)
        yield Place(0, world, store.port)
    except (RuntimeError, EOFError) as error:
        for other in others:
            reason = other.failure(seconds=2.0)
            if reason is not None:
                raise WorkerCrashError(
                    f"training process {other.rank} of {world} was lost: {reason}; "
                    "the same command goes on after the last finished epoch"
                ) from error
        raise
    finally:
        for other in others:
            other.stop()
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()


def _serve(pipe: Connection, place: Place, function: Callable[..., Any], *arguments: Any) -> None:
    try:
        store = TCPStore(HOST, place.port, place.world, wait_for_workers=False)
        pipe.send("ready")
        _connect(place, store)
        function(place, *arguments)
    except Exception as error:
        last = traceback.format_exception_only(error)[-1].strip()
        pipe.send(last)
        raise SystemExit(1) from None


def _connect(place: Place, store: TCPStore) -> None:
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    torch.distributed.init_process_group(
        backend, store=store, rank=place.rank, world_size=place.world, timeout=MAX_WAIT
    )


def _ending(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"
