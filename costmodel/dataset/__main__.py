"""Command: make a dataset of labelled decisions (conf/dataset.yaml)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from costmodel.dataset import report_tables as tables
from costmodel.dataset.build import REPORT_FOLDER, Content, build_dataset
from costmodel.dataset.generate import SampleOptions
from costmodel.dataset.report import ReportSummary
from placer.config import run_command, to_dataclass
from placer.executor import ExecutorKind
from placer.fabric import Fabric


@dataclass(frozen=True, slots=True)
class SizeConfig:
    """What `conf/size/*.yaml` hold."""

    name: str
    netlists_per_family: int
    decisions: int
    netlists_per_shard: int


@dataclass(frozen=True, slots=True)
class DatasetConfig:
    """What `conf/dataset.yaml` holds."""

    fabric: Fabric
    size: SizeConfig
    families: tuple[str, ...]
    sample_cycles: int
    seed: int
    workers: int | None
    executor: ExecutorKind
    ray_address: str | None
    output: Path

    def content(self) -> Content:
        size = self.size
        samples = SampleOptions(self.sample_cycles, size.decisions)
        return Content(
            self.fabric,
            self.families,
            size.netlists_per_family,
            size.netlists_per_shard,
            samples,
            self.seed,
        )


def main(config: DictConfig) -> None:
    """Entry point."""
    settings = to_dataclass(DatasetConfig, config)
    content = settings.content()
    console = Console()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as progress:
        bar = progress.add_task("shards", total=content.num_shards)
        summary = build_dataset(
            content,
            settings.output,
            executor=settings.executor,
            workers=_num_cores() if settings.workers is None else settings.workers,
            ray_address=settings.ray_address,
            on_progress=lambda done, total: progress.update(bar, completed=done),
        )
    _print(console, summary)
    console.print(f"written to {settings.output}, report in {settings.output / REPORT_FOLDER}")


def _num_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


def _print(console: Console, summary: ReportSummary) -> None:
    """What the report says first; all numbers stand in its files."""
    checks = Table("family", "check", "found", "needed", "verdict")
    for row in tables.check_rows(summary.checks)[1:]:
        checks.add_row(*map(str, row))
    console.print(checks)
    heuristic = Table("family", "decisions", "heuristic", "RE", "Spearman", "per graph")
    for item in summary.heuristic:
        scores = item.scores.overall
        heuristic.add_row(
            item.family,
            "near-optimal" if item.near_optimal else "all",
            "calibrated" if item.calibrated else "raw",
            f"{scores.relative_error:.3f}",
            f"{scores.spearman_pooled:.3f}",
            f"{scores.spearman:.3f}",
        )
    console.print(heuristic)
    console.print(
        f"{summary.overall.num_decisions} decisions of {summary.overall.num_netlists} netlists, "
        f"{summary.overall.num_failures} failures"
    )


if __name__ == "__main__":
    run_command(main, "dataset")
