"""Command: make a dataset of labelled decisions (conf/dataset.yaml)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig
from rich.console import Console

from costmodel.dataset.build import Content, Hardware, build_dataset
from costmodel.dataset.generate import SampleOptions
from costmodel.dataset.report import ReportSummary, check_table, report_dataset
from placer.base import Table, counting_bar, make_console
from placer.base.config import run_command, to_dataclass
from placer.base.workers import Workers
from placer.fabric import Fabric


@dataclass(frozen=True, slots=True)
class SizeConfig:
    """What `conf/size/*.yaml` hold."""

    name: str
    hardware: Hardware
    families: tuple[str, ...]
    netlists_per_family: int
    plans: int
    decisions: int
    pool: int
    max_cycles: int
    netlists_per_shard: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetConfig(Workers):
    """What `conf/dataset.yaml` holds."""

    fabric: Fabric
    size: SizeConfig
    families: tuple[str, ...]
    sample_cycles: int
    short_labels: bool
    seed: int
    output: Path

    def content(self) -> Content:
        """Return what the samples depend on. Raises InputError for what cannot be made."""
        size = self.size
        samples = SampleOptions(
            self.sample_cycles, size.decisions, self.short_labels, size.max_cycles, size.plans, size.pool
        )
        fabric = self.fabric if size.hardware is Hardware.ONE else None
        numbers = size.netlists_per_family, size.netlists_per_shard
        return Content(fabric, self.families, *numbers, samples, self.seed, size.hardware)


def main(config: DictConfig) -> None:
    """Make a dataset of labelled decisions, write a report about it and print what that says first."""
    settings, console = to_dataclass(DatasetConfig, config), make_console()
    content = settings.content()
    with counting_bar("shards") as on_progress:
        dataset, splits = build_dataset(content, settings.output, settings, on_progress)
    report = settings.output / "report"
    _print(console, report_dataset(dataset, splits, report))
    console.print(f"written to {settings.output}, report in {report}")


def _print(console: Console, summary: ReportSummary) -> None:
    """Print what the report says first; all numbers stand in its files."""
    console.print(check_table(summary.checks).screen())
    names = ("relative_error", "spearman_pooled", "spearman")
    rows = [
        (*item.cells, *(f"{getattr(item.scores.overall, name):.3f}" for name in names)) for item in summary.heuristic
    ]
    header = ("family", "decisions", "heuristic", "RE", "Spearman", "per graph")
    console.print(Table(header, rows).screen())
    console.print(
        f"{summary.overall.num_decisions} decisions of {summary.overall.num_netlists} netlists, "
        f"{summary.overall.num_failures} failures"
    )


if __name__ == "__main__":
    run_command(main, "dataset")
