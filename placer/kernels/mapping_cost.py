"""What a mapping is judged by: the contest's score, or a cost that predicts its throughput."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from placer.kernels.mapping_table import layout_of
from placer.kernels.problem import Problem
from placer.kernels.shapes import FloatArray, LongArray
from placer.kernels.truth_model import simulate_mapping


class Scores(NamedTuple):
    """What a cost says of some mappings."""

    throughput: FloatArray  # [num_mappings] normalised, in (0, 1]; higher is better
    busy: FloatArray  # [num_mappings, num_kernels] share of the time that kernels work, about


class MappingCost(Protocol):
    """Scores mappings of one problem."""

    def score(self, problem: Problem, tables: LongArray) -> Scores:
        """`tables` [num_mappings, num_kernels, NUM_COLUMNS]: see mapping_table.py."""
        ...


class MappingCostChoice(Protocol):
    """What the command line names; it makes the cost."""

    def cost(self) -> MappingCost: ...


class SimulatorCost:
    """The wafer truth model itself: exact, and slow."""

    def score(self, problem: Problem, tables: LongArray) -> Scores:
        measured = [simulate_mapping(problem, layout_of(table)) for table in tables]
        return Scores(
            np.array([m.throughput for m in measured]),
            np.array([m.kernel_cycles / m.cycles_per_sample for m in measured]),
        )
