"""Tiles that are cores: each has memory of its own and reads from the memory of others.

Such a chip has no units that wait for data. Its cores issue *transfers*, which travel over one of
several networks; DRAM controllers stand behind some of the tiles. Rates are in bytes per cycle and
need not be whole vectors: the simulator counts in 1024ths of a vector (`pace_of`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Literal

import numpy as np

from placer.base import InputError

if TYPE_CHECKING:
    from placer.fabric.fabric import Fabric

Heading = Literal["east", "west", "north", "south"]
FULL_PACE = 1024  # one vector per cycle
MAX_CYCLES = 4096
MAX_NETWORKS = 8
MAX_CHANNELS = 16
HORIZONTAL = ("east", "west")


@dataclass(frozen=True, slots=True)
class NetworkSpec:
    """One of the networks of links; every core has a place in each."""

    name: str  # how traces call it
    directions: tuple[Heading, ...]  # of its links
    order: Literal["xy", "yx"]  # which axis a transfer takes first


@dataclass(frozen=True, slots=True)
class CoreSpec:
    """Cores, their networks and the DRAM controllers. Tiles are named (column, row)."""

    networks: tuple[NetworkSpec, ...]
    torus: bool  # links lead from each border to the opposite one
    link_bytes_per_cycle: float  # of a link between switches
    memory_bytes_per_cycle: float  # of a core: reads and writes by all networks together
    inject_bytes_per_cycle: float  # from a core's memory into one network
    take_bytes_per_cycle: float  # from one network into a core's memory
    port_inject_bytes_per_cycle: float  # the same of a tile with DRAM behind it
    port_take_bytes_per_cycle: float
    controller_bytes_per_cycle: float  # of a DRAM controller: all its ports and networks together
    controllers: tuple[tuple[tuple[int, ...], ...], ...]  # tiles behind which each one stands
    sizes: tuple[int, ...]  # bytes of a transfer, ascending ...
    rates: tuple[float, ...]  # ... and the bytes per cycle it reaches alone, linear in between
    issue_cycles: int  # from the time at which a core notes a read until its request leaves
    read_cycles: int  # latency of a read from the own memory; hops and DRAM add to it
    wait_cycles: int  # least time of a wait, when all data is there

    def network(self, name: str) -> int:
        """Return the number of a network. Raises InputError for an unknown name."""
        names = [network.name for network in self.networks]
        if name not in names:
            raise InputError(f"unknown network {name!r}; allowed: {', '.join(names)}")
        return names.index(name)

    def rate_of(self, num_bytes: int) -> float:
        """Return the bytes per cycle that a transfer of this size reaches alone."""
        return float(np.interp(num_bytes, self.sizes, self.rates))

    def controller_of(self, tile: tuple[int, int]) -> int:
        """Return the number of the DRAM controller behind a tile, -1 if there is none."""
        return next((number for number, tiles in enumerate(self.controllers) if tile in tiles), -1)


def pace_of(bytes_per_cycle: float, vector_bytes: int) -> int:
    """Return a rate in 1024ths of a vector per cycle."""
    return round(bytes_per_cycle / vector_bytes * FULL_PACE)


def network_route(fabric: Fabric, network: int, source: tuple[int, int], target: tuple[int, int]) -> list[int]:
    """Return the links of a transfer in order: inject link, links between switches, eject link.

    Dimension by dimension, always in the direction that the network has; the shorter one if it has
    both. Raises InputError if the network does not lead there.
    """
    assert fabric.cores is not None
    topology, spec = fabric.topology, fabric.cores.networks[network]
    first, last = (core_site(fabric, network, tile) for tile in (source, target))
    links = [topology.inject_link(first)]
    switch = int(topology.site_switch[first])
    for axis in (0, 1) if spec.order == "xy" else (1, 0):
        distance = target[axis] - source[axis]
        length = (fabric.columns, fabric.rows)[axis]
        direction, steps = _way(spec, axis, distance, length if fabric.cores.torus else 0)
        for _ in range(steps):
            links.append(int(topology.mesh_link[switch, direction]))
            switch = int(topology.link_target[links[-1]])
    return [*links, topology.eject_link(last)]


def _way(spec: NetworkSpec, axis: int, distance: int, ring: int) -> tuple[int, int]:
    """Return the direction (as `Direction`) and the number of steps along one axis."""
    forward, back = ((0, "east"), (1, "west")) if axis == 0 else ((3, "south"), (2, "north"))
    ways = []
    for (direction, name), steps in ((forward, distance), (back, -distance)):
        if name in spec.directions and (steps >= 0 or ring):
            ways.append((steps % ring if ring else steps, direction))
    if distance == 0 or not ways:
        if distance:
            raise InputError(f"network {spec.name!r} has no links that lead {distance:+d} tiles along axis {axis}")
        return forward[0], 0
    steps, direction = min(ways)
    return direction, steps


def core_site(fabric: Fabric, network: int, tile: tuple[int, int]) -> int:
    """Return the site of a core in a network. Raises InputError for a tile outside of the grid."""
    column, row = tile
    if not (0 <= column < fabric.columns and 0 <= row < fabric.rows):
        raise InputError(f"core ({column}, {row}) is outside of the grid of {fabric.columns} x {fabric.rows}")
    return (network * fabric.rows + row) * fabric.columns + column


def validate_cores(spec: CoreSpec, columns: int, rows: int, vector_bytes: int, channels: int, where: str) -> None:
    """Raise InputError for a value that no chip can have."""
    if not 1 <= len(spec.networks) <= MAX_NETWORKS or len({n.name for n in spec.networks}) < len(spec.networks):
        raise InputError(f"{where}: cores.networks needs 1 to {MAX_NETWORKS} networks with different names")
    for network in spec.networks:
        if not network.directions or len(set(network.directions)) < len(network.directions):
            raise InputError(f"{where}: network {network.name!r} needs directions, each named once")
    if channels % 2 or channels > MAX_CHANNELS:
        raise InputError(
            f"{where}: link.channels={channels}; allowed an even number up to {MAX_CHANNELS} (half of them behind "
            "the date lines of a torus)"
        )
    limit = {"memory_bytes_per_cycle": len(spec.networks) * 2, "controller_bytes_per_cycle": 64}
    for field in fields(spec):
        value = getattr(spec, field.name)
        most = limit.get(field.name, 1) * vector_bytes
        if field.name.endswith("bytes_per_cycle") and not vector_bytes / FULL_PACE <= value <= most:
            raise InputError(f"{where}: cores.{field.name}={value}; allowed up to {most}, above 0")
        if field.name.endswith("_cycles") and not 1 <= value <= MAX_CYCLES:
            raise InputError(f"{where}: cores.{field.name}={value}; allowed 1 to {MAX_CYCLES}")
    if not spec.sizes or len(spec.sizes) != len(spec.rates) or list(spec.sizes) != sorted(set(spec.sizes)):
        raise InputError(f"{where}: cores.sizes must ascend, and cores.rates needs one rate for each of them")
    if min(spec.sizes) < 1 or not all(vector_bytes / FULL_PACE <= rate <= vector_bytes for rate in spec.rates):
        raise InputError(f"{where}: cores.rates; allowed above 0, up to a vector ({vector_bytes} bytes) per cycle")
    tiles = [tile for controller in spec.controllers for tile in controller]
    for tile in tiles:
        if len(tile) != 2 or not (0 <= tile[0] < columns and 0 <= tile[1] < rows) or tiles.count(tile) > 1:
            raise InputError(f"{where}: cores.controllers: {tile} is no tile, or named twice; write [column, row]")
