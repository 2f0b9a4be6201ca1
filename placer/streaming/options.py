"""How to search for a mapping."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from placer.errors import InputError

MapperName = Literal["auto", "random", "list", "sa", "slots", "evolution", "exact", "rl", "hybrid"]


TRAINED_POLICY = Path(__file__).parent / "rl/policy.pt"  # comes with the project
MOST_SEED = (1 << 31) - 1  # CP-SAT takes no more


def require_within(settings: object, *limits: tuple[str, float, float]) -> None:
    """Raise InputError unless every field named is from least to most; nan is not."""
    for name, least, most in limits:
        value = getattr(settings, name)
        if not least <= value <= most:
            raise InputError(f"{name}={value}; allowed {least:g} to {most:.10g}")


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
