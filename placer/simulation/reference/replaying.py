"""Replayed traffic in plain Python: processors, banks and the network, cycle by cycle."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from placer.fabric import FULL_PACE, Fabric
from placer.simulation import Replay, Status, Traffic, What
from placer.simulation.reference.network import Network, Route, build_route


def _opens(pace: int, t: int) -> bool:
    return (t + 1) * pace // FULL_PACE > t * pace // FULL_PACE


@dataclass(eq=False, slots=True)
class Processor:
    """A script and how far it has come."""

    steps: list[tuple[int, int]]  # gap, flow or What
    first_step: int  # its number among the steps of all scripts
    wait_cycles: int
    position: int = 0
    due: int = 0
    wait_since: int = -1
    issued: list[int] = field(default_factory=list)  # flows, oldest first
    num_complete: int = 0
    complete_at: int = -1

    @property
    def is_done(self) -> bool:
        return self.position == len(self.steps)

    def is_ready(self, t: int) -> bool:
        """Say whether the next step can be done in cycle t."""
        if t < self.due:
            return False
        if self.steps[self.position][1] != What.WAIT:
            return True
        is_complete = self.num_complete == len(self.issued) and self.complete_at < t
        return t >= self.due + self.wait_cycles and is_complete

    def finish_step(self, t: int) -> None:
        self.position += 1
        if not self.is_done:
            self.due = t + self.steps[self.position][0]


@dataclass(eq=False, slots=True)
class Bank:
    """A memory with its gates and the processors whose reads it takes."""

    pace: int
    gates: list[int]
    readers: list[Processor]
    credit: int = 0  # in 1024ths of a vector
    turn: int = 0  # number of the gate that is read first


class ReplayedChip:
    """The whole state of a replay."""

    def __init__(self, fabric: Fabric, traffic: Traffic) -> None:
        self.traffic = traffic
        num_flows = traffic.netlist.num_flows
        self.routes: list[Route] = [
            build_route(fabric, traffic.netlist, traffic.decision, flow) for flow in range(num_flows)
        ]
        self.network = Network(fabric, self.routes)
        self.processors = self._processors()
        self.banks = [
            Bank(
                int(pace),
                np.flatnonzero(traffic.gate_bank == bank).tolist(),
                [p for p, where in zip(self.processors, traffic.script_bank, strict=True) if where == bank],
            )
            for bank, pace in enumerate(traffic.bank_pace)
        ]
        self.requests: list[list[tuple[int, int]]] = [[] for _ in traffic.gate_bank]  # by gate: arrival, flow
        self.num_read = [0] * num_flows
        self.num_written = [0] * num_flows
        self.step_at = np.zeros(traffic.num_steps, np.int64)

    def _processors(self) -> list[Processor]:
        result = []
        for first, end in zip(self.traffic.step_start, self.traffic.step_start[1:], strict=False):
            gaps, what = self.traffic.step_gap[first:end].tolist(), self.traffic.step_what[first:end].tolist()
            steps = list(zip(gaps, what, strict=True))
            due = gaps[0] if gaps else 0
            result.append(Processor(steps, int(first), self.traffic.wait_cycles, due=due))
        return result

    def step(self, t: int) -> bool:
        """Simulate cycle t; False if nothing happened."""
        inlets = [inlet for route in self.routes for inlet in route.all_inlets()]
        for inlet in inlets:
            inlet.queue.arrive(t)
            inlet.credits.arrive(t)
        sent = self.network.choose(t)
        acted = False
        for processor in self.processors:
            acted |= self.follow(processor, t)
        for bank in self.banks:
            acted |= self.serve(bank, t)
        self.network.apply(t, sent)
        return acted or bool(sent)

    def follow(self, processor: Processor, t: int) -> bool:
        acted = False
        while not processor.is_done and processor.is_ready(t):
            what = processor.steps[processor.position][1]
            if what >= 0:
                gate = int(self.traffic.flow_gate[what])
                self.requests[gate].append((t + int(self.traffic.request_cycles[what]), what))
                self.requests[gate].sort()
                processor.issued.append(what)
            self.step_at[processor.first_step + processor.position] = t
            processor.finish_step(t)
            acted = True
        return acted

    def serve(self, bank: Bank, t: int) -> bool:
        bank.credit = min(bank.credit + bank.pace, bank.pace + 4 * FULL_PACE)
        before = bank.credit
        taken: set[int] = set()
        for processor in bank.readers:
            for flow in processor.issued:
                gate = int(self.traffic.sink_gate[flow])
                (inlet,) = self.routes[flow].all_inlets()
                is_open = gate not in taken and _opens(int(self.traffic.gate_take_pace[gate]), t)
                if inlet.queue.visible and is_open and bank.credit >= FULL_PACE:
                    taken.add(gate)
                    bank.credit -= FULL_PACE
                    inlet.take(1, t)
                    self.num_written[flow] += 1
                    if self.num_written[flow] == inlet.tokens:
                        processor.num_complete += 1
                        processor.complete_at = t
        gates = range(len(bank.gates))
        for number in [*gates[bank.turn :], *gates[: bank.turn]]:
            requests = self.requests[bank.gates[number]]
            if not requests or requests[0][0] > t:
                continue
            flow = requests[0][1]
            outlet = self.routes[flow].outlet
            if outlet.has_room(1) and bank.credit >= FULL_PACE and _opens(int(self.traffic.flow_pace[flow]), t):
                bank.credit -= FULL_PACE
                bank.turn = (number + 1) % len(bank.gates)
                outlet.put([t + 1])
                self.num_read[flow] += 1
                if self.num_read[flow] == outlet.tokens:
                    requests.pop(0)
        return bank.credit < before


def replay_reference(fabric: Fabric, traffic: Traffic, max_cycles: int) -> Replay:
    """Replay traffic until all scripts are at their end or the limit is reached."""
    chip = ReplayedChip(fabric, traffic)
    for t in range(max_cycles):
        chip.step(t)
        if all(processor.is_done for processor in chip.processors):
            break
    is_done = all(processor.is_done for processor in chip.processors)
    status = Status.STEADY if is_done else Status.CAP
    vectors = np.array(chip.network.link_vectors, np.int64)
    return Replay(status, t + 1, chip.step_at, vectors)
