"""The independent checker: is a mapping legal, and how many cycles does it take?

Published numbers come from here only. It shares no code with the mappers: plain Python on the
program itself, written from docs/streaming.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from placer.streaming.model.program import Program
from placer.streaming.model.settings import Device


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the checker says of a mapping."""

    violations: tuple[str, ...]  # empty: the mapping is legal
    cycles: int  # until the last result is ready
    start: tuple[int, ...]  # cycle at which each instruction starts

    @property
    def is_legal(self) -> bool:
        return not self.violations


def check(program: Program, device: Device, tile: Sequence[int], spoke: Sequence[int]) -> Verdict:
    """Judge tile and spoke of every instruction."""
    nodes = range(program.num_nodes)
    if len(tile) != len(nodes) or len(spoke) != len(nodes):
        return Verdict((f"tile and spoke must have {len(nodes)} entries each",), 0, ())
    wrong = [n for n in nodes if not (0 <= tile[n] < device.tiles and 0 <= spoke[n] < device.ii)]
    if wrong:
        n = wrong[0]
        return Verdict((f"instruction {n}: no tile {tile[n]} or no spoke {spoke[n]}",), 0, ())
    start: list[int] = [0] * len(nodes)
    violations: list[str] = []
    for n in program.order:
        arrival = max((start[p] + device.depth + abs(tile[p] - tile[n]) for p in program.predecessors[n]), default=0)
        wait = (spoke[n] - arrival) % device.ii
        start[n] = int(arrival + wait)
        if device.timing == "exact" and wait and program.predecessors[n]:
            violations.append(f"timing: instruction {n} waits {wait} cycles")
    violations += _space(program, device, tile, spoke)
    return Verdict(tuple(violations), max(start) + device.depth, tuple(start))


def _space(program: Program, device: Device, tile: Sequence[int], spoke: Sequence[int]) -> Iterator[str]:
    holders: dict[tuple[int, int], int] = {}
    for n in range(program.num_nodes):
        other = holders.setdefault((tile[n], spoke[n]), n)
        if other != n:
            yield f"slot: instructions {other} and {n} are both at tile {tile[n]} spoke {spoke[n]}"
    for variable, readers in program.memories.items():
        if len({tile[n] for n in readers}) > 1:
            yield f"tile memory: readers of {variable!r} are on different tiles"
    starts = [n for n in range(program.num_nodes) if not program.predecessors[n]]
    for a, b in combinations(starts, 2):
        if tile[a] == tile[b]:
            yield f"flow start: instructions {a} and {b} are both on tile {tile[a]}"
    families = _memory_families(program)
    for children in program.successors:
        for a, b in combinations(children, 2):
            is_excused = device.sibling == "relax" and b in families[a]
            if tile[a] == tile[b] and not is_excused:
                yield f"siblings: instructions {a} and {b} are both on tile {tile[a]}"
    if device.max_hop is not None:
        for a, b in program.edges:
            if abs(tile[a] - tile[b]) > device.max_hop:
                yield f"hop: edge {a} -> {b} spans {abs(tile[a] - tile[b])} tiles"


def _memory_families(program: Program) -> dict[int, set[int]]:
    """Return for each instruction those that must be on its tile, also through others."""
    families: dict[int, set[int]] = defaultdict(set)
    for readers in program.memories.values():
        joined = set(readers).union(*(families[n] for n in readers))
        for n in joined:
            families[n] = joined
    return families
