"""What the command can be told, and the problems that it means."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from placer.errors import InputError
from placer.stencil.files import read_problem
from placer.stencil.generate import INPUTS
from placer.stencil.objective import ObjectiveName
from placer.stencil.problem import Problem
from placer.stencil.surface import read_surface, surface_problem

VOLUME_SUFFIX, FABRIC_SUFFIX = ".volume.png", ".fabric.png"  # of pictures
PAGE_SUFFIX = ".html"


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
    objective: ObjectiveName
    output: Path | None
    folder: Path
    pictures: bool

    def __post_init__(self) -> None:
        if not 0 < self.time_limit < math.inf:
            raise InputError(
                f"time_limit is {self.time_limit:g} s; it must be above 0 and below infinity"
            )
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
        self._refuse_to_overwrite()

    def _refuse_to_overwrite(self) -> None:
        """No file that is written may take the place of one that is read, or of another one."""
        for name, _ in self.jobs():
            taken = {path.resolve() for path in (self.problem, self.surface.file) if path}
            for path in self.written_files(name):
                if path.is_dir():
                    raise InputError(f"{path} is a folder; name a file, such as {path / 'a.out'}")
                if path.resolve() in taken:
                    raise InputError(
                        f"{path} would be overwritten; name another output, such as {name}.out"
                    )
                taken.add(path.resolve())

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

    def written_files(self, name: str) -> list[Path]:
        """All files that the solution of a problem may bring."""
        path = self.solution_file(name)
        pictures = (VOLUME_SUFFIX, FABRIC_SUFFIX, PAGE_SUFFIX)
        suffixes = (".json", *pictures, *((".in",) if not self.problem else ()))
        return [path, *(path.with_suffix(suffix) for suffix in suffixes)]


def _surface(surface: SurfaceConfig) -> Problem:
    assert surface.file is not None
    width, height = surface.fabric
    return surface_problem(
        read_surface(surface.file), surface.size, (width, height), surface.strength, surface.floor
    )
