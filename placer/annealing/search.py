"""The two engines of the annealer: compiled for the heuristic, batched for any other cost model.

A cost model can bring one of its own (`SearchingCost`). All walk through legal placements with
dimension-ordered routes and keep the best one seen.
Energy = log of predicted cycles per sample / bound = -log(score); lower is better.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from placer.annealing.board import BoolArray, State, board_of, state_of
from placer.annealing.candidates import propose_candidates, take_candidate
from placer.annealing.compiled import anneal_moves
from placer.annealing.moves import Move, Refusal, empty_change
from placer.annealing.pricing import pressure_of
from placer.annealing.random import rng_state, uniform
from placer.cost import CostModel
from placer.decision import Decisions
from placer.errors import InputError
from placer.fabric import Fabric
from placer.heuristic import HeuristicCost, tables_of
from placer.netlist import Netlist
from placer.routing import route_turns
from placer.routing.arrays import IntArray

FloatArray = NDArray[np.float64]

MAX_DRIFT = 1e-6  # relative, of the running sum of powers against a fresh one
INFINITE_TEMPERATURE = 1e9


@dataclass(slots=True)
class Counts:
    """What happened to the moves."""

    accepted: NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(Move), np.int64))
    refused: NDArray[np.int64] = field(
        default_factory=lambda: np.zeros((len(Move), len(Refusal)), np.int64)
    )
    energy_sums: FloatArray = field(default_factory=lambda: np.zeros(2))

    @property
    def moves(self) -> int:
        return int(self.accepted.sum() + self.refused.sum())

    def energy_deviation(self) -> float:
        """Standard deviation of the energy after each accepted move."""
        number = max(1, int(self.accepted.sum()))
        mean, square = self.energy_sums / number
        return math.sqrt(max(0.0, square - mean * mean))


class Search(Protocol):
    """A walk through placements."""

    def run(self, num_moves: int, temperature: float, reach: int, counts: Counts) -> None:
        """Try moves at one temperature; `counts` goes on counting."""
        ...

    def verify(self) -> None:
        """Raise RuntimeError when the running energy differs from a fresh one."""
        ...

    @property
    def energy(self) -> float: ...

    @property
    def best_energy(self) -> float: ...

    def current(self) -> Decisions: ...

    def best(self) -> Decisions: ...


@dataclass(frozen=True, slots=True)
class Start:
    """Where a walk begins."""

    sites: IntArray  # [num_units] legal
    flow_class: IntArray  # [num_flows] 0: XY, 1: YX
    is_allowed: BoolArray  # [num_units, num_sites] the user's constraints


@runtime_checkable
class SearchingCost(CostModel, Protocol):
    """A cost model with a search of its own, that need not score whole decisions."""

    def open_search(self, netlist: Netlist, start: Start, mix: FloatArray, seed: int) -> Search:
        """A walk that begins at `start`; `mix` holds cumulated shares of the kinds of moves."""
        ...


class CompiledSearch:
    """Moves priced by exact deltas of the heuristic's p-norm; no Python work between moves."""

    def __init__(
        self,
        fabric: Fabric,
        netlist: Netlist,
        cost: HeuristicCost,
        start: Start,
        mix: FloatArray,
        seed: int,
    ) -> None:
        self._fabric, self._netlist, self._cost, self._mix = fabric, netlist, cost, mix
        self._board = board_of(fabric, netlist, start.is_allowed)
        self._tables = tables_of(fabric, netlist, cost.rules)
        self._state: State = state_of(self._board, start.sites, start.flow_class)
        self._pressure = pressure_of(self._board, self._tables, self._state)
        self._change = empty_change(netlist.num_units, fabric.topology.num_sites)
        self._rng = rng_state(seed)
        self._best_total = self._pressure.total.copy()
        self._best_sites, self._best_class = start.sites.copy(), start.flow_class.copy()

    def run(self, num_moves: int, temperature: float, reach: int, counts: Counts) -> None:
        anneal_moves(
            self._board, self._tables, self._state, self._pressure, self._change, self._rng,
            self._mix, num_moves, temperature, reach, self._best_total, self._best_sites,
            self._best_class, counts.accepted, counts.refused, counts.energy_sums,
        )  # fmt: skip

    def verify(self) -> None:
        exact = math.exp(
            float(self._cost.energy(self._netlist, self.current())[0]) * self._cost.rules.exponent
        )
        running = float(self._pressure.total[0])
        if abs(running - exact) > MAX_DRIFT * exact:
            raise RuntimeError(f"the running cost {running} differs from the full cost {exact}")
        self._pressure.total[0] = exact

    @property
    def energy(self) -> float:
        return math.log(self._pressure.total[0]) / self._cost.rules.exponent

    @property
    def best_energy(self) -> float:
        return math.log(self._best_total[0]) / self._cost.rules.exponent

    def current(self) -> Decisions:
        return _routed(self._fabric, self._netlist, self._state.sites, self._state.flow_class)

    def best(self) -> Decisions:
        return _routed(self._fabric, self._netlist, self._best_sites, self._best_class)


