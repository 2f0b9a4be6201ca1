"""What the command can be told, and the problems that it means."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from placer.errors import InputError
from placer.stencil.files import read_problem
from placer.stencil.generate import INPUTS
from placer.stencil.problem import Problem
from placer.stencil.surface import read_surface, surface_problem


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
            raise InputError(
                f"surface.fabric is {list(self.fabric)}; write width and height, as in [400,400]"
            )


@dataclass(frozen=True, slots=True)
class StencilConfig:
    """What `conf/stencil.yaml` holds."""

    problem: Path | None
    inputs: tuple[str, ...]
    surface: SurfaceConfig
    time_limit: float
    seed: int
    output: Path | None
    folder: Path
    pictures: bool

    def __post_init__(self) -> None:
        if self.time_limit <= 0:
            raise InputError(f"time_limit is {self.time_limit:g} s; it must be above 0")
        if self.seed < 0:
            raise InputError(f"seed is {self.seed}; it must not be negative")
        unknown = [name for name in self.inputs if name not in INPUTS]
        if unknown:
            raise InputError(f"unknown input {unknown[0]!r}; allowed: {', '.join(sorted(INPUTS))}")
        if self.problem is not None and self.surface.file is not None:
            raise InputError("problem and surface.file are both given; give one of them")
        if self.output is not None and len(self.jobs()) != 1:
            raise InputError(
                f"output={self.output} names one file for {len(self.jobs())} inputs; "
                "name a folder instead: folder=..."
            )

    def jobs(self) -> list[tuple[str, Callable[[], Problem]]]:
        """Names of the problems, and how to get them."""
        problem, surface = self.problem, self.surface
        if problem is not None:
            return [(problem.stem, lambda: read_problem(problem))]
        if surface.file is not None:
            return [(surface.file.stem, lambda: _surface(surface))]
        return [(name, INPUTS[name]) for name in self.inputs]

    def solution_file(self, name: str) -> Path:
        """Where the solution of a problem goes; what is drawn goes beside it."""
        return self.output or self.folder / f"{name}.out"

    def loaded(self) -> Iterator[tuple[str, Problem]]:
        """One problem after the other."""
        for name, load in self.jobs():
            yield name, load()


def _surface(surface: SurfaceConfig) -> Problem:
    assert surface.file is not None
    width, height = surface.fabric
    return surface_problem(
        read_surface(surface.file), surface.size, (width, height), surface.strength, surface.floor
    )
