"""What a user may choose: the device, and how to search for a mapping.

The Streaming Engine is a line of tiles that each run one instruction per cycle. Sources: arXiv
2205.13675, section 2; what counts as time is written in docs/streaming.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from placer.base import InputError

MapperName = Literal["auto", "random", "list", "sa", "slots", "evolution", "exact", "rl", "hybrid"]

MOST_SEED = (1 << 31) - 1  # CP-SAT takes no more
MOST_TILES, MOST_CYCLES = 4096, 1024  # so that tables of all slots stay small


def require_within(settings: object, *limits: tuple[str, float, float]) -> None:
    """Raise InputError unless every field named is from least to most; nan is not."""
    for name, least, most in limits:
        value = getattr(settings, name)
        if not least <= value <= most:
            raise InputError(f"{name}={value}; allowed {least:g} to {most:.10g}")


@dataclass(frozen=True, slots=True)
class Device:
    """What the mapper must know of the hardware."""

    tiles: int = 16  # in one line
    ii: int = 6  # initiation interval: cycles between threads, and time slots (spokes) per tile
    depth: int = 3  # cycles from the start of an instruction to its result
    timing: Literal["delay", "exact"] = "delay"  # delay: an instruction may wait up to ii - 1
    sibling: Literal["relax", "strict"] = "relax"  # relax: a shared memory wins over rule 4
    max_hop: int | None = None  # longest tile distance of an edge; None: forwarded for free

    def __post_init__(self) -> None:
        require_within(self, ("tiles", 1, MOST_TILES), ("ii", 1, MOST_CYCLES), ("depth", 1, MOST_CYCLES))
        if self.max_hop is not None and self.max_hop < 0:
            raise InputError(f"max_hop={self.max_hop}; allowed 0 or more, or null for no limit")


@dataclass(frozen=True, slots=True)
class MapOptions:
    """How to search."""

    mapper: MapperName = "auto"
    time_limit: float = 60.0  # seconds
    seed: int = 0
    workers: int = 2  # threads of CP-SAT
    samples: int = 64  # games of the policy at once
    policy: Path | None = None  # policy file; None: the one that comes with the project
    ranks: int = 0  # times that the value model ranks the games of a batch
    fine_tune: bool = False  # rl: train on this graph for as long as there is time

    def __post_init__(self) -> None:
        require_within(self, ("time_limit", 0, 1e6), ("seed", 0, MOST_SEED), ("workers", 1, 256),
                       ("samples", 1, 4096), ("ranks", 0, 16))  # fmt: skip
        if self.fine_tune and self.mapper != "rl":
            raise InputError(f"fine_tune=true needs mapper=rl, not mapper={self.mapper}")
        if self.policy is not None and not self.policy.is_file():
            raise InputError(f"cannot read policy file {self.policy}: there is no such file")
