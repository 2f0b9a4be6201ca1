"""Command: measure short figures of quality (conf/quality.yaml); `placer.history` compares them with published ones."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from omegaconf import DictConfig

from costmodel.quality import MEASURES, Measured
from placer.base import (
    OneOf,
    Published,
    Settings,
    Some,
    command_line,
    git_revision,
    make_console,
    make_folder,
    require_folder,
    write_figures,
)
from placer.base.config import run_command, to_dataclass

FIGURES_FILE = "figures.json"


@dataclass(frozen=True, slots=True)
class QualityConfig(Settings):
    """What `conf/quality.yaml` holds."""

    measures: Some[Annotated[str, OneOf(MEASURES)]]
    output: Path


def main(config: DictConfig) -> None:
    """Measure, print and write."""
    settings, console = to_dataclass(QualityConfig, config), make_console()
    require_folder(settings.output)
    make_folder(settings.output)
    figures, path = list[Published](), settings.output / FIGURES_FILE
    for name in settings.measures:
        for measured in MEASURES[name]():
            figures.append(_published(measured))
            console.print(f"{measured.name}: {measured.value:.4f}")
        write_figures(path, figures)
    console.print(f"{len(figures)} figures written to {path}")


def _published(measured: Measured) -> Published:
    tolerance = float(f"{measured.tolerance * abs(measured.value):.3g}")
    command, today = command_line("costmodel.quality"), datetime.date.today().isoformat()
    return Published(measured.name, measured.value, tolerance, measured.better, command, git_revision(), today)


if __name__ == "__main__":
    run_command(main, "quality")
