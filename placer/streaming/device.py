"""The Streaming Engine: a line of tiles that each run one instruction per cycle.

Sources: arXiv 2205.13675, section 2; what counts as time is written in docs/streaming.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from placer.errors import InputError
from placer.streaming.options import require_within

MOST_TILES, MOST_CYCLES = 4096, 1024  # so that tables of all slots stay small


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
        require_within(
            self, ("tiles", 1, MOST_TILES), ("ii", 1, MOST_CYCLES), ("depth", 1, MOST_CYCLES)
        )
        if self.max_hop is not None and self.max_hop < 0:
            raise InputError(f"max_hop={self.max_hop}; allowed 0 or more, or null for no limit")
