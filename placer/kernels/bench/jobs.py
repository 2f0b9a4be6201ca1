"""Runs of the benchmark: what they measure."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from placer.base import InputError, source_key
from placer.kernels.engines import ChainOptions, EngineName, Search, map_kernels, map_wafers, warm_up
from placer.kernels.model import KERNEL_TYPES, KernelGraph, OutRule, OutRules
from placer.kernels.sizing import Problem, find_variants

KIND = "kernel mapper benchmark"
SCHEMA_VERSION = 3


@dataclass(frozen=True, slots=True)
class Job:
    """One run, on one core. map: a graph with its weights; time: the same with wires ignored;
    chain: four wafers; variants: the non-dominated variants of the largest dblock, in seconds."""

    what: Literal["map", "time", "chain", "variants"]
    name: str  # of the graph
    graph: KernelGraph
    engine: EngineName
    time_limit: float  # seconds
    seed: int
    wafers: int = 1
    rule: OutRule = "c_n"  # which channels kernels hand over, in the search and in the score

    def origin(self) -> dict[str, Any]:
        """Return what the result depends on, besides the machine."""
        code = source_key(Path(__file__))
        return {**asdict(self), "kind": KIND, "schema": SCHEMA_VERSION, "code": code}


@dataclass(frozen=True, slots=True)
class Result:
    """What a run found; without a layout, `problem` says why."""

    seconds: float = 0.0
    bound: float = 0.0
    times: tuple[float, ...] = ()  # deltaT of every wafer
    wire_length: float = 0.0
    adapters: int = 0
    score: float = 0.0
    score_without_adapters: float = 0.0
    num_variants: int = 0
    problem: str = ""

    @property
    def slowest(self) -> float:
        """Return the time of the slowest wafer."""
        return max(self.times)


def decode(values: dict[str, Any]) -> Result:
    """Return a result that was read from a file."""
    return Result(**{**values, "times": tuple(values["times"])})


def compute(job: Job) -> Result:
    """Run a job in a worker, after everything is compiled."""
    warm_up()
    begin = time.perf_counter()
    try:
        if job.what == "variants":
            result = _count_variants(job.graph)
        elif job.what == "chain":
            result = _map_wafers(job)
        else:
            result = _map(job)
    except InputError as error:
        result = Result(problem=str(error))
    return replace(result, seconds=time.perf_counter() - begin)


def _map(job: Job) -> Result:
    graph = job.graph
    if job.what == "time":  # only the slowest kernel's time counts
        wafer = replace(graph.wafer, time_weight=1.0, wire_weight=0.0, adapter_weight=0.0)
        graph = replace(graph, wafer=wafer)
    problem = Problem(graph)
    rules: OutRules = dict.fromkeys(KERNEL_TYPES, job.rule)
    score = map_kernels(Search(problem, job.time_limit, job.seed, rules), job.engine).score
    return Result(
        bound=problem.bound / graph.time_scale,
        times=(float(score.slowest),),
        wire_length=float(score.wire_length),
        adapters=score.adapters,
        score=score.total,
        score_without_adapters=score.total_without_adapters,
    )


def _map_wafers(job: Job) -> Result:
    wafer = job.graph.wafer
    sizes = [(wafer.width, wafer.height)] * job.wafers
    parts = map_wafers(job.graph, sizes, ChainOptions(job.engine, job.time_limit, job.seed))
    return Result(times=tuple(float(part.mapping.score.slowest) for part in parts))


def _count_variants(graph: KernelGraph) -> Result:
    """Count those of the dblock that takes longest on one tile, everything being compiled."""
    blocks = [kernel for kernel in graph.kernels if kernel.type == "dblock"]
    if not blocks:
        raise InputError(f"graph {graph.name} has no dblock")
    largest = max(blocks, key=lambda kernel: kernel.convs[0].height * kernel.features)
    return Result(num_variants=len(find_variants(largest, graph)))
