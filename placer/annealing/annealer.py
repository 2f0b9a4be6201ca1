"""Simulated annealing of a placement, with any cost model."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from placer.annealing.board import board_of
from placer.annealing.loop import Start
from placer.annealing.moves import Move, Refusal
from placer.annealing.schedule import Schedule, next_reach
from placer.annealing.search import INFINITE_TEMPERATURE, BatchedSearch, Counts, RulesSearch, Search, SearchingCost
from placer.base import InputError, Interrupt
from placer.cost import CostModel, HeuristicCost, ranking_model
from placer.decision import Decisions, check
from placer.decision.routing import require_sites
from placer.fabric import Fabric
from placer.netlist import Netlist

VERIFY_ROUNDS = 8  # temperatures between two comparisons of the running with the full cost


class AnnealStatus(Enum):
    """Why a search ended."""

    COOLED = "cooled"  # the schedule came to its end
    TIME_LIMIT = "time limit"
    MOVE_LIMIT = "move limit"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class MoveMix:
    """How often each kind of move is tried; only the ratios matter."""

    relocate: float = 30.0
    swap: float = 45.0
    group_swap: float = 1.0
    stage_shift: float = 1.0
    reroute: float = 23.0

    def __post_init__(self) -> None:
        shares = [getattr(self, item.name) for item in fields(self)]
        if not min(shares) >= 0 or not 0 < sum(shares) < float("inf"):
            raise InputError(f"moves {self}: allowed 0 or more each, and one above 0")

    def cumulated(self) -> NDArray[np.float64]:
        """Return cumulated shares in the order of `Move`; the last one is above every draw."""
        total = np.cumsum([getattr(self, move.name.lower()) for move in Move])
        shares: NDArray[np.float64] = total / total[-1]
        shares[np.flatnonzero(shares == 1.0)] = 2.0
        return shares


@dataclass(frozen=True, slots=True)
class AnnealOptions:
    """How to search."""

    effort: float = 1.0  # moves per temperature, relative; time grows in proportion
    time_limit: float | None = None  # seconds
    max_moves: int | None = None
    start_temperature: float | None = None  # None: from the spread of random moves
    schedule: Schedule = field(default_factory=Schedule)
    moves: MoveMix = field(default_factory=MoveMix)

    def __post_init__(self) -> None:
        for name in ("effort", "time_limit", "start_temperature"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise InputError(f"{name}={value} is out of range; allowed: more than 0")
        if self.max_moves is not None and self.max_moves < 1:
            raise InputError(f"max_moves={self.max_moves} is out of range; allowed: 1 or more")


@dataclass(frozen=True, slots=True)
class Round:
    """State of the search after the moves of one temperature: a point of the cost curve."""

    moves: int  # so far
    seconds: float  # so far
    temperature: float
    reach: int  # how far units went, in rows and columns
    acceptance: float  # share of the moves of this round
    energy: float  # log of predicted cycles per sample / bound
    best_energy: float


@dataclass(frozen=True, slots=True)
class AnnealResult:
    """The best placement found, and how the search went."""

    decision: Decisions  # checked, a stack of one
    energy: float
    status: AnnealStatus
    moves: int
    seconds: float
    accepted: dict[str, int]  # by kind of move
    refused: dict[str, int]  # by reason
    curve: tuple[Round, ...]

    @property
    def moves_per_second(self) -> float:
        return self.moves / max(self.seconds, 1e-9)


Watch = Callable[[Round, Search], None]  # called after every round


def anneal(
    fabric: Fabric,
    netlist: Netlist,
    cost: CostModel,
    start: Start,
    options: AnnealOptions,
    seed: int,
    watch: Watch | None = None,
) -> AnnealResult:
    """Search for a placement with a low energy; the same seed gives the same result (without a time limit).

    The heuristic is annealed by compiled code with exact deltas, a `SearchingCost` in its own way,
    other cost models by batches of candidates. Ctrl-C ends the search and the best placement so far
    is returned.
    Raises InputError when the start is not legal, or a unit sits where it is not allowed.
    """
    _require_legal(fabric, netlist, start)
    mix, ranking = options.moves.cumulated(), ranking_model(cost)
    search: Search
    if isinstance(ranking, HeuristicCost):
        search = RulesSearch(fabric, netlist, ranking, start, mix, seed)
    elif isinstance(ranking, SearchingCost):
        search = ranking.open_search(netlist, start, mix, seed)
    else:
        search = BatchedSearch(fabric, netlist, ranking, start, mix, seed)
    farthest = max(fabric.topology.rows, fabric.topology.columns)
    with Interrupt() as interrupt:
        run = _Run(netlist, options, search, farthest, watch, interrupt)
        status = run.to_the_end()
    search.verify()
    decision = search.best()
    check(fabric, netlist, decision)
    return AnnealResult(
        decision=decision,
        energy=search.best_energy,
        status=status,
        moves=run.counts.moves,
        seconds=run.seconds(),
        accepted={move.name.lower(): int(run.counts.accepted[move]) for move in Move},
        refused={r.name.lower(): int(run.counts.refused[:, r].sum()) for r in Refusal},
        curve=tuple(run.curve),
    )


def _require_legal(fabric: Fabric, netlist: Netlist, start: Start) -> None:
    """Raise InputError when the start is not legal: compiled code trusts it."""
    sites = require_sites(fabric, netlist, start.sites[None])[0]
    board = board_of(fabric, netlist, start.is_allowed)
    units = np.arange(netlist.num_units)
    for unit in np.flatnonzero(~board.is_allowed[units, sites]):
        name = netlist.units[unit].name
        raise InputError(f"start: unit {name!r} sits on site {sites[unit]}, not allowed to it")
    num_sites = len(board.max_units)
    num_tenants = np.bincount(sites, minlength=num_sites)
    used_bytes = np.bincount(sites, weights=board.unit_bytes, minlength=num_sites)
    is_full = (num_tenants > board.max_units) | (used_bytes > board.capacity_bytes)
    for site in np.flatnonzero(is_full):
        raise InputError(f"start: site {site} holds {num_tenants[site]} units, too many for it")


class _Run:
    """One search: rounds of moves at falling temperatures."""

    def __init__(
        self,
        netlist: Netlist,
        options: AnnealOptions,
        search: Search,
        farthest: int,
        watch: Watch | None,
        interrupt: Interrupt,
    ) -> None:
        self.counts = Counts()
        self.curve: list[Round] = []
        self._netlist, self._options, self._search = netlist, options, search
        self._farthest, self._watch, self._interrupt = farthest, watch, interrupt
        self._begin = time.monotonic()

    def seconds(self) -> float:
        return time.monotonic() - self._begin

    def to_the_end(self) -> AnnealStatus:
        try:
            return self._cool()
        except KeyboardInterrupt:  # of `watch`, or the second one
            return AnnealStatus.INTERRUPTED

    def _cool(self) -> AnnealStatus:
        schedule = self._options.schedule
        reach = float(self._farthest)
        temperature = self._options.start_temperature or self._measure_start()
        while temperature > schedule.end:
            before = self.counts.moves, int(self.counts.accepted.sum())
            ending = self._try_moves(self._round_moves(temperature), temperature, int(reach))
            tried = max(1, self.counts.moves - before[0])
            acceptance = (int(self.counts.accepted.sum()) - before[1]) / tried
            self._close_round(temperature, int(reach), acceptance)
            if ending is not None:
                return ending
            temperature = schedule.next_temperature(temperature, acceptance, reach)
            reach = next_reach(reach, acceptance, self._farthest)
        return AnnealStatus.COOLED

    def _round_moves(self, temperature: float) -> int:
        """Return fewer than the schedule says where a limit of time would come before the end."""
        options, schedule = self._options, self._options.schedule
        wanted = schedule.round_moves(self._netlist.num_units, options.effort)
        if options.time_limit is None:
            return wanted
        rounds = schedule.rounds_left(temperature, options.start_temperature is not None)
        return min(wanted, max(1, int(self._affordable_moves() / rounds)))

    def _affordable_moves(self) -> float:
        """Return the moves until the limit of time, at the speed so far."""
        assert self._options.time_limit is not None
        speed = max(self.counts.moves, 1) / max(self.seconds(), 1e-9)
        return speed * max(0.0, self._options.time_limit - self.seconds())

    def _measure_start(self) -> float:
        """Return a start temperature from the spread of random moves."""
        self._try_moves(self._netlist.num_units, INFINITE_TEMPERATURE, self._farthest)
        deviation = self.counts.energy_deviation()
        return max(self._options.schedule.start * deviation, 2 * self._options.schedule.end)

    def _try_moves(self, num_moves: int, temperature: float, reach: int) -> AnnealStatus | None:
        """Try the moves of one temperature; return why the search ends, if it does."""
        left = num_moves
        while left > 0:
            options, moves = self._options, self.counts.moves
            if self._interrupt.is_asked:
                return AnnealStatus.INTERRUPTED
            if options.time_limit is not None and self.seconds() >= options.time_limit:
                return AnnealStatus.TIME_LIMIT
            if options.max_moves is not None and moves >= options.max_moves:
                return AnnealStatus.MOVE_LIMIT
            chunk = min(left, self._search.chunk, (options.max_moves or moves + left) - moves)
            if options.time_limit is not None:  # the first moves tell how slow they are
                chunk = min(chunk, max(1, int(self._affordable_moves())) if moves else 1)
            self._search.run(chunk, temperature, reach, self.counts)
            left -= chunk
        return None

    def _close_round(self, temperature: float, reach: int, acceptance: float) -> None:
        if len(self.curve) % VERIFY_ROUNDS == 0:
            self._search.verify()
        point = Round(
            self.counts.moves, self.seconds(), temperature, reach, acceptance,
            self._search.energy, self._search.best_energy,
        )  # fmt: skip
        self.curve.append(point)
        if self._watch is not None:
            self._watch(point, self._search)
