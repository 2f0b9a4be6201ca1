"""Command: compare methods on decisions that they have not seen (conf/evaluate.yaml)."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from omegaconf import DictConfig
from rich.console import Console

import costmodel.wafer  # noqa: F401 - makes its kind of data known
from costmodel.evaluation import (
    REPORT_FILE,
    Baseline,
    Method,
    Plan,
    Published,
    Seeds,
    Sources,
    how_to_make,
    run_plan,
    write_evaluation,
)
from costmodel.training import RunConfig
from placer.base import InputError, Table, command_line, counting_bar, make_console, require_folder, write_atomic
from placer.base.config import choices, compose_config, run_command, to_dataclass
from placer.base.tracking import TrackingConfig, open_tracker
from placer.base.workers import Workers
from placer.show.html import report_page


@dataclass(frozen=True, slots=True)
class Recipe:
    """A method as `recipes` describe it."""

    model: str  # a baseline, or a file in conf/model
    overrides: tuple[str, ...] = ()  # of conf/train.yaml; networks only
    base: str | None = None
    published: Published | None = None

    def method(self) -> Method:
        """Return the method. Raises InputError for an unknown model or override."""
        baselines = [baseline.value for baseline in Baseline]
        allowed = (*baselines, *choices("model"))
        if self.model not in allowed:
            raise InputError(f"unknown model {self.model!r}; allowed: {', '.join(allowed)}")
        if self.model not in baselines:  # what `python -m costmodel.train` would train with
            config = compose_config("train", [f"model={self.model}", *self.overrides])
            learning = to_dataclass(RunConfig, config).learning()
            return Method(learning, self.base, self.published)
        if self.overrides:
            raise InputError(f"model {self.model!r} knows no overrides; seen {self.overrides[0]!r}")
        return Method(Baseline(self.model), self.base, self.published)


@dataclass(frozen=True, slots=True)
class EvaluateConfig(Workers):
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
    output: Path
    publish: Path | None
    tracking: TrackingConfig

    def chosen(self, names: tuple[str, ...]) -> dict[str, Method]:
        """Return methods by name. Raises InputError for a name without a recipe."""
        for name in names:
            if name not in self.recipes:
                raise InputError(f"unknown method {name!r}; allowed (recipes): {', '.join(self.recipes)}")
        return {name: self.recipes[name].method() for name in names}

    def plan(self, transfers: dict[str, Path]) -> Plan:
        """Return what to compute. Raises InputError for names that do not fit together."""
        if self.main not in self.recipes:
            raise InputError(f"main={self.main!r} is no method; allowed (recipes): {', '.join(self.recipes)}")
        return Plan(
            sources=Sources(self.data, self.cache, transfers),
            methods=self.chosen(self.methods),
            ablations=self.chosen(self.ablations),
            seeds=self.seeds,
            max_folds=self.max_folds,
            ablation_folds=self.ablation_folds,
        )


def main(config: DictConfig) -> None:
    """Evaluate the methods, write the report and print the table and the winners."""
    settings = to_dataclass(EvaluateConfig, config)
    console = make_console()
    for folder in (settings.output, settings.publish):
        if folder is not None:
            require_folder(folder)
    command = command_line("costmodel.evaluate")
    whole = settings.plan(_present(settings, console))
    name = f"{', '.join(settings.methods)} on {settings.data.name}"
    with open_tracker(settings.tracking, name, asdict(settings)) as tracker:
        for plan in whole.stages():  # a report after each
            with counting_bar("jobs") as report:
                finished = run_plan(plan, settings.output, settings, report)
            publish = settings.publish if plan is whole else None
            table, winners = write_evaluation(
                plan, finished, settings.output, main=settings.main, command=command, publish=publish
            )
        page = report_page(settings.output / REPORT_FILE, "Evaluation", command, asdict(settings))
        write_atomic(settings.output / "report.html", page.to_html())
        tracker.log_metrics(_metrics(table))
        tracker.log_files(sorted(settings.output.glob("*.*")))
    console.print(table.screen())
    for line in winners:
        console.print(line)
    console.print(f"written to {settings.output / REPORT_FILE}")
    if settings.publish is not None:
        console.print(f"copied to {settings.publish}")


def _metrics(table: Table) -> dict[str, float]:
    """Return the means of a table over seeds, by method and column."""
    found = {}
    for method, *cells in table.rows:
        for column, cell in zip(table.header[1:], cells, strict=True):
            with suppress(ValueError):  # "-" where there is none
                key = re.sub(r"[^\w.\- /]", "", f"{method} {column}")  # what names of metrics may hold
                found[key] = float(str(cell).split(" ")[0])
    return found


def _present(settings: EvaluateConfig, console: Console) -> dict[str, Path]:
    """Return the transfers whose datasets are there; say how to make the others."""
    present = {}
    for fabric, folder in settings.transfers.items():
        if folder.is_dir():
            present[fabric] = folder
        elif settings.seeds.transfer:
            console.print(f"transfer to {fabric} left out: {how_to_make(fabric, folder)}")
    return present


if __name__ == "__main__":
    run_command(main, "evaluate")
