"""Walks through placements: compiled for cost models that price moves, batched for any other.

All walk through legal placements with dimension-ordered routes and keep the best one seen;
`loop.py` explains a move. Energy = log of predicted cycles per sample / bound = -log(score).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numba import njit
from numpy.typing import NDArray

from placer.annealing.board import seat, unseat
from placer.annealing.loop import Start, Walk, begin_walk, note_best, pick_move
from placer.annealing.moves import LEGAL, Move, Refusal, apply, propose, undo
from placer.annealing.pressure import anneal_rules, pressure_of
from placer.base import FloatArray, InputError, IntArray, LongArray, hot_loop, uniform
from placer.cost import CostModel, HeuristicCost
from placer.decision import Decisions
from placer.decision.routing import copy_entries, route_turns, tables_of
from placer.fabric import Fabric
from placer.netlist import Netlist

MAX_DRIFT = 1e-6  # of the energy, between the running sum of powers and a fresh one
INFINITE_TEMPERATURE = 1e9


@dataclass(slots=True)
class Counts:
    """What happened to the moves."""

    accepted: NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(Move), np.int64))
    refused: NDArray[np.int64] = field(default_factory=lambda: np.zeros((len(Move), len(Refusal)), np.int64))
    energy_sums: FloatArray = field(default_factory=lambda: np.zeros(2))

    @property
    def moves(self) -> int:
        return int(self.accepted.sum() + self.refused.sum())

    def energy_deviation(self) -> float:
        """Return the standard deviation of the energy after each accepted move."""
        number = max(1, int(self.accepted.sum()))
        mean, square = self.energy_sums / number
        return math.sqrt(max(0.0, square - mean * mean))


class Search(ABC):
    """A walk through placements of a netlist."""

    chunk: ClassVar[int] = 16  # moves between two looks at the clock

    def __init__(self, fabric: Fabric, netlist: Netlist, start: Start, mix: FloatArray, seed: int) -> None:
        """Begin at `start`; `mix` holds cumulated shares of the kinds of moves."""
        self._fabric, self._netlist = fabric, netlist
        self._walk: Walk = begin_walk(fabric, netlist, start, mix, seed)

    @abstractmethod
    def run(self, num_moves: int, temperature: float, reach: int, counts: Counts) -> None:
        """Try moves at one temperature; `counts` goes on counting."""

    @abstractmethod
    def verify(self) -> None:
        """Raise RuntimeError when the running energy differs from a fresh one."""

    @property
    @abstractmethod
    def energy(self) -> float: ...

    @property
    def best_energy(self) -> float:
        return float(self._walk.best_level[0])

    def current(self) -> Decisions:
        """Return where the walk is, a stack of one."""
        return self._routed(self._walk.state.sites, self._walk.state.flow_class)

    def best(self) -> Decisions:
        """Return the best that the walk has seen, a stack of one."""
        return self._routed(self._walk.best_sites, self._walk.best_class)

    def _routed(self, sites: IntArray, flow_class: IntArray) -> Decisions:
        return route_turns(self._fabric, self._netlist, sites[None], flow_class[None])


@runtime_checkable
class SearchingCost(CostModel, Protocol):
    """A cost model with a search of its own, that need not score whole decisions."""

    def open_search(self, netlist: Netlist, start: Start, mix: FloatArray, seed: int) -> Search:
        """Return a walk that begins at `start`; `mix` holds cumulated shares of the moves."""
        ...


class CompiledSearch(Search):
    """Moves priced one by one; no Python work between them."""

    def _open(self, pricer: Any, anneal: Callable[..., None]) -> None:
        """Price moves by `pricer`; `anneal` is the compiled loop for it."""
        self._pricer, self._anneal = pricer, anneal
        self._walk.best_level[0] = pricer.level[0]

    def run(self, num_moves: int, temperature: float, reach: int, counts: Counts) -> None:
        self._anneal(
            self._pricer, self._walk, num_moves, temperature, reach, counts.accepted,
            counts.refused, counts.energy_sums,
        )  # fmt: skip

    @property
    def energy(self) -> float:
        return float(self._pricer.level[0])


class RulesSearch(CompiledSearch):
    """Moves priced by exact deltas of the heuristic's p-norm."""

    chunk = 20_000

    def __init__(
        self, fabric: Fabric, netlist: Netlist, cost: HeuristicCost, start: Start, mix: FloatArray, seed: int
    ) -> None:
        super().__init__(fabric, netlist, start, mix, seed)
        self._cost = cost
        tables = tables_of(fabric, netlist, cost.rules)
        self._open(pressure_of(self._walk.board, tables, self._walk.state), anneal_rules)

    def verify(self) -> None:
        exact = math.exp(float(self._cost.energy(self._netlist, self.current())[0]) * self._cost.rules.exponent)
        running = float(self._pricer.level[0])
        if not running > 0 or abs(math.log(running / exact)) > MAX_DRIFT * self._cost.rules.exponent:
            raise RuntimeError(f"the running cost {running} differs from the full cost {exact}")
        self._pricer.level[0] = exact

    @property
    def energy(self) -> float:
        return math.log(self._pricer.level[0]) / self._cost.rules.exponent

    @property
    def best_energy(self) -> float:
        return math.log(self._walk.best_level[0]) / self._cost.rules.exponent


