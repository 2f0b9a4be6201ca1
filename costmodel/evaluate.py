"""Command: compare methods on decisions that they have not seen (conf/evaluate.yaml)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from omegaconf import DictConfig
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from costmodel.evaluation.jobs import Plan, Seeds, Sources, how_to_make
from costmodel.evaluation.methods import Baseline, Method, Published
from costmodel.evaluation.report import REPORT_FILE, Summary, publish, write_report
from costmodel.evaluation.run import Finished, run_plan
from costmodel.training import TrainConfig
from costmodel.training.run import RunConfig
from placer.command import command_line, make_console
from placer.config import choices, compose_config, run_command, to_dataclass
from placer.errors import InputError
from placer.executor import ExecutorKind
from placer.files import require_folder, write_atomic
from placer.html.report_page import report_page


@dataclass(frozen=True, slots=True)
class Recipe:
    """A method as `recipes` describe it."""

    model: str  # a baseline, or a file in conf/model
    overrides: tuple[str, ...] = ()  # of conf/train.yaml; networks only
    base: str | None = None
    published: Published | None = None

    def method(self) -> Method:
        """Raises InputError for an unknown model or override."""
        baselines = [baseline.value for baseline in Baseline]
        allowed = (*baselines, *choices("model"))
        if self.model not in allowed:
            raise InputError(f"unknown model {self.model!r}; allowed: {', '.join(allowed)}")
        if self.model not in baselines:
            config = _train_config([f"model={self.model}", *self.overrides])
            return Method(config, self.base, self.published)
        if self.overrides:
            raise InputError(f"model {self.model!r} knows no overrides; seen {self.overrides[0]!r}")
        return Method(Baseline(self.model), self.base, self.published)


def _train_config(overrides: Sequence[str]) -> TrainConfig:
    """What `python -m costmodel.train` would train with."""
    return to_dataclass(RunConfig, compose_config("train", overrides)).learning()


@dataclass(frozen=True, slots=True)
class EvaluateConfig:
    """What `conf/evaluate.yaml` holds."""

    data: Path
    cache: Path
    transfers: dict[str, Path]
    methods: tuple[str, ...]
    ablations: tuple[str, ...]
    main: str
    recipes: dict[str, Recipe]
    seeds: Seeds
    max_folds: int | None
    ablation_folds: int | None
    workers: int | None
    executor: ExecutorKind
    ray_address: str | None
    output: Path
    publish: Path | None

    def chosen(self, names: tuple[str, ...]) -> dict[str, Method]:
        """Raises InputError for a name without a recipe."""
        for name in names:
            if name not in self.recipes:
                raise InputError(
                    f"unknown method {name!r}; allowed (recipes): {', '.join(self.recipes)}"
                )
        return {name: self.recipes[name].method() for name in names}

    def plan(self, transfers: dict[str, Path]) -> Plan:
        """Raises InputError for names that do not fit together."""
        if self.main not in self.recipes:
            raise InputError(
                f"main={self.main!r} is no method; allowed (recipes): {', '.join(self.recipes)}"
            )
        return Plan(
            sources=Sources(self.data, self.cache, transfers),
            methods=self.chosen(self.methods),
            ablations=self.chosen(self.ablations),
            seeds=self.seeds,
            max_folds=self.max_folds,
            ablation_folds=self.ablation_folds,
        )


def main(config: DictConfig) -> None:
    """Entry point."""
    settings = to_dataclass(EvaluateConfig, config)
    console = make_console()
    for folder in (settings.output, settings.publish):
        if folder is not None:
            require_folder(folder)
    command = command_line("costmodel.evaluate")
    for plan in settings.plan(_present(settings, console)).stages():  # a report after each
        finished = _run(plan, settings, console)
        summary = write_report(plan, finished, settings.output, main=settings.main, command=command)
    page = report_page(settings.output / REPORT_FILE, "Evaluation", command, asdict(settings))
    write_atomic(settings.output / "report.html", page.to_html())
    _print(console, summary)
    console.print(f"written to {settings.output / REPORT_FILE}")
    if settings.publish is not None:
        publish(settings.output, settings.publish)
        console.print(f"copied to {settings.publish}")


def _run(plan: Plan, settings: EvaluateConfig, console: Console) -> list[Finished]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as progress:
        bar = progress.add_task("jobs", total=None)
        return run_plan(
            plan,
            settings.output,
            executor=settings.executor,
            workers=len(os.sched_getaffinity(0)) if settings.workers is None else settings.workers,
            ray_address=settings.ray_address,
            on_progress=lambda done, total: progress.update(bar, completed=done, total=total),
        )


def _present(settings: EvaluateConfig, console: Console) -> dict[str, Path]:
    """Transfers whose datasets are there."""
    present = {}
    for fabric, folder in settings.transfers.items():
        if folder.is_dir():
            present[fabric] = folder
        elif settings.seeds.transfer:
            console.print(f"transfer to {fabric} left out: {how_to_make(fabric, folder)}")
    return present


def _print(console: Console, summary: Summary) -> None:
    header, *rows = summary.table
    table = Table(*map(str, header), title=f"{summary.split} split, unseen decisions")
    for row in rows:
        table.add_row(*map(str, row))
    console.print(table)
    for line in summary.winners:
        console.print(line)


if __name__ == "__main__":
    run_command(main, "evaluate")
