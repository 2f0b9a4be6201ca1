"""Command: map volumes to the fabric; print the score, write and draw the solution.

Ctrl-C ends the search: the best solution so far is written, and the exit code is 130.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from omegaconf import DictConfig
from rich.progress import TaskID

from placer.base import (
    InputError,
    Interrupt,
    NotedBar,
    OneOf,
    Positive,
    Settings,
    Whole,
    command_line,
    is_file_name,
    make_console,
    make_folder,
    notice_file_name,
    output_file,
    require_folder,
    write_atomic,
)
from placer.base.config import run_command, to_dataclass
from placer.stencil.model import (
    INPUTS,
    ObjectiveName,
    Problem,
    make_objective,
    problem_text,
    read_problem,
    read_surface,
    solution_text,
    surface_problem,
)
from placer.stencil.search import Clock, Mapping, map_volume, warm_up
from placer.stencil.show import draw_fabric, draw_volume, score_table, solution_page

START_SECONDS = 2.0  # of Python and its imports, which count
LOADING_SECONDS = 2.0  # compiled code is loaded within this; what takes longer is compiled anew
BRIEF = 0.2  # seconds; what takes less does not tell how busy the machine is
BUSY = 1.5  # seconds that pass per second of computing, from which on it is told
PICTURE_SECONDS = 2.5  # to draw both pictures
SECONDS_PER_POINT = 1.5e-7  # to write a generated problem, per lattice point
RESULT_SCHEMA = 2
VOLUME_SUFFIX, FABRIC_SUFFIX, PAGE_SUFFIX = ".volume.png", ".fabric.png", ".html"


@dataclass(frozen=True, slots=True)
class SurfaceConfig:
    """How a surface becomes a problem."""

    file: Path | None
    size: int
    fabric: tuple[int, ...]
    strength: float
    floor: float

    def __post_init__(self) -> None:
        if len(self.fabric) != 2 or min(self.fabric) < 1:
            raise InputError(f"surface.fabric is {list(self.fabric)}; write width and height, as in [400,400]")

    def problem(self) -> Problem:
        """Return the problem around the surface in the file."""
        assert self.file is not None
        width, height = self.fabric
        triangles = read_surface(self.file)
        return surface_problem(triangles, self.size, (width, height), self.strength, self.floor)


@dataclass(frozen=True, slots=True)
class StencilConfig(Settings):
    """What `conf/stencil.yaml` holds."""

    problem: Path | None
    inputs: tuple[Annotated[str, OneOf(INPUTS)], ...]
    surface: SurfaceConfig
    time_limit: Positive
    seed: Whole
    objective: ObjectiveName
    output: Path
    folder: Path | None
    pictures: bool

    def check(self) -> None:
        if self.problem is not None and self.surface.file is not None:
            raise InputError("problem and surface.file are both given; give one of them")
        if is_file_name(self.output) and len(self.jobs()) != 1:
            raise InputError(f"output={self.output} names one file for {len(self.jobs())} inputs; name a folder")
        self._refuse_to_overwrite()

    def _refuse_to_overwrite(self) -> None:
        """Raise InputError if a written file would take the place of another one."""
        for name, _ in self.jobs():
            taken = {path.resolve() for path in (self.problem, self.surface.file) if path}
            solution = self.solution_file(name)
            drawn = (VOLUME_SUFFIX, FABRIC_SUFFIX, PAGE_SUFFIX)
            suffixes = (".json", *drawn) if self.problem else (".in", ".json", *drawn)
            for path in (solution, *(solution.with_suffix(suffix) for suffix in suffixes)):
                if path.is_dir():
                    raise InputError(f"{path} is a folder; name a file, such as {path / 'a.out'}")
                if path.resolve() in taken:
                    raise InputError(f"{path} would be overwritten; name another output, such as {name}.out")
                taken.add(path.resolve())

    def jobs(self) -> list[tuple[str, Callable[[], Problem]]]:
        """Return the names of the problems, and how to get them."""
        problem, surface = self.problem, self.surface
        if problem is not None:
            return [(problem.stem, lambda: read_problem(problem))]
        if surface.file is not None:
            return [(surface.file.stem, surface.problem)]
        return [(name, INPUTS[name]) for name in self.inputs]

    def solution_file(self, name: str) -> Path:
        """Return where the solution of a problem goes; what is drawn goes beside it."""
        return output_file(self.folder or self.output, f"{name}.out")


class MapProgress(NotedBar):
    """A bar of the time that is used up, in a terminal only. Use as a context."""

    def __init__(self, time_limit: float) -> None:
        super().__init__()
        self._limit = time_limit
        self._task = TaskID(0)

    def begin(self, name: str) -> None:
        """Begin a new problem; its bar stands below the last one."""
        self._task = self.add_task(name, total=1.0, note="planning")

    def on_step(self, stage: str, seconds: float, accuracy: float, wires: float) -> None:
        """Show a step of the search."""
        note = f"{stage}: accuracy {accuracy:.4f}" + (f"  wires {wires:.4f}" if wires else "")
        self.update(self._task, completed=min(1.0, seconds / self._limit), note=note)


def main(config: DictConfig) -> None:
    """Read or make the problems, map each, write its solution and print its score."""
    settings = to_dataclass(StencilConfig, config)
    for name, _ in settings.jobs():
        require_folder(settings.solution_file(name).parent)
    console = make_console()
    begin, slowness = time.perf_counter() - START_SECONDS, 1.0
    with MapProgress(settings.time_limit) as progress, Interrupt() as interrupt:
        for number, (name, load) in enumerate(settings.jobs()):
            problem = load()
            progress.begin(name)
            if number == 0:  # not before the input is known to be right
                compiling, slowness = _make_ready()
                begin += compiling
            ending, is_asked = _ending_seconds(settings, problem), lambda: interrupt.is_asked
            clock = Clock(settings.time_limit, problem.num_pes, begin, ending, is_asked, slowness)
            least = clock.least_limit(problem.heat.size)
            if least > settings.time_limit:
                console.print(
                    f"warning: {name}: time_limit={settings.time_limit:g} is too short for this volume and fabric; "
                    f"a first solution, checked and written, takes about {math.ceil(least)} s{_busy(slowness)}, "
                    "and is all there will be"
                )
            objective = make_objective(settings.objective, problem)
            mapping = map_volume(problem, clock, settings.seed, objective, progress.on_step)
            write(settings, name, problem, mapping, is_interrupted=interrupt.is_asked)
            console.rule(name)
            table = score_table(mapping.score, mapping.solution.sampling)
            table.add_row("seconds", f"{mapping.seconds:.1f}")
            console.print(table)
            console.print(f"written to {settings.solution_file(name)}")
            if interrupt.is_asked:
                # The solution is safe; the exit code tells that it is not final.
                raise KeyboardInterrupt
            begin = time.perf_counter()
    notice_file_name(settings.output)
    if settings.folder is not None:
        sys.stderr.write(f"notice: folder={settings.folder} is taken; in all commands the folder is called output\n")


def _ending_seconds(settings: StencilConfig, problem: Problem) -> float:
    """Return the time to write the problem, if it was generated, and to draw."""
    writing = 0.0 if settings.problem else SECONDS_PER_POINT * problem.heat.size
    return writing + (PICTURE_SECONDS if settings.pictures else 0.0)


def _make_ready() -> tuple[float, float]:
    """Make compiled code ready; return the time of compiling, and how slow the machine is meanwhile.

    Compiling counts for no time limit. Slow: seconds that pass per second of computing.
    """
    begin, computing = time.perf_counter(), time.process_time()
    warm_up()
    seconds = time.perf_counter() - begin
    slowness = (BRIEF + seconds) / (BRIEF + time.process_time() - computing)
    return max(0.0, seconds - LOADING_SECONDS), max(1.0, slowness)


def _busy(slowness: float) -> str:
    return f" on this busy machine ({slowness:.1f} s pass per second of computing)" if slowness >= BUSY else ""


def write(config: StencilConfig, name: str, problem: Problem, mapping: Mapping, *, is_interrupted: bool) -> None:
    """Write solution, result, pictures and page, and the problem if it was generated."""
    path, score = config.solution_file(name), mapping.score
    make_folder(path.parent)
    write_atomic(path, solution_text(mapping.solution))
    if config.problem is None:
        write_atomic(path.with_suffix(".in"), problem_text(problem))
    result = {
        "schema": RESULT_SCHEMA,
        "name": name,
        "score": score.total,
        "accuracy_norm": score.accuracy_norm,
        "wires_norm": score.wires_norm,
        **asdict(score),
        "seconds": round(mapping.seconds, 3),
        "is_interrupted": is_interrupted,
        "config": asdict(config),
    }
    write_atomic(path.with_suffix(".json"), json.dumps(result, indent=1, default=str) + "\n")
    if config.pictures:
        title = f"{name}: score {score.total:.4f}"
        volume = draw_volume(problem, mapping.netlist, title)
        write_atomic(path.with_suffix(VOLUME_SUFFIX), volume)
        write_atomic(path.with_suffix(FABRIC_SUFFIX), draw_fabric(problem, mapping, title))
        objective = make_objective(config.objective, problem)
        command = command_line("placer.stencil")
        page = solution_page(name, problem, mapping, objective, volume, command, asdict(config))
        write_atomic(path.with_suffix(PAGE_SUFFIX), page.to_html(is_interrupted=is_interrupted))


if __name__ == "__main__":
    run_command(main, "stencil")
