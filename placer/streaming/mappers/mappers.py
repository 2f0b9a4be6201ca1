"""All mappers by name, and one function that runs any of them and has the result checked."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from placer.base import InputError
from placer.streaming import model, search
from placer.streaming.game import BatchEnv
from placer.streaming.model import Budget, Device, Found, MapOptions, MapperName, Mapping, Program
from placer.streaming.search import Problem, improve_mapping, make_problem

_SEARCHES: dict[str, Callable[[Problem, Budget, int], Found]] = {
    "random": search.random_mapping,
    "list": search.list_schedule,
    "sa": search.anneal,
    "slots": search.anneal_slots,
    "evolution": search.evolve,
}
_POLICY_SHARE = 0.25  # of the time of the hybrid, for one batch of samples


class NotFoundError(InputError):
    """A mapper came to no mapping in its time; there may be one."""


@dataclass(frozen=True, slots=True)
class Result:
    """A checked mapping."""

    problem: Problem
    mapping: Mapping
    cycles: int  # by the checker
    bound: int  # no mapping takes fewer cycles
    tries: int  # mappings that were looked at
    seconds: float
    made_up: tuple[str, ...] | None  # names that random values stood for; None: values not checked
    not_executed: tuple[str, ...] = ()  # messages, and instructions that cannot be computed, a line each

    @property
    def gap(self) -> float:
        """Return how far the cycles may be above the optimum, relative to the bound."""
        return self.cycles / self.bound - 1.0


def map_program(
    program: Program,
    device: Device,
    options: MapOptions,
    *,
    values: bool = True,
    is_interrupted: Callable[[], bool] = lambda: False,
) -> Result:
    """Map a program; with `values` the mapping is also executed and its results compared.

    Raises InfeasibleError when there is no mapping, NotFoundError when none was found in time or
    until the user interrupted.
    """
    _load(options.mapper, options.fine_tune)
    began = time.monotonic()
    meaning = model.meaning_of(program) if values else None
    problem = make_problem(program, device)
    found = _search(problem, options, Budget(options.time_limit, None, is_interrupted))
    if found.is_infeasible:
        raise model.InfeasibleError(
            f"no mapping exists with tiles={device.tiles}, ii={device.ii}, "
            f"timing={device.timing}, max_hop={device.max_hop} (proved by the exact mapper)"
        )
    if found.needed is not None:
        raise NotFoundError(
            f"time_limit={options.time_limit:g} is too short for mapper={options.mapper}: one game of "
            f"{problem.num_nodes} instructions takes about {found.needed:.1f} s here; "
            f"set time_limit={math.ceil(found.needed)} or more, or use mapper=list"
        )
    if found.mapping is None:
        raise NotFoundError(
            f"mapper={options.mapper} found no mapping within time_limit={options.time_limit}; "
            "give it more time, or use mapper=exact"
        )
    verdict = require_legal(problem, found.mapping)
    if meaning is not None:
        tile, spoke = found.mapping.tile.tolist(), found.mapping.spoke.tolist()
        model.require_same_values(meaning, device, tile, spoke, verdict.start)
    checked = problem.mapping(found.mapping.tile, np.array(verdict.start))
    found = replace(found, mapping=checked)  # looks at the bound again
    seconds = time.monotonic() - began
    made_up = None if meaning is None else tuple(meaning.made_up)
    not_executed = () if meaning is None else tuple(meaning.not_executed)
    return Result(problem, checked, verdict.cycles, found.bound, found.tries, seconds, made_up, not_executed)


@cache
def _load(mapper: MapperName, fine_tune: bool) -> None:
    """Load what a mapper needs, and use it once on a small case: seconds that are no search."""
    if mapper in ("exact", "hybrid", "auto"):
        import ortools.sat.python.cp_model  # noqa: F401
    problem = make_problem(model.softmax_row(), Device())
    if mapper in _SEARCHES:
        _SEARCHES[mapper](problem, Budget(60.0, 1), 0)
    if mapper in ("rl", "hybrid"):
        import torch

        from placer.streaming.rl import TRAINED_POLICY, PpoConfig, load_policy, sample_once, update_once

        policy = load_policy(TRAINED_POLICY)
        sample_once(problem, policy, 2, 0)
        if fine_tune:
            update_once(policy, torch.optim.Adam(policy.parameters()), [problem], PpoConfig(rollouts=2), 0)


@dataclass(frozen=True, slots=True)
class FrontPoint:
    """What one initiation interval came to."""

    ii: int
    cycles: int | None  # None: no mapping
    bound: int | None
    reason: str = ""  # why there is no mapping


def find_front(
    program: Program, device: Device, options: MapOptions, is_interrupted: Callable[[], bool]
) -> list[FrontPoint]:
    """Return the best mapping for every initiation interval up to that of the device."""
    front: list[FrontPoint] = []
    for ii in range(1, device.ii + 1):
        now = replace(device, ii=ii)
        try:
            result = map_program(program, now, options, values=False, is_interrupted=is_interrupted)
            point = FrontPoint(ii, result.cycles, result.bound)
        except (model.InfeasibleError, NotFoundError) as error:
            point = FrontPoint(ii, None, None, str(error))
        if is_interrupted():
            break  # half a search is no point
        front.append(point)
    return front


def require_legal(problem: Problem, mapping: Mapping) -> model.Verdict:
    """Return the checker's verdict. Raises RuntimeError when a mapper broke a rule."""
    tile, spoke = mapping.tile.tolist(), mapping.spoke.tolist()
    verdict = model.check(problem.program, problem.device, tile, spoke)
    if not verdict.is_legal:
        raise RuntimeError(f"a mapper broke a rule: {'; '.join(verdict.violations[:3])}")
    return verdict


def _search(problem: Problem, options: MapOptions, budget: Budget) -> Found:
    seed, workers = options.seed, options.workers
    match options.mapper:
        case "exact":
            return search.solve(problem, budget, seed, workers=workers)
        case "rl":
            return _rl(problem, budget, options)
        case "hybrid":
            start = _rl(problem, budget.part(_POLICY_SHARE * budget.seconds, 1), options)
            return improve_mapping(problem, start, budget, seed, workers=workers)
        case "auto":
            nothing = Found(None, problem.bounds.total, 0)
            return improve_mapping(problem, nothing, budget, seed, workers=workers)
        case name:
            return _SEARCHES[name](problem, budget, seed)


def _rl(problem: Problem, budget: Budget, options: MapOptions) -> Found:
    """Ask the policy."""
    import torch

    from placer.streaming.rl import TRAINED_POLICY, fine_tune, load_policy, sample_mappings

    torch.set_num_threads(1)  # the products are small: more threads take longer
    policy = load_policy(options.policy or TRAINED_POLICY)
    if options.fine_tune:
        return fine_tune(problem, budget, options.seed, policy)
    return sample_mappings(
        problem, budget, options.seed, policy, samples=options.samples, ranks=options.ranks,
    )  # fmt: skip


def warm_up() -> None:
    """Use every compiled part once, on a small case."""
    problem = make_problem(model.softmax_row(), Device())
    for mapper in _SEARCHES.values():
        mapper(problem, Budget(60.0, 1), 0)
    env = BatchEnv([problem], [0, 0])
    env.step(env.reset().mask.argmax(axis=1))
