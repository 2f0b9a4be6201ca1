"""Command: map volumes to the fabric; print the score, write and draw the solution.

Ctrl-C ends the search: the best solution so far is written, and the exit code is 130.
"""

from __future__ import annotations

import time

from omegaconf import DictConfig

from placer.annealing.interrupt import Interrupt
from placer.command import make_console
from placer.config import run_command, to_dataclass
from placer.files import require_folder
from placer.stencil.clock import Clock
from placer.stencil.config import StencilConfig
from placer.stencil.mapper import map_volume, warm_up
from placer.stencil.objective import make_objective
from placer.stencil.problem import Problem
from placer.stencil.report import MapProgress, show, write

START_SECONDS = 1.5  # of Python and its imports, which count
LOADING_SECONDS = 2.0  # compiled code is loaded within this; what takes longer is compiled anew
PICTURE_SECONDS = 2.5  # to draw both pictures
SECONDS_PER_POINT = 2.2e-7  # to write a generated problem, per lattice point


def main(config: DictConfig) -> None:
    """Entry point: config -> problems -> solutions on disk and figures on screen."""
    settings = to_dataclass(StencilConfig, config)
    for name, _ in settings.jobs():
        require_folder(settings.solution_file(name).parent)
    console = make_console()
    begin = time.perf_counter() - START_SECONDS
    with MapProgress(settings.time_limit) as progress, Interrupt() as interrupt:
        for number, (name, load) in enumerate(settings.jobs()):
            problem = load()
            progress.begin(name)
            if number == 0:  # not before the input is known to be right
                begin += _compiling_seconds()
            clock = Clock(
                settings.time_limit,
                problem.num_pes,
                begin,
                _ending_seconds(settings, problem),
                lambda: interrupt.is_asked,
            )
            objective = make_objective(settings.objective, problem)
            mapping = map_volume(problem, clock, settings.seed, objective, progress.on_step)
            path = write(settings, name, problem, mapping, is_interrupted=interrupt.is_asked)
            show(name, mapping, console)
            console.print(f"written to {path}")
            if interrupt.is_asked:
                # The solution is safe; the exit code tells that it is not final.
                raise KeyboardInterrupt
            begin = time.perf_counter()


def _ending_seconds(settings: StencilConfig, problem: Problem) -> float:
    """What it takes to write the problem, if it was generated, and to draw."""
    writing = 0.0 if settings.problem else SECONDS_PER_POINT * problem.heat.size
    return writing + (PICTURE_SECONDS if settings.pictures else 0.0)


def _compiling_seconds() -> float:
    """Make compiled code ready; the time that compiling took counts for no time limit."""
    begin = time.perf_counter()
    warm_up()
    return max(0.0, time.perf_counter() - begin - LOADING_SECONDS)


if __name__ == "__main__":
    run_command(main, "stencil")