class BatchedSearch(Search):
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
        super().__init__(fabric, netlist, start, mix, seed)
        self._cost, self._max_batch = cost, max_batch
        self._acceptance = 1.0  # running mean
        self._energy = float(self._energies(self.current())[0])
        self._walk.best_level[0] = self._energy

    def run(self, num_moves: int, temperature: float, reach: int, counts: Counts) -> None:
        goal, walk = counts.moves + num_moves, self._walk
        while counts.moves < goal:
            wanted = min(goal - counts.moves, self._max_batch, round(1 / self._acceptance))
            kinds, sites, flow_class = propose_candidates(walk, wanted, reach, counts.refused)
            if not len(kinds):
                continue
            decisions = route_turns(self._fabric, self._netlist, sites, flow_class)
            self._decide(kinds, decisions, flow_class, temperature, counts)

    def _decide(
        self, kinds: IntArray, decisions: Decisions, flow_class: IntArray, temperature: float, counts: Counts
    ) -> None:
        for candidate, energy in enumerate(self._energies(decisions)):
            allowed = self._energy - temperature * math.log(1.0 - uniform(self._walk.rng))
            is_accepted = energy <= allowed
            self._acceptance += 0.02 * (is_accepted - self._acceptance)
            self._acceptance = max(self._acceptance, 1 / self._max_batch)
            if not is_accepted:
                counts.refused[kinds[candidate], Refusal.COST] += 1
                continue
            counts.accepted[kinds[candidate]] += 1
            counts.energy_sums += (energy, energy * energy)
            self._energy = float(energy)
            take_candidate(self._walk, decisions.sites[candidate], flow_class[candidate])
            note_best(self._walk, self._energy)
            return

    def _energies(self, decisions: Decisions) -> FloatArray:
        scores = self._cost.score(self._netlist, decisions)
        is_usable = (scores > 0) & (scores < np.inf)
        if scores.shape != (len(decisions),) or not is_usable.all():
            raise InputError(f"a cost model must give one score above 0 per decision: {scores}")
        return -np.log(scores)

    def verify(self) -> None:
        """Do nothing: energies are never summed up here, so there is nothing that could drift."""

    @property
    def energy(self) -> float:
        return self._energy


@njit(cache=True)
def propose_candidates(
    walk: Walk, num_moves: int, reach: int, refused: LongArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Try `num_moves` moves from one state.

    Returns kinds [n], sites [n, num_units] and turn classes [n, num_flows] after each of the n
    legal ones; the others are counted in `refused`.
    """
    board, state, change, rng = walk.board, walk.state, walk.change, walk.rng
    kinds = np.zeros(num_moves, np.int32)
    sites = np.zeros((num_moves, len(state.sites)), np.int32)
    flow_class = np.zeros((num_moves, len(state.flow_class)), np.int32)
    number = 0
    for _ in range(num_moves):
        move = pick_move(rng, walk.mix)
        reason = propose(board, state, change, rng, move, reach)
        if reason != LEGAL:
            refused[move, reason] += 1
            continue
        apply(board, state, change)
        kinds[number] = move
        sites[number], flow_class[number] = state.sites, state.flow_class
        undo(state, change)
        number += 1
    return kinds[:number], sites[:number], flow_class[:number]


@hot_loop
def take_candidate(walk: Walk, sites: IntArray, flow_class: IntArray) -> None:
    """Go to a candidate."""
    board, state = walk.board, walk.state
    for unit in range(len(sites)):
        if sites[unit] != state.sites[unit]:
            unseat(board, state, unit, state.sites[unit])
    for unit in range(len(sites)):
        if sites[unit] != state.sites[unit]:
            seat(board, state, unit, sites[unit])
            state.sites[unit] = sites[unit]
    copy_entries(flow_class, 0, state.flow_class, 0, len(flow_class))
