"""The physical side of a fabric: the area of its parts, and the energy of what they do.

Both are tables in `conf/fabric`, stated and not measured. No simulation, plan or network reads them:
they only turn counts of a fabric into mm^2, and counts of a measurement into joules.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from placer.base import InputError
from placer.fabric.topology import SiteKind

if TYPE_CHECKING:
    from placer.fabric.fabric import Fabric

MAX_PHYSICAL = 1e6  # of any area or energy


@dataclass(frozen=True, slots=True)
class Area:
    """What the parts of a fabric take, in mm^2."""

    mac_mm2: float  # one multiply-accumulator with its pipeline registers
    memory_byte_mm2: float  # one byte of a memory unit, its share of the address logic included
    queue_byte_mm2: float  # one byte of a FIFO, anywhere
    compute_queues: int  # input and output queues that are built into a compute unit
    switch_byte_mm2: float  # a switch, per byte that its links move in a cycle
    link_byte_mm2: float  # a link between switches, per byte that it moves in a cycle
    port_mm2: float  # address generator of a DRAM port
    dram_byte_mm2: float  # controllers and pins, per byte that the DRAM moves in a cycle


@dataclass(frozen=True, slots=True)
class Energy:
    """What the parts of a fabric spend, in pJ, and what they always take."""

    mac_pj: float  # one multiply-accumulate
    vector_pj: float  # one cycle of a compute unit on an operation that is no product
    memory_byte_pj: float  # one byte read from or written to a memory unit
    link_byte_pj: float  # one byte over a link between switches, the switch included
    local_byte_pj: float  # one byte between a unit and its switch
    dram_byte_pj: float  # one byte loaded or stored
    static_mw_per_mm2: float  # leakage and clock, whether busy or not


def area_mm2(fabric: Fabric) -> dict[str, float] | None:
    """Return the area of each kind of part; None when the fabric does not state it."""
    area = fabric.area
    if area is None:
        return None
    compute, memory, dram, link = fabric.compute, fabric.memory, fabric.dram, fabric.link
    queue = fabric.vector_bytes * area.queue_byte_mm2  # of one vector
    width = fabric.vector_bytes * link.vectors_per_cycle
    waiting = link.channels * (link.fifo_vectors + link.hop_cycles * link.vectors_per_cycle)
    of_compute = compute.macs_per_cycle * area.mac_mm2
    of_compute += area.compute_queues * (compute.window_vectors + compute.output_vectors) * queue
    of_memory = memory.capacity_bytes * area.memory_byte_mm2
    of_memory += memory.max_buffers * (memory.window_vectors + memory.output_vectors) * queue
    of_port = area.port_mm2 + dram.max_streams * (dram.window_vectors + dram.prefetch_vectors) * queue
    topology = fabric.topology
    return {
        "compute units": fabric.num_sites(SiteKind.COMPUTE) * of_compute,
        "memory units": fabric.num_sites(SiteKind.MEMORY) * of_memory,
        "switches": topology.num_switches * width * area.switch_byte_mm2,
        "links": topology.num_mesh_links * (width * area.link_byte_mm2 + waiting * queue),
        "ports": fabric.num_sites(SiteKind.PORT) * of_port,
        "DRAM interface": fabric.dram_bytes_per_cycle * area.dram_byte_mm2,
    }


def static_watts(fabric: Fabric) -> float | None:
    """Return the power that a fabric takes whether it works or not; None when it is not stated."""
    areas = area_mm2(fabric)
    if fabric.energy is None or areas is None:
        return None
    return sum(areas.values()) * fabric.energy.static_mw_per_mm2 / 1000


def validate_physical(area: Area | None, energy: Energy | None, where: str) -> None:
    """Raise InputError for an area or energy that nothing can have."""
    for name, table in (("area", area), ("energy", energy)):
        for field in fields(table) if table is not None else ():
            value = getattr(table, field.name)
            if not (math.isfinite(value) and 0 <= value <= MAX_PHYSICAL):
                raise InputError(
                    f"{where}: {name}.{field.name}={value} is out of range; allowed 0 to {MAX_PHYSICAL:,.0f}"
                )
    if energy is not None and area is None:
        raise InputError(f"{where}: energy without area; static power is stated per mm^2, so state both or none")
