"""Runs of the benchmark: what they measure, and where their results are kept."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from placer.compile_cache import source_key
from placer.errors import InputError
from placer.executor import ExecutorKind, run_tasks
from placer.files import make_folder, read_text, write_atomic
from placer.kernels.chain import ChainOptions, map_chain
from placer.kernels.check import DEFAULT_OUT_RULES
from placer.kernels.engines import EngineName, map_kernels
from placer.kernels.graph import KernelGraph
from placer.kernels.kgraph_file import format_kgraph
from placer.kernels.problem import Problem
from placer.kernels.search import Search
from placer.kernels.variants import find_variants
from placer.kernels.warm_up import warm_up

KIND = "kernel mapper benchmark"
SCHEMA_VERSION = 1

What = Literal["map", "time", "chain", "variants"]


@dataclass(frozen=True, slots=True)
class Job:
    """One run, on one core. map: a graph with its weights; time: the same with wires ignored;
    chain: four wafers; variants: the non-dominated variants of the largest dblock, in seconds."""

    what: What
    name: str  # of the graph
    graph: KernelGraph
    engine: EngineName
    time_limit: float  # seconds
    seed: int
    wafers: int = 1

    def origin(self) -> dict[str, Any]:
        """What the result depends on, besides the machine."""
        fields = asdict(replace(self, graph=None))  # type: ignore[arg-type]
        text = format_kgraph(self.graph)
        return {
            **fields,
            "kind": KIND,
            "schema": SCHEMA_VERSION,
            "graph": hashlib.sha256(text.encode()).hexdigest(),
            "code": source_key(Path(__file__)),
        }


@dataclass(frozen=True, slots=True)
class Result:
    """What a run found; without a layout, `problem` says why."""

    seconds: float
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
        return max(self.times)


def run_jobs(
    jobs: Sequence[Job], folder: Path, workers: int, on_result: Callable[[Job, Result], None]
) -> dict[Job, Result]:
    """All results; only jobs without a file in `folder` are run, `workers` at once."""
    make_folder(folder)
    origins = [job.origin() for job in jobs]
    paths = [folder / f"{_digest(origin)}.json" for origin in origins]
    found = [_read(path, origin) for path, origin in zip(paths, origins, strict=True)]
    missing = [k for k, result in enumerate(found) if result is None]
    tasks = [jobs[k] for k in missing]
    for index, result in run_tasks(compute, tasks, kind=ExecutorKind.LOCAL, workers=workers):
        k = missing[index]
        document = {**origins[k], "result": asdict(result)}
        write_atomic(paths[k], json.dumps(document, indent=1) + "\n")
        found[k] = result
        on_result(jobs[k], result)
    pairs = zip(jobs, found, strict=True)
    return {job: result for job, result in pairs if result is not None}


def compute(job: Job) -> Result:
    """Runs in a worker, after everything is compiled."""
    _warm_up_once()
    begin = time.perf_counter()
    try:
        if job.what == "variants":
            result = _count_variants(job.graph)
        elif job.what == "chain":
            result = _map_chain(job)
        else:
            result = _map(job)
    except InputError as error:
        result = Result(0.0, problem=str(error))
    return replace(result, seconds=time.perf_counter() - begin)


@cache
def _warm_up_once() -> None:
    warm_up()


def without_wires(graph: KernelGraph) -> KernelGraph:
    """The same graph, only the slowest kernel's time being counted."""
    wafer = replace(graph.wafer, time_weight=1.0, wire_weight=0.0, adapter_weight=0.0)
    return replace(graph, wafer=wafer)


def _map(job: Job) -> Result:
    problem = Problem(without_wires(job.graph) if job.what == "time" else job.graph)
    score = map_kernels(Search(problem, job.time_limit, job.seed), job.engine).score
    return Result(
        0.0,
        problem.bound / problem.graph.time_scale,
        (float(score.slowest),),
        float(score.wire_length),
        score.adapters,
        score.total,
        score.total_without_adapters,
    )


def _map_chain(job: Job) -> Result:
    wafer = job.graph.wafer
    sizes = [(wafer.width, wafer.height)] * job.wafers
    options = ChainOptions(job.engine, job.time_limit, job.seed, DEFAULT_OUT_RULES, lambda _: None)
    parts = map_chain(job.graph, sizes, options)
    return Result(0.0, times=tuple(float(part.mapping.score.slowest) for part in parts))


def _count_variants(graph: KernelGraph) -> Result:
    """Of the dblock that takes longest on one tile, everything being compiled."""
    blocks = [kernel for kernel in graph.kernels if kernel.type == "dblock"]
    if not blocks:
        raise InputError(f"graph {graph.name} has no dblock")
    largest = max(blocks, key=lambda kernel: kernel.convs[0].height * kernel.features)
    return Result(0.0, num_variants=len(find_variants(largest, graph)))


def _read(path: Path, origin: dict[str, Any]) -> Result | None:
    """None when there is no whole result of this very job."""
    try:
        document = json.loads(read_text(path))
        result = document.pop("result")
        result["times"] = tuple(result["times"])
        return Result(**result) if document == origin else None
    except (InputError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _digest(origin: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(origin, sort_keys=True).encode()).hexdigest()[:20]
