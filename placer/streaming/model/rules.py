"""Rules that are judged before any search: what shares a tile, what must not, what cannot be.

Instructions that read the same tile memory (also through others) form a *cluster*, which is on one
tile. Every other instruction is a cluster of its own. Clusters are *rivals* when they must be on
different tiles: siblings (rule 4) and flow starts (rule 3).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from placer.base import InputError
from placer.streaming.model.program import Program
from placer.streaming.model.settings import Device


class InfeasibleError(InputError):
    """No mapping exists; says which rule, demand and limit, and what would help."""


@dataclass(frozen=True, slots=True)
class Groups:
    """What the rules say of a program on a device."""

    cluster: list[int]  # [num_nodes]
    cliques: list[list[int]]  # sets of clusters that must be on pairwise different tiles
    warnings: tuple[str, ...]  # siblings that share a tile memory


def groups_of(program: Program, device: Device) -> Groups:
    """Return clusters and rivals. Raises InfeasibleError when a rule cannot be kept."""
    cluster = _clusters(program)
    members = _by_cluster(range(program.num_nodes), cluster)
    _require_room(program, device, members)
    warnings = tuple(_sibling_conflicts(program, device, cluster, members))
    return Groups(cluster, _cliques(program, device, cluster, members), warnings)


def _clusters(program: Program) -> list[int]:
    """Return the cluster of each node: those that share a variable, transitively (union-find).

    Large clusters have the lowest numbers.
    """
    parent = list(range(program.num_nodes))

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = node = parent[parent[node]]
        return node

    for readers in program.memories.values():
        for node in readers[1:]:
            parent[root(node)] = root(readers[0])
    roots = [root(node) for node in range(program.num_nodes)]
    number = {first: k for k, (first, _) in enumerate(Counter(roots).most_common())}
    return [number[first] for first in roots]


def _by_cluster(nodes: Iterable[int], cluster: Sequence[int]) -> dict[int, list[int]]:
    groups = defaultdict(list)
    for node in nodes:
        groups[cluster[node]].append(node)
    return groups


def _require_room(program: Program, device: Device, members: dict[int, list[int]]) -> None:
    if program.num_nodes > device.tiles * device.ii:
        raise InfeasibleError(
            f"{program.num_nodes} instructions, but {device.tiles} tiles with {device.ii} spokes "
            f"have {device.tiles * device.ii} slots; use more tiles or a larger ii"
        )
    for group in members.values():
        if len(group) > device.ii:
            raise InfeasibleError(
                f"instructions {_some(group)} share tile memory ({_variables(program, group)}) "
                f"and must be on one tile: {len(group)} instructions, but ii={device.ii} slots; "
                f"use ii={len(group)} or more"
            )


def _sibling_conflicts(
    program: Program, device: Device, cluster: list[int], members: dict[int, list[int]]
) -> Iterable[str]:
    """Return warnings for siblings that share a tile memory (rule 5)."""
    found: dict[tuple[int, ...], str] = {}
    for parent, children in enumerate(program.successors):
        for number, group in _by_cluster(children, cluster).items():
            if len(group) < 2 or tuple(group) in found:
                continue
            text = (
                f"instructions {_some(group, last=' and ')} are siblings (they follow {parent}) "
                f"and share tile memory ({_variables(program, members[number])})"
            )
            if device.sibling == "strict":
                raise InfeasibleError(f"{text}; sibling=relax lets them share a tile")
            # Without waits, instructions of one tile with the same predecessors start together.
            has_twins = len({program.predecessors[node] for node in group}) < len(group)
            if device.timing == "exact" and has_twins:
                raise InfeasibleError(
                    f"{text}; with timing=exact two of them would need the same slot, use timing=delay"
                )
            found[tuple(group)] = f"{text}: they share a tile"
    return found.values()


def _cliques(program: Program, device: Device, cluster: list[int], members: dict[int, list[int]]) -> list[list[int]]:
    """Return sets of clusters that must be on pairwise different tiles. Raises InfeasibleError."""
    starts = [node for node in range(program.num_nodes) if not program.predecessors[node]]
    if len(starts) > device.tiles:
        raise InfeasibleError(
            f"{len(starts)} flow starts (instructions without predecessor) need a tile each, but "
            f"tiles={device.tiles}; use tiles={len(starts)} or more"
        )
    for number, group in _by_cluster(starts, cluster).items():
        if len(group) > 1:
            raise InfeasibleError(
                f"flow starts {_some(group, last=' and ')} need different tiles, but share tile "
                f"memory ({_variables(program, members[number])}); give each a copy of the variable"
            )
    cliques = [sorted({cluster[n] for n in nodes}) for nodes in (starts, *program.successors)]
    reach = device.tiles
    if device.max_hop is not None:
        reach = min(reach, 2 * device.max_hop + 1)
    for parent, clique in enumerate(cliques[1:]):
        if len(clique) > reach:
            raise InfeasibleError(
                f"instruction {parent} has {len(clique)} successors that need different tiles, but "
                f"only {reach} tiles can be reached (tiles={device.tiles}, "
                f"max_hop={device.max_hop}); use more tiles or copy its result"
            )
    return [clique for clique in cliques if len(clique) > 1]


def _variables(program: Program, group: list[int]) -> str:
    """Return the names of the variables that bind a group."""
    memories = program.memories.items()
    shared = [v for v, readers in memories if len(set(group).intersection(readers)) > 1]
    return ", ".join(repr(name) for name in shared[:5])


def _some(nodes: list[int], last: str = ", ") -> str:
    """Return at most eight of them as text; `last` stands before the last one."""
    if len(nodes) > 8:
        return f"{', '.join(map(str, nodes[:8]))}, ..."
    return last.join(filter(None, (", ".join(map(str, nodes[:-1])), str(nodes[-1]))))
