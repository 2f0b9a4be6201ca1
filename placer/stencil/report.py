"""What `python -m placer.stencil` prints, writes and draws."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import TaskID
from rich.table import Table

from placer.command import command_line
from placer.files import make_folder, write_atomic
from placer.progress import NotedBar
from placer.stencil import mapper
from placer.stencil.config import FABRIC_SUFFIX, PAGE_SUFFIX, VOLUME_SUFFIX, StencilConfig
from placer.stencil.draw import draw_fabric, draw_volume
from placer.stencil.files import write_problem, write_solution
from placer.stencil.mapper import Mapping
from placer.stencil.objective import make_objective
from placer.stencil.page import solution_page
from placer.stencil.problem import Problem
from placer.stencil.scoring import Score

RESULT_SCHEMA = 2


class MapProgress(NotedBar):
    """A bar of the time that is used up, in a terminal only. Use as a context."""

    def __init__(self, time_limit: float) -> None:
        super().__init__()
        self._limit = time_limit
        self._task = TaskID(0)

    def begin(self, name: str) -> None:
        """A new problem; its bar stands below the last one."""
        self._task = self._bar.add_task(name, total=1.0, note="planning")

    def on_step(self, step: mapper.Progress) -> None:
        """After a step of the search."""
        wires = f"  wires {step.wires:.4f}" if step.wires else ""
        self._bar.update(
            self._task,
            completed=min(1.0, step.seconds / self._limit),
            note=f"{step.stage}: accuracy {step.accuracy:.4f}{wires}",
        )


def show(name: str, mapping: Mapping, console: Console) -> None:
    """Print the score and what it is made of."""
    console.rule(name)
    table = score_table(mapping.score, mapping.solution.sampling)
    table.add_row("seconds", f"{mapping.seconds:.1f}")
    console.print(table)


def score_table(score: Score, sampling: int) -> Table:
    """A score and what it is made of, row by row."""
    facts = Table.grid(padding=(0, 2))
    binding = "accuracy" if score.accuracy_norm <= score.wires_norm else "wires"
    facts.add_row("score", f"{score.total:.6f} ({binding} binds)")
    facts.add_row("accuracy", f"{score.accuracy_norm:.6f}")
    facts.add_row("wires", f"{score.wires_norm:.6f}")
    facts.add_row("PEs used", f"{score.used_pes:,} of {score.num_pes:,}")
    facts.add_row("tiles, adapters", f"{score.num_tiles:,}, {score.num_adapters:,}")
    facts.add_row("sampling, scale", f"{sampling}, {score.scale:.6g}")
    return facts


def write(
    config: StencilConfig, name: str, problem: Problem, mapping: Mapping, *, is_interrupted: bool
) -> Path:
    """Write solution, result, pictures and page, and the problem if it was generated."""
    path = config.solution_file(name)
    make_folder(path.parent)
    write_solution(path, mapping.solution)
    if config.problem is None:
        write_problem(path.with_suffix(".in"), problem)
    result = {
        "schema": RESULT_SCHEMA,
        "name": name,
        "score": mapping.score.total,
        "accuracy_norm": mapping.score.accuracy_norm,
        "wires_norm": mapping.score.wires_norm,
        **asdict(mapping.score),
        "seconds": round(mapping.seconds, 3),
        "is_interrupted": is_interrupted,
        "config": asdict(config),
    }
    write_atomic(path.with_suffix(".json"), json.dumps(result, indent=1, default=_plain) + "\n")
    if config.pictures:
        title = f"{name}: score {mapping.score.total:.4f}"
        draw_volume(problem, mapping.netlist, path.with_suffix(VOLUME_SUFFIX), title)
        draw_fabric(
            problem, mapping.netlist, mapping.placed, path.with_suffix(FABRIC_SUFFIX), title
        )
        volume = path.with_suffix(VOLUME_SUFFIX).read_bytes()
        command = command_line("placer.stencil")
        objective = make_objective(config.objective, problem)
        page = solution_page(name, problem, mapping, objective, volume, command, asdict(config))
        write_atomic(path.with_suffix(PAGE_SUFFIX), page.to_html(is_interrupted=is_interrupted))
    return path


def _plain(value: Any) -> str:
    return str(value)
