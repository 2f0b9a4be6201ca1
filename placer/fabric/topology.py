"""Switches, sites and links of a fabric as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from placer.base import IntArray

if TYPE_CHECKING:
    from placer.fabric.fabric import Fabric


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
class Topology:
    """Switches, sites and links of a fabric as arrays.

    Switch of network n, row r and column c: (n * rows + r) * columns + c; without cores there is
    only network 0. Sites: tiles in switch order, then the ports of the left side from north to
    south, then those of the right side. A core has a site in every network, and no ports stand at
    the sides. Links: mesh links first, then one inject link per site, then one eject link per site.
    """

    columns: int
    rows: int
    num_networks: int
    num_mesh_links: int
    site_kind: IntArray  # [num_sites] SiteKind
    site_switch: IntArray  # [num_sites]
    link_source: IntArray  # [num_links] switch, -1 for inject links
    link_target: IntArray  # [num_links] switch, -1 for eject links
    link_direction: IntArray  # [num_links] Direction
    link_cycles: IntArray  # [num_links] latency of a vector over the link
    link_width: IntArray  # [num_links] vectors per cycle
    link_crosses: IntArray  # [num_links] 1 for links of a torus that lead from a border to the opposite one
    mesh_link: IntArray  # [num_switches, 4] link id by Direction, -1 at the border

    @property
    def num_switches(self) -> int:
        return self.num_networks * self.columns * self.rows

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

    def date_line_shifts(self, links: Sequence[int], parents: Sequence[int]) -> list[int]:
        """Say for every node of a route whether it lies behind the date line of its ring (1) or not (0).

        A vector that has crossed the date line of a ring goes on in the upper half of the channels
        until it leaves the ring.
        """
        shifts: list[int] = []
        for link, parent in zip(links, parents, strict=True):
            is_same_ring = parent >= 0 and self.link_direction[link] == self.link_direction[links[parent]]
            shifts.append(int(self.link_crosses[link] or (is_same_ring and shifts[parent])))
        return shifts


_STEP = {Direction.EAST: (0, 1), Direction.WEST: (0, -1), Direction.NORTH: (-1, 0), Direction.SOUTH: (1, 0)}


def build_topology(fabric: Fabric) -> Topology:
    """Lay out all networks of a fabric; without cores there is one, with links in all directions."""
    headings = [tuple(_STEP)]
    is_torus = False
    if fabric.cores is not None:
        headings = [tuple(Direction[name.upper()] for name in n.directions) for n in fabric.cores.networks]
        is_torus = fabric.cores.torus
    columns, rows = fabric.columns, fabric.rows
    source: list[int] = []
    target: list[int] = []
    direction: list[int] = []
    crosses: list[int] = []
    mesh_link = np.full((len(headings) * columns * rows, 4), -1, np.int32)
    for switch in range(len(mesh_link)):
        network, tile = divmod(switch, columns * rows)
        row, column = divmod(tile, columns)
        for heading, (down, right) in _STEP.items():
            is_inside = 0 <= row + down < rows and 0 <= column + right < columns
            if heading in headings[network] and (is_inside or is_torus):
                mesh_link[switch, heading] = len(source)
                source.append(switch)
                there = (row + down) % rows * columns + (column + right) % columns
                target.append(network * columns * rows + there)
                direction.append(heading)
                crosses.append(not is_inside)
    num_mesh_links = len(source)

    kinds, switches = _sites(fabric, len(headings))
    num_sites = len(kinds)
    source += [-1] * num_sites + switches
    target += switches + [-1] * num_sites
    direction += [Direction.INJECT] * num_sites + [Direction.EJECT] * num_sites
    crosses += [0] * (2 * num_sites)
    is_mesh = np.arange(len(source)) < num_mesh_links

    def per_link(mesh: int, local: int) -> IntArray:
        return np.where(is_mesh, mesh, local).astype(np.int32)

    return Topology(
        columns=columns,
        rows=rows,
        num_networks=len(headings),
        num_mesh_links=num_mesh_links,
        site_kind=np.array(kinds, np.int32),
        site_switch=np.array(switches, np.int32),
        link_source=np.array(source, np.int32),
        link_target=np.array(target, np.int32),
        link_direction=np.array(direction, np.int32),
        link_cycles=per_link(fabric.link.hop_cycles, fabric.local.hop_cycles),
        link_width=per_link(fabric.link.vectors_per_cycle, fabric.local.vectors_per_cycle),
        link_crosses=np.array(crosses, np.int32),
        mesh_link=mesh_link,
    )


def _sites(fabric: Fabric, num_networks: int) -> tuple[list[int], list[int]]:
    """Return kind and switch of every site."""
    columns, rows = fabric.columns, fabric.rows
    tiles = [(row, column) for row in range(rows) for column in range(columns)]
    switches = list(range(num_networks * len(tiles)))
    if fabric.cores is not None:
        controllers = [fabric.cores.controller_of((column, row)) for row, column in tiles]
        kinds = [int(SiteKind.MEMORY if controller < 0 else SiteKind.PORT) for controller in controllers]
        return kinds * num_networks, switches
    period = fabric.compute_tiles + fabric.memory_tiles
    kinds = [int((row + column) % period >= fabric.compute_tiles) for row, column in tiles]
    port_rows = [(2 * i + 1) * rows // (2 * fabric.num_ports_per_side) for i in range(fabric.num_ports_per_side)]
    for column in (0, columns - 1):
        kinds += [int(SiteKind.PORT)] * len(port_rows)
        switches += [row * columns + column for row in port_rows]
    return kinds, switches
