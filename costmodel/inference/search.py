"""Annealing with the learned model: propose, predict, decide, without Python work between moves."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from costmodel.inference.compiling import inlined
from costmodel.inference.evaluate import take_back
from costmodel.inference.session import Engine, log_score, open_engine, price_state
from costmodel.inference.state import Scratch
from costmodel.networks.flow import FlowNetwork
from placer.annealing.board import Board, State, board_of, state_of
from placer.annealing.compiled import pick_move
from placer.annealing.moves import (
    LEGAL,
    Change,
    Refusal,
    apply,
    empty_change,
    propose,
    reseat,
    undo,
)
from placer.annealing.pressure import FloatArray
from placer.annealing.random import RngState, rng_state, uniform
from placer.annealing.search import Counts, Start
from placer.decision import Decisions
from placer.errors import InputError
from placer.fabric import Fabric
from placer.hot import hot_loop
from placer.netlist import Netlist
from placer.routing import route_turns
from placer.routing.arrays import IntArray, LongArray
from placer.routing.trees import copy_entries

MAX_DRIFT = 1e-4  # relative, of a running prediction against a fresh one
_COST = int(Refusal.COST)


@inlined
def _list_flows(board: Board, scratch: Scratch, change: Change) -> None:
    """Every flow that turns, or begins or ends at a unit that goes elsewhere, once."""
    num = 0
    scratch.is_changed[:] = 0
    if change.flow[0] >= 0:
        scratch.changed[0], num = change.flow[0], 1
    for entry in range(change.num_units[0]):
        unit = change.units[entry]
        for place in range(board.flow_start[unit], board.flow_start[unit + 1]):
            flow = board.unit_flows[place]
            if scratch.is_changed[flow] == 0:
                scratch.is_changed[flow] = 1
                scratch.changed[num] = flow
                num += 1
    scratch.num_changed[0] = num


@hot_loop
def anneal_moves(
    board: Board,
    engine: Engine,
    state: State,
    change: Change,
    rng: RngState,
    mix: FloatArray,
    num_moves: int,
    temperature: float,
    reach: int,
    energies: FloatArray,
    best_sites: IntArray,
    best_class: IntArray,
    accepted: LongArray,
    refused: LongArray,
    spread: FloatArray,
) -> bool:
    """Try moves at one temperature; False when a prediction is no number.

    `energies` [2]: now, and of the best state so far, which is kept up to date. `accepted`,
    `refused` and `spread` count on as in the compiled search with the heuristic.
    """
    for _ in range(num_moves):
        move = pick_move(rng, mix)
        reason = propose(board, state, change, rng, move, reach)
        if reason != LEGAL:
            refused[move, reason] += 1
            continue
        allowed = energies[0] - temperature * math.log(1.0 - uniform(rng))
        apply(state, change)
        _list_flows(board, engine.scratch, change)
        energy = -price_state(engine, state.sites, state.flow_class, engine.tolerance)
        if energy <= allowed and engine.tolerance > 0:  # where a walk stands is always exact
            take_back(engine.routes, engine.rows, engine.scratch)
            energy = -price_state(engine, state.sites, state.flow_class, 0.0)
        if not (energy <= allowed and math.isfinite(energy)):
            take_back(engine.routes, engine.rows, engine.scratch)
            undo(state, change)
            if not math.isfinite(energy):
                return False
            refused[move, _COST] += 1
            continue
        reseat(board, state, change)
        accepted[move] += 1
        energies[0] = energy
        spread[0] += energy
        spread[1] += energy * energy
        if energy < energies[1]:
            energies[1] = energy
            copy_entries(state.sites, 0, best_sites, 0, len(best_sites))
            copy_entries(state.flow_class, 0, best_class, 0, len(best_class))
    return True


class LearnedSearch:
    """A walk through placements by the predictions of one network or several."""

    def __init__(
        self,
        networks: Sequence[FlowNetwork],
        fabric: Fabric,
        netlist: Netlist,
        start: Start,
        mix: FloatArray,
        seed: int,
        pessimism: float = 0.0,
        tolerance: float = 0.0,
    ) -> None:
        self._networks, self._fabric, self._netlist, self._mix = networks, fabric, netlist, mix
        self._pessimism = pessimism
        self._board = board_of(fabric, netlist, start.is_allowed)
        self._state: State = state_of(self._board, start.sites, start.flow_class)
        self._change = empty_change(netlist.num_units, fabric.topology.num_sites)
        self._rng = rng_state(seed)
        self._engine = open_engine(
            networks, fabric, netlist, start.sites, start.flow_class, pessimism, tolerance
        )
        self._energies = np.full(2, -log_score(self._engine.result, pessimism))
        self._require_finite(bool(np.isfinite(self._energies).all()))
        self._best_sites, self._best_class = start.sites.copy(), start.flow_class.copy()

    def run(self, num_moves: int, temperature: float, reach: int, counts: Counts) -> None:
        self._require_finite(
            anneal_moves(
                self._board, self._engine, self._state, self._change, self._rng, self._mix,
                num_moves, temperature, reach, self._energies, self._best_sites, self._best_class,
                counts.accepted, counts.refused, counts.energy_sums,
            )
        )  # fmt: skip

    def _require_finite(self, is_finite: bool) -> None:
        if not is_finite:
            raise InputError("the model gives a prediction that is not finite; train it again")

    def verify(self) -> None:
        state = self._state
        fresh = open_engine(
            self._networks, self._fabric, self._netlist, state.sites, state.flow_class,
            self._pessimism,
        )  # fmt: skip
        exact = -log_score(fresh.result, self._pessimism)
        if abs(self.energy - exact) > MAX_DRIFT * max(1.0, abs(exact)):
            raise RuntimeError(f"the running energy {self.energy} differs from the full {exact}")

    @property
    def energy(self) -> float:
        return float(self._energies[0])

    @property
    def best_energy(self) -> float:
        return float(self._energies[1])

    def current(self) -> Decisions:
        return self._routed(self._state.sites, self._state.flow_class)

    def best(self) -> Decisions:
        return self._routed(self._best_sites, self._best_class)

    def _routed(self, sites: IntArray, flow_class: IntArray) -> Decisions:
        return route_turns(self._fabric, self._netlist, sites[None], flow_class[None])
