"""Traffic of cores that read from each other: what is replayed, and what comes out.

A processor follows a script: it reads from the memory of a core or from DRAM, waits until all its
reads have arrived, and lets time pass in between. docs/simulator.md, "Replayed traffic".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from placer.base import InputError, IntArray, LongArray
from placer.decision import Decisions
from placer.fabric import CoreSpec, Fabric, SiteKind, core_site, network_route, pace_of
from placer.netlist import Flow, Netlist, Unit
from placer.simulation.measurement import Status

Tile = tuple[int, int]  # column, row


class What(IntEnum):
    """What a step is; reads are numbered from 0."""

    WAIT = -1  # until all reads of this processor have arrived
    MARK = -2  # nothing happens but that its time is noted


class Read(NamedTuple):
    """A read of `num_bytes` from the memory of a core or the DRAM behind a tile."""

    network: int
    source: Tile
    num_bytes: int


class Step(NamedTuple):
    """One step of a script, `gap` cycles after the step before; the first one after cycle 0."""

    gap: int
    what: Read | What


@dataclass(frozen=True, slots=True)
class Script:
    """What one processor of a core does, in order."""

    core: Tile
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Traffic:
    """Scripts on a fabric as arrays. Gates are sorted by bank, scripts too, flows by script."""

    netlist: Netlist  # a flow for every read
    decision: Decisions  # routes of these flows
    bank_pace: LongArray  # [num_banks] in 1024ths of a vector per cycle, reads and writes together
    gate_bank: LongArray  # [num_gates]
    gate_take_pace: LongArray  # [num_gates]
    flow_gate: LongArray  # [num_flows] that it is read from
    sink_gate: LongArray  # [num_flows] that it is written to
    flow_pace: LongArray  # [num_flows]
    request_cycles: LongArray  # [num_flows] from issue to the arrival of the request at the gate
    script_bank: LongArray  # [num_scripts] that its reads are written to
    step_start: LongArray  # [num_scripts + 1]
    step_gap: LongArray  # [num_steps]
    step_what: LongArray  # [num_steps] flow, or What
    script_order: LongArray  # [num_scripts] position among the scripts that were given
    wait_cycles: int

    @property
    def num_steps(self) -> int:
        return len(self.step_gap)

    @property
    def num_scripts(self) -> int:
        return len(self.script_bank)


@dataclass(frozen=True, slots=True)
class Replay:
    """What a replay measures."""

    status: Status  # STEADY when all scripts came to their end
    cycles: int
    step_at: LongArray  # [num_steps] cycle in which a step was done; of a wait: in which it ended
    link_vectors: LongArray  # [num_links] sent over each link


def build_traffic(fabric: Fabric, scripts: Sequence[Script], name: str = "traffic") -> Traffic:
    """Lay out scripts on a fabric of cores. Raises InputError for what the fabric does not have."""
    spec = fabric.cores
    if spec is None:
        raise InputError(f"fabric {fabric.name!r} has no cores that read from each other; use fabric=wormhole")
    banks = _Banks(fabric, spec)
    order = sorted(range(len(scripts)), key=lambda number: banks.bank_of(scripts[number].core))
    sorted_scripts = [scripts[number] for number in order]
    reads = [(s.core, step.what) for s in sorted_scripts for step in s.steps if isinstance(step.what, Read)]
    ends = [(core_site(fabric, r.network, r.source), core_site(fabric, r.network, core)) for core, r in reads]
    netlist = _netlist(fabric, name, ends, [-(-r.num_bytes // fabric.vector_bytes) for _, r in reads])
    routes = [network_route(fabric, r.network, r.source, core) for core, r in reads]
    what, flow = [], 0
    for step in (step for script in sorted_scripts for step in script.steps):
        what.append(flow if isinstance(step.what, Read) else int(step.what))
        flow += isinstance(step.what, Read)
    return Traffic(
        netlist=netlist,
        decision=_decision(fabric, ends, routes, [core[1] for core, _ in reads]),
        bank_pace=banks.paces,
        gate_bank=np.sort(banks.bank_of_site),
        gate_take_pace=banks.take_paces,
        flow_gate=banks.gate_of_site[[source for source, _ in ends]],
        sink_gate=banks.gate_of_site[[target for _, target in ends]],
        flow_pace=np.array([_pace(fabric, spec, r) for _, r in reads], np.int64),
        request_cycles=np.array([_request_cycles(fabric, spec, core, r) for core, r in reads], np.int64),
        script_bank=np.array([banks.bank_of(script.core) for script in sorted_scripts], np.int64),
        step_start=np.cumsum([0] + [len(script.steps) for script in sorted_scripts]),
        step_gap=np.array([step.gap for script in sorted_scripts for step in script.steps], np.int64),
        step_what=np.array(what, np.int64),
        script_order=np.array(order, np.int64),
        wait_cycles=spec.wait_cycles,
    )


class _Banks:
    """Memories of a chip: one per DRAM controller, then one per core, with a gate per tile and network."""

    def __init__(self, fabric: Fabric, spec: CoreSpec) -> None:
        tiles = [(column, row) for row in range(fabric.rows) for column in range(fabric.columns)]
        numbers: dict[Tile, int] = {}
        cores = iter(range(len(spec.controllers), len(tiles) + len(spec.controllers)))
        for tile in tiles:
            controller = spec.controller_of(tile)
            numbers[tile] = next(cores) if controller < 0 else controller
        self._numbers = numbers
        num_banks = max(len(spec.controllers), *(number + 1 for number in numbers.values()))
        is_controller = np.arange(num_banks) < len(spec.controllers)
        controller_pace = pace_of(spec.controller_bytes_per_cycle, fabric.vector_bytes)
        core_pace = pace_of(spec.memory_bytes_per_cycle, fabric.vector_bytes)
        self.paces: LongArray = np.where(is_controller, controller_pace, core_pace)
        self.bank_of_site: LongArray = np.array([numbers[tile] for tile in tiles] * len(spec.networks), np.int64)
        by_bank = np.argsort(self.bank_of_site, kind="stable")
        self.gate_of_site: LongArray = np.argsort(by_bank, kind="stable")
        rates = np.where(is_controller, spec.port_take_bytes_per_cycle, spec.take_bytes_per_cycle)
        paces = np.array([pace_of(float(rate), fabric.vector_bytes) for rate in rates], np.int64)
        self.take_paces: LongArray = paces[self.bank_of_site[by_bank]]

    def bank_of(self, core: Tile) -> int:
        return self._numbers.get(core, -1)


def _pace(fabric: Fabric, spec: CoreSpec, read: Read) -> int:
    """Return how fast a read leaves its bank: as its size allows, and the gate."""
    is_port = spec.controller_of(read.source) >= 0
    gate = spec.port_inject_bytes_per_cycle if is_port else spec.inject_bytes_per_cycle
    return pace_of(min(gate, spec.rate_of(read.num_bytes)), fabric.vector_bytes)


def _request_cycles(fabric: Fabric, spec: CoreSpec, core: Tile, read: Read) -> int:
    """Return the cycles from the note of a read to the arrival of its request, all but data's way back.

    Without traffic the first vector is written `issue_cycles + read_cycles` after the note if source
    and target are one core; two local hops of data and the cycle in which a bank is read are part of
    it. Hops of the request and DRAM add to it.
    """
    request_hops = len(network_route(fabric, read.network, core, read.source)) - 2
    is_port = spec.controller_of(read.source) >= 0
    cycles = spec.issue_cycles + spec.read_cycles - 2 * fabric.local.hop_cycles - 1
    cycles += request_hops * fabric.link.hop_cycles + (fabric.dram.latency_cycles if is_port else 0)
    return max(1, cycles)


def _netlist(fabric: Fabric, name: str, ends: Sequence[tuple[int, int]], tokens: Sequence[int]) -> Netlist:
    """Return a unit for every site that is read from and every one that reads, and a flow per read."""
    kinds = fabric.topology.site_kind
    sources, targets = (sorted({pair[k] for pair in ends}) for k in (0, 1))
    units = [Unit(f"memory {site}", SiteKind(int(kinds[site])), "buffer", 0, slots=1) for site in sources]
    units += [Unit(f"reader {site}", SiteKind.MEMORY, "buffer", 1, slots=1) for site in targets]
    source_of = {site: number for number, site in enumerate(sources)}
    target_of = {site: number for number, site in enumerate(targets, len(sources))}
    flows = [
        Flow(f"read {number}", source_of[source], (target_of[target],), count)
        for number, ((source, target), count) in enumerate(zip(ends, tokens, strict=True))
    ]
    return Netlist(name, "traffic", fabric.name, tuple(units), tuple(flows))


def _decision(
    fabric: Fabric, ends: Sequence[tuple[int, int]], routes: Sequence[Sequence[int]], rows: Sequence[int]
) -> Decisions:
    """Return routes, and as channels those before the date line: rows of readers take them in turn."""
    sources, targets = (sorted({pair[k] for pair in ends}) for k in (0, 1))
    lengths = [len(route) for route in routes]

    def ints(values: Sequence[int]) -> IntArray:
        return np.array(values, np.int32)

    return Decisions(
        sites=ints([*sources, *targets])[None, :],
        channels=ints([row % (fabric.link.channels // 2) for row in rows])[None, :],
        route_start=np.cumsum([0, *lengths]).astype(np.int64)[None, :],
        links=ints([link for route in routes for link in route]),
        parents=ints([position - 1 for length in lengths for position in range(length)]),
    )
