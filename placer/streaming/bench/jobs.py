"""What is measured, one job at a time; the result of a job is a dictionary that a file can hold."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from placer.base import InputError, source_key
from placer.base.workers import digest_of, file_digest
from placer.streaming import model
from placer.streaming.game import BatchEnv
from placer.streaming.mappers import map_program, require_legal, warm_up
from placer.streaming.search import Problem, list_schedule, make_problem

SAMPLES, RANKS = 64, 2
TUNED = "rl_tuned"  # the policy, trained further on the graph


@dataclass(frozen=True, slots=True)
class BenchConfig:
    """What `conf/streaming_bench.yaml` holds."""

    graphs: tuple[Path, ...]
    seconds: dict[str, float]
    seeds: int
    exact_seeds: int
    workers: int
    fronts: tuple[Path, ...]
    front_seconds: float
    speed: bool
    output: Path
    publish: Path | None

    def __post_init__(self) -> None:
        for mapper in self.seconds:
            _options({"mapper": mapper, "seconds": 1.0, "seed": 0, "workers": self.workers})
        if self.seeds < 1 or self.exact_seeds < 1:
            raise InputError(f"seeds={self.seeds}, exact_seeds={self.exact_seeds}; allowed 1 up")


@dataclass(frozen=True, slots=True)
class Job:
    """One measurement."""

    kind: str  # map, zero_shot, front, game_speed or training_speed
    graph: str  # its name
    nodes: int
    settings: dict[str, Any]  # what else the result depends on
    program: model.Program | None = None  # None: random graphs

    def origin(self) -> dict[str, Any]:
        told = {key: getattr(self, key) for key in ("kind", "graph", "nodes", "settings")}
        return told | {"schema": 2, "code": source_key(Path(__file__))}


def jobs_of(settings: BenchConfig) -> list[Job]:
    """Return all jobs: smallest graphs first, all of one graph after each other."""
    jobs: list[Job] = []
    for program in sorted(_programs(settings.graphs), key=lambda p: (p.num_nodes, p.name)):
        jobs += _map_jobs(program, settings)
        for seed in range(settings.seeds):
            more = {"seed": seed, "samples": SAMPLES, "ranks": RANKS, "policy": _policy_digest()}
            jobs.append(_job("zero_shot", program, more))
    for program in _programs(settings.fronts):
        for ii in range(1, model.Device().ii + 1):
            more = {"ii": ii, "seconds": settings.front_seconds, "workers": settings.workers}
            jobs.append(_job("front", program, more))
    for kind in ("game_speed", "training_speed") if settings.speed else ():
        jobs += [Job(kind, f"random graphs of {n}", n, {}) for n in (15, 20, 30, 40)]
    return jobs


def _programs(places: tuple[Path, ...]) -> list[model.Program]:
    """Return all graphs in files or folders. Raises InputError."""
    paths: list[Path] = []
    for place in places:
        paths += sorted(place.glob("*.json")) if place.is_dir() else [place]
    if places and not paths:
        raise InputError(f"no graph (*.json) in {', '.join(map(str, places))}")
    return [model.load_program(path) for path in paths]


def _device_of(nodes: int) -> model.Device:
    return model.Device(tiles=16 if nodes <= 24 else 64)  # wide fan-outs need many tiles


def _job(kind: str, program: model.Program, more: dict[str, Any]) -> Job:
    described = repr((program.instructions, program.edges, sorted(program.memories.items())))
    device = asdict(_device_of(program.num_nodes))
    settings = {"program": digest_of(described), "device": device, **more}
    return Job(kind, program.name, program.num_nodes, settings, program)


def _options(settings: dict[str, Any]) -> model.MapOptions:
    mapper, known = settings["mapper"], model.MapperName.__args__  # type: ignore[attr-defined]
    if mapper not in (*known, TUNED):
        raise InputError(f"unknown mapper {mapper!r}; allowed: {', '.join((*known, TUNED))}")
    name: Any = "rl" if mapper == TUNED else mapper
    seconds, seed, workers = settings["seconds"], settings["seed"], settings.get("workers", 1)
    return model.MapOptions(name, seconds, seed, workers, fine_tune=mapper == TUNED)


def _map_jobs(program: model.Program, settings: BenchConfig) -> Iterator[Job]:
    for mapper, seconds in settings.seconds.items():
        has_proof = mapper in ("exact", "hybrid", "auto")
        for seed in range(settings.exact_seeds if has_proof else settings.seeds):
            more: dict[str, Any] = {"mapper": mapper, "seconds": seconds, "seed": seed}
            if has_proof:
                more["workers"] = settings.workers
            if mapper in ("rl", TUNED, "hybrid"):
                more["policy"] = _policy_digest()
            yield _job("map", program, more)


@cache
def _policy_digest() -> str:
    from placer.streaming.rl import TRAINED_POLICY

    return file_digest(TRAINED_POLICY)


_warm_up = cache(warm_up)  # once in each process, so that no measurement waits for it


def measure(job: Job) -> dict[str, Any]:
    """Do a job."""
    _warm_up()
    settings = job.settings
    if job.program is None:
        return game_speed(job.nodes) if job.kind == "game_speed" else _training_speed(job.nodes)
    if job.kind == "zero_shot":
        return _zero_shot(job.program, settings["seed"])
    device = _device_of(job.nodes)
    if job.kind == "front":
        device = model.Device(tiles=device.tiles, ii=settings["ii"])
        settings = {"mapper": "exact", "seed": 0, **settings}
    try:
        result = map_program(job.program, device, _options(settings))
    except InputError as error:  # infeasible, or nothing found in time: a result too
        return {"reason": str(error)}
    return {"cycles": result.cycles, "bound": result.bound, "seconds": round(result.seconds, 3)}


def _zero_shot(program: model.Program, seed: int) -> dict[str, Any]:
    """Measure the best of 64 samples, its first game (the likeliest mapping), the ranking by the
    value model, and list scheduling in the time that the 64 samples took."""
    import torch

    from placer.streaming.rl import TRAINED_POLICY, load_policy, sample_once

    torch.set_num_threads(1)
    policy = load_policy(TRAINED_POLICY)
    try:
        problem = make_problem(program, _device_of(program.num_nodes))
    except InputError as error:
        return {"reason": str(error)}
    sample_once(problem, policy, SAMPLES, seed, model.Budget(0.05))  # buffers of torch are there
    result: dict[str, Any] = {"bound": problem.bounds.total}
    for name, num, ranks in (("single", 1, 0), ("best", SAMPLES, 0), ("ranked", SAMPLES, RANKS)):
        began = time.perf_counter()
        found = sample_once(problem, policy, num, seed, ranks=ranks)
        result[f"{name}_seconds"] = round(time.perf_counter() - began, 4)
        result[name] = require_legal(problem, found[0]).cycles if found else None
    listed = list_schedule(problem, model.Budget(result["best_seconds"]), seed)
    result["list"] = listed.mapping and require_legal(problem, listed.mapping).cycles
    result["list_tries"] = listed.tries
    return result


def _random_problems(nodes: int, count: int) -> list[Problem]:
    rng = np.random.default_rng(0)
    return [make_problem(model.growing_network(nodes, rng), _device_of(nodes)) for _ in range(count)]


def game_speed(nodes: int, games: int = 512) -> dict[str, Any]:
    """Count the steps of the batched game without a network, on random legal tiles."""
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
    """Count the steps of PPO with the network, by threads: games and two passes over them."""
    import torch

    from placer.streaming.rl import Policy, PolicyConfig, PpoConfig, update_once

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