class BatchedSearch:
    """Moves of any cost model: several candidates are scored at once.

    All candidates of a batch start from the same placement. They are decided in order; after the
    first that is accepted the others are out of date and dropped. The batch grows as fewer moves
    are accepted, so little is dropped.
    """

    def __init__(
        self,
        fabric: Fabric,
        netlist: Netlist,
        cost: CostModel,
        start: Start,
        mix: FloatArray,
        seed: int,
        max_batch: int = 16,
    ) -> None:
        self._fabric, self._netlist, self._cost, self._mix = fabric, netlist, cost, mix
        self._board = board_of(fabric, netlist, start.is_allowed)
        self._state: State = state_of(self._board, start.sites, start.flow_class)
        self._change = empty_change(netlist.num_units, fabric.topology.num_sites)
        self._rng = rng_state(seed)
        self._max_batch = max_batch
        self._acceptance = 1.0  # running mean
        self._energy = self._best_energy = float(self._energies(self.current())[0])
        self._best_sites, self._best_class = start.sites.copy(), start.flow_class.copy()

    def run(self, num_moves: int, temperature: float, reach: int, counts: Counts) -> None:
        goal = counts.moves + num_moves
        while counts.moves < goal:
            wanted = min(goal - counts.moves, self._max_batch, round(1 / self._acceptance))
            kinds, sites, flow_class = propose_candidates(
                self._board, self._state, self._change, self._rng, self._mix, wanted, reach,
                counts.refused,
            )  # fmt: skip
            if not len(kinds):
                continue
            decisions = route_turns(self._fabric, self._netlist, sites, flow_class)
            self._decide(kinds, decisions, flow_class, temperature, counts)

    def _decide(
        self,
        kinds: IntArray,
        decisions: Decisions,
        flow_class: IntArray,
        temperature: float,
        counts: Counts,
    ) -> None:
        for candidate, energy in enumerate(self._energies(decisions)):
            allowed = self._energy - temperature * math.log(1.0 - uniform(self._rng))
            is_accepted = energy <= allowed
            self._acceptance += 0.02 * (is_accepted - self._acceptance)
            self._acceptance = max(self._acceptance, 1 / self._max_batch)
            if not is_accepted:
                counts.refused[kinds[candidate], Refusal.COST] += 1
                continue
            counts.accepted[kinds[candidate]] += 1
            counts.energy_sums += (energy, energy * energy)
            self._energy = float(energy)
            take_candidate(
                self._board, self._state, decisions.sites[candidate], flow_class[candidate]
            )
            if self._energy < self._best_energy:
                self._best_energy = self._energy
                self._best_sites[:], self._best_class[:] = self._state.sites, flow_class[candidate]
            return

    def _energies(self, decisions: Decisions) -> FloatArray:
        scores = self._cost.score(self._netlist, decisions)
        is_usable = (scores > 0) & (scores < np.inf)
        if scores.shape != (len(decisions),) or not is_usable.all():
            raise InputError(f"a cost model must give one score above 0 per decision: {scores}")
        return -np.log(scores)

    def verify(self) -> None:
        """Energies are never summed up here, so there is nothing that could drift."""

    @property
    def energy(self) -> float:
        return self._energy

    @property
    def best_energy(self) -> float:
        return self._best_energy

    def current(self) -> Decisions:
        return _routed(self._fabric, self._netlist, self._state.sites, self._state.flow_class)

    def best(self) -> Decisions:
        return _routed(self._fabric, self._netlist, self._best_sites, self._best_class)


def _routed(fabric: Fabric, netlist: Netlist, sites: IntArray, flow_class: IntArray) -> Decisions:
    return route_turns(fabric, netlist, sites[None], flow_class[None])
