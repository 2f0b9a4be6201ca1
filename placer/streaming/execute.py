"""A mapping run cycle by cycle on real values: it is right when its outputs are.

`execute` knows nothing of start times: tiles follow their spoke tables, packets travel one tile per
cycle, and an instruction runs when its spoke comes round and its operands are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from placer.streaming.device import Device
from placer.streaming.values import Inputs, Meaning, Value, evaluate

_THREADS = 3


@dataclass(frozen=True, slots=True)
class Execution:
    """What the device did."""

    results: list[dict[int, Value]]  # [thread] by instruction
    start: list[dict[int, int]]  # [thread] cycle, by instruction


@dataclass(slots=True)
class _Packet:
    """A result on its way along the line, with what is handed on."""

    thread: int
    receiver: int
    values: dict[int, Value]  # by the instruction that computed it
    tile: int  # where it is now
    leaves_at: int  # cycle at which the pipeline of the sender gives it out


@dataclass(slots=True)
class _Inbox:
    """What has come for an instruction."""

    packets: int = 0
    values: dict[int, Value] = field(default_factory=dict)  # by the instruction that computed it


def execute(
    meaning: Meaning,
    device: Device,
    tile: Sequence[int],
    spoke: Sequence[int],
    threads: Sequence[Inputs],
    expected: Sequence[dict[int, Value]],
) -> Execution:
    """Run `threads`, one begun every `ii` cycles, and return what each computed and when.

    `expected` results of each thread stand for what other flows and earlier threads bring: when all
    results turn out as expected, that was right too. Raises RuntimeError when an instruction never
    runs.
    """
    program = meaning.program
    table = _spoke_table(program.num_nodes, device.ii, tile, spoke)
    passed_on = _passed_on(meaning)
    done = Execution([{} for _ in threads], [{} for _ in threads])
    inboxes: dict[tuple[int, int], _Inbox] = {}  # by thread and instruction
    runs = [0] * program.num_nodes  # threads that each instruction has served
    flying: list[_Packet] = []
    left = len(threads) * program.num_nodes
    limit = device.ii * len(threads) + program.num_nodes * (device.depth + device.tiles + device.ii)
    for cycle in range(limit):
        flying = _deliver(flying, tile, cycle, inboxes)
        for node in table[cycle % device.ii]:
            thread = runs[node]
            if thread == len(threads) or cycle < thread * device.ii:
                continue
            inbox = inboxes.get((thread, node), _Inbox())
            if inbox.packets < len(program.predecessors[node]):
                continue
            before = expected[thread - 1] if thread else {}
            value = meaning.apply(node, threads[thread], inbox.values, expected[thread], before)
            done.results[thread][node], done.start[thread][node] = value, cycle
            runs[node] += 1
            left -= 1
            carried = {w: v for w, v in inbox.values.items() if w in passed_on} | {node: value}
            flying += [
                _Packet(thread, s, carried, int(tile[node]), cycle + device.depth)
                for s in program.successors[node]
            ]
        if not left:
            return done
    stuck = next(n for n in range(program.num_nodes) if runs[n] < len(threads))
    raise RuntimeError(f"instruction {stuck} ran for {runs[stuck]} of {len(threads)} threads only")


def _spoke_table(
    num_nodes: int, ii: int, tile: Sequence[int], spoke: Sequence[int]
) -> list[list[int]]:
    """Instructions that may run in each spoke; of two in one slot the device knows only one."""
    entries = {(int(tile[n]), int(spoke[n])): n for n in range(num_nodes)}
    table: list[list[int]] = [[] for _ in range(ii)]
    for (_, when), node in entries.items():
        table[when].append(node)
    return table


def _passed_on(meaning: Meaning) -> set[int]:
    """Instructions whose results are read farther away than by their successors."""
    return {
        operand.writer
        for node, operands in enumerate(meaning.operands)
        for operand in operands
        if operand.writer is not None
        and operand.is_handed_on
        and operand.writer not in meaning.program.predecessors[node]
    }


def _deliver(
    flying: list[_Packet],
    tile: Sequence[int],
    cycle: int,
    inboxes: dict[tuple[int, int], _Inbox],
) -> list[_Packet]:
    """Move packets by one cycle; those at their goal go to the inbox of their receiver."""
    still = []
    for packet in flying:
        goal = int(tile[packet.receiver])
        if cycle > packet.leaves_at:
            packet.tile += int(np.sign(goal - packet.tile))
        if cycle >= packet.leaves_at and packet.tile == goal:
            inbox = inboxes.setdefault((packet.thread, packet.receiver), _Inbox())
            inbox.packets += 1
            inbox.values |= packet.values
        else:
            still.append(packet)
    return still


def require_same_values(
    meaning: Meaning,
    device: Device,
    tile: Sequence[int],
    spoke: Sequence[int],
    start: Sequence[int],
    seed: int = 0,
) -> None:
    """Run three threads on random inputs; RuntimeError unless values and times are right."""
    rng = np.random.default_rng(seed)
    threads = [meaning.draw_inputs(rng) for _ in range(_THREADS)]
    expected: list[dict[int, Value]] = []
    for inputs in threads:
        expected.append(evaluate(meaning, inputs, expected[-1] if expected else None))
    done = execute(meaning, device, tile, spoke, threads, expected)
    for thread, results in enumerate(done.results):
        for node, result in results.items():
            if not np.array_equal(result, expected[thread][node], equal_nan=True):
                raise RuntimeError(f"instruction {node} of thread {thread} computes a wrong value")
            due = start[node] + thread * device.ii
            if done.start[thread][node] != due:
                raise RuntimeError(
                    f"instruction {node} of thread {thread} starts in cycle "
                    f"{done.start[thread][node]}, not {due}"
                )
