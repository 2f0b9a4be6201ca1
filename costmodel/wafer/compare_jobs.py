"""One search of the comparison: map a graph for some seconds, and simulate the result."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from costmodel.model import Model
from costmodel.wafer.cost import LearnedMappingCost
from placer.base import LongArray, source_key
from placer.base.workers import file_digest
from placer.kernels.engines import Search, map_kernels
from placer.kernels.model import KernelGraph, KernelLayout, extents, format_kgraph, generate, table_of
from placer.kernels.sizing import Problem
from placer.kernels.truth import FormulaCost, MappingCost, SimulatorCost, simulate_mapping

RATE_SECONDS = 0.2  # of measuring how fast a cost is

Method = Literal["contest", "formula", "learned", "simulator"]


@dataclass(frozen=True, slots=True)
class Job:
    """A graph, what chooses its layout, and for how long."""

    graph: KernelGraph
    family: str  # unseen by the model
    method: Method
    model_file: Path
    seconds: float
    seed: int

    def origin(self) -> dict[str, Any]:
        """Return everything that the result depends on."""
        return {
            "kind": "wafer comparison",
            "graph": format_kgraph(self.graph),
            "name": self.graph.name,
            "method": self.method,
            "model": file_digest(self.model_file) if self.method == "learned" else None,
            "seconds": self.seconds,
            "seed": self.seed,
            "code": source_key(Path(__file__)),
        }


@dataclass(frozen=True, slots=True)
class Result:
    """A layout, as the contest and the truth model see it."""

    throughput: float  # simulated, of the bound
    cycles: float  # per sample
    score: float  # of the contest
    slowest: float  # deltaT / bound
    wire_length: float
    adapters: int
    aspect: float  # longer / shorter side, median over kernels
    rows: float  # kernels that a line across the rows crosses, mean
    utilisation: float
    limit: str
    scores_per_second: float | None  # of processor time, by the cost; None: the score chose
    table: list[list[int]]  # the mapping


def run_job(job: Job) -> Result:
    """Search for a layout, judge it and simulate it."""
    problem, cost = Problem(job.graph), _cost(job)
    map_kernels(Search(Problem(generate("tiny")), 0.5, cost=cost), "auto")  # loads compiled code
    # Processor time: other work on the machine favours no method.
    search = Search(problem, job.seconds, job.seed, cost=cost, clock=time.process_time)
    mapping = map_kernels(search, "auto")
    measured = simulate_mapping(problem, mapping.layout)
    score, table = mapping.score, table_of(mapping.layout)
    return Result(
        throughput=measured.throughput,
        cycles=measured.cycles_per_sample,
        score=score.total,
        slowest=float(score.slowest) / measured.bound_cycles,
        wire_length=float(score.wire_length),
        adapters=score.adapters,
        aspect=_aspect(job.graph, mapping.layout),
        rows=_rows(job.graph, mapping.layout),
        utilisation=score.utilisation,
        limit=measured.limit,
        scores_per_second=None if cost is None else _rate(problem, cost, table),
        table=table.tolist(),
    )


def _cost(job: Job) -> MappingCost | None:
    if job.method == "learned":
        return LearnedMappingCost(Model.load(job.model_file))
    costs: dict[str, MappingCost] = {"formula": FormulaCost(), "simulator": SimulatorCost()}
    return costs.get(job.method)


def _rate(problem: Problem, cost: MappingCost, table: LongArray) -> float:
    """Measure how many mappings are scored per second, one after the other as walks ask."""
    number, begin, spent = 0, time.process_time(), 0.0
    while spent < RATE_SECONDS:
        cost.score(problem, table[None])
        number, spent = number + 1, time.process_time() - begin
    return number / spent


def _aspect(graph: KernelGraph, layout: KernelLayout) -> float:
    sides = [extents(kernel, p) for kernel, p in zip(graph.kernels, layout, strict=True)]
    return float(np.median([max(side) / min(side) for side in sides]))


def _rows(graph: KernelGraph, layout: KernelLayout) -> float:
    """Count kernels across the rows; they lie along x or y, whichever has fewer of them."""
    covered = np.zeros(2)
    for kernel, placed in zip(graph.kernels, layout, strict=True):
        covered += extents(kernel, placed)
    return float((covered / (graph.wafer.width, graph.wafer.height)).min())
