"""Command: place unseen netlists and real models in the same time by different cost models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pandas as pd
from omegaconf import DictConfig

from costmodel.evaluation.comparison import Case, Models, PlacingMethod, Unseen, jobs_of, run_placings, write_comparison
from placer.base import InputError, command_line, counting_bar, make_console, require_folder
from placer.base.config import compose_config, run_command, to_dataclass
from placer.base.tracking import TrackingConfig, open_tracker
from placer.base.workers import Workers
from placer.fabric import Fabric, load_fabric
from placer.pipeline import PlaceConfig


@dataclass(frozen=True, slots=True)
class Recipe:
    """A method as `recipes` describe it."""

    overrides: tuple[str, ...]  # of conf/place.yaml
    time_factor: float | None = 1.0
    max_seeds: int | None = None

    def method(self) -> PlacingMethod:
        """Return the method. Raises InputError for an unknown setting."""
        settings = to_dataclass(PlaceConfig, compose_config("place", list(self.overrides)))
        return PlacingMethod(settings, self.time_factor, self.max_seeds)


@dataclass(frozen=True, slots=True)
class CompareConfig(Workers):
    """What `conf/compare.yaml` holds."""

    fabric: Fabric
    more_fabrics: tuple[str, ...]
    unseen: Unseen
    model_fabric: Fabric
    models: Models
    methods: tuple[str, ...]
    model_methods: tuple[str, ...]
    recipes: dict[str, Recipe]
    base: str
    limit: str
    twins: tuple[str, str]
    seconds: float
    model_seconds: float
    seeds: int
    output: Path
    publish: Path | None
    tracking: TrackingConfig

    def chosen(self, names: tuple[str, ...]) -> dict[str, PlacingMethod]:
        """Return methods by name. Raises InputError for a name without a recipe."""
        for name in (*names, self.base, self.limit, *self.twins):
            if name not in self.recipes:
                raise InputError(f"unknown method {name!r}; allowed (recipes): {', '.join(self.recipes)}")
        return {name: self.recipes[name].method() for name in names}

    def unseen_cases(self) -> Iterator[Case]:
        """Yield the random netlists; where there are several fabrics, groups are named after theirs."""
        for fabric in (self.fabric, *map(load_fabric, self.more_fabrics)):
            for case in self.unseen.cases(fabric):
                yield replace(case, group=f"{case.group} on {fabric.name}") if self.more_fabrics else case


def main(config: DictConfig) -> None:
    """Place netlists and models by each method, write the comparison and print its summary."""
    settings = to_dataclass(CompareConfig, config)
    for folder in (settings.output, settings.publish):
        if folder is not None:
            require_folder(folder)
    console = make_console()
    unseen_methods, model_methods = map(settings.chosen, (settings.methods, settings.model_methods))
    parts = (
        (settings.unseen_cases(), unseen_methods, settings.seconds),
        (settings.models.cases(settings.model_fabric), model_methods, settings.model_seconds),
    )
    to_do = [
        jobs for cases, methods, seconds in parts if (jobs := jobs_of(list(cases), methods, seconds, settings.seeds))
    ]
    if not to_do:
        raise InputError("nothing to place: unseen.netlists=0 and models.names=[]")
    placements = list[pd.DataFrame]()
    name = f"{', '.join(settings.methods)} on {settings.fabric.name}, {settings.seconds:g} s, {settings.seeds} seeds"
    with open_tracker(settings.tracking, name, asdict(settings)) as tracker:
        for jobs in to_do:  # a report after each
            with counting_bar("placements") as report:
                placements.append(run_placings(jobs, settings.output, settings, report))
            summary = write_comparison(
                pd.concat(placements), settings.output,
                base=settings.base, limit=settings.limit, twins=settings.twins,
                command=command_line("costmodel.compare"), config=asdict(settings),
                publish=settings.publish if jobs is to_do[-1] else None,
            )  # fmt: skip
        means = pd.concat(placements).groupby("method")["throughput"].mean()
        tracker.log_metrics({f"{method}_throughput": float(value) for method, value in means.items()})
        tracker.log_files(sorted(settings.output.glob("*.*")))
    console.print(summary.screen())
    console.print(f"written to {settings.output}")
    if settings.publish is not None:
        console.print(f"copied to {settings.publish}")


if __name__ == "__main__":
    run_command(main, "compare")
