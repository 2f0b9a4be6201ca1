"""How a netlist is placed: as `python -m placer.place` would, over and over until time is over."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Annotated

from costmodel.evaluation.comparison.cases import Case
from placer.annealing import MultiStartResult, StartJob, StartResult, Strategy, Task, search_once
from placer.base import Count, Settings, Within
from placer.cost import CostModel, SimulatorCost
from placer.decision import Decisions, allowed_sites
from placer.pipeline import PlaceConfig
from placer.simulation import PRECISE_LIMITS, Limits, label_limits

LAST_SHARE = 0.05  # of the time, in which no search is begun
LONG_LIMITS = Limits(warmup_samples=30, window_samples=60)


@dataclass(frozen=True, slots=True)
class PlacingMethod(Settings):
    """A way to place a netlist."""

    settings: PlaceConfig  # of the search; fabric, workload and limits of time are not used
    # Of the time that all methods get; 0: a single search, which ends at once; None: one that takes as long as it takes
    time_factor: Annotated[float, Within(0)] | None = 1.0
    max_seeds: Count | None = None  # fewer repetitions than the others, for slow methods

    def seconds_of(self, seconds: float) -> float | None:
        """Return its share of the time that all methods get; None: it has no limit."""
        return None if self.time_factor is None else seconds * self.time_factor

    def strategy(self, seconds: float | None) -> Strategy:
        """Return how to search for so many seconds; None: until it has cooled, or all moves are done."""
        settings = self.settings
        return Strategy(
            replace(settings.to_options(), time_limit=seconds),
            settings.start,
            settings.rules,
            pool=settings.pool,
            finalists=settings.finalists,
        )


@dataclass(frozen=True, slots=True)
class Placed:
    """What a method found; throughput is that of `judge_limits`, predictions are its own."""

    throughput: float
    predicted: float
    favourite: float  # throughput of what its cost model likes best, before finalists are simulated
    favourite_predicted: float
    seconds: float  # of the searches
    searches: int
    simulation_seconds: float  # that one simulation of what it found takes, as a search would ask for it


def judge_limits(bound_cycles: int) -> Limits:
    """Return limits that are longer than those of any simulation inside a search.

    A method that chooses the fastest of several chooses by errors, too, and these must not count.
    """
    is_long = label_limits(bound_cycles) == PRECISE_LIMITS
    return LONG_LIMITS if is_long else PRECISE_LIMITS


def place(case: Case, method: PlacingMethod, seconds: float, seed: int) -> Placed:
    """Search until the time is over, then simulate the result.

    Raises InputError when the cost model cannot be made.
    """
    netlist, settings = case.netlist, method.settings
    cost = settings.cost.model(case.fabric, settings.rules, seed)
    _search(case, method, cost, 0.0, seed)  # loads compiled code before the clock starts
    begin = time.monotonic()
    found = _search(case, method, cost, method.seconds_of(seconds), seed)
    spent = time.monotonic() - begin
    chosen, favourite = found.best.result.decision, found.best.favourite
    decisions = chosen if favourite is chosen else Decisions.concatenate((chosen, favourite))
    truth = SimulatorCost(case.fabric, judge_limits(netlist.bound_cycles))
    throughput, predicted = (model.score(netlist, decisions) for model in (truth, cost))
    begin = time.monotonic()
    SimulatorCost(case.fabric).score(netlist, chosen)
    return Placed(
        throughput=float(throughput[0]),
        predicted=float(predicted[0]),
        favourite=float(throughput[-1]),
        favourite_predicted=float(predicted[-1]),
        seconds=round(spent, 3),
        searches=len(found.starts),
        simulation_seconds=round(time.monotonic() - begin, 4),
    )


def _search(case: Case, method: PlacingMethod, cost: CostModel, seconds: float | None, seed: int) -> MultiStartResult:
    """Search from new starts until the time is over, or once when there is no limit; the best one counts.

    None is begun in the last moments: one that simulates needs seconds on `large`.
    """
    is_allowed = allowed_sites(case.fabric, case.netlist, None)
    task = Task(case.fabric, case.netlist, cost, is_allowed)
    if seconds is None:
        return MultiStartResult((search_once(StartJob(task, method.strategy(None), 0, (seed,))),))
    end, done = time.monotonic() + seconds, list[StartResult]()
    while (left := end - time.monotonic()) > LAST_SHARE * seconds or not done:
        strategy = method.strategy(max(left, 1e-3))
        done.append(search_once(StartJob(task, strategy, len(done), (seed,))))
    return MultiStartResult(tuple(done))
