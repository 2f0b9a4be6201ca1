"""Netlists, starts and step-by-step walks for the tests of the annealer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from placer.annealing import Start
from placer.annealing.board import Board, BoolArray, State, board_of, state_of
from placer.annealing.moves import LEGAL, Change, empty_change, propose, reseat
from placer.annealing.pressure import Pressure
from placer.annealing.pricing import keep, pressure_of, price, take_back
from placer.annealing.random import RngState, rng_state
from placer.config import load_fabric
from placer.decision import Decisions
from placer.fabric import Fabric
from placer.heuristic import HeuristicCost, Rules, Tables, tables_of
from placer.lowering import draw_netlist
from placer.netlist import Netlist
from placer.placement import random_sites
from placer.routing import route_turns
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
    def begin(
        fabric: Fabric, netlist: Netlist, start: Start, seed: int, rules: Rules | None = None
    ) -> Walk:
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
            change=empty_change(netlist.num_units, fabric.topology.num_sites),
            rng=rng_state(seed),
        )

    def propose(self, move: int, reach: int) -> int:
        return int(propose(self.board, self.state, self.change, self.rng, move, reach))

    def price(self, limit: float = math.inf) -> float:
        """Growth of the sum of powers by the proposed move; above `limit`, not all of it."""
        board, tables, state, pressure = self.board, self.tables, self.state, self.pressure
        return float(price(board, tables, state, pressure, self.change, limit))

    def try_move(self, move: int, reach: int) -> float | None:
        """Growth of the sum of powers, or None when the move cannot be done."""
        return self.price() if self.propose(move, reach) == LEGAL else None

    def accept(self, growth: float) -> None:
        keep(self.tables, self.pressure, growth)
        reseat(self.board, self.state, self.change)

    def reject(self) -> None:
        take_back(self.board, self.tables, self.state, self.pressure, self.change)

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
