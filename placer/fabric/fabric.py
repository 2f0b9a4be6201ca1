"""The fabric: a grid of compute and memory units with switches, links and DRAM ports, as data.

A tile holds one switch and one unit; compute and memory units alternate along rows and columns, one
by one like a checkerboard unless the fabric says otherwise.
DRAM ports hang on the switches of the left and right columns. Every rate, latency and size comes
from `conf/fabric/*.yaml`; the defaults here are those of `parts/base.yaml` (a test compares them).
`Topology` turns them into the arrays that routers and simulators use.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property

import numpy as np

from placer.base import InputError, IntArray

MAX_VALUE = 4096  # of any rate, latency or size but the memory capacity
MAX_CAPACITY = 1 << 30  # bytes of a memory unit
MAX_CLOCK_MHZ = 100_000
MAX_SWITCH_CYCLES = 1_000_000_000
PRODUCT = "matmul"  # name in `ops` of all matrix products


class SiteKind(IntEnum):
    """What a site can hold."""

    COMPUTE = 0  # one compute unit (PCU)
    MEMORY = 1  # buffers that share one memory unit (PMU)
    PORT = 2  # DRAM streams that share one address generator (AGCU)


class Direction(IntEnum):
    """Where a link leads, seen from the switch it leaves. Row 0 is the northern row."""

    EAST = 0
    WEST = 1
    NORTH = 2
    SOUTH = 3
    INJECT = 4  # unit -> switch
    EJECT = 5  # switch -> unit


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
        return _build_topology(self)

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


@dataclass(frozen=True, slots=True)
class Topology:
    """Switches, sites and links of a fabric as arrays.

    Switch of row r and column c: r * columns + c. Sites: tiles in switch order, then the ports of
    the left side from north to south, then those of the right side. Links: mesh links first, then
    one inject link per site, then one eject link per site.
    """

    columns: int
    rows: int
    num_mesh_links: int
    site_kind: IntArray  # [num_sites] SiteKind
    site_switch: IntArray  # [num_sites]
    link_source: IntArray  # [num_links] switch, -1 for inject links
    link_target: IntArray  # [num_links] switch, -1 for eject links
    link_direction: IntArray  # [num_links] Direction
    link_cycles: IntArray  # [num_links] latency of a vector over the link
    link_width: IntArray  # [num_links] vectors per cycle
    mesh_link: IntArray  # [num_switches, 4] link id by Direction, -1 at the border

    @property
    def num_switches(self) -> int:
        return self.columns * self.rows

    @property
    def num_sites(self) -> int:
        return len(self.site_kind)

    @property
    def num_links(self) -> int:
        return len(self.link_source)

    def inject_link(self, site: int) -> int:
        return self.num_mesh_links + site

    def eject_link(self, site: int) -> int:
        return self.num_mesh_links + self.num_sites + site


_STEP = {Direction.EAST: (0, 1), Direction.WEST: (0, -1), Direction.NORTH: (-1, 0), Direction.SOUTH: (1, 0)}


def _build_topology(fabric: Fabric) -> Topology:
    columns, rows = fabric.columns, fabric.rows
    num_switches = columns * rows
    source: list[int] = []
    target: list[int] = []
    direction: list[int] = []
    mesh_link = np.full((num_switches, 4), -1, np.int32)
    for switch in range(num_switches):
        row, column = divmod(switch, columns)
        for heading, (down, right) in _STEP.items():
            if 0 <= row + down < rows and 0 <= column + right < columns:
                mesh_link[switch, heading] = len(source)
                source.append(switch)
                target.append(switch + down * columns + right)
                direction.append(heading)
    num_mesh_links = len(source)

    period = fabric.compute_tiles + fabric.memory_tiles
    kinds = [int((r + c) % period >= fabric.compute_tiles) for r in range(rows) for c in range(columns)]
    switches = list(range(num_switches))
    port_rows = [(2 * i + 1) * rows // (2 * fabric.num_ports_per_side) for i in range(fabric.num_ports_per_side)]
    for column in (0, columns - 1):
        kinds += [int(SiteKind.PORT)] * len(port_rows)
        switches += [row * columns + column for row in port_rows]
    num_sites = len(kinds)

    source += [-1] * num_sites + switches
    target += switches + [-1] * num_sites
    direction += [Direction.INJECT] * num_sites + [Direction.EJECT] * num_sites
    is_mesh = np.arange(len(source)) < num_mesh_links

    def per_link(mesh: int, local: int) -> IntArray:
        return np.where(is_mesh, mesh, local).astype(np.int32)

    return Topology(
        columns=columns,
        rows=rows,
        num_mesh_links=num_mesh_links,
        site_kind=np.array(kinds, np.int32),
        site_switch=np.array(switches, np.int32),
        link_source=np.array(source, np.int32),
        link_target=np.array(target, np.int32),
        link_direction=np.array(direction, np.int32),
        link_cycles=per_link(fabric.link.hop_cycles, fabric.local.hop_cycles),
        link_width=per_link(fabric.link.vectors_per_cycle, fabric.local.vectors_per_cycle),
        mesh_link=mesh_link,
    )


def _validate(fabric: Fabric) -> None:
    """Raise InputError for a value that no fabric can have."""
    where = f"fabric {fabric.name!r}"
    if fabric.num_ports_per_side == 0:
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
    if fabric.link.channels not in (2, 4):
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
