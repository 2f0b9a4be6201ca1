"""Command: check a solution file by all rules and print its score.

Exit code 0 for a legal solution, 1 for an illegal one (with the broken rule), 2 for wrong input.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig

from placer.command import make_console
from placer.config import run_command, to_dataclass
from placer.stencil.files import read_problem, read_solution
from placer.stencil.report import score_table
from placer.stencil.scoring import IllegalSolutionError, score


@dataclass(frozen=True, slots=True)
class CheckConfig:
    """What `conf/stencil_check.yaml` holds."""

    problem: Path
    solution: Path


def main(config: DictConfig) -> None:
    """Entry point: two files -> a verdict on screen."""
    settings = to_dataclass(CheckConfig, config)
    problem = read_problem(settings.problem)
    solution = read_solution(settings.solution, problem.dimension)
    console = make_console()
    try:
        checked = score(problem, solution)
    except IllegalSolutionError as error:
        console.print(f"illegal: {error}")
        sys.exit(1)
    console.print("legal")
    console.print(score_table(checked, solution.sampling))


if __name__ == "__main__":
    run_command(main, "stencil_check")
