"""Where things are in a picture, in tiles; x grows eastwards, y southwards, switch (0, 0) is first.

Every unit is to the south-east of the switch of its tile; DRAM ports stand outside on the left and
right. Each direction of a link keeps to its right-hand side, like road traffic.
"""

from __future__ import annotations

import numpy as np

from placer.base import FloatArray, IntArray
from placer.fabric import SiteKind, Topology

UNIT_SIZE = 0.54  # side of a compute unit, diameter of a memory unit
PORT_SIZE = (0.8, 0.42)  # width and height of a DRAM port
_UNIT_OFFSET = 0.44  # from the switch of a tile to the centre of its unit, in tiles
_PORT_DISTANCE = 0.95  # from the outermost switch or unit to the centre of a port
_LINK_OFFSET = 0.065  # from the line between two switches to each of its two links
_LINK_GAP = 0.13  # from a switch to the ends of its links


def extent(topology: Topology) -> tuple[float, float, float, float]:
    """Return the western, eastern, northern and southern end; ports stand outside the grid."""
    return -1.45, topology.columns + 0.9, -0.35, topology.rows - 0.15


def arrow_outlines(topology: Topology, load: FloatArray) -> FloatArray:
    """Return outlines [num_mesh_links, 7, 2] of arrows, as thick as their `load` in 0..1."""
    num_mesh = topology.num_mesh_links
    start = _switch_xy(topology, topology.link_source[:num_mesh])
    end = _switch_xy(topology, topology.link_target[:num_mesh])
    along = end - start
    aside = np.stack([-along[:, 1], along[:, 0]], axis=1)  # to the right of the way, y goes down
    tail = start + _LINK_GAP * along + _LINK_OFFSET * aside
    tip = end - _LINK_GAP * along + _LINK_OFFSET * aside
    neck = tip - 0.16 * along
    shaft = (0.008 + 0.03 * load)[:, None] * aside
    head = (0.025 + 0.035 * load)[:, None] * aside
    outline = [tail - shaft, neck - shaft, neck - head, tip, neck + head, neck + shaft]
    return np.stack([*outline, tail + shaft], axis=1)


def _switch_xy(topology: Topology, switch: IntArray) -> FloatArray:
    return np.stack([switch % topology.columns, switch // topology.columns], axis=1).astype(float)


def _site_xy(topology: Topology) -> FloatArray:
    """Return the centre [num_sites, 2] of every site."""
    xy = _switch_xy(topology, topology.site_switch)
    is_port = topology.site_kind == SiteKind.PORT
    is_left = xy[:, 0] == 0
    xy[~is_port] += _UNIT_OFFSET
    xy[is_port & is_left, 0] -= _PORT_DISTANCE
    xy[is_port & ~is_left, 0] += _UNIT_OFFSET + _PORT_DISTANCE
    return xy


def site_lines(topology: Topology) -> FloatArray:
    """Return the ends [num_sites, 2, 2] of the lines from switches to the centres of sites."""
    return np.stack([_switch_xy(topology, topology.site_switch), _site_xy(topology)], axis=1)
