"""A mapping problem: a program on a device, as arrays, or the reason why it cannot be mapped.

Instructions that read the same tile memory (also through others) form a *cluster*, which is on one
tile. Every other instruction is a cluster of its own. Clusters are *rivals* when they must be on
different tiles: siblings (rule 4) and flow starts (rule 3).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from placer.errors import InputError
from placer.streaming.bounds import UNLIMITED, Bounds, IntArray, lower_bounds
from placer.streaming.device import Device
from placer.streaming.program import Program


class InfeasibleError(InputError):
    """No mapping exists; says which rule, demand and limit, and what would help."""


class Tables(NamedTuple):
    """The problem for compiled code. Lists of lists are flat: `x[x_first[i]:x_first[i + 1]]`."""

    num_tiles: int
    ii: int
    depth: int
    max_hop: int
    is_exact: bool
    largest_cluster: int  # instructions
    pred_first: IntArray
    pred: IntArray
    succ_first: IntArray
    succ: IntArray
    cluster: IntArray  # [num_nodes]
    cluster_size: IntArray  # [num_clusters]
    rival_first: IntArray
    rival: IntArray
    clique_first: IntArray  # sets of clusters that are rivals of each other: siblings, flow starts
    clique: IntArray
    tail: IntArray  # [num_nodes] cycles from the start of a node to the end, at least


@dataclass(frozen=True, slots=True)
class Problem:
    """What all mappers work on."""

    program: Program
    device: Device
    tables: Tables
    bounds: Bounds
    warnings: tuple[str, ...]  # sibling pairs that share a tile memory

    @property
    def num_nodes(self) -> int:
        return self.program.num_nodes

    @property
    def num_tiles(self) -> int:
        """Tiles that mappers look at.

        With waits, more tiles than instructions are of no use: drop the empty tiles between used
        ones, and no hop gets longer, so the same spokes give starts that are not later.
        """
        return self.tables.num_tiles


def make_problem(program: Program, device: Device) -> Problem:
    """Raises InfeasibleError with the reason when a rule cannot be kept."""
    cluster = _clusters(program)
    _require_room(program, device, cluster)
    warnings = tuple(_sibling_conflicts(program, device, cluster))
    cliques = _cliques(program, device, cluster)
    rivals: list[set[int]] = [set() for _ in range(1 + max(cluster))]
    for clique in cliques:
        for a, b in combinations(clique, 2):
            rivals[a].add(b)
            rivals[b].add(a)
    succ_first, succ = _flat(program.successors)
    ids = np.array(cluster)
    bounds = lower_bounds(
        np.array(program.order), succ_first, succ, ids, device.depth, device.ii, device.max_hop
    )
    is_exact = device.timing == "exact"
    tables = Tables(
        device.tiles if is_exact else min(device.tiles, program.num_nodes),
        device.ii,
        device.depth,
        UNLIMITED if device.max_hop is None else device.max_hop,
        is_exact,
        int(np.bincount(ids).max()),
        *_flat(program.predecessors),
        succ_first,
        succ,
        ids,
        np.bincount(ids),
        *_flat([sorted(others) for others in rivals]),
        *_flat(cliques),
        bounds.tail,
    )
    return Problem(program, device, tables, bounds, warnings)


def _flat(lists: object) -> tuple[IntArray, IntArray]:
    items = [list(item) for item in lists]  # type: ignore[attr-defined]
    first = np.cumsum([0] + [len(item) for item in items])
    return first, np.array([value for item in items for value in item], np.int64)


def _clusters(program: Program) -> list[int]:
    """Cluster of each node: those that share a tile-memory variable, transitively (union-find)."""
    parent = list(range(program.num_nodes))

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = node = parent[parent[node]]
        return node

    for readers in program.memories.values():
        for node in readers[1:]:
            parent[root(node)] = root(readers[0])
    number: dict[int, int] = {}
    return [number.setdefault(root(node), len(number)) for node in range(program.num_nodes)]


def _require_room(program: Program, device: Device, cluster: list[int]) -> None:
    if program.num_nodes > device.tiles * device.ii:
        raise InfeasibleError(
            f"{program.num_nodes} instructions, but {device.tiles} tiles with {device.ii} spokes "
            f"have {device.tiles * device.ii} slots; use more tiles or a larger ii"
        )
    members = defaultdict(list)
    for node, number in enumerate(cluster):
        members[number].append(node)
    for group in members.values():
        if len(group) > device.ii:
            raise InfeasibleError(
                f"instructions {_some(group)} share tile memory ({_variables(program, group)}) "
                f"and must be on one tile: {len(group)} instructions, but ii={device.ii} slots; "
                f"use ii={len(group)} or more"
            )


def _sibling_conflicts(program: Program, device: Device, cluster: list[int]) -> list[str]:
    """Warnings for siblings that share a tile memory (rule 5)."""
    found: dict[tuple[int, int], str] = {}
    for parent, children in enumerate(program.successors):
        for a, b in combinations(children, 2):
            if cluster[a] != cluster[b] or (a, b) in found:
                continue
            group = [n for n in range(program.num_nodes) if cluster[n] == cluster[a]]
            text = (
                f"instructions {a} and {b} are siblings (both follow {parent}) and share tile "
                f"memory ({_variables(program, group)})"
            )
            if device.sibling == "strict":
                raise InfeasibleError(f"{text}; sibling=relax lets them share a tile")
            if device.timing == "exact" and program.predecessors[a] == program.predecessors[b]:
                raise InfeasibleError(
                    f"{text}; with timing=exact both would need the same slot, use timing=delay"
                )
            found[a, b] = f"{text}: they share a tile"
    return list(found.values())


def _cliques(program: Program, device: Device, cluster: list[int]) -> list[list[int]]:
    """Sets of clusters that must be on pairwise different tiles. Raises InfeasibleError."""
    starts = [node for node in range(program.num_nodes) if not program.predecessors[node]]
    if len(starts) > device.tiles:
        raise InfeasibleError(
            f"{len(starts)} flow starts (instructions without predecessor) need a tile each, but "
            f"tiles={device.tiles}; use tiles={len(starts)} or more"
        )
    for a, b in combinations(starts, 2):
        if cluster[a] == cluster[b]:
            group = [n for n in range(program.num_nodes) if cluster[n] == cluster[a]]
            raise InfeasibleError(
                f"flow starts {a} and {b} need different tiles, but share tile memory "
                f"({_variables(program, group)}); give each a copy of the variable"
            )
    cliques = [sorted({cluster[n] for n in nodes}) for nodes in (starts, *program.successors)]
    for parent, clique in enumerate(cliques[1:]):
        reach = device.tiles
        if device.max_hop is not None:
            reach = min(reach, 2 * device.max_hop + 1)
        if len(clique) > reach:
            raise InfeasibleError(
                f"instruction {parent} has {len(clique)} successors that need different tiles, but "
                f"only {reach} tiles can be reached (tiles={device.tiles}, "
                f"max_hop={device.max_hop}); use more tiles or copy its result"
            )
    return [clique for clique in cliques if len(clique) > 1]


def _variables(program: Program, group: list[int]) -> str:
    """Names of the variables that bind a group."""
    shared = [v for v, readers in program.memories.items() if len(set(readers) & set(group)) > 1]
    return ", ".join(repr(name) for name in shared[:5])


def _some(nodes: list[int]) -> str:
    text = ", ".join(map(str, nodes[:8]))
    return f"{text}, ..." if len(nodes) > 8 else text
