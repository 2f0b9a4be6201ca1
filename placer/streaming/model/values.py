"""What a program computes: operations, where operands come from, direct evaluation of the graph.

An instruction starts with its first operand and applies its ops from left to right. A binary op
takes the constant that follows it, or else the next name that the instruction uses, so
`uses=(a, b, c), ops=(mul, add)` is a * b + c, what the two units of a tile do in one pass. All
names that it defines get the result. An instruction without ops (plain graphs) adds its id to the
sum of its inputs.

Programs of the tools hold ops that are no arithmetic. Messages of the asynchronous fabric, such as
`afMsgDest: loop_head`, are sent beside the computation and change no number: they are left out. An
instruction that cannot be computed (an unknown op, too few operands, ...) does in its place what one
without ops does with its operands: that its data arrives in time is then checked, its numbers are not.
`Meaning.not_executed` tells both.

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

import re
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from placer.base import InputError
from placer.streaming.model.program import Number, Program

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
_MESSAGE = re.compile(r"af[A-Z]|.*:", re.DOTALL)  # what ops that are messages begin with


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
    unknown: MappingOf[int, str] = field(default_factory=dict)  # why an instruction cannot be computed

    @property
    def not_executed(self) -> list[str]:
        """Return what is not executed, a line for each instruction: its messages, and why it cannot be computed."""
        lines = []
        for node, item in enumerate(self.program.instructions):
            messages = [op for op in item.ops if is_message(op)]
            told = [f"message {', '.join(map(repr, messages))}"] if messages else []
            if node in self.unknown and len(messages) < max(1, len(item.ops)):  # a mere message has no number
                told.append(self.unknown[node])
            if told:
                lines.append(f"instruction {node}: {'; '.join(told)}")
        return lines

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
        if node in self.unknown:
            return np.asarray(node + sum(float(np.sum(value)) for value in values))
        return self._compute(node, values)

    def _compute(self, node: int, operands: deque[Value]) -> Value:
        """Return what an instruction makes of its operands. Raises InputError when that is not known."""
        item = self.program.instructions[node]
        given = [op for op in item.ops if not is_message(op)]
        ops = deque(given)
        lacks = f"{given} needs more operands than {list(item.uses)}"
        if not operands:
            raise InputError(lacks)
        value = operands.popleft()
        with np.errstate(all="ignore"):  # 1 / 0 is inf on both sides of a comparison
            while ops:
                op = ops.popleft()
                if not isinstance(op, str):
                    raise InputError(f"no op takes the constant {op} in {given}; write it behind a binary op")
                if op in UNARY:
                    value = np.asarray(UNARY[op](value))
                    continue
                if op not in BINARY:
                    known = ", ".join(sorted({*UNARY, *BINARY}))
                    raise InputError(f"unknown op {op!r:.60}; known: {known}")
                if ops and not isinstance(ops[0], str):
                    other = np.asarray(float(ops.popleft()))
                elif operands:
                    other = operands.popleft()
                else:
                    raise InputError(lacks)
                if value.ndim and other.ndim and value.shape != other.shape:
                    raise InputError(
                        f"{op!r} of {len(value)} and of {len(other)} numbers; give the tile memories data of one length"
                    )
                value = np.asarray(BINARY[op](value, other))
        return value


def meaning_of(program: Program) -> Meaning:
    """Return where operands come from, and which instructions cannot be computed.

    Those have an op without meaning, too few operands, a name that another instruction of the flow
    writes at no certain time, or vectors of different lengths.
    """
    writers = defaultdict(list)
    for node, item in enumerate(program.instructions):
        for name in item.defines:
            writers[name].append(node)
    ancestors = [0] * program.num_nodes  # of each node, as the bits of a number
    for node in program.order:
        for p in program.predecessors[node]:
            ancestors[node] |= ancestors[p] | 1 << p
    operands: list[tuple[Operand, ...]] = []
    unknown: dict[int, str] = {}
    for node, item in enumerate(program.instructions):
        found = []
        for name in item.uses if item.ops else ():
            try:
                found.append(_operand(program, node, name, writers[name], ancestors))
            except InputError as error:
                unknown[node] = str(error)
        operands.append(tuple(found))
    return _tried(Meaning(program, tuple(operands), unknown))


def _tried(meaning: Meaning) -> Meaning:
    """Compute a thread, and note which instructions cannot be."""
    unknown, results = dict(meaning.unknown), dict[int, Value]()
    inputs = meaning.draw_inputs(np.random.default_rng(0))
    for node in _by_flow(meaning.program):
        try:
            results[node] = meaning.apply(node, inputs, results, results, {})
        except InputError as error:
            unknown[node] = str(error)
            meaning = replace(meaning, unknown=unknown)
            results[node] = meaning.apply(node, inputs, results, results, {})
    return meaning


def is_message(op: str | Number) -> bool:
    """Say whether an op is a message of the asynchronous fabric, which computes nothing."""
    return isinstance(op, str) and _MESSAGE.match(op) is not None


def _by_flow(program: Program) -> list[int]:
    """Return the instructions in the order in which a thread computes them."""
    return sorted(program.order, key=lambda node: program.instructions[node].flow)


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
                f"reads {name!r}, which instruction {w} of the same flow writes, but no edges lead from {w} to "
                f"{node}; add an edge"
            )
    return Operand(name, writers[-1], "thread") if writers else Operand(name)


def evaluate(meaning: Meaning, inputs: Inputs, before: Results | None = None) -> dict[int, Value]:
    """Return the results of a thread by instruction; `before` has those of the thread before."""
    program = meaning.program
    results: dict[int, Value] = {}
    for node in _by_flow(program):
        results[node] = meaning.apply(node, inputs, results, results, before or {})
    return results
