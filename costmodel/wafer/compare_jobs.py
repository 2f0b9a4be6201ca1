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
from placer.files import read_text
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
from placer.kernels.truth_model import simulate_mapping

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
    table: list[list[int]]  # the mapping


def run_job(job: Job) -> Result:
    """Search, judge, simulate."""
    problem, cost = Problem(job.graph), _cost(job)
    map_kernels(Search(Problem(generate("tiny")), 0.5, cost=cost), "auto")  # loads compiled code
    # Processor time: other work on the machine favours no method.
    search = Search(problem, job.seconds, job.seed, cost=cost, clock=time.process_time)
    mapping = map_kernels(search, "auto")
    measured = simulate_mapping(problem, mapping.layout)
    score = mapping.score
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
        table=table_of(mapping.layout).tolist(),
    )


def _cost(job: Job) -> MappingCost | None:
    if job.method == "learned":
        return LearnedMappingCost(Model.load(job.model_file))
    costs: dict[str, MappingCost] = {"formula": FormulaCost(), "simulator": SimulatorCost()}
    return costs.get(job.method)


def _aspect(graph: KernelGraph, layout: Layout) -> float:
    sides = [extents(kernel, p) for kernel, p in zip(graph.kernels, layout.kernels, strict=True)]
    return float(np.median([max(side) / min(side) for side in sides]))


def _rows(graph: KernelGraph, layout: Layout) -> float:
    """Rows lie along x or along y: the direction with fewer of them counts."""
    covered = np.zeros(2)
    for kernel, placed in zip(graph.kernels, layout.kernels, strict=True):
        covered += extents(kernel, placed)
    return float((covered / (graph.wafer.width, graph.wafer.height)).min())


def job_file(folder: Path, job: Job) -> Path:
    digest = hashlib.sha256(json.dumps(job.origin(), sort_keys=True).encode()).hexdigest()
    return folder / f"{job.method}-{digest[:20]}.json"


def to_text(job: Job, result: Result) -> str:
    return json.dumps({"origin": job.origin(), "result": asdict(result)}) + "\n"


def read_result(path: Path, job: Job) -> Result | None:
    """None when there is no whole result of this very job."""
    try:
        document = json.loads(read_text(path))
        return Result(**document["result"]) if document["origin"] == job.origin() else None
    except (InputError, ValueError, TypeError, KeyError):
        return None
