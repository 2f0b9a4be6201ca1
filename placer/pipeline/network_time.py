"""The whole time of a network: its sections one after the other, for a batch of inputs.

A section runs on the whole fabric until all inputs of the batch have passed it. In cycles per input

    sum over sections of [ switch + weights not yet on chip / DRAM rate
                           + first sample + (batch * samples - 1) * period ] / batch

Switch and DRAM rate are the fabric's, first sample and period are simulated. What is assumed beyond:

- Weights ahead. While a section runs, the weights of the next one are loaded into the memory that it
  leaves free (`Section.free_bytes`), in the DRAM time that its loads and stores leave in a period.
  What finds no room or no time is loaded after the switch, at the full DRAM rate, and costs.
- Order. Alike sections are listed once, so they are taken to run right after each other, in the
  listed order. Each has weights of its own, as other layers have.
- A batch alone. The weights of the first section are loaded before it and cost; nothing stays from
  the batch before. Gradients of weights stay on chip: what stores them is not part of a step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from placer.base import BoolArray
from placer.decision import Decisions
from placer.fabric import Fabric, SiteKind
from placer.graph import PRODUCT_KINDS
from placer.netlist import Netlist, full_bound
from placer.netlist.lowering import Section
from placer.pipeline.source import SectionResult
from placer.simulation import Status, find_critical

PARTS = ("bound", "data", "congestion", "fill", "weights", "switch")  # of the time of a section, in order


@dataclass(frozen=True, slots=True)
class SectionRun:
    """What the time of a section follows from; plain values, so that it can be a file."""

    name: str
    first_op: str
    last_op: str
    repeats: int  # alike sections of the network
    samples: int  # per input
    macs: int  # multiply-accumulates per sample
    weight_bytes: int
    free_bytes: int  # on-chip memory for weights of the next section
    dram_bytes: int  # loads and stores of a sample
    bound_cycles: float  # per sample: the work of the slowest compute unit
    full_bound_cycles: float  # per sample: what the netlist asks of any resource
    full_bound_resource: str
    first_sample_cycles: float  # nan if none was complete
    cycles_per_sample: float  # nan if no period was found
    limit: str  # kind of the resource that is needed most, as it was placed
    is_steady: bool = True
    # What a sample does besides, for its energy:
    vector_cycles: int = 0  # work of compute units on operations that are no products
    memory_bytes: int = 0  # read from memory units and written to them
    link_bytes: int = 0  # over links between switches, once for each link
    local_bytes: int = 0  # between units and their switches

    @property
    def work(self) -> int:
        """Return the multiply-accumulates per input of all alike sections."""
        return self.repeats * self.samples * self.macs


@dataclass(frozen=True, slots=True)
class SectionTime:
    """Where the time of all alike sections goes, in cycles per input, and what they move."""

    run: SectionRun
    bound: float  # work of the slowest compute unit
    data: float  # what ports, DRAM and flows of the netlist need beyond that, wherever it is placed
    congestion: float  # what the period is longer than both
    fill: float  # of the pipeline; a little below 0 where one sample alone is faster than the pace
    weights: float  # loading what was not loaded ahead
    switch: float
    weight_bytes_ahead: float  # of all alike sections, per batch: loaded under the section before
    macs_per_byte: float  # of DRAM traffic, weights of the batch included
    macs_per_cycle: float  # at the simulated period

    @property
    def steady(self) -> float:
        return self.bound + self.data + self.congestion

    @property
    def cycles_per_input(self) -> float:
        return self.steady + self.fill + self.weights + self.switch

    @property
    def whole_macs_per_cycle(self) -> float:
        """Return the rate with filling, weights and switching."""
        return self.run.work / self.cycles_per_input


@dataclass(frozen=True, slots=True)
class NetworkTime:
    """The time of a network for a batch, and what it makes of the fabric."""

    fabric: Fabric
    batch: int
    sections: tuple[SectionTime, ...]

    @property
    def cycles_per_input(self) -> float:
        return sum(section.cycles_per_input for section in self.sections)

    @property
    def milliseconds_per_input(self) -> float | None:
        """Return None when the clock of the fabric is not known."""
        clock = self.fabric.clock_mhz
        return self.cycles_per_input / (1000 * clock) if clock else None

    @property
    def inputs_per_second(self) -> float | None:
        milliseconds = self.milliseconds_per_input
        return None if milliseconds is None else 1000 / milliseconds

    @property
    def macs_per_input(self) -> int:
        return sum(section.run.work for section in self.sections)

    @property
    def share_of_peak(self) -> float:
        """Return the share of all multiply-accumulators that is at work, over the whole time."""
        return self.share_at(self.cycles_per_input)

    def share_at(self, cycles_per_input: float) -> float:
        """Return the share of the peak if an input took so many cycles."""
        return self.macs_per_input / (self.fabric.peak_macs_per_cycle * cycles_per_input)

    @property
    def teraflops(self) -> float | None:
        """Return 10^12 operations per second, two for each multiply-accumulate; None without a clock."""
        rate = self.inputs_per_second
        return None if rate is None else 2e-12 * self.macs_per_input * rate

    def part(self, name: str) -> float:
        """Return one of the `PARTS`, summed over the sections, in cycles per input."""
        return sum(float(getattr(section, name)) for section in self.sections)


def time_of(fabric: Fabric, results: Sequence[SectionResult], batch: int) -> NetworkTime:
    """Return the time of a network whose sections were placed and simulated."""
    return network_time(fabric, [run_of(fabric, result) for result in results], batch)


def network_time(fabric: Fabric, runs: Sequence[SectionRun], batch: int) -> NetworkTime:
    """Return the time of sections that run in this order."""
    before = (None, *runs[:-1])
    return NetworkTime(
        fabric, batch, tuple(section_time(fabric, prior, run, batch) for prior, run in zip(before, runs, strict=True))
    )


def section_time(fabric: Fabric, before: SectionRun | None, run: SectionRun, batch: int) -> SectionTime:
    """Return the time of a section that runs after another one, or first."""
    samples, repeats = run.repeats * run.samples, run.repeats
    ahead = 0.0 if before is None else _bytes_ahead(fabric, before, run, batch)
    ahead += (repeats - 1) * _bytes_ahead(fabric, run, run, batch)
    late = repeats * run.weight_bytes - ahead
    traffic = run.dram_bytes + run.weight_bytes / (batch * run.samples)
    least = max(run.bound_cycles, run.full_bound_cycles)
    return SectionTime(
        run=run,
        bound=samples * run.bound_cycles,
        data=samples * (least - run.bound_cycles),
        congestion=samples * (run.cycles_per_sample - least),
        fill=repeats * (run.first_sample_cycles - run.cycles_per_sample) / batch,
        weights=late / fabric.dram_bytes_per_cycle / batch,
        switch=repeats * fabric.switch_cycles / batch,
        weight_bytes_ahead=ahead,
        macs_per_byte=run.macs / traffic if traffic else math.inf,
        macs_per_cycle=run.macs / run.cycles_per_sample,
    )


def _bytes_ahead(fabric: Fabric, before: SectionRun, run: SectionRun, batch: int) -> float:
    """Return the bytes of a section's weights that are loaded while the one before it runs."""
    idle = before.cycles_per_sample - before.dram_bytes / fabric.dram_bytes_per_cycle
    if not idle > 0:  # also where there is no period
        return 0.0
    in_time = batch * before.samples * idle * fabric.dram_bytes_per_cycle
    return min(run.weight_bytes, before.free_bytes, in_time)


