"""Netlists, starts and step-by-step walks for the tests of the annealer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from placer.annealing import Board, Change, Start, State
from placer.annealing.board import board_of, state_of
from placer.annealing.moves import LEGAL, apply, empty_change, propose, reseat, undo
from placer.annealing.pressure import Pressure, commit, grow, pressure_of, revert
from placer.base import BoolArray, RngState, rng_state
from placer.cost import HeuristicCost, Rules
from placer.decision import Decisions, random_sites
from placer.decision.routing import Tables, route_turns, tables_of
from placer.fabric import Fabric, load_fabric
from placer.netlist import Netlist
from placer.netlist.lowering import draw_netlist
from tests.placer.random_cases import random_case

SMALL = load_fabric("small")
SAMPLE_CYCLES = 300  # about the bound of the netlists


@cache
def drawn(family: str, index: int = 0) -> Netlist:
    """A random netlist of a family, lowered for the small fabric."""
    return draw_netlist(SMALL, family, SAMPLE_CYCLES, seed=0, index=index)


def free_start(fabric: Fabric, netlist: Netlist, seed: int = 0) -> Start:
    """A random placement with XY routes; every unit may go wherever its kind allows."""
    return Start(
        sites=random_sites(fabric, netlist, 1, seed)[0],
        flow_class=np.zeros(netlist.num_flows, np.int32),
        is_allowed=np.ones((netlist.num_units, fabric.topology.num_sites), np.bool_),
    )


def random_start(seed: int, *, is_constrained: bool = False) -> tuple[Fabric, Netlist, Start]:
    """A random small fabric and netlist with shared sites and XY and YX routes.

    Constrained: every unit may go to a random part of the sites, some to no other at all.
    """
    fabric, netlist, decisions = random_case(seed, deadlock_free=True)
    rng = np.random.default_rng(seed)
    sites = decisions.sites[0]
    is_allowed: BoolArray = np.ones((netlist.num_units, fabric.topology.num_sites), np.bool_)
    if is_constrained:
        share = rng.choice([0.0, 0.5, 1.0], size=(netlist.num_units, 1))
        is_allowed = rng.random(is_allowed.shape) < share
        is_allowed[np.arange(netlist.num_units), sites] = True
    flow_class = (decisions.channels[0] >= fabric.link.channels // 2).astype(np.int32)
    return fabric, netlist, Start(sites, flow_class, is_allowed)


@dataclass(frozen=True, slots=True)
class Walk:
    """Moves one by one: `try_move`, then `accept` or `reject` it if it can be done."""

    fabric: Fabric
    netlist: Netlist
    board: Board
    tables: Tables
    state: State
    pressure: Pressure
    change: Change
    rng: RngState

    @staticmethod
    def begin(fabric: Fabric, netlist: Netlist, start: Start, seed: int, rules: Rules | None = None) -> Walk:
        board = board_of(fabric, netlist, start.is_allowed)
        tables = tables_of(fabric, netlist, rules or Rules())
        state = state_of(board, start.sites, start.flow_class)
        return Walk(
            fabric=fabric,
            netlist=netlist,
            board=board,
            tables=tables,
            state=state,
            pressure=pressure_of(board, tables, state),
            change=empty_change(netlist.num_units, fabric.topology.num_sites, netlist.num_flows),
            rng=rng_state(seed),
        )

    def propose(self, move: int, reach: int) -> int:
        return int(propose(self.board, self.state, self.change, self.rng, move, reach))

    def price(self, limit: float = math.inf) -> float:
        """Growth of the sum of powers by the proposed move; above `limit`, not all of it."""
        apply(self.board, self.state, self.change)
        growth = grow(self.pressure, self.board, self.state, self.change, limit)
        self.pressure.level[1] = self.pressure.level[0] + growth
        return float(growth)

    def try_move(self, move: int, reach: int) -> float | None:
        """Growth of the sum of powers, or None when the move cannot be done."""
        return self.price() if self.propose(move, reach) == LEGAL else None

    def accept(self) -> None:
        commit(self.pressure, self.change)
        reseat(self.board, self.state, self.change)

    def reject(self) -> None:
        revert(self.pressure, self.board, self.change)
        undo(self.state, self.change)

    def fresh_pressure(self) -> Pressure:
        """The loads of the current placement, from scratch."""
        result: Pressure = pressure_of(self.board, self.tables, self.state)
        return result

    def decision(self) -> Decisions:
        """The current placement, routed."""
        sites, flow_class = self.state.sites[None], self.state.flow_class[None]
        return route_turns(self.fabric, self.netlist, sites, flow_class)

    @property
    def farthest(self) -> int:
        return max(self.fabric.rows, self.fabric.columns)


class EnergyCost:
    """The heuristic's p-norm as a plain cost model, one that the annealer does not know."""

    def __init__(self, fabric: Fabric) -> None:
        self._heuristic = HeuristicCost(fabric)
        self.batch_sizes: list[int] = []

    def score(self, netlist: Netlist, decisions: Decisions) -> np.ndarray:
        self.batch_sizes.append(len(decisions))
        scores: np.ndarray = np.exp(-self._heuristic.energy(netlist, decisions))
        return scores
