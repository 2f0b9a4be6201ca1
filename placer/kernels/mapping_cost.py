"""What a mapping is judged by: the contest's score, or a cost that predicts its throughput."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from placer.kernels.graph import KernelGraph
from placer.kernels.layout import Layout
from placer.kernels.mapping_table import layout_of
from placer.kernels.problem import Problem
from placer.kernels.shapes import FloatArray, LongArray
from placer.kernels.truth_kernels import kernel_shape
from placer.kernels.truth_model import simulate_mapping
from placer.kernels.truth_streams import make_streams, rim_hops


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


def simulated_throughput(
    problem: Problem, table: LongArray, cost: MappingCost, liked: float
) -> float:
    """Of a mapping that `cost` has given the throughput `liked`; nothing is simulated twice."""
    if isinstance(cost, SimulatorCost):
        return liked
    return float(SimulatorCost().score(problem, table[None]).throughput[0])


class FormulaCost:
    """The slowest kernel by the formulas of the truth model; streams do not hold it up.

    Quick, and an upper bound of what the simulator gives: a strong rule of thumb.
    """

    def score(self, problem: Problem, tables: LongArray) -> Scores:
        cycles = np.array([_kernel_cycles(problem.graph, layout_of(table)) for table in tables])
        slowest = cycles.max(axis=1)
        bound = problem.bound / problem.graph.time_scale
        return Scores(bound / slowest, cycles / slowest[:, None])


def _kernel_cycles(graph: KernelGraph, layout: Layout) -> FloatArray:
    """[num_kernels] per sample, as in the simulator."""
    shapes = [
        kernel_shape(kernel, placed)
        for kernel, placed in zip(graph.kernels, layout.kernels, strict=True)
    ]
    hops = rim_hops(shapes, make_streams(graph, layout, shapes))
    return np.array([shape.cycles for shape in shapes]) + hops
