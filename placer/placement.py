"""Random legal placements: the start of every search, and a baseline of its own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placer.errors import DoesNotFitError, InputError
from placer.fabric import Fabric, SiteKind
from placer.netlist import Netlist

IntArray = NDArray[np.int32]


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
    """Sites [num, num_units] of `num` random legal placements.

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
    packing = _first_fit_decreasing(sizes, capacity, max_units)
    _require_bins(netlist, kind, 1 + max(packing, default=-1), len(sites))
    return _Kind(np.array(units, np.int32), sizes, sites, capacity, max_units, packing)


def _first_fit_decreasing(sizes: tuple[int, ...], capacity: int, max_units: int) -> tuple[int, ...]:
    """A bin per size: large ones first, each into the first bin with room."""
    used_bytes: list[int] = []
    used_units: list[int] = []
    packing = [0] * len(sizes)
    for item in sorted(range(len(sizes)), key=lambda item: -sizes[item]):
        place = 0
        while place < len(used_bytes) and (
            used_units[place] == max_units or used_bytes[place] + sizes[item] > capacity
        ):
            place += 1
        if place == len(used_bytes):
            used_bytes.append(0)
            used_units.append(0)
        used_bytes[place] += sizes[item]
        used_units[place] += 1
        packing[item] = place
    return tuple(packing)


def _require_bins(netlist: Netlist, kind: SiteKind, needed: int, num_sites: int) -> None:
    if needed > num_sites:
        raise DoesNotFitError(
            f"{kind.name.lower()} sites for netlist {netlist.name!r}",
            needed,
            num_sites,
            "use a larger fabric, or lower the model with fewer units or in more sections",
        )


def _place(kind: _Kind, generator: np.random.Generator) -> IntArray:
    """A random site for each unit of a kind."""
    shuffled = generator.permutation(kind.sites)
    if len(kind.units) <= len(shuffled):
        return shuffled[: len(kind.units)]
    spread = _spread(kind, generator)
    return shuffled[list(kind.packing) if spread is None else spread]


def _spread(kind: _Kind, generator: np.random.Generator) -> IntArray | None:
    """A place per unit, the least crowded with room, random among equals; None if one has none."""
    used_bytes = np.zeros(len(kind.sites), np.int64)
    used_units = np.zeros(len(kind.sites), np.int64)
    places = np.zeros(len(kind.units), np.int32)
    for unit in sorted(range(len(places)), key=lambda unit: -kind.bytes[unit]):
        room = used_bytes + kind.bytes[unit] <= kind.capacity_bytes
        room &= used_units < kind.max_units
        if not room.any():
            return None
        least = used_units[room].min()
        place = generator.choice(np.flatnonzero(room & (used_units == least)))
        used_bytes[place] += kind.bytes[unit]
        used_units[place] += 1
        places[unit] = place
    return places
