"""A program of the Streaming Engine: instructions and the data that flows between them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from placer.errors import InputError

Number = int | float


@dataclass(frozen=True, slots=True)
class Instruction:
    """What a tile does in one time slot. `placer.streaming.values` says what the ops compute."""

    ops: tuple[str | Number, ...] = ()  # mnemonics, each may be followed by a constant
    uses: tuple[str, ...] = ()  # names read, in the order of the operands
    defines: tuple[str, ...] = ()  # names written
    flow: int = 0  # the synchronous flow that it belongs to


@dataclass(frozen=True)
class Program:
    """A directed acyclic graph of instructions, with the variables kept in tile memories.

    Raises InputError for an edge that leads nowhere and for a cycle.
    """

    name: str
    instructions: tuple[Instruction, ...]
    edges: tuple[tuple[int, int], ...]  # (from, to), sorted, none twice
    memories: dict[str, tuple[int, ...]] = field(default_factory=dict)  # variable: who reads it
    contents: dict[str, tuple[float, ...]] = field(default_factory=dict)  # variable: its values

    def __post_init__(self) -> None:
        if not self.instructions:
            raise InputError("the graph has no node")
        nodes = range(self.num_nodes)
        for edge in self.edges:
            if not (edge[0] in nodes and edge[1] in nodes):
                raise InputError(f"edge {list(edge)}: there are only the nodes 0..{nodes[-1]}")
        for variable, readers in self.memories.items():
            for node in readers:
                if node not in nodes:
                    raise InputError(
                        f"tile memory {variable!r} names node {node}; "
                        f"there are only the nodes 0..{nodes[-1]}"
                    )
        self.order  # noqa: B018  raises InputError when there is a cycle

    @property
    def num_nodes(self) -> int:
        return len(self.instructions)

    @cached_property
    def predecessors(self) -> tuple[tuple[int, ...], ...]:
        return _neighbours(self.num_nodes, ((end, start) for start, end in self.edges))

    @cached_property
    def successors(self) -> tuple[tuple[int, ...], ...]:
        return _neighbours(self.num_nodes, self.edges)

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Nodes by level, then by id: predecessors come first."""
        waiting = Counter(end for _, end in self.edges)
        level = [node for node in range(self.num_nodes) if not waiting[node]]
        order: list[int] = []
        while level:
            order += level
            following = []
            for node in level:
                for successor in self.successors[node]:
                    waiting[successor] -= 1
                    if not waiting[successor]:
                        following.append(successor)
            level = sorted(following)
        if len(order) < self.num_nodes:
            raise InputError(f"the graph has a cycle: {self._cycle(set(order))}")
        return tuple(order)

    @cached_property
    def fingerprint(self) -> str:
        """The same for graphs that differ only in the numbering of their nodes.

        Colours are refined by those of neighbours (Weisfeiler and Leman 1968), so a few graphs
        that differ may share it too.
        """
        shared = Counter(frozenset(nodes) for nodes in self.memories.values() if len(nodes) > 1)
        colours = [str(sum(node in nodes for nodes in shared)) for node in range(self.num_nodes)]
        for _ in range(self.num_nodes.bit_length() + 2):
            colours = [
                _digest(
                    colours[n],
                    *sorted(colours[p] for p in self.predecessors[n]),
                    "|",
                    *sorted(colours[s] for s in self.successors[n]),
                )
                for n in range(self.num_nodes)
            ]
        return _digest(*sorted(colours))

    def _cycle(self, done: set[int]) -> str:
        """A cycle in words: every node that is left has a predecessor that is left."""
        walk = [min(set(range(self.num_nodes)) - done)]
        while walk[-1] not in walk[:-1]:
            walk.append(next(p for p in self.predecessors[walk[-1]] if p not in done))
        return " -> ".join(map(str, reversed(walk[walk.index(walk[-1]) :])))


def _digest(*parts: str) -> str:
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:16]


def _neighbours(num_nodes: int, pairs: Iterable[tuple[int, int]]) -> tuple[tuple[int, ...], ...]:
    lists: list[list[int]] = [[] for _ in range(num_nodes)]
    for node, other in pairs:
        lists[node].append(other)
    return tuple(tuple(sorted(others)) for others in lists)
