"""All mappers by name, and one function that runs any of them and has the result checked."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from placer.errors import InputError
from placer.streaming.annealing import anneal
from placer.streaming.check import Verdict, check
from placer.streaming.construct import list_schedule, random_mapping
from placer.streaming.device import Device
from placer.streaming.evolution import evolve
from placer.streaming.exact import solve
from placer.streaming.execute import require_same_values
from placer.streaming.hybrid import improve_mapping
from placer.streaming.mapping import Budget, Found, Mapping, require_bound
from placer.streaming.options import TRAINED_POLICY, MapOptions
from placer.streaming.problem import Problem, make_problem
from placer.streaming.program import Program
from placer.streaming.rules import InfeasibleError
from placer.streaming.slots import anneal_slots
from placer.streaming.values import meaning_of

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

    @property
    def gap(self) -> float:
        """How far the cycles may be above the optimum, relative to the bound."""
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
    began = time.monotonic()
    meaning = meaning_of(program) if values else None
    problem = make_problem(program, device)
    found = _search(problem, options, Budget(options.time_limit, None, is_interrupted))
    if found.is_infeasible:
        raise InfeasibleError(
            f"no mapping exists with tiles={device.tiles}, ii={device.ii}, "
            f"timing={device.timing}, max_hop={device.max_hop} (proved by the exact mapper)"
        )
    if found.mapping is None:
        raise NotFoundError(
            f"mapper={options.mapper} found no mapping within time_limit={options.time_limit}; "
            "give it more time, or use mapper=exact"
        )
    verdict = require_legal(problem, found.mapping)
    if meaning is not None:
        tile, spoke = found.mapping.tile.tolist(), found.mapping.spoke.tolist()
        require_same_values(meaning, device, tile, spoke, verdict.start)
    checked = found.mapping.with_start(verdict.start)
    require_bound(found.bound, verdict.cycles)
    seconds = time.monotonic() - began
    made_up = None if meaning is None else tuple(meaning.made_up)
    return Result(problem, checked, verdict.cycles, found.bound, found.tries, seconds, made_up)


def require_legal(problem: Problem, mapping: Mapping) -> Verdict:
    """The checker's verdict; RuntimeError when a mapper broke a rule."""
    tile, spoke = mapping.tile.tolist(), mapping.spoke.tolist()
    verdict = check(problem.program, problem.device, tile, spoke)
    if not verdict.is_legal:
        raise RuntimeError(f"a mapper broke a rule: {'; '.join(verdict.violations[:3])}")
    return verdict


def _search(problem: Problem, options: MapOptions, budget: Budget) -> Found:
    seed = options.seed
    match options.mapper:
        case "random":
            return random_mapping(problem, budget, seed)
        case "list":
            return list_schedule(problem, budget, seed)
        case "sa":
            return anneal(problem, budget, seed)
        case "slots":
            return anneal_slots(problem, budget, seed)
        case "evolution":
            return evolve(problem, budget, seed)
        case "exact":
            return solve(problem, budget, seed, workers=options.workers)
        case "rl":
            return _rl(problem, budget, options)
        case "hybrid":
            start = _rl(problem, budget.part(_POLICY_SHARE * budget.seconds, 1), options, 1.0)
            return improve_mapping(problem, start, budget, seed, workers=options.workers)
        case "auto":
            nothing = Found(None, problem.bounds.total, 0)
            return improve_mapping(problem, nothing, budget, seed, workers=options.workers)


def _rl(problem: Problem, budget: Budget, options: MapOptions, patience: float = 5.0) -> Found:
    """Samples of the policy; `patience`: seconds for the first ones, whatever the budget."""
    import torch

    from placer.streaming.rl.policy_file import load_policy
    from placer.streaming.rl.sample import fine_tune, sample_mappings

    torch.set_num_threads(1)  # the products are small: more threads take longer
    policy = load_policy(options.policy or TRAINED_POLICY)
    if options.fine_tune:
        return fine_tune(problem, budget, options.seed, policy)
    return sample_mappings(
        problem, budget, options.seed, policy, samples=options.samples, ranks=options.ranks,
        patience=patience,
    )  # fmt: skip
