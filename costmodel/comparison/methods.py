"""How a netlist is placed: as `python -m placer.place` would, over and over until time is over."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from costmodel.comparison.cases import Case
from placer.annealing.constraints import allowed_sites
from placer.annealing.multistart import MultiStartResult, SearchTask, StartResult, search_once
from placer.annealing.problem import Problem
from placer.cost import CostModel, SimulatorCost
from placer.decision import Decisions
from placer.errors import InputError
from placer.placing import PlaceConfig
from placer.simulation import PRECISE_LIMITS, Limits, label_limits

LAST_SHARE = 0.05  # of the time, in which no search is begun
LONG_LIMITS = Limits(warmup_samples=30, window_samples=60)


@dataclass(frozen=True, slots=True)
class Method:
    """A way to place."""

    settings: PlaceConfig  # of the search; fabric, workload and limits of time are not used
    time_factor: float = 1.0  # of the time that all methods get; 0: a single search
    max_seeds: int | None = None  # fewer repetitions than the others, for slow methods

    def __post_init__(self) -> None:
        if not 0 <= self.time_factor < float("inf"):
            raise InputError(f"time_factor={self.time_factor}; allowed 0 or more")
        if self.max_seeds is not None and self.max_seeds < 1:
            raise InputError(f"max_seeds={self.max_seeds}; allowed: null, or 1 and more")

    def problem(self, case: Case, cost: CostModel, seconds: float) -> Problem:
        settings = self.settings
        return Problem(
            case.fabric,
            case.netlist,
            cost,
            allowed_sites(case.fabric, case.netlist, None),
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


def judge_limits(bound_cycles: int) -> Limits:
    """Longer than any simulation inside a search: a method that chooses the fastest of several
    chooses by errors, too, and these must not count."""
    is_long = label_limits(bound_cycles) == PRECISE_LIMITS
    return LONG_LIMITS if is_long else PRECISE_LIMITS


def place(case: Case, method: Method, seconds: float, seed: int) -> Placed:
    """Search until the time is over, then simulate the result.

    Raises InputError when the cost model cannot be made.
    """
    netlist, settings = case.netlist, method.settings
    cost = settings.cost.model(case.fabric, settings.rules, seed)
    _search(case, method, cost, 0.0, seed)  # loads compiled code before the clock starts
    begin = time.monotonic()
    found = _search(case, method, cost, seconds * method.time_factor, seed)
    spent = time.monotonic() - begin
    chosen, favourite = found.best.result.decision, found.best.favourite
    decisions = chosen if favourite is chosen else Decisions.concatenate((chosen, favourite))
    truth = SimulatorCost(case.fabric, judge_limits(netlist.bound_cycles))
    throughput, predicted = (model.score(netlist, decisions) for model in (truth, cost))
    return Placed(
        throughput=float(throughput[0]),
        predicted=float(predicted[0]),
        favourite=float(throughput[-1]),
        favourite_predicted=float(predicted[-1]),
        seconds=round(spent, 3),
        searches=len(found.starts),
    )


def _search(
    case: Case, method: Method, cost: CostModel, seconds: float, seed: int
) -> MultiStartResult:
    """Searches from new starts until the time is over; the best one counts.

    None is begun in the last moments: one that simulates needs seconds on `large`.
    """
    end, done = time.monotonic() + seconds, list[StartResult]()
    while (left := end - time.monotonic()) > LAST_SHARE * seconds or not done:
        problem = method.problem(case, cost, max(left, 1e-3))
        done.append(search_once(SearchTask(problem, len(done), (seed,))))
    return MultiStartResult(tuple(done))
