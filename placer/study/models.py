"""Command: do real models become sections that reach a steady state, and how long do they take?

The same as `python -m placer.simulate` for each model, without files for each section. Alike
sections are simulated once and counted as often as the model has them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig

from placer.command import make_console
from placer.config import run_command, to_dataclass
from placer.errors import InputError
from placer.fabric import Fabric
from placer.files import make_folder, require_folder, write_atomic
from placer.lowering import DEFAULT_FILL
from placer.routing import RoutingMethod
from placer.simulate import SectionResult, SimulateConfig, run
from placer.simulation import Status
from placer.study.tables import csv_table, markdown_table, screen_table
from placer.workloads import MODELS, WorkloadConfig

HEADER = ["model", "layers", "pass", "sections", "steady", "most units", "cycles per input"]
SECTION_HEADER = [
    "model", "layers", "pass", "section", "repeats", "samples", "units", "flows", "bound_cycles",
    "cycles_per_sample", "status",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class ModelsConfig:
    """What `conf/models.yaml` holds."""

    fabric: Fabric
    models: list[str]
    layers: list[int | None]
    training: list[bool]
    sequence: int
    routing: RoutingMethod
    seed: int
    output: Path

    def __post_init__(self) -> None:
        for model in self.models:
            if model not in MODELS:
                raise InputError(f"unknown model {model!r}; allowed: {', '.join(MODELS)}")


@dataclass(frozen=True, slots=True)
class ModelResult:
    """One model, all its sections placed and simulated."""

    workload: WorkloadConfig
    sections: list[SectionResult]

    @property
    def labels(self) -> list[str]:
        """Model, layers, pass."""
        layers = self.workload.layers or MODELS[self.workload.family].layers
        return [
            self.workload.family, str(layers), "training" if self.workload.training else "forward"
        ]  # fmt: skip


def workloads(config: ModelsConfig) -> list[WorkloadConfig]:
    """All combinations that are asked for."""
    return [
        WorkloadConfig(model, layers=layers, sequence=config.sequence, training=training)
        for model in config.models
        for layers in config.layers
        for training in config.training
    ]


def measure_model(config: ModelsConfig, workload: WorkloadConfig) -> ModelResult:
    """Lower a model onto the fabric and simulate a random placement of each section."""
    settings = SimulateConfig(
        fabric=config.fabric,
        workload=workload,
        graph=None,
        placement="random",
        routing=config.routing,
        fill=DEFAULT_FILL,
        sample_cycles=1,  # matters to workloads without published sizes only
        seed=config.seed,
        output=config.output,
    )
    return ModelResult(workload, run(settings))


def summary_row(result: ModelResult) -> list[str]:
    """Sections are counted as `distinct (all)`."""
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


def section_rows(result: ModelResult) -> list[list[object]]:
    """All values of each distinct section."""
    return [
        [
            *result.labels, s.section.netlist.name, s.section.repeats, s.section.samples,
            s.section.netlist.num_units, s.section.netlist.num_flows, s.measurement.bound_cycles,
            f"{s.measurement.cycles_per_sample:.2f}", s.measurement.status.name.lower(),
        ]
        for s in result.sections
    ]  # fmt: skip


def write(output: Path, results: list[ModelResult]) -> None:
    """Write the table (Markdown) and a line per distinct section (CSV)."""
    make_folder(output)
    table = markdown_table(HEADER, map(summary_row, results))
    write_atomic(output / "models.md", table)
    rows = [row for result in results for row in section_rows(result)]
    write_atomic(output / "models.csv", csv_table(SECTION_HEADER, rows))


def main(config: DictConfig) -> None:
    """Entry point."""
    settings = to_dataclass(ModelsConfig, config)
    require_folder(settings.output)
    console = make_console()
    results: list[ModelResult] = []
    for workload in workloads(settings):
        results.append(measure_model(settings, workload))
        console.print(", ".join(results[-1].labels) + ": done")
        write(settings.output, results)  # each model takes minutes; what is done stays
    console.print(screen_table(HEADER, map(summary_row, results)))
    console.print(f"written to {settings.output}")


if __name__ == "__main__":
    run_command(main, "models")
