"""A program of the Streaming Engine: instructions and the data that flows between them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import CycleError, TopologicalSorter

from placer.base import InputError

Number = int | float


@dataclass(frozen=True, slots=True)
class Instruction:
    """What a tile does in one time slot. The module `values` says what the ops compute."""

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
                        f"tile memory {variable!r} names node {node}; there are only the nodes 0..{nodes[-1]}"
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
        """Return the nodes by level, then by id: predecessors come first."""
        sorter = TopologicalSorter(dict(enumerate(self.predecessors)))
        try:
            sorter.prepare()
        except CycleError as error:
            cycle = error.args[1][1:]
            first = cycle.index(min(cycle))
            walk = " -> ".join(map(str, (*cycle[first:], *cycle[: first + 1])))
            raise InputError(f"the graph has a cycle: {walk}") from None
        order: list[int] = []
        while level := sorted(sorter.get_ready()):
            order += level
            sorter.done(*level)
        return tuple(order)

    @cached_property
    def fingerprint(self) -> str:
        """Return a mark that graphs share which differ only in the numbering of their nodes.

        Colours are refined by those of neighbours (Weisfeiler and Leman 1968), so a few graphs
        that differ may share it too.
        """
        shared = Counter(frozenset(nodes) for nodes in self.memories.values() if len(nodes) > 1)
        colours = [str(sum(node in nodes for nodes in shared)) for node in range(self.num_nodes)]
        for _ in range(self.num_nodes.bit_length() + 2):
            before, after = (
                [sorted(colours[n] for n in nodes) for nodes in neighbours]
                for neighbours in (self.predecessors, self.successors)
            )
            colours = [_digest(colour, *before[n], "|", *after[n]) for n, colour in enumerate(colours)]
        return _digest(*sorted(colours))


class ProgramBuilder:
    """Adds instructions one after the other; edges follow from the names that they read.

    A name is an input of the thread until an instruction writes it.
    """

    def __init__(self) -> None:
        self._instructions: list[Instruction] = []
        self._writer: dict[str, int] = {}
        self._edges: set[tuple[int, int]] = set()
        self._contents: dict[str, tuple[float, ...]] = {}
        self._flow = 0

    def memory(self, name: str, *values: float) -> str:
        """Keep a variable in a tile memory: its readers will be on one tile."""
        self._contents[name] = values
        return name

    def next_flow(self) -> None:
        """Begin another synchronous flow; no data crosses over."""
        self._flow += 1
        self._writer.clear()

    def add(self, result: str, ops: str, *operands: str, constant: Number | None = None) -> str:
        """Add `result` = ops(operands), ops as in "mul add"; a constant goes to the last op."""
        given = (*ops.split(), *(() if constant is None else (constant,)))
        self.append(Instruction(given, operands, (result,), self._flow))
        return result

    def append(self, item: Instruction) -> None:
        """Add an instruction, with an edge from the writer of each name that it reads."""
        node = len(self._instructions)
        self._instructions.append(item)
        self._edges |= {(self._writer[name], node) for name in item.uses if name in self._writer}
        self._writer |= dict.fromkeys(item.defines, node)

    def build(self, name: str) -> Program:
        readers = readers_of(self._contents, self._instructions)
        edges = tuple(sorted(self._edges))
        return Program(name, tuple(self._instructions), edges, readers, self._contents)


def readers_of(variables: Iterable[str], instructions: Sequence[Instruction]) -> dict[str, tuple[int, ...]]:
    """Return who reads each of the variables."""
    return {v: tuple(n for n, i in enumerate(instructions) if v in i.uses) for v in variables}


def _digest(*parts: str) -> str:
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:16]


def _neighbours(num_nodes: int, pairs: Iterable[tuple[int, int]]) -> tuple[tuple[int, ...], ...]:
    lists: list[list[int]] = [[] for _ in range(num_nodes)]
    for node, other in pairs:
        lists[node].append(other)
    return tuple(tuple(sorted(others)) for others in lists)
