"""Randomised searches: decisions of one netlist from all phases of annealing.

Everything about the search is drawn anew for each run (start temperature, cooling, effort, mix of
moves, weights and sharpness of the heuristic, router), so that no single search leaves its mark.
Tuned searches (for sections, and for pools) draw only what a placer would.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from costmodel.dataset.records import Phase
from placer.annealing import (
    AnnealOptions,
    AnnealResult,
    AnnealStatus,
    BatchedSearch,
    Counts,
    MoveMix,
    Round,
    Schedule,
    Search,
    Start,
    anneal,
    start_of,
)
from placer.base import FloatArray
from placer.cost import MAX_DOUBLINGS, CostModel, HeuristicCost, Rules, SimulatorCost, simulated_throughput
from placer.decision import Decisions, random_sites
from placer.decision.routing import RoutingMethod, route
from placer.fabric import Fabric
from placer.netlist import Netlist
from placer.simulation import Outcome

# Acceptance rates that separate the phases of an anneal.
HOT_ACCEPTANCE, COLD_ACCEPTANCE = 0.6, 0.25
QUENCH_TEMPERATURE = 4e-5  # only moves that cost next to nothing pass
WALK_TEMPERATURE = 0.01  # moves that cost about 1% pass
NEGOTIATED_SHARE = 0.25  # of the decisions get negotiated routes after the search
TUNED_FLOW, TUNED_SPREAD = 1.6, 0.25  # weight of long flows; deviation of the log of weights
TUNED_DOUBLINGS = (1, 2, 2, 3)  # that are drawn
POOL_EFFORT = 0.3  # of the anneals of a pool
MAX_TRIES = 8  # moves of a walk per decision that is wanted; some find no place


@dataclass(frozen=True, slots=True)
class Found:
    """A decision, and where it comes from."""

    decision: Decisions
    phase: Phase
    search: dict[str, Any]


@dataclass(slots=True)
class _Recorder:
    """The simulator as a cost model that keeps what it simulated."""

    model: SimulatorCost
    decisions: list[Decisions] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)

    def score(self, netlist: Netlist, decisions: Decisions) -> FloatArray:
        self.decisions.append(decisions)
        self.outcomes.append(self.model.simulate(netlist, decisions))
        return simulated_throughput(netlist, self.outcomes[-1])


class Explorer:
    """Finds decisions of one netlist, all from one random generator."""

    def __init__(self, fabric: Fabric, netlist: Netlist, rng: np.random.Generator, is_tuned: bool = False) -> None:
        """`is_tuned`: anneals as a placer would, with rules near the tuned ones."""
        self._fabric, self._netlist, self._rng = fabric, netlist, rng
        self._is_tuned = is_tuned
        shape = (netlist.num_units, fabric.topology.num_sites)
        self._is_allowed = np.ones(shape, np.bool_)

    def random(self) -> Found:
        """Return a random placement with a random router."""
        sites = random_sites(self._fabric, self._netlist, 1, self._seed())
        method = list(RoutingMethod)[int(self._rng.integers(len(RoutingMethod)))]
        decision = route(self._fabric, self._netlist, sites, method=method, seed=self._seed())
        return Found(decision, Phase.RANDOM, {"router": method.value})

    def anneal(self, wanted: list[Phase]) -> list[Found]:
        """Anneal with the heuristic; return a decision of each wanted phase that it met."""
        options, rules = self._draw_options(), self._draw_rules()
        seen: dict[Phase, tuple[int, Decisions]] = {}

        def watch(point: Round, search: Search) -> None:
            phase = _phase_of(point.acceptance)
            number = seen[phase][0] + 1 if phase in seen else 1
            if phase in wanted and self._rng.random() < 1 / number:  # each with the same chance
                seen[phase] = (number, search.current())
            elif phase in seen:
                seen[phase] = (number, seen[phase][1])

        result = self._run(HeuristicCost(self._fabric, rules), options, self._random_start(), watch)
        if Phase.COLD in wanted and (Phase.COLD not in seen or self._rng.random() < 0.7):
            seen[Phase.COLD] = (1, result.decision)
        search = _describe(options, rules)
        return [self._rerouted(Found(seen[p][1], p, search)) for p in wanted if p in seen]

    def pool(self) -> Found:
        """Return the result of a short anneal as a placer makes it."""
        options, rules = AnnealOptions(effort=POOL_EFFORT), self._draw_tuned_rules()
        result = self._run(HeuristicCost(self._fabric, rules), options, self._random_start(), None)
        return Found(result.decision, Phase.POOL, _describe(options, rules))

    def quench(self) -> Found:
        """Return where greedy descent from a random placement ends."""
        effort = math.exp(self._rng.uniform(math.log(0.05), math.log(2)))
        options = AnnealOptions(effort=effort, start_temperature=QUENCH_TEMPERATURE)
        rules = self._draw_rules()
        cost = HeuristicCost(self._fabric, rules)
        result = self._run(cost, options, self._random_start(), None)
        return self._rerouted(Found(result.decision, Phase.QUENCHED, _describe(options, rules)))

    def walk(self, start: Decisions, count: int) -> tuple[list[Found], list[Outcome]]:
        """Return `count` moves with the simulator in the loop, at one temperature, taken or not.

        They are what a search asks for when it is nearly done, simulated as labels are.
        """
        cost = _Recorder(SimulatorCost(self._fabric))
        begin = start_of(self._fabric, start, self._is_allowed)
        mix, reach = self._draw_options().moves, int(self._rng.integers(1, self._fabric.columns))
        search = BatchedSearch(self._fabric, self._netlist, cost, begin, mix.cumulated(), self._seed(), max_batch=1)
        for _ in range(MAX_TRIES * count):
            if len(cost.decisions) > count:  # the first is the start
                break
            search.run(1, WALK_TEMPERATURE, reach, Counts())
        about = {"cost": "simulator", "temperature": WALK_TEMPERATURE, "moves": asdict(mix)}
        found = [Found(decision, Phase.OPTIMAL, about) for decision in cost.decisions[1:]]
        return found, cost.outcomes[1:]

    def _run(self, cost: CostModel, options: AnnealOptions, start: Start, watch: Any) -> AnnealResult:
        result = anneal(self._fabric, self._netlist, cost, start, options, self._seed(), watch)
        if result.status is AnnealStatus.INTERRUPTED:
            raise KeyboardInterrupt  # half a search is no sample
        return result

    def _rerouted(self, found: Found) -> Found:
        """Give some decisions the routes of the other router."""
        if self._rng.random() >= NEGOTIATED_SHARE:
            return found
        method = RoutingMethod.NEGOTIATED
        decision = route(self._fabric, self._netlist, found.decision.sites, method=method)
        return Found(decision, found.phase, {**found.search, "router": method.value})

    def _random_start(self) -> Start:
        sites = random_sites(self._fabric, self._netlist, 1, self._seed())[0]
        turns = self._rng.integers(2, size=self._netlist.num_flows).astype(np.int32)
        return Start(sites, turns, self._is_allowed)

    def _seed(self) -> int:
        return int(self._rng.integers(1 << 31))

    def _draw_options(self) -> AnnealOptions:
        rng = self._rng
        if self._is_tuned:
            return AnnealOptions(effort=_log_uniform(rng, 0.05, 0.3))
        schedule = Schedule(
            start=_log_uniform(rng, 0.2, 2), cooling=_log_uniform(rng, 0.7, 3), end=_log_uniform(rng, 2e-5, 2e-3)
        )
        mix = MoveMix(*(_log_uniform(rng, share / 3, share * 3) for share in asdict(MoveMix()).values()))
        return AnnealOptions(effort=_log_uniform(rng, 0.01, 0.2), schedule=schedule, moves=mix)

    def _draw_rules(self) -> Rules:
        if self._is_tuned:
            return self._draw_tuned_rules()
        link, flow, port = (_log_uniform(self._rng, 0.5, 2) for _ in range(3))
        return Rules(link, flow, port, doublings=int(self._rng.integers(1, MAX_DOUBLINGS)))

    def _draw_tuned_rules(self) -> Rules:
        link, flow, port = np.exp(self._rng.normal(0.0, TUNED_SPREAD, 3)).tolist()
        return Rules(link, TUNED_FLOW * flow, port, int(self._rng.choice(TUNED_DOUBLINGS)))


def _phase_of(acceptance: float) -> Phase:
    if acceptance > HOT_ACCEPTANCE:
        return Phase.HOT
    return Phase.MID if acceptance > COLD_ACCEPTANCE else Phase.COLD


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def _describe(options: AnnealOptions, rules: Rules) -> dict[str, Any]:
    """Return the parameters of a search as plain JSON."""
    return {
        "cost": "heuristic",
        "effort": options.effort,
        "start_temperature": options.start_temperature,
        "schedule": asdict(options.schedule),
        "moves": asdict(options.moves),
        "rules": asdict(rules),
    }
