"""Random legal placements: the start of every search, and a baseline of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from placer.base import BoolArray, DoesNotFitError, InputError, IntArray, LongArray
from placer.fabric import Fabric, SiteKind
from placer.netlist import Netlist, first_fit_decreasing


@dataclass(frozen=True, slots=True)
class _Kind:
    """The units of one kind, and the sites that can hold them."""

    units: IntArray  # [n] unit ids
    bytes: tuple[int, ...]  # [n]
    sites: IntArray  # [num_sites] site ids
    capacity_bytes: int  # of a site
    max_units: int  # per site
    packing: tuple[int, ...]  # [n] a bin per unit in which all fit, at most num_sites bins


def random_sites(fabric: Fabric, netlist: Netlist, num: int, seed: int) -> IntArray:
    """Return sites [num, num_units] of `num` random legal placements.

    Units share a memory or port site only when there are more of them than sites, and then as
    evenly as their sizes allow. Row i depends on (seed, i) only.
    Raises DoesNotFitError when the fabric has too few sites.
    """
    if num < 0 or seed < 0:
        raise InputError(f"num={num}, seed={seed}; both must be 0 or more")
    kinds = [_kind(fabric, netlist, kind) for kind in SiteKind]
    sites = np.empty((num, netlist.num_units), np.int32)
    for index in range(num):
        generator = np.random.default_rng((seed, index))
        for kind in kinds:
            sites[index, kind.units] = _place(kind, generator)
    return sites


def _kind(fabric: Fabric, netlist: Netlist, kind: SiteKind) -> _Kind:
    units = [unit_id for unit_id, unit in enumerate(netlist.units) if unit.kind == kind]
    sites = np.flatnonzero(fabric.topology.site_kind == kind).astype(np.int32)
    is_memory = kind == SiteKind.MEMORY
    sizes = tuple(netlist.units[unit].bytes if is_memory else 0 for unit in units)
    capacity = fabric.memory.capacity_bytes
    max_units = fabric.max_units(kind)
    if units and max(sizes) > capacity:
        largest = netlist.units[units[int(np.argmax(sizes))]]
        raise DoesNotFitError(
            f"memory unit bytes for buffer {largest.name}",
            largest.bytes,
            capacity,
            "split the buffer, hold fewer samples, or use memory units with more bytes",
        )
    packing = first_fit_decreasing(sizes, capacity, max_units)
    _require_bins(netlist, kind, 1 + max(packing, default=-1), len(sites))
    return _Kind(np.array(units, np.int32), sizes, sites, capacity, max_units, packing)


def _require_bins(netlist: Netlist, kind: SiteKind, needed: int, num_sites: int) -> None:
    if needed > num_sites:
        raise DoesNotFitError(
            f"{kind.name.lower()} sites for netlist {netlist.name!r}",
            needed,
            num_sites,
            "use a larger fabric, or lower the model with fewer units or in more sections",
        )


def _place(kind: _Kind, generator: np.random.Generator) -> IntArray:
    """Return a random site for each unit of a kind."""
    shuffled = generator.permutation(kind.sites)
    if len(kind.units) <= len(shuffled):
        return shuffled[: len(kind.units)]
    order = sorted(range(len(kind.units)), key=lambda unit: -kind.bytes[unit])
    is_allowed = np.ones((len(kind.units), len(kind.sites)), np.bool_)
    seats = np.full(len(kind.sites), kind.max_units)
    places, failed = spread(order, kind.bytes, is_allowed, seats, kind.capacity_bytes, generator)
    return shuffled[places if failed is None else list(kind.packing)]


def spread(
    order: Sequence[int],
    sizes: Sequence[int] | LongArray,
    is_allowed: BoolArray,
    seats: LongArray,
    capacity_bytes: int,
    generator: np.random.Generator,
) -> tuple[IntArray, int | None]:
    """Send each unit to the least crowded of its sites with room, a random one among equals.

    Returns a site per unit, and the first unit in `order` that finds no room.
    """
    used_seats, used_bytes = np.zeros_like(seats), np.zeros_like(seats)
    sites = np.zeros(len(sizes), np.int32)
    for unit in order:
        room = is_allowed[unit] & (used_seats < seats)
        room &= used_bytes + sizes[unit] <= capacity_bytes
        if not room.any():
            return sites, unit
        least = used_seats[room].min()
        site = generator.choice(np.flatnonzero(room & (used_seats == least)))
        used_seats[site] += 1
        used_bytes[site] += sizes[unit]
        sites[unit] = site
    return sites, None


def seats_of(fabric: Fabric) -> LongArray:
    """Return how many units each site can hold, [num_sites]."""
    per_kind = np.array([fabric.max_units(kind) for kind in SiteKind], np.int64)
    return per_kind[fabric.topology.site_kind]
