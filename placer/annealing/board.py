"""What the annealer works on: the board, which is fixed, and the state that moves change."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from placer.base import BoolArray, IntArray, LongArray, ShortArray, hot
from placer.decision import seats_of
from placer.decision.routing import Grid, grid_of
from placer.fabric import Fabric, SiteKind
from placer.netlist import Flows, Netlist, flows_of


class Board(NamedTuple):
    """What does not change during a search."""

    grid: Grid
    flows: Flows
    unit_kind: IntArray  # [num_units]
    unit_bytes: LongArray  # [num_units]
    unit_stage: IntArray  # [num_units]
    site_kind: IntArray  # [num_sites]
    capacity_bytes: LongArray  # [num_sites]
    max_units: LongArray  # [num_sites]
    is_allowed: BoolArray  # [num_units, num_sites] kind and constraints
    movable: IntArray  # units that may sit on more than one site
    near: ShortArray  # [num_sites, most sites of a kind] others of its kind, nearest first
    num_near: IntArray  # [num_sites, max distance + 1] how many lie within a distance
    group_start: LongArray  # [num_groups + 1] into group_units
    group_units: IntArray  # units of one kind that do the same operation in the same stage
    num_stages: int
    stage_start: LongArray  # [num_stages + 1] into stage_units
    stage_units: IntArray  # units of one stage on tiles


class State(NamedTuple):
    """A placement with a turn class per flow, and who sits where."""

    sites: IntArray  # [num_units]
    flow_class: IntArray  # [num_flows] 0: XY route, 1: YX route
    num_tenants: LongArray  # [num_sites] units on a site
    used_bytes: LongArray  # [num_sites]
    tenants: IntArray  # [num_sites, max_units] units on a site, the first `num_tenants` entries


def board_of(fabric: Fabric, netlist: Netlist, is_allowed: BoolArray) -> Board:
    """Return the board; `is_allowed` [num_units, num_sites] holds the user's constraints."""
    topology, units = fabric.topology, netlist.units
    kinds = np.array([unit.kind for unit in units], np.int32)
    is_allowed = is_allowed & (kinds[:, None] == topology.site_kind[None, :])
    near, num_near = _neighbours(fabric)
    group_start, group_units = _groups(netlist)
    stage_start, stage_units = _stages(netlist)
    return Board(
        grid=grid_of(fabric),
        flows=flows_of(netlist),
        unit_kind=kinds,
        unit_bytes=np.where(kinds == SiteKind.MEMORY, [unit.bytes for unit in units], 0),
        unit_stage=np.array([unit.stage for unit in units], np.int32),
        site_kind=topology.site_kind,
        capacity_bytes=(topology.site_kind == SiteKind.MEMORY) * fabric.memory.capacity_bytes,
        max_units=seats_of(fabric),
        is_allowed=is_allowed,
        movable=np.flatnonzero(is_allowed.sum(axis=1) > 1).astype(np.int32),
        near=near,
        num_near=num_near,
        group_start=group_start,
        group_units=group_units,
        num_stages=netlist.num_stages,
        stage_start=stage_start,
        stage_units=stage_units,
    )


def _neighbours(fabric: Fabric) -> tuple[ShortArray, IntArray]:
    """List per site the others of its kind by max(rows, columns), and count them by distance."""
    topology = fabric.topology
    row, column = np.divmod(topology.site_switch.astype(np.int16), topology.columns)
    farthest = max(topology.rows, topology.columns)
    num_sites, most = topology.num_sites, int(np.bincount(topology.site_kind).max())
    near = np.zeros((num_sites, most), np.int16)
    num_near = np.zeros((num_sites, farthest + 1), np.int32)
    for kind in SiteKind:
        sites = np.flatnonzero(topology.site_kind == kind)
        rows, columns = row[sites], column[sites]
        distance = np.maximum(abs(rows[:, None] - rows), abs(columns[:, None] - columns))
        np.fill_diagonal(distance, farthest)  # a site is no neighbour of its own: it comes last
        order = np.argsort(distance, axis=1, kind="stable")
        near[sites, : len(sites)] = sites[order]
        counts = np.apply_along_axis(np.bincount, 1, distance, minlength=farthest + 1)
        counts[:, farthest] -= 1
        num_near[sites] = np.cumsum(counts, axis=1)
    return near, num_near


def _groups(netlist: Netlist) -> tuple[LongArray, IntArray]:
    groups: dict[tuple[int, int, str], list[int]] = {}
    for unit_id, unit in enumerate(netlist.units):
        groups.setdefault((int(unit.kind), unit.stage, unit.op), []).append(unit_id)
    members = sorted(groups.items())
    start = np.cumsum([0, *(len(units) for _, units in members)], dtype=np.int64)
    return start, np.array([unit for _, units in members for unit in units], np.int32)


def _stages(netlist: Netlist) -> tuple[LongArray, IntArray]:
    stages: list[list[int]] = [[] for _ in range(netlist.num_stages)]
    for unit_id, unit in enumerate(netlist.units):
        if unit.kind != SiteKind.PORT:
            stages[unit.stage].append(unit_id)
    start = np.cumsum([0, *(len(units) for units in stages)], dtype=np.int64)
    return start, np.array([unit for units in stages for unit in units], np.int32)


@njit(cache=True)
def state_of(board: Board, sites: IntArray, flow_class: IntArray) -> State:
    """Return a state of its own for a legal placement."""
    num_sites = len(board.max_units)
    state = State(
        sites.copy(),
        flow_class.copy(),
        np.zeros(num_sites, np.int64),
        np.zeros(num_sites, np.int64),
        np.zeros((num_sites, board.max_units.max()), np.int32),
    )
    for unit in range(len(sites)):
        seat(board, state, unit, sites[unit])
    return state


@hot
def seat(board: Board, state: State, unit: int, site: int) -> None:
    """Put a unit on a site that has room."""
    state.tenants[site, state.num_tenants[site]] = unit
    state.num_tenants[site] += 1
    state.used_bytes[site] += board.unit_bytes[unit]


@hot
def unseat(board: Board, state: State, unit: int, site: int) -> None:
    """Take a unit from its site."""
    place = 0
    while state.tenants[site, place] != unit:
        place += 1
    state.num_tenants[site] -= 1
    state.tenants[site, place] = state.tenants[site, state.num_tenants[site]]
    state.used_bytes[site] -= board.unit_bytes[unit]
