"""The fabric: a grid of compute and memory units with switches, links and DRAM ports, as data.

A tile holds one switch and one unit; compute and memory units alternate along rows and columns, one
by one like a checkerboard unless the fabric says otherwise.
DRAM ports hang on the switches of the left and right columns. Every rate, latency and size comes
from `conf/fabric/*.yaml`; the defaults here are those of `parts/base.yaml` (a test compares them),
but area and energy, which only files state.
`Topology` turns them into the arrays that routers and simulators use.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from placer.base import InputError
from placer.fabric.cores import CoreSpec, validate_cores
from placer.fabric.physical import Area, Energy, validate_physical
from placer.fabric.topology import SiteKind, Topology, build_topology

MAX_VALUE = 4096  # of any rate, latency or size but the memory capacity
MAX_CAPACITY = 1 << 30  # bytes of a memory unit
MAX_CLOCK_MHZ = 100_000
MAX_SWITCH_CYCLES = 1_000_000_000
PRODUCT = "matmul"  # name in `ops` of all matrix products
# Fields that no simulation, plan or network reads: how a fabric is called, and what turns cycles into other units.
NOT_SIMULATED = ("name", "clock_mhz", "switch_cycles", "area", "energy")


@dataclass(frozen=True, slots=True)
class LinkSpec:
    """Links between switches."""

    vectors_per_cycle: int = 1  # per direction; at most one vector per flow and cycle
    hop_cycles: int = 4  # switch pipeline + wire
    channels: int = 2  # virtual channels; lower half XY class, upper half YX class
    fifo_vectors: int = 2  # per channel, beyond the vectors on the wire
    credit_hop_cycles: int = 4  # per hop on the way back of an end-to-end credit


@dataclass(frozen=True, slots=True)
class LocalSpec:
    """Links between a unit and its switch."""

    vectors_per_cycle: int = 2
    hop_cycles: int = 1


@dataclass(frozen=True, slots=True)
class ComputeSpec:
    """Compute unit: a SIMD pipeline of `lanes` x `stages` multiply-accumulators."""

    lanes: int = 16
    stages: int = 6
    window_vectors: int = 32  # input FIFO per flow = end-to-end credit window
    operand_vectors: int = 32  # of each input that a product waits for before it starts a sample
    output_vectors: int = 8  # least output queue per flow
    block_rows: int = 16  # matmul register block: rows of the left operand kept at once
    block_columns: int = 16  # matmul register block: columns of the right operand kept at once

    @property
    def macs_per_cycle(self) -> int:
        return self.lanes * self.stages


@dataclass(frozen=True, slots=True)
class MemorySpec:
    """Memory unit: scratchpad with one read and one write vector per cycle."""

    capacity_bytes: int = 524288
    window_vectors: int = 16  # write FIFO per flow = end-to-end credit window
    output_vectors: int = 8  # read queue per flow
    latency_cycles: int = 6
    strided_read_cycles: int = 2  # read-port cycles per vector of a transposed read
    max_buffers: int = 4  # buffers that may share one memory unit


@dataclass(frozen=True, slots=True)
class DramSpec:
    """DRAM behind the ports; `channels` bursts are in service at the same time over the chip."""

    latency_cycles: int = 100
    channels: int = 4
    burst_vectors: int = 8
    burst_cycles: int = 8  # a channel is taken this long by a burst
    window_vectors: int = 16  # write FIFO per flow of a store
    prefetch_vectors: int = 128  # read queue per flow of a load
    max_streams: int = 4  # loads and stores that may share one port


@dataclass(frozen=True, slots=True)
class OpSpec:
    """How a compute unit runs one kind of operation."""

    depth_cycles: int  # pipeline depth: inputs of a firing -> its output
    cycles_per_vector: int  # row-wise and element-wise ops: work per input vector


@dataclass(frozen=True)
class Fabric:
    """One fabric; immutable. Raises InputError when the description makes no sense."""

    name: str
    columns: int
    rows: int
    vector_bytes: int = 64
    element_bytes: int = 4
    compute_tiles: int = 1  # along every row and column: so many compute units,
    memory_tiles: int = 1  # then so many memory units, and so on
    ports_per_side: int = -1  # DRAM ports on each of the two sides; -1: one per row
    clock_mhz: int = 1000  # cycles per microsecond, for times in milliseconds only; 0: unknown
    switch_cycles: int = 2000  # reconfiguration from one section of a network to the next
    link: LinkSpec = field(default_factory=LinkSpec)
    local: LocalSpec = field(default_factory=LocalSpec)
    compute: ComputeSpec = field(default_factory=ComputeSpec)
    memory: MemorySpec = field(default_factory=MemorySpec)
    dram: DramSpec = field(default_factory=DramSpec)
    ops: dict[str, OpSpec] = field(default_factory=dict)
    cores: CoreSpec | None = None  # tiles are cores that read from each other's memory; None: they are units
    area: Area | None = None  # None: not stated
    energy: Energy | None = None  # None: not stated

    def __post_init__(self) -> None:
        _validate(self)

    @property
    def elements_per_vector(self) -> int:
        return self.vector_bytes // self.element_bytes

    @property
    def num_ports_per_side(self) -> int:
        return self.rows if self.ports_per_side < 0 else self.ports_per_side

    @property
    def dram_vectors_per_cycle(self) -> float:
        """Return the most that all DRAM channels together can move."""
        return self.dram.channels * self.dram.burst_vectors / self.dram.burst_cycles

    @property
    def dram_bytes_per_cycle(self) -> float:
        return self.dram_vectors_per_cycle * self.vector_bytes

    @property
    def peak_macs_per_cycle(self) -> int:
        """Return the multiply-accumulates of all compute units, each busy in every cycle."""
        return self.num_sites(SiteKind.COMPUTE) * self.compute.macs_per_cycle

    @cached_property
    def topology(self) -> Topology:
        return build_topology(self)

    def op_spec(self, op: str) -> OpSpec:
        """Say how compute units run an op. Raises InputError if the fabric cannot run it."""
        name = PRODUCT if op in ("linear", "weight_grad") else op
        if name not in self.ops:
            known = ", ".join(sorted(self.ops)) or "none"
            raise InputError(f"fabric {self.name!r} has no implementation of op {name!r}: {known}")
        return self.ops[name]

    def max_units(self, kind: SiteKind) -> int:
        """Return how many units may share a site."""
        shared = {SiteKind.MEMORY: self.memory.max_buffers, SiteKind.PORT: self.dram.max_streams}
        return shared.get(kind, 1)

    def num_sites(self, kind: SiteKind) -> int:
        return int(np.count_nonzero(self.topology.site_kind == kind))


def _validate(fabric: Fabric) -> None:
    """Raise InputError for a value that no fabric can have."""
    where = f"fabric {fabric.name!r}"
    validate_physical(fabric.area, fabric.energy, where)
    if fabric.cores is not None:
        validate_cores(fabric.cores, fabric.columns, fabric.rows, fabric.vector_bytes, fabric.link.channels, where)
    elif fabric.num_ports_per_side == 0:
        raise InputError(
            f"{where}: no DRAM ports (ports_per_side=0), so no data can enter or leave; "
            "use 1 or more, or -1 for one port per row"
        )
    if fabric.num_ports_per_side > fabric.rows:
        raise InputError(f"{where}: ports_per_side={fabric.ports_per_side} is more than rows={fabric.rows}")
    for name, low, high in (
        ("columns", 2, 64), ("rows", 2, 64), ("compute_tiles", 1, 8), ("memory_tiles", 1, 8), ("element_bytes", 1, 8),
        ("clock_mhz", 0, MAX_CLOCK_MHZ), ("switch_cycles", 0, MAX_SWITCH_CYCLES),
    ):  # fmt: skip
        value = getattr(fabric, name)
        if not low <= value <= high:
            raise InputError(f"{where}: {name}={value} is out of range; allowed {low} to {high}")
    if fabric.vector_bytes % fabric.element_bytes:
        raise InputError(
            f"{where}: vector_bytes={fabric.vector_bytes} is no multiple of element_bytes={fabric.element_bytes}"
        )
    if fabric.cores is None and fabric.link.channels not in (2, 4):
        raise InputError(
            f"{where}: link.channels={fabric.link.channels}; allowed 2 or 4 (half for XY routes, half for YX routes)"
        )
    for name in ("window_vectors", "prefetch_vectors"):
        if getattr(fabric.dram, name) < fabric.dram.burst_vectors:
            raise InputError(
                f"{where}: dram.{name}={getattr(fabric.dram, name)} cannot hold a burst of "
                f"dram.burst_vectors={fabric.dram.burst_vectors}"
            )
    for group in ("link", "local", "compute", "memory", "dram"):
        spec = getattr(fabric, group)
        for name in spec.__dataclass_fields__:
            most = MAX_CAPACITY if name == "capacity_bytes" else MAX_VALUE
            _require_range(where, f"{group}.{name}", getattr(spec, name), most)
    for op, op_spec in fabric.ops.items():
        _require_range(where, f"ops.{op}.depth_cycles", op_spec.depth_cycles, MAX_VALUE)
        _require_range(where, f"ops.{op}.cycles_per_vector", op_spec.cycles_per_vector, MAX_VALUE)


def _require_range(where: str, name: str, value: int, most: int) -> None:
    if not 1 <= value <= most:
        raise InputError(f"{where}: {name}={value} is out of range; allowed 1 to {most}")
