"""Where a search begins: a random placement that meets the constraints, or one from a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from placer.annealing.loop import Start
from placer.base import BoolArray, InputError, IntArray, LongArray
from placer.decision import Decisions, random_sites, seats_of, site_name, spread
from placer.decision.routing import load_decision
from placer.fabric import Fabric, SiteKind
from placer.netlist import Netlist

_MAX_TRIES = 200  # orders in which buffers are packed before giving up


def random_start(fabric: Fabric, netlist: Netlist, is_allowed: BoolArray, seed: int) -> Start:
    """Return a random placement with XY routes; `is_allowed` is made by `allowed_sites`.

    Raises InputError when no placement was found in which all buffers find room for their bytes.
    """
    kinds = np.array([unit.kind for unit in netlist.units], np.int32)
    if (is_allowed == (kinds[:, None] == fabric.topology.site_kind)).all():
        sites = random_sites(fabric, netlist, 1, seed)[0]
    else:
        sites = _constrained_sites(fabric, netlist, is_allowed, np.random.default_rng(seed))
    return Start(sites, np.zeros(netlist.num_flows, np.int32), is_allowed)


def load_start(path: Path, fabric: Fabric, netlist: Netlist, is_allowed: BoolArray) -> Start:
    """Return the placement of a decision file; flows keep the corner at which they turn.

    Raises InputError when the file is no decision of this netlist or breaks the constraints.
    """
    start = start_of(fabric, load_decision(path, fabric, netlist), is_allowed)
    for unit_id, site in enumerate(start.sites.tolist()):
        if not is_allowed[unit_id, site]:
            raise InputError(
                f"decision file {path}: unit {netlist.units[unit_id].name!r} sits on "
                f"{site_name(fabric, site)}, which the constraints forbid; start from another file "
                "or without one"
            )
    return start


def start_of(fabric: Fabric, decision: Decisions, is_allowed: BoolArray) -> Start:
    """Return the placement of a stack of one; channels of the upper half belong to YX routes."""
    flow_class = (decision.channels[0] >= fabric.link.channels // 2).astype(np.int32)
    return Start(decision.sites[0].astype(np.int32), flow_class, is_allowed)


def _constrained_sites(
    fabric: Fabric, netlist: Netlist, is_allowed: BoolArray, generator: np.random.Generator
) -> IntArray:
    sites = _assign(fabric, is_allowed, generator)
    is_buffer = np.array([unit.kind == SiteKind.MEMORY for unit in netlist.units])
    sizes = np.array([unit.bytes for unit in netlist.units], np.int64)[is_buffer]
    used = np.bincount(sites[is_buffer], sizes, fabric.topology.num_sites)
    if (used > fabric.memory.capacity_bytes).any():
        sites[is_buffer] = _pack(fabric, sizes, is_allowed[is_buffer], generator)
    return sites


def _assign(fabric: Fabric, is_allowed: BoolArray, generator: np.random.Generator) -> IntArray:
    """Return the cheapest assignment of units to seats at random costs.

    The second seat of a site costs more than any first one, so that sites are shared only where
    there are too few of them.
    """
    from scipy.optimize import linear_sum_assignment  # only constraints need it

    seats = seats_of(fabric)
    seat_site = np.repeat(np.arange(len(seats)), seats)
    rank = np.arange(len(seat_site)) - np.repeat(np.cumsum(seats) - seats, seats)
    costs = generator.random((len(is_allowed), len(seat_site))) + rank
    costs[~is_allowed[:, seat_site]] = np.inf
    _, chosen = linear_sum_assignment(costs)
    sites: IntArray = seat_site[chosen].astype(np.int32)
    return sites


def _pack(fabric: Fabric, sizes: LongArray, is_allowed: BoolArray, generator: np.random.Generator) -> IntArray:
    """Return a site per buffer: those with the least choice first, then large ones first.

    A buffer that finds no room goes to the front of the next try.
    """
    order = sorted(range(len(sizes)), key=lambda unit: (is_allowed[unit].sum(), -sizes[unit]))
    capacity = fabric.memory.capacity_bytes
    for _ in range(_MAX_TRIES):
        sites, failed = spread(order, sizes, is_allowed, seats_of(fabric), capacity, generator)
        if failed is None:
            return sites
        order.remove(failed)
        order.insert(0, failed)
    raise InputError(
        f"constraints: found no way in {_MAX_TRIES} tries to seat all buffers within "
        f"{capacity} bytes per memory unit; give them more room"
    )
