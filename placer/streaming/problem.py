"""A mapping problem: a program on a device, as arrays, or the reason why it cannot be mapped.

Instructions that read the same tile memory (also through others) form a *cluster*, which is on one
tile. Every other instruction is a cluster of its own. Clusters are *rivals* when they must be on
different tiles: siblings (rule 4) and flow starts (rule 3).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from placer.errors import InputError
from placer.streaming.bounds import UNLIMITED, Bounds, IntArray, lower_bounds
from placer.streaming.device import Device
from placer.streaming.program import Program

_WORK_PER_CALL = 4_000_000  # instructions times tiles; some hundredths of a second


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

    def tries_per_call(self, most: int) -> int:
        """Mappings that compiled code may make before it looks at the clock again."""
        return max(1, min(most, _WORK_PER_CALL // (self.num_nodes * self.num_tiles)))


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
    found: dict[tuple[int, ...], str] = {}
    for parent, children in enumerate(program.successors):
        for number, group in _by_cluster(children, cluster).items():
            if len(group) < 2 or tuple(group) in found:
                continue
            members = [n for n in range(program.num_nodes) if cluster[n] == number]
            text = (
                f"instructions {_some(group, last=' and ')} are siblings (they follow {parent}) "
                f"and share tile memory ({_variables(program, members)})"
            )
            if device.sibling == "strict":
                raise InfeasibleError(f"{text}; sibling=relax lets them share a tile")
            if device.timing == "exact":
                _require_different_slots(program, group, text)
            found[tuple(group)] = f"{text}: they share a tile"
    return list(found.values())


def _by_cluster(nodes: Sequence[int], cluster: list[int]) -> dict[int, list[int]]:
    groups = defaultdict(list)
    for node in nodes:
        groups[cluster[node]].append(node)
    return groups


def _require_different_slots(program: Program, group: list[int], text: str) -> None:
    """Without waits, instructions of one tile with the same predecessors start together."""
    if len({program.predecessors[node] for node in group}) < len(group):
        raise InfeasibleError(
            f"{text}; with timing=exact two of them would need the same slot, use timing=delay"
        )


def _cliques(program: Program, device: Device, cluster: list[int]) -> list[list[int]]:
    """Sets of clusters that must be on pairwise different tiles. Raises InfeasibleError."""
    starts = [node for node in range(program.num_nodes) if not program.predecessors[node]]
    if len(starts) > device.tiles:
        raise InfeasibleError(
            f"{len(starts)} flow starts (instructions without predecessor) need a tile each, but "
            f"tiles={device.tiles}; use tiles={len(starts)} or more"
        )
    for number, group in _by_cluster(starts, cluster).items():
        if len(group) > 1:
            members = [n for n in range(program.num_nodes) if cluster[n] == number]
            raise InfeasibleError(
                f"flow starts {_some(group, last=' and ')} need different tiles, but share tile "
                f"memory ({_variables(program, members)}); give each a copy of the variable"
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
    members = set(group)
    shared = [
        v for v, readers in program.memories.items() if len(members.intersection(readers)) > 1
    ]
    return ", ".join(repr(name) for name in shared[:5])


def _some(nodes: list[int], last: str = ", ") -> str:
    """At most eight of them; `last` stands before the last one."""
    if len(nodes) > 8:
        return f"{', '.join(map(str, nodes[:8]))}, ..."
    return last.join(filter(None, (", ".join(map(str, nodes[:-1])), str(nodes[-1]))))
