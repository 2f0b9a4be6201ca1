"""One search of the comparison: map a graph for some seconds, and simulate the result."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from costmodel.model import Model
from costmodel.version import PACKAGES, source_hash
from costmodel.wafer.cost import LearnedMappingCost
from placer.errors import InputError
from placer.files import read_text, write_atomic
from placer.kernels.check import extents
from placer.kernels.engines import map_kernels
from placer.kernels.generate import generate
from placer.kernels.graph import KernelGraph
from placer.kernels.kgraph_file import format_kgraph
from placer.kernels.layout import Layout
from placer.kernels.mapping_cost import FormulaCost, MappingCost, SimulatorCost
from placer.kernels.mapping_table import table_of
from placer.kernels.problem import Problem
from placer.kernels.search import Search
from placer.kernels.shapes import LongArray
from placer.kernels.truth_model import simulate_mapping

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
        """Everything that the result depends on."""
        return {
            "graph": format_kgraph(self.graph),
            "name": self.graph.name,
            "method": self.method,
            "model": Model.load(self.model_file).digest() if self.method == "learned" else None,
            "seconds": self.seconds,
            "seed": self.seed,
            "code": source_hash(*PACKAGES),
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
    """Search, judge, simulate."""
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
    """One mapping after the other, as walks ask."""
    number, begin, spent = 0, time.process_time(), 0.0
    while spent < RATE_SECONDS:
        cost.score(problem, table[None])
        number, spent = number + 1, time.process_time() - begin
    return number / spent


def _aspect(graph: KernelGraph, layout: Layout) -> float:
    sides = [extents(kernel, p) for kernel, p in zip(graph.kernels, layout.kernels, strict=True)]
    return float(np.median([max(side) / min(side) for side in sides]))


def _rows(graph: KernelGraph, layout: Layout) -> float:
    """Rows lie along x or along y: the direction with fewer of them counts."""
    covered = np.zeros(2)
    for kernel, placed in zip(graph.kernels, layout.kernels, strict=True):
        covered += extents(kernel, placed)
    return float((covered / (graph.wafer.width, graph.wafer.height)).min())


def write_result(folder: Path, job: Job, result: Result) -> None:
    """As a file of its own, which `read_result` finds."""
    origin, content = job.origin(), asdict(result)
    document = {"origin": origin, "result": content, "sha256": _digest(content)}
    write_atomic(job_file(folder, job, origin), json.dumps(document) + "\n")


def read_result(folder: Path, job: Job) -> Result | None:
    """None when there is no whole result of this very job; a damaged one is as good as none."""
    origin = job.origin()
    try:
        document = json.loads(read_text(job_file(folder, job, origin)))
        content = document["result"]
        is_whole = document["sha256"] == _digest(content) and document["origin"] == origin
        return Result(**content) if is_whole else None
    except (InputError, ValueError, TypeError, KeyError):
        return None


def job_file(folder: Path, job: Job, origin: dict[str, Any]) -> Path:
    """Named by what it is made from: `origin` of the job."""
    return folder / f"{job.method}-{_digest(origin)[:20]}.json"


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
