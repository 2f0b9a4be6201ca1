"""A mapping run cycle by cycle on real values: it is right when its outputs are.

`execute` knows nothing of start times: tiles follow their spoke tables, packets travel one tile per
cycle, and an instruction runs when its spoke comes round and its operands are there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from placer.streaming.model.settings import Device
from placer.streaming.model.values import Inputs, Meaning, Results, Value, evaluate

_THREADS = 3
_Inboxes = dict[tuple[int, int], list[Results]]  # what has come, by thread and instruction


@dataclass(slots=True)
class _Packet:
    """A result on its way along the line, with what is handed on."""

    thread: int
    receiver: int
    values: Results
    tile: int  # where it is now
    leaves_at: int  # cycle at which the pipeline of the sender gives it out


def execute(
    meaning: Meaning,
    device: Device,
    tile: Sequence[int],
    spoke: Sequence[int],
    threads: Sequence[Inputs],
    expected: Sequence[dict[int, Value]],
) -> list[dict[int, tuple[Value, int]]]:
    """Run `threads`, one begun every `ii` cycles, and return results and cycles by instruction.

    `expected` results of each thread stand for what other flows and earlier threads bring: when all
    results turn out as expected, that was right too. Raises RuntimeError when an instruction never
    runs.
    """
    program = meaning.program
    # Of two instructions in one slot the device knows only one.
    slots = {(int(tile[n]), int(spoke[n])): n for n in range(program.num_nodes)}
    table = [[n for (_, when), n in slots.items() if when == k] for k in range(device.ii)]
    passed_on = _passed_on(meaning)
    done: list[dict[int, tuple[Value, int]]] = [{} for _ in threads]
    inboxes: _Inboxes = defaultdict(list)
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
            packets = inboxes[thread, node]
            if len(packets) < len(program.predecessors[node]):
                continue
            arrived = {writer: v for packet in packets for writer, v in packet.items()}
            before = expected[thread - 1] if thread else {}
            value = meaning.apply(node, threads[thread], arrived, expected[thread], before)
            done[thread][node] = value, cycle
            runs[node] += 1
            left -= 1
            carried = {w: v for w, v in arrived.items() if w in passed_on} | {node: value}
            flying += [
                _Packet(thread, s, carried, int(tile[node]), cycle + device.depth) for s in program.successors[node]
            ]
        if not left:
            return done
    stuck = next(n for n in range(program.num_nodes) if runs[n] < len(threads))
    raise RuntimeError(f"instruction {stuck} ran for {runs[stuck]} of {len(threads)} threads only")


def _passed_on(meaning: Meaning) -> set[int]:
    """Return the instructions whose results are read farther away than by their successors."""
    return {
        operand.writer
        for node, operands in enumerate(meaning.operands)
        for operand in operands
        if operand.writer is not None
        and operand.way == "edge"
        and operand.writer not in meaning.program.predecessors[node]
    }


def _deliver(flying: list[_Packet], tile: Sequence[int], cycle: int, inboxes: _Inboxes) -> list[_Packet]:
    """Move packets by one cycle; those at their goal go to the inbox of their receiver."""
    still = []
    for packet in flying:
        goal = int(tile[packet.receiver])
        if cycle > packet.leaves_at:
            packet.tile += int(np.sign(goal - packet.tile))
        if cycle >= packet.leaves_at and packet.tile == goal:
            inboxes[packet.thread, packet.receiver].append(packet.values)
        else:
            still.append(packet)
    return still


def require_same_values(
    meaning: Meaning, device: Device, tile: Sequence[int], spoke: Sequence[int], start: Sequence[int], seed: int = 0
) -> None:
    """Run three threads on random inputs; raise RuntimeError unless values and times are right."""
    rng = np.random.default_rng(seed)
    threads = [meaning.draw_inputs(rng) for _ in range(_THREADS)]
    expected: list[dict[int, Value]] = []
    for inputs in threads:
        expected.append(evaluate(meaning, inputs, expected[-1] if expected else None))
    for thread, done in enumerate(execute(meaning, device, tile, spoke, threads, expected)):
        for node, (result, cycle) in done.items():
            if not np.array_equal(result, expected[thread][node], equal_nan=True):
                raise RuntimeError(f"instruction {node} of thread {thread} computes a wrong value")
            due = start[node] + thread * device.ii
            if cycle != due:
                raise RuntimeError(f"instruction {node} of thread {thread} starts in cycle {cycle}, not {due}")
