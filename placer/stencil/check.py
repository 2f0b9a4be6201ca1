"""Command: check a solution file by all rules and print its score.

Exit code 0 for a legal solution, 1 for an illegal one (with the broken rule), 2 for wrong input.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig

from placer.base import make_console
from placer.base.config import run_command, to_dataclass
from placer.stencil.judge import IllegalSolutionError, score
from placer.stencil.model import read_problem, read_solution
from placer.stencil.show import score_table


@dataclass(frozen=True, slots=True)
class CheckConfig:
    """What `conf/stencil_check.yaml` holds."""

    problem: Path
    solution: Path


def main(config: DictConfig) -> None:
    """Read problem and solution, print the verdict."""
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
