"""What a program computes: operations, direct evaluation, and mappings run cycle by cycle.

An instruction starts with its first operand and applies its ops from left to right. A binary op
takes the constant that follows it, or else the next name that the instruction uses, so
`uses=(a, b, c), ops=(mul, add)` is a * b + c, what the two units of a tile do in one pass.
An instruction without ops (plain graphs) adds its id to the sum of its inputs.

A mapping is right when its outputs are. `execute` knows nothing of start times: tiles follow
their spoke tables, packets travel one tile per cycle, and an instruction runs when the spoke comes
round and its operands are there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placer.errors import InputError
from placer.streaming.device import Device
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


def require_known_ops(program: Program) -> None:
    """Raise InputError for an op without meaning, or with too few operands."""
    for node, item in enumerate(program.instructions):
        operands = len(item.uses)
        for k, op in enumerate(item.ops):
            if not isinstance(op, str):
                continue
            if op not in UNARY and op not in BINARY:
                raise InputError(
                    f"instruction {node}: unknown op {op!r}; known: "
                    f"{', '.join(sorted({*UNARY, *BINARY}))}; values=false maps without values"
                )
            has_constant = k + 1 < len(item.ops) and not isinstance(item.ops[k + 1], str)
            operands -= op in BINARY and not has_constant
        if item.ops and operands < 1:
            raise InputError(f"instruction {node}: {list(item.ops)} needs more operands")


def input_names(program: Program) -> list[str]:
    """Names that are neither computed nor in a tile memory: what each thread brings with it."""
    defined = {name for item in program.instructions for name in item.defines}
    used = {name for item in program.instructions for name in item.uses}
    return sorted(used - defined - program.memories.keys())


def random_inputs(program: Program, rng: np.random.Generator) -> dict[str, Value]:
    return {name: np.asarray(rng.uniform(0.5, 2.0)) for name in input_names(program)}


def _apply(program: Program, node: int, inputs: Inputs, results: MappingOf[int, Value]) -> Value:
    """Result of an instruction; `results` holds those of its predecessors."""
    item = program.instructions[node]
    before = program.predecessors[node]
    if not item.ops:
        return np.asarray(node + sum((results[p] for p in before), np.asarray(0.0)))
    operands = deque(_operand(program, node, name, inputs, results) for name in item.uses)
    value = operands.popleft()
    for k, op in enumerate(item.ops):
        if not isinstance(op, str):
            continue
        if op in UNARY:
            value = np.asarray(UNARY[op](value))
            continue
        following = item.ops[k + 1] if k + 1 < len(item.ops) else op
        other = operands.popleft() if isinstance(following, str) else np.asarray(float(following))
        value = np.asarray(BINARY[op](value, other))
    return value


def _operand(
    program: Program, node: int, name: str, inputs: Inputs, results: MappingOf[int, Value]
) -> Value:
    for p in reversed(program.predecessors[node]):
        if name in program.instructions[p].defines:
            return results[p]
    if name in program.contents:
        return np.asarray(program.contents[name])
    if name in inputs:
        return inputs[name]
    raise InputError(f"instruction {node} reads {name!r}, which no predecessor and no input gives")


def evaluate(program: Program, inputs: Inputs) -> list[Value]:
    """Result of every instruction, straight from the graph."""
    results: dict[int, Value] = {}
    for node in program.order:
        results[node] = _apply(program, node, inputs, results)
    return [results[node] for node in range(program.num_nodes)]


@dataclass(frozen=True, slots=True)
class Execution:
    """What the device did."""

    results: list[list[Value]]  # [thread][node]
    start: list[list[int]]  # [thread][node] cycle


@dataclass(slots=True)
class _Packet:
    """A result on its way along the line."""

    thread: int
    sender: int
    receiver: int
    value: Value
    tile: int  # where it is now
    leaves_at: int  # cycle at which the pipeline of the sender gives it out


def execute(
    program: Program,
    device: Device,
    tile: Sequence[int],
    spoke: Sequence[int],
    threads: Sequence[Inputs],
) -> Execution:
    """Run `threads`, one begun every `ii` cycles, and return what each computed and when.

    Raises InputError when an instruction never runs.
    """
    entries = {(int(tile[n]), int(spoke[n])): n for n in range(program.num_nodes)}
    results: list[dict[int, Value]] = [{} for _ in threads]
    start: list[list[int]] = [[0] * program.num_nodes for _ in threads]
    arrived: dict[tuple[int, int], dict[int, Value]] = {}  # (thread, node): values by sender
    runs = [0] * program.num_nodes  # threads that each instruction has served
    flying: list[_Packet] = []
    left = len(threads) * program.num_nodes
    limit = device.ii * len(threads) + program.num_nodes * (device.depth + device.tiles + device.ii)
    for cycle in range(limit):
        flying = _deliver(flying, tile, cycle, arrived)
        for place in range(device.tiles):
            node = entries.get((place, cycle % device.ii))
            if node is None or runs[node] == len(threads):
                continue
            thread = runs[node]
            inbox = arrived.get((thread, node), {})
            if cycle < thread * device.ii or len(inbox) < len(program.predecessors[node]):
                continue
            value = _apply(program, node, threads[thread], inbox)
            results[thread][node], start[thread][node] = value, cycle
            runs[node] += 1
            left -= 1
            flying += [
                _Packet(thread, node, s, value, place, cycle + device.depth)
                for s in program.successors[node]
            ]
        if not left:
            return Execution([[r[n] for n in range(program.num_nodes)] for r in results], start)
    stuck = next(n for n in range(program.num_nodes) if runs[n] < len(threads))
    raise InputError(f"instruction {stuck} ran for {runs[stuck]} of {len(threads)} threads only")


def _deliver(
    flying: list[_Packet],
    tile: Sequence[int],
    cycle: int,
    arrived: dict[tuple[int, int], dict[int, Value]],
) -> list[_Packet]:
    """Move packets by one cycle; those at their goal go to the inbox of their receiver."""
    still = []
    for packet in flying:
        goal = int(tile[packet.receiver])
        if cycle > packet.leaves_at:
            packet.tile += int(np.sign(goal - packet.tile))
        if cycle >= packet.leaves_at and packet.tile == goal:
            inbox = arrived.setdefault((packet.thread, packet.receiver), {})
            inbox[packet.sender] = packet.value
        else:
            still.append(packet)
    return still


def require_same_values(
    program: Program,
    device: Device,
    tile: Sequence[int],
    spoke: Sequence[int],
    start: Sequence[int],
    seed: int = 0,
) -> None:
    """Run three threads on random inputs; raise InputError unless values and times are right."""
    rng = np.random.default_rng(seed)
    threads = [random_inputs(program, rng) for _ in range(3)]
    done = execute(program, device, tile, spoke, threads)
    for thread, inputs in enumerate(threads):
        expected = evaluate(program, inputs)
        for node in range(program.num_nodes):
            if not np.array_equal(done.results[thread][node], expected[node], equal_nan=True):
                raise InputError(f"instruction {node} of thread {thread} computes a wrong value")
            if done.start[thread][node] != start[node] + thread * device.ii:
                raise InputError(
                    f"instruction {node} of thread {thread} starts in cycle "
                    f"{done.start[thread][node]}, not {start[node] + thread * device.ii}"
                )
