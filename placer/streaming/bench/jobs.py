"""What is measured, one job at a time; each job is a dictionary that a file can hold."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from placer.errors import InputError
from placer.streaming.construct import list_schedule
from placer.streaming.device import Device
from placer.streaming.generate import growing_network
from placer.streaming.mappers import map_program, require_legal
from placer.streaming.mapping import Budget
from placer.streaming.options import TRAINED_POLICY, MapOptions, MapperName
from placer.streaming.problem import Problem, make_problem
from placer.streaming.program import Program
from placer.streaming.program_file import load_program
from placer.streaming.rl.environment import BatchEnv

FEW_TILES, MANY_TILES, FEW_NODES = 16, 64, 24  # wide fan-outs need many tiles
SAMPLES, RANKS = 64, 2
TUNED = "rl_tuned"  # the policy, trained further on the graph


@dataclass(frozen=True, slots=True)
class BenchSettings:
    """What `conf/streaming_bench.yaml` holds beside the folders."""

    graphs: tuple[Path, ...]
    seconds: dict[str, float]
    seeds: int
    exact_seeds: int
    workers: int
    fronts: tuple[Path, ...]
    front_seconds: float
    speed: bool

    def __post_init__(self) -> None:
        for mapper in self.seconds:
            _options(mapper, 1.0, 0, self.workers)
        if self.seeds < 1 or self.exact_seeds < 1:
            raise InputError(f"seeds={self.seeds}, exact_seeds={self.exact_seeds}; allowed 1 up")


@dataclass(frozen=True, slots=True)
class Job:
    """One measurement."""

    kind: str  # map, zero_shot, front, game_speed or training_speed
    graph: str  # its name
    nodes: int
    settings: dict[str, Any]  # what else the result depends on
    measure: Callable[[], dict[str, Any]] = field(compare=False)

    def origin(self) -> dict[str, Any]:
        return {
            "kind": self.kind, "graph": self.graph, "nodes": self.nodes, "settings": self.settings
        }  # fmt: skip


def jobs_of(settings: BenchSettings) -> list[Job]:
    """Smallest graphs first, all of one graph after each other."""
    jobs: list[Job] = []
    for program in sorted(_programs(settings.graphs), key=lambda p: (p.num_nodes, p.name)):
        jobs += _map_jobs(program, settings)
        jobs += [_zero_shot_job(program, seed) for seed in range(settings.seeds)]
    for program in _programs(settings.fronts):
        jobs += _front_jobs(program, settings)
    if settings.speed:
        sizes = (15, 20, 30, 40)
        jobs += [_speed_job(kind, n) for kind in ("game_speed", "training_speed") for n in sizes]
    return jobs


def _programs(places: tuple[Path, ...]) -> list[Program]:
    """All graphs in files or folders. Raises InputError."""
    paths: list[Path] = []
    for place in places:
        paths += sorted(place.glob("*.json")) if place.is_dir() else [place]
    if places and not paths:
        raise InputError(f"no graph (*.json) in {', '.join(map(str, places))}")
    return [load_program(path) for path in paths]


def device_of(program: Program) -> Device:
    return Device(tiles=FEW_TILES if program.num_nodes <= FEW_NODES else MANY_TILES)


def _job(
    kind: str, program: Program, more: dict[str, Any], measure: Callable[[], dict[str, Any]]
) -> Job:
    described = repr((program.instructions, program.edges, sorted(program.memories.items())))
    digest = hashlib.sha256(described.encode()).hexdigest()[:16]
    settings = {"program": digest, "device": asdict(device_of(program)), **more}
    return Job(kind, program.name, program.num_nodes, settings, measure)


def _options(mapper: str, seconds: float, seed: int, workers: int) -> MapOptions:
    known = MapperName.__args__  # type: ignore[attr-defined]
    if mapper not in (*known, TUNED):
        raise InputError(f"unknown mapper {mapper!r}; allowed: {', '.join((*known, TUNED))}")
    name: MapperName = "rl" if mapper == TUNED else mapper  # type: ignore[assignment]
    return MapOptions(name, seconds, seed, workers, fine_tune=mapper == TUNED)


def _map_jobs(program: Program, settings: BenchSettings) -> Iterator[Job]:
    for mapper, seconds in settings.seconds.items():
        has_proof = mapper in ("exact", "hybrid", "auto")
        for seed in range(settings.exact_seeds if has_proof else settings.seeds):
            options = _options(mapper, seconds, seed, settings.workers)
            more: dict[str, Any] = {"mapper": mapper, "seconds": seconds, "seed": seed}
            if has_proof:
                more["workers"] = settings.workers
            if options.mapper in ("rl", "hybrid"):
                more["policy"] = _policy_digest()
            yield _job("map", program, more, partial(_map, program, options))


def _map(program: Program, options: MapOptions, ii: int | None = None) -> dict[str, Any]:
    device = device_of(program)
    if ii is not None:
        device = Device(tiles=device.tiles, ii=ii)
    try:
        result = map_program(program, device, options)
    except InputError as error:  # infeasible, or nothing found in time: a result too
        return {"reason": str(error)}
    return {"cycles": result.cycles, "bound": result.bound, "seconds": round(result.seconds, 3)}


def _front_jobs(program: Program, settings: BenchSettings) -> Iterator[Job]:
    options = MapOptions("exact", settings.front_seconds, workers=settings.workers)
    for ii in range(1, Device().ii + 1):
        more = {"ii": ii, "seconds": settings.front_seconds, "workers": settings.workers}
        yield _job("front", program, more, partial(_map, program, options, ii))


def _zero_shot_job(program: Program, seed: int) -> Job:
    more = {"seed": seed, "samples": SAMPLES, "ranks": RANKS, "policy": _policy_digest()}
    return _job("zero_shot", program, more, partial(_zero_shot, program, seed))


def _zero_shot(program: Program, seed: int) -> dict[str, Any]:
    """The best of 64 samples, its first game (the likeliest mapping), with the value model ranking,
    and list scheduling in the time that the 64 samples took."""
    import torch

    from placer.streaming.rl.policy_file import load_policy
    from placer.streaming.rl.sample import sample_once

    torch.set_num_threads(1)
    policy = load_policy(TRAINED_POLICY)
    try:
        problem = make_problem(program, device_of(program))
    except InputError as error:
        return {"reason": str(error)}
    sample_once(problem, policy, SAMPLES, seed, Budget(0.05))  # buffers of torch are there
    result: dict[str, Any] = {"bound": problem.bounds.total}
    for name, num, ranks in (("single", 1, 0), ("best", SAMPLES, 0), ("ranked", SAMPLES, RANKS)):
        began = time.perf_counter()
        found = sample_once(problem, policy, num, seed, ranks=ranks)
        result[f"{name}_seconds"] = round(time.perf_counter() - began, 4)
        result[name] = require_legal(problem, found[0]).cycles if found else None
    listed = list_schedule(problem, Budget(result["best_seconds"]), seed)
    result["list"] = listed.mapping and require_legal(problem, listed.mapping).cycles
    result["list_tries"] = listed.tries
    return result


def _policy_digest() -> str:
    return hashlib.sha256(TRAINED_POLICY.read_bytes()).hexdigest()[:16]


def _speed_job(kind: str, nodes: int) -> Job:
    measure = game_speed if kind == "game_speed" else _training_speed
    return Job(kind, f"random graphs of {nodes}", nodes, {}, partial(measure, nodes))


def _random_problems(nodes: int, count: int) -> list[Problem]:
    rng = np.random.default_rng(0)
    tiles = FEW_TILES if nodes <= FEW_NODES else MANY_TILES
    return [make_problem(growing_network(nodes, rng), Device(tiles=tiles)) for _ in range(count)]


def game_speed(nodes: int, games: int = 512) -> dict[str, Any]:
    """Steps of the batched game without a network; random legal tiles."""
    rng = np.random.default_rng(0)
    env = BatchEnv(_random_problems(nodes, 8), np.arange(games) % 8)
    seen = env.reset()
    spent, steps = 0.0, 0
    while env.is_alive.any():
        actions = (rng.random(seen.mask.shape) * seen.mask).argmax(axis=1)
        steps += int(env.is_alive.sum())
        began = time.perf_counter()
        seen = env.step(actions)
        spent += time.perf_counter() - began
    return {"steps_per_second": round(steps / spent)}


def _training_speed(nodes: int, updates: int = 5) -> dict[str, Any]:
    """Steps of PPO with the network, by threads: games, two passes over them, everything."""
    import torch

    from placer.streaming.rl.policy import Policy, PolicyConfig
    from placer.streaming.rl.ppo import PpoConfig
    from placer.streaming.rl.train import update_once

    problems = _random_problems(nodes, 8)
    result: dict[str, Any] = {}
    for threads in range(1, 1 + min(2, len(os.sched_getaffinity(0)))):
        torch.set_num_threads(threads)
        torch.manual_seed(0)
        policy = Policy(PolicyConfig())
        optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
        update_once(policy, optimizer, problems, PpoConfig(), 0)
        began, steps = time.perf_counter(), 0.0
        for seed in range(1, 1 + updates):
            steps += update_once(policy, optimizer, problems, PpoConfig(), seed)[0]["steps"]
        result[f"threads_{threads}"] = round(steps / (time.perf_counter() - began))
    torch.set_num_threads(1)
    return result
