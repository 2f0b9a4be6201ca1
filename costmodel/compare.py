"""Command: place unseen netlists and real models in the same time by different cost models."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path

from omegaconf import DictConfig
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from costmodel.comparison.cases import Models, Unseen
from costmodel.comparison.methods import Method
from costmodel.comparison.report import HEADER, publish, write_report
from costmodel.comparison.run import Finished, Job, jobs_of, require_cost_models, run_jobs
from placer.command import command_line, make_console
from placer.config import compose_config, run_command, to_dataclass
from placer.errors import InputError
from placer.executor import ExecutorKind
from placer.fabric import Fabric
from placer.files import require_folder
from placer.placing import PlaceConfig
from placer.study.tables import screen_table


@dataclass(frozen=True, slots=True)
class Recipe:
    """A method as `recipes` describe it."""

    overrides: tuple[str, ...]  # of conf/place.yaml
    time_factor: float = 1.0
    max_seeds: int | None = None

    def method(self) -> Method:
        """Raises InputError for an unknown setting."""
        settings = to_dataclass(PlaceConfig, compose_config("place", list(self.overrides)))
        return Method(settings, self.time_factor, self.max_seeds)


@dataclass(frozen=True, slots=True)
class CompareConfig:
    """What `conf/compare.yaml` holds."""

    fabric: Fabric
    unseen: Unseen
    model_fabric: Fabric
    models: Models
    methods: tuple[str, ...]
    model_methods: tuple[str, ...]
    recipes: dict[str, Recipe]
    base: str
    limit: str
    seconds: float
    model_seconds: float
    seeds: int
    workers: int | None
    executor: ExecutorKind
    ray_address: str | None
    output: Path
    publish: Path | None

    def chosen(self, names: tuple[str, ...]) -> dict[str, Method]:
        """Raises InputError for a name without a recipe."""
        for name in (*names, self.base, self.limit):
            if name not in self.recipes:
                raise InputError(
                    f"unknown method {name!r}; allowed (recipes): {', '.join(self.recipes)}"
                )
        return {name: self.recipes[name].method() for name in names}


def main(config: DictConfig) -> None:
    """Entry point."""
    settings = to_dataclass(CompareConfig, config)
    for folder in (settings.output, settings.publish):
        if folder is not None:
            require_folder(folder)
    console = make_console()
    unseen_methods, model_methods = map(settings.chosen, (settings.methods, settings.model_methods))
    parts = (
        (settings.unseen.cases(settings.fabric), unseen_methods, settings.seconds),
        (settings.models.cases(settings.model_fabric), model_methods, settings.model_seconds),
    )
    command = command_line("costmodel.compare")
    finished, rows = list[Finished](), list[list[str]]()
    to_do = [
        jobs_of(list(cases), methods, seconds, settings.seeds) for cases, methods, seconds in parts
    ]
    require_cost_models([job for jobs in to_do for job in jobs])
    for jobs in to_do:  # a report after each
        if jobs:
            finished += _run(jobs, settings, console)
            rows = write_report(
                finished, settings.output, base=settings.base, limit=settings.limit,
                command=command, config=asdict(settings),
            )  # fmt: skip
    if not finished:
        raise InputError("nothing to place: unseen.netlists=0 and models.names=[]")
    console.print(screen_table(HEADER, rows))
    console.print(f"written to {settings.output}")
    if settings.publish is not None:
        publish(settings.output, settings.publish)
        console.print(f"copied to {settings.publish}")


def _run(jobs: list[Job], settings: CompareConfig, console: Console) -> list[Finished]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as progress:
        bar = progress.add_task("placements", total=None)
        return run_jobs(
            jobs,
            settings.output,
            executor=settings.executor,
            workers=len(os.sched_getaffinity(0)) if settings.workers is None else settings.workers,
            ray_address=settings.ray_address,
            on_progress=lambda done, total: progress.update(bar, completed=done, total=total),
        )


if __name__ == "__main__":
    run_command(main, "compare")
