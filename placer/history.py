"""Command: hold measured figures against the published ones; exit code 1 when one has fallen (conf/history.yaml)."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig

from placer.base import (
    InputError,
    Published,
    Settings,
    Some,
    Table,
    make_console,
    read_figures,
    replaced,
    write_atomic,
    write_figures,
)
from placer.base.config import run_command, to_dataclass
from placer.study.course import course_page


@dataclass(frozen=True, slots=True)
class HistoryConfig(Settings):
    """What `conf/history.yaml` holds."""

    history: Path
    measured: Some[Path]
    update: bool


def main(config: DictConfig) -> None:
    """Compare, or write what was measured into the history."""
    settings, console = to_dataclass(HistoryConfig, config), make_console()
    history = read_figures(settings.history) if settings.history.exists() else []
    measured = [figure for path in settings.measured for figure in read_figures(path)]
    if settings.update:
        write_figures(settings.history, replaced(history, measured))
        page = settings.history.with_suffix(".md")
        write_atomic(page, course_page(settings.history))
        console.print(f"{len(measured)} figures written to {settings.history}, their course to {page}")
        return
    known = {figure.name: figure for figure in history}
    both = [(known[now.name], now) for now in measured if now.name in known]
    if not both:
        raise InputError(f"no figure of {', '.join(map(str, settings.measured))} is in {settings.history}")
    fallen = [now.name for then, now in both if then.has_fallen(now)]
    rows = [
        (then.name, f"{then.value:.4f}", f"{now.value:.4f}", f"{then.tolerance:g}", _verdict(then, now))
        for then, now in both
    ]
    console.print(Table(("figure", "published", "now", "tolerance", ""), rows).screen())
    console.print(f"{len(fallen)} of {len(both)} figures have fallen out of their tolerance")
    if fallen:
        sys.exit(1)


def _verdict(then: Published, now: Published) -> str:
    if then.has_fallen(now):
        return "fallen"
    return "better" if then.loss(now) < -then.tolerance else ""


if __name__ == "__main__":
    run_command(main, "history")
