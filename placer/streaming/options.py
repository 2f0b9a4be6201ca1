"""How to search for a mapping."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from placer.errors import InputError

MapperName = Literal["auto", "random", "list", "sa", "slots", "evolution", "exact", "rl", "hybrid"]


@dataclass(frozen=True, slots=True)
class MapOptions:
    """How to search."""

    mapper: MapperName = "auto"
    time_limit: float = 60.0  # seconds
    seed: int = 0
    workers: int = 2  # threads of CP-SAT
    samples: int = 64  # games of the policy at once
    policy: Path | None = None  # policy file; None: the one that comes with the project
    fine_tune: bool = False  # rl: train on this graph for as long as there is time

    def __post_init__(self) -> None:
        for name, least in (("time_limit", 0), ("seed", 0), ("workers", 1), ("samples", 1)):
            if getattr(self, name) < least:
                raise InputError(f"{name}={getattr(self, name)}; allowed {least} or more")
