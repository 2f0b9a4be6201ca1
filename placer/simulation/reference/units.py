"""Units of the plain-Python engine: compute units, buffers with their ports, DRAM.

Methods named `can_`, `has_` and `choose` only read the state; `fire` and `apply` change it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from placer.fabric import DramSpec, MemorySpec
from placer.netlist import Unit
from placer.simulation import UnitTime


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


@dataclass(eq=False, slots=True)
class Delayed:
    """A count that grows by what is on its way: vectors to an input queue, credits to a source."""

    visible: int = 0
    on_way: deque[int] = field(default_factory=deque)  # cycles of arrival, in order

    def arrive(self, t: int) -> None:
        while self.on_way and self.on_way[0] <= t:
            self.on_way.popleft()
            self.visible += 1


@dataclass(eq=False, slots=True, kw_only=True)
class FlowEnd:
    """Where a unit and a flow meet, and how far the unit has come there."""

    flow_id: int
    tokens: int
    position: int = -1  # of the target among the targets of the flow; -1 at the source
    passed: int = 0  # vectors that the unit has put in or taken out so far

    @property
    def samples(self) -> int:
        return self.passed // self.tokens

    @property
    def left_in_sample(self) -> int:
        return self.tokens - self.passed % self.tokens


End = TypeVar("End", bound=FlowEnd)


def round_robin(requests: Iterable[End], last_winner: int) -> End | None:
    """Choose the request with the smallest flow id above the last winner's, else of all.

    When two ends of one flow compete here, the source comes first, then the targets in order.
    """
    return min(requests, key=lambda end: (end.flow_id <= last_winner, end.flow_id, end.position), default=None)


@dataclass(eq=False, slots=True, kw_only=True)
class Outlet(FlowEnd):
    """The source's end of a flow, with its output queue."""

    capacity: int
    read_cycles: int
    queue: deque[int] = field(default_factory=deque)  # ready time of each entry

    def has_room(self, num_vectors: int) -> bool:
        return len(self.queue) + num_vectors <= self.capacity

    def put(self, ready_times: list[int]) -> None:
        self.queue.extend(ready_times)
        self.passed += len(ready_times)


@dataclass(eq=False, slots=True, kw_only=True)
class Inlet(FlowEnd):
    """A target's end of a flow, with its input queue and its credits at the source."""

    operand_vectors: int  # what a product waits for; never more than the input queue holds
    credit_cycles: int  # from taking a vector until its credit is visible at the source
    credits: Delayed
    queue: Delayed = field(default_factory=Delayed)

    def take(self, num_vectors: int, t: int) -> None:
        self.queue.visible -= num_vectors
        self.credits.on_way.extend([t + self.credit_cycles] * num_vectors)
        self.passed += num_vectors


@dataclass(eq=False, slots=True)
class UnitState:
    """What all kinds of units have: the ends of their flows and a record of the past."""

    spec: Unit
    inlets: list[Inlet]
    outlets: list[Outlet]
    finish: list[int] = field(default_factory=list)
    time: list[int] = field(default_factory=lambda: [0] * len(UnitTime))

    @property
    def finished_samples(self) -> int:
        """Return the samples that all flows have passed: what finishing means for ports."""
        return min(end.samples for end in (*self.inlets, *self.outlets))

    def record_finish(self, t: int) -> None:
        if self.finished_samples > len(self.finish):
            self.finish.append(t)


