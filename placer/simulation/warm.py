"""A start for short simulations: a pipeline that is full, as it would be after long work.

A simulation that starts empty spends as many samples as the netlist has stages until all units have
work. Which sample each unit then works on hardly depends on the placement, so it can be said
beforehand. Let `lag[u]` be how many samples unit u is behind the most advanced one:

- a unit behind another one without a buffer lags by what it waits for before its first firing, in
  whole releases of the other: `lag[v] >= lag[u] + ceil(operands * G / tokens) / G`;
- the reader of a buffer lags behind its writers by two samples if slots allow it everywhere, else by
  one, and never by more than `slots - 1`: one of the slots is being written.

The least lags that satisfy this are longest paths. They say how often each compute unit has fired,
so what has passed each flow follows from docs/simulator.md, and the rest is in the queues: input
queues first. Buffers that DRAM fills are full. Every unit counts samples from the one it works on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placer.base import FloatArray
from placer.fabric import Fabric, SiteKind, window_vectors
from placer.netlist import Flow, Netlist
from placer.simulation import records as at
from placer.simulation.records import Cells, Tables

AHEAD = (2, 1)  # samples that a writer is ahead of the readers of its buffer; the first that is possible
MAX_PASSES = 4096  # over all constraints; a path is not longer


def sinks_of(netlist: Netlist) -> list[tuple[int, int]]:
    """Return pairs (flow, target unit), sorted by flow."""
    return [(f, target) for f, flow in enumerate(netlist.flows) for target in flow.targets]


def output_capacity(fabric: Fabric, netlist: Netlist, flow: Flow) -> int:
    """Return the vectors that an output queue holds (docs/simulator.md, "Queues of a flow")."""
    source = netlist.units[flow.source]
    if source.kind == SiteKind.COMPUTE:
        release = -(-flow.tokens // source.releases)
        in_pipeline = release * -(-source.depth_cycles * source.releases // source.cycles)
        return max(fabric.compute.output_vectors, 2 * release) + in_pipeline
    if source.kind == SiteKind.MEMORY:
        return fabric.memory.output_vectors
    return fabric.dram.prefetch_vectors


@dataclass(frozen=True, slots=True)
class WarmState:
    """What has happened before cycle 0, since each unit began the sample that it works on."""

    fired: list[int]  # [num_units] firings of a compute unit, below those of a sample
    put: list[int]  # [num_flows] vectors that the source has put into its output queue
    queued: list[int]  # [num_flows] of these, how many are in it still
    taken: list[int]  # [num_sinks] vectors that the target has taken out of its input queue
    arrived: list[int]  # [num_sinks] vectors in this queue


def warm_state(fabric: Fabric, netlist: Netlist) -> WarmState | None:
    """Return the state of a full pipeline, or None where no such state satisfies all limits."""
    for ahead in AHEAD:
        lag = _least_lags(fabric, netlist, ahead)
        if lag is None:
            continue
        past = _Past(fabric, netlist, lag, ahead)
        state = past.state() if past.is_settled() else None
        if state is not None:
            return state
    return None


def _least_lags(fabric: Fabric, netlist: Netlist, ahead: int) -> FloatArray | None:
    """Return the lag of each unit, then of each flow that leaves a buffer; None: there are none."""
    rows = np.array(_constraints(fabric, netlist, ahead), np.float64).reshape(-1, 3)
    before, after, least = rows[:, 0].astype(np.int64), rows[:, 1].astype(np.int64), rows[:, 2]
    lag = np.zeros(netlist.num_units + netlist.num_flows)
    for _ in range(MAX_PASSES):
        longer = lag.copy()
        np.maximum.at(longer, after, lag[before] + least)
        if (longer <= lag + 1e-9).all():
            return lag
        lag = longer
    return None


def _constraints(fabric: Fabric, netlist: Netlist, ahead: int) -> list[tuple[int, int, float]]:
    """Return (a, b, d) for `lag[b] >= lag[a] + d`; flows that leave buffers are counted after units."""
    units, found = netlist.units, list[tuple[int, int, float]]()
    operands = min(fabric.compute.operand_vectors, fabric.compute.window_vectors)
    writers: list[list[int]] = [[] for _ in units]
    for f, target in sinks_of(netlist):
        flow, source, unit = netlist.flows[f], units[netlist.flows[f].source], units[target]
        if source.kind == SiteKind.COMPUTE and unit.kind == SiteKind.MEMORY:
            writers[target].append(flow.source)
        elif unit.kind == SiteKind.COMPUTE and source.kind == SiteKind.COMPUTE:
            needed = min(flow.tokens, operands) if unit.waits_for_operands else 1
            releases = -(-needed * source.releases // flow.tokens)
            found.append((flow.source, target, releases / source.releases))
            found.append((target, flow.source, -(releases + 1) / source.releases))
        elif unit.kind == SiteKind.COMPUTE and source.kind == SiteKind.MEMORY:
            reader = len(units) + f
            found += [(reader, target, 0.0), (target, reader, 0.0)]
    for f, flow in enumerate(netlist.flows):
        most = units[flow.source].slots - 1
        for writer in writers[flow.source]:
            found.append((writer, len(units) + f, min(ahead, most)))
            found.append((len(units) + f, writer, -most))
    return found


class _Past:
    """How often units have fired, and what has passed their flows since the most advanced began."""

    def __init__(self, fabric: Fabric, netlist: Netlist, lag: FloatArray, ahead: int) -> None:
        self._fabric, self._netlist, self._ahead = fabric, netlist, ahead
        self._sources = {flow.source for flow in netlist.flows}
        samples = np.ceil(lag.max()) + ahead - lag  # that each has worked on
        self._fired = [int(samples[u] * unit.firings + 1e-6) for u, unit in enumerate(netlist.units)]

    def is_settled(self) -> bool:
        """Take firings back whose vectors had not been there, by rounding; say whether that ends."""
        units = self._netlist.units
        for _ in range(MAX_PASSES):
            is_changed = False
            for flow in self._netlist.flows:
                if units[flow.source].kind != SiteKind.COMPUTE:
                    continue
                put = self._put(flow)
                for target in flow.targets:
                    if units[target].kind == SiteKind.COMPUTE and self._taken(flow, target) > put:
                        self._fired[target] = put * units[target].firings // flow.tokens
                        is_changed = True
            if not is_changed:
                return True
        return False

    def _put(self, flow: Flow) -> int:
        """Return what a compute unit has put into an output queue."""
        source = self._netlist.units[flow.source]
        return self._fired[flow.source] * source.releases // source.firings * flow.tokens // source.releases

    def _taken(self, flow: Flow, target: int) -> int:
        """Return what a compute unit has taken out of an input queue."""
        return -(-self._fired[target] * flow.tokens // self._netlist.units[target].firings)

    def _most_injected(self, flow: Flow) -> int | None:
        """Return what the windows of the compute units among the targets allow, None without any."""
        units = self._netlist.units
        ends = [
            self._taken(flow, target) + window_vectors(self._fabric, units[target].kind)
            for target in flow.targets
            if units[target].kind == SiteKind.COMPUTE
        ]
        return min(ends) if ends else None

    def state(self) -> WarmState | None:
        """Return what is where, or None where that breaks a limit."""
        flows, written = self._netlist.flows, self._written()
        put = [self._source_put(flow, written) for flow in flows]
        limits = [self._most_injected(flow) for flow in flows]
        injected = [some if most is None else min(some, most) for some, most in zip(put, limits, strict=True)]
        state = self._counted(put, injected)
        room = [output_capacity(self._fabric, self._netlist, flow) for flow in flows]
        is_queued = all(0 <= number <= most for number, most in zip(state.queued, room, strict=True))
        return state if is_queued and min(state.arrived, default=0) >= 0 and self._has_legal_buffers(state) else None

    def _written(self) -> dict[int, int]:
        """Return the samples that each buffer behind compute units has been given."""
        units, written = self._netlist.units, dict[int, int]()
        for f, target in sinks_of(self._netlist):
            flow = self._netlist.flows[f]
            if units[target].kind == SiteKind.MEMORY and units[flow.source].kind == SiteKind.COMPUTE:
                samples = self._put(flow) // flow.tokens
                written[target] = min(written.get(target, samples), samples)
        return written

    def _source_put(self, flow: Flow, written: dict[int, int]) -> int:
        """Return what the source of a flow has put into its output queue."""
        source, most = self._netlist.units[flow.source], self._most_injected(flow)
        if source.kind == SiteKind.COMPUTE:
            return self._put(flow)
        if source.kind == SiteKind.PORT:  # nothing is on its way
            taken = [self._taken(flow, target) for target in flow.targets if self._is_compute(target)]
            return min(taken, default=0)
        if flow.source not in written:  # DRAM fills it, or it holds weights
            return 0 if most is None else most
        if most is None:
            return max(0, written[flow.source] - min(self._ahead, source.slots - 1)) * flow.tokens
        return min(most, written[flow.source] * flow.tokens)

    def _is_compute(self, unit: int) -> bool:
        return self._netlist.units[unit].kind == SiteKind.COMPUTE

    def _counted(self, put: list[int], injected: list[int]) -> WarmState:
        """Count from the sample that each unit works on, and fill the buffers that DRAM fills."""
        netlist, units = self._netlist, self._netlist.units
        done = dict[int, int]()  # samples that all readers of a buffer have read
        for f, flow in enumerate(netlist.flows):
            samples = put[f] // flow.tokens
            done[flow.source] = min(done.get(flow.source, samples), samples)
        taken, arrived = [], []
        for f, target in sinks_of(netlist):
            flow, kind = netlist.flows[f], units[target].kind
            arrived.append(injected[f] - self._taken(flow, target) if kind == SiteKind.COMPUTE else 0)
            if kind == SiteKind.MEMORY and units[flow.source].kind == SiteKind.PORT:
                taken.append(units[target].slots * flow.tokens)
            elif kind == SiteKind.MEMORY and target in done:
                taken.append(injected[f] - done[target] * flow.tokens)
            else:
                taken.append(injected[f] % flow.tokens)
        return WarmState(
            fired=[fired % max(1, unit.firings) for fired, unit in zip(self._fired, units, strict=True)],
            put=[
                put[f] - done[flow.source] * flow.tokens
                if units[flow.source].kind == SiteKind.MEMORY
                else put[f] % flow.tokens
                for f, flow in enumerate(netlist.flows)
            ],
            queued=[some - gone for some, gone in zip(put, injected, strict=True)],
            taken=taken,
            arrived=arrived,
        )

    def _has_legal_buffers(self, state: WarmState) -> bool:
        """Say whether no buffer holds more than its slots, and none was read before it was written."""
        written, read = dict[int, int](), dict[int, int]()
        for s, (f, target) in enumerate(sinks_of(self._netlist)):
            flow, unit = self._netlist.flows[f], self._netlist.units[target]
            if unit.kind == SiteKind.MEMORY and target in self._sources:
                if not 0 <= state.taken[s] <= unit.slots * flow.tokens:
                    return False
                samples = state.taken[s] // flow.tokens
                written[target] = min(written.get(target, samples), samples)
        for f, flow in enumerate(self._netlist.flows):
            read[flow.source] = max(read.get(flow.source, 0), -(-state.put[f] // flow.tokens))
        return all(read[unit] <= samples for unit, samples in written.items())


def warm_up(cells: Cells, netlist: Netlist, t: Tables, warm: WarmState) -> None:
    """Change the empty state at the start of cycle 0 into a warm one."""
    for number, unit in enumerate(netlist.units):
        if unit.kind == SiteKind.COMPUTE:
            handle, fired = t["units"].handles[number], warm.fired[number]
            cells[handle + at.UNIT_FIRING] = fired
            cells[handle + at.UNIT_RELEASE_REST] = fired * unit.releases % unit.firings
            cells[handle + at.UNIT_CYCLE_REST] = fired * (unit.cycles % unit.firings) % unit.firings
    flow_samples, sink_samples = _warm_flows(cells, netlist, t, warm), _warm_sinks(cells, netlist, t, warm)
    for number, unit in enumerate(netlist.units):
        if unit.kind == SiteKind.MEMORY and sink_samples[number]:
            handle = t["units"].handles[number]
            written = min(sink_samples[number])
            cells[handle + at.UNIT_WRITTEN] = written
            cells[handle + at.UNIT_FREED] = min(flow_samples[number], default=written)


def _warm_flows(cells: Cells, netlist: Netlist, t: Tables, warm: WarmState) -> list[list[int]]:
    """Fill output queues; returns per unit the samples that each of its output flows has read."""
    samples: list[list[int]] = [[] for _ in netlist.units]
    for f, flow in enumerate(netlist.flows):
        handle, source = t["flows"].handles[f], netlist.units[flow.source]
        first, end = int(cells[handle + at.FLOW_QUEUE]), int(cells[handle + at.FLOW_QUEUE_END])
        cells[handle + at.COUNT] = warm.queued[f]
        cells[handle + at.FLOW_TAIL] = first + warm.queued[f] % (end - first)
        if source.kind == SiteKind.COMPUTE:
            releases = warm.fired[flow.source] * source.releases // source.firings
            cells[handle + at.FLOW_REST] = releases * flow.tokens % source.releases
        else:
            sample, token = divmod(warm.put[f], flow.tokens)
            cells[handle + at.FLOW_SAMPLE], cells[handle + at.FLOW_TOKEN] = sample, token
            samples[flow.source].append(sample)
    return samples


def _warm_sinks(cells: Cells, netlist: Netlist, t: Tables, warm: WarmState) -> list[list[int]]:
    """Fill input queues; returns per unit the samples that each of its input flows has written."""
    samples: list[list[int]] = [[] for _ in netlist.units]
    for s, (f, target) in enumerate(sinks_of(netlist)):
        handle, unit, tokens = t["sinks"].handles[s], netlist.units[target], netlist.flows[f].tokens
        cells[handle + at.SINK_ARRIVED] = warm.arrived[s]
        cells[handle + at.SINK_CREDITS] -= warm.arrived[s]
        if cells[handle + at.SINK_CREDITS] == 0:
            cells[t["flows"].handles[f] + at.FLOW_SINKS_WITHOUT_CREDIT] += 1
        if unit.kind == SiteKind.COMPUTE:
            cells[handle + at.SINK_REST] = -tokens * warm.fired[target] % unit.firings
        else:
            sample, token = divmod(warm.taken[s], tokens)
            cells[handle + at.SINK_SAMPLE], cells[handle + at.SINK_TOKEN] = sample, token
            samples[target].append(sample)
    return samples
