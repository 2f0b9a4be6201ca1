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

import numpy as np
from numpy.typing import NDArray

from placer.errors import InputError
from placer.streaming.program import Program

Value = NDArray[np.float64]  # one number, or a vector of them
Inputs = MappingOf[str, Value]

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
    is_handed_on: bool = False  # along edges; else the writer is outside of the flow or thread
    is_earlier_thread: bool = False  # the value that the writer had in the thread before


@dataclass(frozen=True, slots=True)
class Meaning:
    """A program with the origin of every operand."""

    program: Program
    operands: tuple[tuple[Operand, ...], ...]  # [num_nodes]

    @property
    def made_up(self) -> list[str]:
        """Names that random numbers must stand for: inputs and tile memories without data."""
        return sorted(
            {
                operand.name
                for item, operands in zip(self.program.instructions, self.operands, strict=True)
                for operand in (operands if item.ops else ())
                if not self.program.contents.get(operand.name)
                and (operand.writer is None or operand.is_earlier_thread)
            }
        )

    def draw_inputs(self, rng: np.random.Generator) -> dict[str, Value]:
        return {name: np.asarray(rng.uniform(0.5, 2.0)) for name in self.made_up}

    def apply(
        self,
        node: int,
        inputs: Inputs,
        handed_on: MappingOf[int, Value],
        now: MappingOf[int, Value],
        before: MappingOf[int, Value],
    ) -> Value:
        """Result of an instruction, from results by writer.

        `handed_on` came along edges, `now` from other flows, `before` from the thread before; it is
        empty in the first thread, whose `inputs` then stand for it.
        """
        item = self.program.instructions[node]
        if not item.ops:
            arrived = (handed_on[p] for p in self.program.predecessors[node])
            return np.asarray(node + sum(arrived, np.asarray(0.0)))
        values: deque[Value] = deque()
        for operand in self.operands[node]:
            if operand.writer is None:
                stored = self.program.contents.get(operand.name)
                values.append(np.asarray(stored) if stored else inputs[operand.name])
            elif operand.is_handed_on:
                values.append(handed_on[operand.writer])
            elif not operand.is_earlier_thread:
                values.append(now[operand.writer])
            else:
                values.append(before[operand.writer] if before else inputs[operand.name])
        return self._compute(node, values)

    def _compute(self, node: int, operands: deque[Value]) -> Value:
        ops = self.program.instructions[node].ops
        value = operands.popleft()
        with np.errstate(all="ignore"):  # 1 / 0 is inf on both sides of a comparison
            for op, following in zip(ops, (*ops[1:], ""), strict=True):
                if not isinstance(op, str):
                    continue
                if op in UNARY:
                    value = np.asarray(UNARY[op](value))
                    continue
                has_constant = not isinstance(following, str)
                other = np.asarray(float(following)) if has_constant else operands.popleft()
                if value.ndim and other.ndim and value.shape != other.shape:
                    raise InputError(
                        f"instruction {node}: {op!r} of {len(value)} and of {len(other)} numbers; "
                        f"give the tile memories data of one length; {_NO_VALUES}"
                    )
                value = np.asarray(BINARY[op](value, other))
        return value


def meaning_of(program: Program) -> Meaning:
    """Where operands come from. Raises InputError for what cannot be computed.

    That is an op without meaning, too few operands, a name that another instruction of the flow
    writes at no certain time, and vectors of different lengths.
    """
    _require_known_ops(program)
    writers = defaultdict(list)
    for node, item in enumerate(program.instructions):
        for name in item.defines:
            writers[name].append(node)
    ancestors = _ancestors(program)
    operands = tuple(
        tuple(_operand(program, node, name, writers[name], ancestors) for name in item.uses)
        if item.ops
        else ()
        for node, item in enumerate(program.instructions)
    )
    meaning = Meaning(program, operands)
    evaluate(meaning, meaning.draw_inputs(np.random.default_rng(0)))
    return meaning


def _require_known_ops(program: Program) -> None:
    for node, item in enumerate(program.instructions):
        operands, can_take = len(item.uses), False
        for op in item.ops:
            if not isinstance(op, str):
                if not can_take:
                    raise InputError(
                        f"instruction {node}: no op takes the constant {op} in {list(item.ops)}; "
                        f"write it behind a binary op; {_NO_VALUES}"
                    )
                operands, can_take = operands + 1, False
                continue
            if op not in UNARY and op not in BINARY:
                raise InputError(
                    f"instruction {node}: unknown op {op!r}; known: "
                    f"{', '.join(sorted({*UNARY, *BINARY}))}; {_NO_VALUES}"
                )
            can_take = op in BINARY
            operands -= can_take
        if item.ops and operands < 1:
            raise InputError(
                f"instruction {node}: {list(item.ops)} needs more operands than "
                f"{list(item.uses)}; {_NO_VALUES}"
            )


def _ancestors(program: Program) -> list[int]:
    """Sets of nodes as the bits of a number."""
    ancestors = [0] * program.num_nodes
    for node in program.order:
        for p in program.predecessors[node]:
            ancestors[node] |= ancestors[p] | 1 << p
    return ancestors


def _operand(
    program: Program, node: int, name: str, writers: Sequence[int], ancestors: Sequence[int]
) -> Operand:
    before = [w for w in writers if ancestors[node] >> w & 1]
    if before:
        position = {n: k for k, n in enumerate(program.order)} if len(before) > 1 else {}
        direct = program.predecessors[node]
        latest = max(before, key=lambda w: (w in direct, position.get(w, 0)))
        return Operand(name, latest, is_handed_on=True)
    if name in program.memories:
        return Operand(name)
    flow = program.instructions[node].flow
    earlier = [w for w in writers if program.instructions[w].flow < flow]
    if earlier:
        return Operand(name, earlier[-1])
    for w in writers:
        is_later = w == node or ancestors[w] >> node & 1
        if program.instructions[w].flow == flow and not is_later:
            raise InputError(
                f"instruction {node} reads {name!r}, which instruction {w} of the same flow "
                f"writes, but no edges lead from {w} to {node}; add an edge; {_NO_VALUES}"
            )
    return Operand(name, writers[-1], is_earlier_thread=True) if writers else Operand(name)


def evaluate(
    meaning: Meaning, inputs: Inputs, before: MappingOf[int, Value] | None = None
) -> dict[int, Value]:
    """Result of every instruction in a thread; `before` has those of the thread before."""
    program = meaning.program
    results: dict[int, Value] = {}
    for node in sorted(program.order, key=lambda n: program.instructions[n].flow):
        results[node] = meaning.apply(node, inputs, results, results, before or {})
    return results