@dataclass(eq=False, slots=True)
class Compute(UnitState):
    """A compute unit."""

    num_fired: int = 0  # over all samples
    next_start: int = 0

    @property
    def finished_samples(self) -> int:
        return self.num_fired // self.spec.firings

    def demand(self, inlet: Inlet) -> int:
        """Return the vectors that the next firing takes: ceil((i+1) a / F) - ceil(i a / F)."""
        i, a, f = self.num_fired % self.spec.firings, inlet.tokens, self.spec.firings
        return ceil_div((i + 1) * a, f) - ceil_div(i * a, f)

    def supply(self, outlet: Outlet) -> int:
        """Return the vectors that the next firing puts: out(i+1) - out(i)."""
        i, b = self.num_fired % self.spec.firings, outlet.tokens
        f, g = self.spec.firings, self.spec.releases
        return ((i + 1) * g // f) * b // g - (i * g // f) * b // g

    def has_data(self) -> bool:
        return all(inlet.queue.visible >= max(self.demand(inlet), self.barrier(inlet)) for inlet in self.inlets)

    def barrier(self, inlet: Inlet) -> int:
        """Return the vectors that must be there before the first firing of a sample."""
        is_start = self.num_fired % self.spec.firings == 0
        if not (is_start and self.spec.waits_for_operands):
            return 0
        return min(inlet.tokens, inlet.operand_vectors)

    def has_room(self) -> bool:
        return all(outlet.has_room(self.supply(outlet)) for outlet in self.outlets)

    def can_fire(self, t: int) -> bool:
        return t >= self.next_start and self.has_data() and self.has_room()

    def account(self, t: int) -> None:
        if self.can_fire(t) or t < self.next_start:
            kind = UnitTime.BUSY
        else:
            kind = UnitTime.BLOCKED if self.has_data() else UnitTime.STARVED
        self.time[kind] += 1

    def fire(self, t: int) -> None:
        i, c, f = self.num_fired % self.spec.firings, self.spec.cycles, self.spec.firings
        for inlet in self.inlets:
            inlet.take(self.demand(inlet), t)
        for outlet in self.outlets:
            outlet.put([t + self.spec.depth_cycles] * self.supply(outlet))
        self.next_start = t + (i + 1) * c // f - i * c // f
        self.num_fired += 1


@dataclass(eq=False, slots=True)
class Buffer(UnitState):
    """A buffer in a memory unit."""

    @property
    def written(self) -> float:
        return min((inlet.samples for inlet in self.inlets), default=math.inf)

    @property
    def freed(self) -> float:
        return min((outlet.samples for outlet in self.outlets), default=self.written)

    @property
    def finished_samples(self) -> int:
        return int(self.freed)

    def can_write(self, inlet: Inlet) -> bool:
        return inlet.queue.visible > 0 and inlet.samples < self.freed + self.spec.slots

    def has_sample(self, outlet: Outlet) -> bool:
        return outlet.samples < self.written

    def can_read(self, outlet: Outlet) -> bool:
        return self.has_sample(outlet) and outlet.has_room(1)


@dataclass(eq=False, slots=True)
class MemorySite:
    """The write port and the read port that the buffers on one site share."""

    spec: MemorySpec
    buffers: list[Buffer]
    last_write: int = -1
    last_read: int = -1
    read_free_at: int = 0
    read_holder: Outlet | None = None

    def choose_write(self) -> Inlet | None:
        requests = [i for buffer in self.buffers for i in buffer.inlets if buffer.can_write(i)]
        return round_robin(requests, self.last_write)

    def choose_read(self, t: int) -> Outlet | None:
        if t < self.read_free_at:
            return None
        requests = [o for buffer in self.buffers for o in buffer.outlets if buffer.can_read(o)]
        return round_robin(requests, self.last_read)

    def account(self, t: int, write: Inlet | None, read: Outlet | None) -> None:
        holder = self.read_holder if t < self.read_free_at else read
        for buffer in self.buffers:
            buffer.time[_buffer_time(buffer, write, holder)] += 1

    def apply(self, t: int, write: Inlet | None, read: Outlet | None) -> None:
        if write:
            write.take(1, t)
            self.last_write = write.flow_id
        if read:
            read.put([t + self.spec.latency_cycles])
            self.last_read = read.flow_id
            self.read_free_at = t + read.read_cycles
            self.read_holder = read


def _buffer_time(buffer: Buffer, write: Inlet | None, read_holder: Outlet | None) -> UnitTime:
    if write in buffer.inlets or read_holder in buffer.outlets:
        return UnitTime.BUSY
    # Nothing was granted to this buffer, so what it could use served another one.
    if any(map(buffer.can_write, buffer.inlets)) or any(map(buffer.can_read, buffer.outlets)):
        return UnitTime.PORT_WAIT
    return UnitTime.BLOCKED if any(map(buffer.has_sample, buffer.outlets)) else UnitTime.STARVED


@dataclass(eq=False, slots=True)
class Dram:
    """The channels that serve the bursts of all ports of the chip."""

    spec: DramSpec
    ports: list[UnitState]
    free_at: list[int]  # per channel
    last_winner: int = -1

    def burst(self, end: Inlet | Outlet) -> int:
        return min(self.spec.burst_vectors, end.left_in_sample)

    def requests_of(self, port: UnitState) -> list[Inlet | Outlet]:
        stores = [inlet for inlet in port.inlets if inlet.queue.visible >= self.burst(inlet)]
        loads = [outlet for outlet in port.outlets if outlet.has_room(self.burst(outlet))]
        return [*stores, *loads]

    def choose(self, t: int) -> dict[int, Inlet | Outlet]:
        """Return by channel the end of the flow that it is given to now."""
        requests = [end for port in self.ports for end in self.requests_of(port)]
        granted: dict[int, Inlet | Outlet] = {}
        last_winner = self.last_winner
        for channel, free_at in enumerate(self.free_at):
            winner = round_robin(requests, last_winner)
            if winner and free_at <= t:
                granted[channel] = winner
                last_winner = winner.flow_id
                requests = [end for end in requests if end.flow_id != last_winner]
        return granted

    def account(self, granted: dict[int, Inlet | Outlet]) -> None:
        for port in self.ports:
            if any(end in granted.values() for end in (*port.inlets, *port.outlets)):
                kind = UnitTime.BUSY
            elif self.requests_of(port):
                kind = UnitTime.PORT_WAIT
            else:
                kind = UnitTime.BLOCKED if port.outlets else UnitTime.STARVED
            port.time[kind] += 1

    def apply(self, t: int, granted: dict[int, Inlet | Outlet]) -> None:
        for channel, end in granted.items():
            self.free_at[channel] = t + self.spec.burst_cycles
            self.last_winner = end.flow_id
            num_vectors = self.burst(end)
            if isinstance(end, Inlet):
                end.take(num_vectors, t)
            else:
                end.put([t + self.spec.latency_cycles + k for k in range(num_vectors)])
