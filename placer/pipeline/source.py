"""What to place: a network, lowered onto a fabric, and what became of its sections."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from placer.base import Count, DoesNotFitError, Fill, InputError, Settings, Whole, file_name
from placer.decision import Decisions
from placer.fabric import Fabric
from placer.graph import DataflowGraph, load_graph
from placer.graph.importing import InputKind, NetworkChoice, import_network
from placer.graph.workloads import NETWORK_FAMILIES, WorkloadConfig, build, random_network, resolve
from placer.netlist import Netlist
from placer.netlist.lowering import Plan, Section, default_plan, is_compute, load_plan, lower_plan, macs_for_cycles
from placer.simulation import Measurement


@dataclass(frozen=True, slots=True)
class Lowered:
    """A network, lowered: its plan, and every distinct section."""

    plan: Plan
    sections: tuple[Section, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source(Settings):
    """Which network goes onto which fabric; the settings of a command that lowers one."""

    fabric: Fabric
    workload: WorkloadConfig
    graph: Path | None = None
    model: str | None = None
    model_arguments: dict[str, Any] | None = None
    input_shape: tuple[int, ...] | tuple[tuple[int, ...], ...] | None = None
    input_kind: InputKind | tuple[InputKind, ...] = InputKind.NUMBERS
    plan: Path | None = None
    fill: Fill
    batch: Count
    sample_cycles: Count
    seed: Whole
    timeline: Whole = 0
    output: Path

    def check(self) -> None:
        if self.fabric.cores is not None:
            raise InputError(f"fabric {self.fabric.name!r} has cores and no compute units; it is for placer.replay")
        if self.model is not None and self.graph is not None:
            raise InputError(f"model={self.model} and graph={self.graph}: set one of them")

    def lowered(self, graph: DataflowGraph | None = None) -> Lowered:
        """Return the plan of the network, from its file or by rules, and what was built from it.

        A `graph` that is given takes the place of the network that the settings name.
        """
        plan = None if self.plan is None else load_plan(self.plan)
        graph = graph or self.make_graph()
        if plan is None:
            plan = default_plan(self.fabric, graph, self.fill, self.batch)
        try:
            return Lowered(plan, lower_plan(self.fabric, graph, plan))
        except DoesNotFitError:
            raise
        except InputError as error:
            raise InputError(f"plan file {self.plan}: {error}" if self.plan else str(error)) from error

    def make_graph(self) -> DataflowGraph:
        """Return the imported network, the graph of the file, a random network, or the workload at a fit size."""
        if self.model is not None:
            arguments = self.model_arguments or {}
            choice = NetworkChoice(self.model, arguments, self.input_shape, self.input_kind)
            return import_network(choice).graph
        if self.graph is not None:
            graph = load_graph(self.graph)
            if not any(is_compute(op) for op in graph.ops):
                raise InputError(
                    f"graph file {self.graph}: graph {graph.name!r}: nothing to compute, it only moves data"
                )
            return graph
        if self.workload.family in NETWORK_FAMILIES:
            return random_network(self.workload)
        budget = macs_for_cycles(self.fabric, self.sample_cycles, self.fill)
        rng = np.random.default_rng(self.seed)
        return build(resolve(self.workload, budget, rng, self.sample_cycles))


@dataclass(frozen=True, slots=True)
class SectionResult:
    """One section, placed and simulated."""

    section: Section
    decision: Decisions
    measurement: Measurement


def section_stem(fabric: Fabric, netlist: Netlist) -> str:
    """Return how the names of all files about a section begin."""
    return file_name(f"{netlist.name}.{fabric.name}")
