"""What a simulation tells about one decision."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray


class Status(IntEnum):
    """How a simulation ended."""

    STEADY = 0  # the period is stable
    CAP = 1  # cycle or sample limit reached before that
    DEADLOCK = 2  # nothing moves and nothing is on its way


class UnitTime(IntEnum):
    """Where the time of a unit went; columns of `Measurement.unit_time`."""

    BUSY = 0
    STARVED = 1  # waits for data
    BLOCKED = 2  # waits for room at its output
    PORT_WAIT = 3  # waits for a memory port or a DRAM channel that serves another flow


@dataclass(frozen=True, slots=True)
class Measurement:
    """Steady-state throughput of one decision, and where the time went."""

    status: Status
    cycles_per_sample: float  # nan when the status is not STEADY and no window was complete
    bound_cycles: int  # work of the slowest compute unit
    first_sample_cycles: int  # cycle in which the first sample was complete, -1 if none was
    cycles_simulated: int
    samples: int  # complete samples
    vector_hops: int  # vectors moved over links, all links, whole simulation
    unit_time: NDArray[np.float64]  # [num_units, 4] share of the time after warm-up, by UnitTime
    link_utilisation: NDArray[np.float64]  # [num_links] share of capacity used after warm-up
    critical: str  # the critical resource in words

    @property
    def throughput(self) -> float:
        """Return the normalised throughput: bound / cycles per sample, in (0, 1]."""
        return self.bound_cycles / self.cycles_per_sample
