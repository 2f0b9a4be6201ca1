"""Command: do real models become sections that reach a steady state, and how long do they take?

The same as `python -m placer.simulate` for each model, without files for each section. Alike
sections are simulated once and counted as often as the model has them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated

from omegaconf import DictConfig

from placer.base import OneOf, Settings, Table, Whole, make_console, require_folder
from placer.base.config import run_command, to_dataclass
from placer.decision.routing import RoutingMethod
from placer.fabric import Fabric
from placer.graph.workloads import MODELS, WorkloadConfig
from placer.netlist.lowering import DEFAULT_FILL
from placer.pipeline import SectionResult, SimulateConfig, simulate_sections
from placer.simulation import Status
from placer.study.shared import show_study, write_study

HEADER = ["model", "layers", "pass", "sections", "steady", "most units", "cycles per input"]
SECTION_HEADER = [
    "model", "layers", "pass", "section", "repeats", "samples", "units", "flows", "bound_cycles",
    "cycles_per_sample", "status",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class ModelsConfig(Settings):
    """What `conf/models.yaml` holds."""

    fabric: Fabric
    models: list[Annotated[str, OneOf(MODELS)]]
    layers: list[int | None]
    training: list[bool]
    sequence: int
    routing: RoutingMethod
    seed: Whole
    output: Path


@dataclass(frozen=True, slots=True)
class ModelResult:
    """One model, all its sections placed and simulated."""

    workload: WorkloadConfig
    sections: list[SectionResult]

    @property
    def labels(self) -> list[str]:
        """Return model, layers and pass."""
        asked = self.workload
        layers = asked.layers or MODELS[asked.family].layers
        return [asked.family, str(layers), "training" if asked.training else "forward"]


def workloads(config: ModelsConfig) -> list[WorkloadConfig]:
    """Return all combinations that are asked for."""
    return [
        WorkloadConfig(model, layers=layers, sequence=config.sequence, training=training)
        for model, layers, training in product(config.models, config.layers, config.training)
    ]


def measure_model(config: ModelsConfig, workload: WorkloadConfig) -> ModelResult:
    """Lower a model onto the fabric and simulate a random placement of each section."""
    settings = SimulateConfig(
        fabric=config.fabric,
        workload=workload,
        placement="random",
        routing=config.routing,
        fill=DEFAULT_FILL,
        sample_cycles=1,  # matters to workloads without published sizes only
        seed=config.seed,
        output=config.output,
    )
    return ModelResult(workload, simulate_sections(settings))


def summary_row(result: ModelResult) -> list[str]:
    """Return the row of a model; sections are counted as `distinct (all)`."""
    sections = result.sections
    steady = [s for s in sections if s.measurement.status == Status.STEADY]
    num_steady, num_all = (sum(s.section.repeats for s in part) for part in (steady, sections))
    return [
        *result.labels,
        f"{len(sections)} ({num_all})",
        f"{len(steady)} ({num_steady})",
        str(max(s.section.netlist.num_units for s in sections)),
        f"{sum(s.cycles_per_input for s in sections):,.0f}",
    ]


def section_rows(result: ModelResult) -> list[list[str | int]]:
    """Return all values of each distinct section."""
    return [
        [
            *result.labels, s.section.netlist.name, s.section.repeats, s.section.samples,
            s.section.netlist.num_units, s.section.netlist.num_flows, s.measurement.bound_cycles,
            f"{s.measurement.cycles_per_sample:.2f}", s.measurement.status.name.lower(),
        ]
        for s in result.sections
    ]  # fmt: skip


def write(output: Path, results: list[ModelResult]) -> list[Table]:
    """Write the table (Markdown) and a line per distinct section (CSV); return the table."""
    tables = [Table(HEADER, [summary_row(result) for result in results])]
    rows = [row for result in results for row in section_rows(result)]
    write_study(output, "models", tables, [Table(SECTION_HEADER, rows, name="models")])
    return tables


def main(config: DictConfig) -> None:
    """Simulate the sections of each model, write the tables and print them."""
    settings = to_dataclass(ModelsConfig, config)
    require_folder(settings.output)
    console = make_console()
    results: list[ModelResult] = []
    tables: list[Table] = []
    for workload in workloads(settings):
        results.append(measure_model(settings, workload))
        console.print(", ".join(results[-1].labels) + ": done")
        tables = write(settings.output, results)  # each takes minutes; what is done stays
    show_study(console, settings.output, tables)


if __name__ == "__main__":
    run_command(main, "models")
