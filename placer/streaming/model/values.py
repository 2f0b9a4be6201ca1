"""What a program computes: operations, where operands come from, direct evaluation of the graph.

An instruction starts with its first operand and applies its ops from left to right. A binary op
takes the constant that follows it, or else the next name that the instruction uses, so
`uses=(a, b, c), ops=(mul, add)` is a * b + c, what the two units of a tile do in one pass. All
names that it defines get the result. An instruction without ops (plain graphs) adds its id to the
sum of its inputs.

A name that is read is the first of these that there is:

1. the result of a predecessor, or else of the latest instruction before it, handed on by those in
   between;
2. what a tile memory holds;
3. the result of an earlier flow of the file: the asynchronous fabric brings it;
4. a name that the instruction itself, a later one or a later flow writes, as it was in the thread
   before (an accumulator);
5. an input that the thread brings with it.

The device model has no time for 3 and 4: they are there when they are needed.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from placer.base import InputError
from placer.streaming.model.program import Program

Value = NDArray[np.float64]  # one number, or a vector of them
Inputs = MappingOf[str, Value]
Results = MappingOf[int, Value]  # by instruction

UNARY: dict[str, Callable[[Value], Value]] = {
    "mov": lambda a: a,
    "neg": np.negative,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "exp": np.exp,
    "recip": np.reciprocal,
    "relu": lambda a: np.maximum(a, 0.0),
    "sum": lambda a: np.asarray(np.sum(a)),
}
BINARY: dict[str, Callable[[Value, Value], Value]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "min": np.minimum,
    "max": np.maximum,
}
_NO_VALUES = "values=false maps without values"


@dataclass(frozen=True, slots=True)
class Operand:
    """Where an operand comes from."""

    name: str
    writer: int | None = None  # instruction that gives it; None: tile memory or input
    way: Literal["edge", "flow", "thread"] = "edge"  # along edges, from another flow or thread


@dataclass(frozen=True, slots=True)
class Meaning:
    """A program with the origin of every operand."""

    program: Program
    operands: tuple[tuple[Operand, ...], ...]  # [num_nodes]

    @property
    def made_up(self) -> list[str]:
        """Return the names that random numbers must stand for: inputs and tile memories without data."""
        return sorted(
            {
                operand.name
                for item, operands in zip(self.program.instructions, self.operands, strict=True)
                for operand in (operands if item.ops else ())
                if not self.program.contents.get(operand.name) and (operand.writer is None or operand.way == "thread")
            }
        )

    def draw_inputs(self, rng: np.random.Generator) -> dict[str, Value]:
        return {name: np.asarray(rng.uniform(0.5, 2.0)) for name in self.made_up}

    def apply(self, node: int, inputs: Inputs, handed_on: Results, now: Results, before: Results) -> Value:
        """Return the result of an instruction, from results by writer.

        `handed_on` came along edges, `now` from other flows, `before` from the thread before; it is
        empty in the first thread, whose `inputs` then stand for it.
        """
        item = self.program.instructions[node]
        if not item.ops:
            arrived = (handed_on[p] for p in self.program.predecessors[node])
            return np.asarray(node + sum(arrived, np.asarray(0.0)))
        results = {"edge": handed_on, "flow": now, "thread": before}
        values: deque[Value] = deque()
        for operand in self.operands[node]:
            if operand.writer is None or (operand.way == "thread" and not before):
                stored = self.program.contents.get(operand.name)
                values.append(np.asarray(stored) if stored else inputs[operand.name])
            else:
                values.append(results[operand.way][operand.writer])
        return self._compute(node, values)

    def _compute(self, node: int, operands: deque[Value]) -> Value:
        item = self.program.instructions[node]
        where, ops, given = f"instruction {node}", deque(item.ops), list(item.ops)
        lacks = f"{where}: {given} needs more operands than {list(item.uses)}; {_NO_VALUES}"
        if not operands:
            raise InputError(lacks)
        value = operands.popleft()
        with np.errstate(all="ignore"):  # 1 / 0 is inf on both sides of a comparison
            while ops:
                op = ops.popleft()
                if not isinstance(op, str):
                    raise InputError(
                        f"{where}: no op takes the constant {op} in {given}; write it behind a binary op; {_NO_VALUES}"
                    )
                if op in UNARY:
                    value = np.asarray(UNARY[op](value))
                    continue
                if op not in BINARY:
                    known = ", ".join(sorted({*UNARY, *BINARY}))
                    raise InputError(f"{where}: unknown op {op!r}; known: {known}; {_NO_VALUES}")
                if ops and not isinstance(ops[0], str):
                    other = np.asarray(float(ops.popleft()))
                elif operands:
                    other = operands.popleft()
                else:
                    raise InputError(lacks)
                if value.ndim and other.ndim and value.shape != other.shape:
                    raise InputError(
                        f"{where}: {op!r} of {len(value)} and of {len(other)} numbers; "
                        f"give the tile memories data of one length; {_NO_VALUES}"
                    )
                value = np.asarray(BINARY[op](value, other))
        return value


def meaning_of(program: Program) -> Meaning:
    """Return where operands come from. Raises InputError for what cannot be computed.

    That is an op without meaning, too few operands, a name that another instruction of the flow
    writes at no certain time, and vectors of different lengths.
    """
    writers = defaultdict(list)
    for node, item in enumerate(program.instructions):
        for name in item.defines:
            writers[name].append(node)
    ancestors = [0] * program.num_nodes  # of each node, as the bits of a number
    for node in program.order:
        for p in program.predecessors[node]:
            ancestors[node] |= ancestors[p] | 1 << p
    operands = tuple(
        tuple(_operand(program, node, name, writers[name], ancestors) for name in item.uses) if item.ops else ()
        for node, item in enumerate(program.instructions)
    )
    meaning = Meaning(program, operands)
    evaluate(meaning, meaning.draw_inputs(np.random.default_rng(0)))  # refuses wrong ops
    return meaning


def _operand(program: Program, node: int, name: str, writers: Sequence[int], ancestors: Sequence[int]) -> Operand:
    before = [w for w in writers if ancestors[node] >> w & 1]
    if before:
        position = {n: k for k, n in enumerate(program.order)} if len(before) > 1 else {}
        direct = program.predecessors[node]
        latest = max(before, key=lambda w: (w in direct, position.get(w, 0)))
        return Operand(name, latest)
    if name in program.memories:
        return Operand(name)
    flow = program.instructions[node].flow
    earlier = [w for w in writers if program.instructions[w].flow < flow]
    if earlier:
        return Operand(name, earlier[-1], "flow")
    for w in writers:
        is_later = w == node or ancestors[w] >> node & 1
        if program.instructions[w].flow == flow and not is_later:
            raise InputError(
                f"instruction {node} reads {name!r}, which instruction {w} of the same flow "
                f"writes, but no edges lead from {w} to {node}; add an edge; {_NO_VALUES}"
            )
    return Operand(name, writers[-1], "thread") if writers else Operand(name)


def evaluate(meaning: Meaning, inputs: Inputs, before: Results | None = None) -> dict[int, Value]:
    """Return the results of a thread by instruction; `before` has those of the thread before."""
    program = meaning.program
    results: dict[int, Value] = {}
    for node in sorted(program.order, key=lambda n: program.instructions[n].flow):
        results[node] = meaning.apply(node, inputs, results, results, before or {})
    return results