def expected_run(fabric: Fabric, section: Section, period: float, first_sample_cycles: float) -> SectionRun:
    """Return what the time of a section that has not been placed would follow from, if it reached this period."""
    netlist, bound = section.netlist, full_bound(fabric, section.netlist)
    ops = [unit.name.rpartition(".")[0] or unit.name for unit in netlist.units if unit.kind == SiteKind.COMPUTE]
    return SectionRun(
        name=netlist.name,
        first_op=ops[0],
        last_op=ops[-1],
        repeats=section.repeats,
        samples=section.samples,
        macs=section.macs,
        weight_bytes=section.weight_bytes,
        free_bytes=section.free_bytes,
        dram_bytes=dram_bytes(fabric, netlist),
        bound_cycles=netlist.bound_cycles,
        full_bound_cycles=bound.cycles,
        full_bound_resource=bound.resource,
        first_sample_cycles=first_sample_cycles,
        cycles_per_sample=period,
        limit="expected",
    )


def run_of(fabric: Fabric, result: SectionResult) -> SectionRun:
    """Return what the time of a placed section follows from."""
    netlist, measured = result.section.netlist, result.measurement
    period, first = measured.cycles_per_sample, measured.first_sample_cycles
    has_period = math.isfinite(period) and measured.status != Status.DEADLOCK
    kind = find_critical(fabric, netlist, result.decision, period).kind.value if has_period else "unknown"
    return replace(
        expected_run(fabric, result.section, period, math.nan if first < 0 else first),
        limit=kind.replace("_", " "),
        is_steady=measured.status == Status.STEADY,
        vector_cycles=sum(unit.cycles for unit in netlist.units if unit.op not in PRODUCT_KINDS),
        memory_bytes=memory_bytes(fabric, netlist),
        link_bytes=link_bytes(fabric, netlist, result.decision),
        local_bytes=local_bytes(fabric, netlist, result.decision),
    )


def dram_bytes(fabric: Fabric, netlist: Netlist) -> int:
    """Return the bytes that a sample loads from DRAM and stores to it."""
    return _bytes_at(fabric, netlist, SiteKind.PORT)


def memory_bytes(fabric: Fabric, netlist: Netlist) -> int:
    """Return the bytes that a sample reads from memory units and writes to them."""
    return _bytes_at(fabric, netlist, SiteKind.MEMORY)


def _bytes_at(fabric: Fabric, netlist: Netlist, kind: SiteKind) -> int:
    is_kind = [unit.kind == kind for unit in netlist.units]
    vectors = sum(
        flow.tokens * (is_kind[flow.source] + sum(is_kind[t] for t in flow.targets)) for flow in netlist.flows
    )
    return vectors * fabric.vector_bytes


def link_bytes(fabric: Fabric, netlist: Netlist, decision: Decisions) -> int:
    """Return the bytes of a sample over links between switches, once for each link of a route."""
    return _bytes_over(fabric, netlist, decision, decision.links < fabric.topology.num_mesh_links)


def local_bytes(fabric: Fabric, netlist: Netlist, decision: Decisions) -> int:
    """Return the bytes of a sample between units and their switches."""
    return _bytes_over(fabric, netlist, decision, decision.links >= fabric.topology.num_mesh_links)


def _bytes_over(fabric: Fabric, netlist: Netlist, decision: Decisions, counts: BoolArray) -> int:
    tokens = np.array([flow.tokens for flow in netlist.flows], np.int64)
    before = np.concatenate([[0], np.cumsum(counts)])
    links = before[decision.route_start[0, 1:]] - before[decision.route_start[0, :-1]]
    return int(tokens @ links) * fabric.vector_bytes
