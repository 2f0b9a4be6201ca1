"""The wafer truth model: simulated throughput of a mapping (docs/wafer_truth.md).

And what a mapping can be judged by in place of the contest's score: costs that predict throughput.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from placer.base import FloatArray, LongArray
from placer.kernels.model import KernelGraph, KernelLayout, layout_of
from placer.kernels.sizing import Problem
from placer.kernels.truth.engine import Pipeline, run_pipeline
from placer.kernels.truth.grid import (
    Coarse,
    Routes,
    coarse_grid,
    colour_shares,
    link_capacity,
    link_shares,
    make_routes,
    stream_of_links,
)
from placer.kernels.truth.streams import KernelShape, Stream, lay_streams

TRUTH_VERSION = 2  # raised when results change: datasets and models of another one are refused
_LIMIT_SHARE = 0.97  # of the period: a resource that is busy for so long sets the pace


class Resolution(NamedTuple):
    """How much space and time are coarsened, and how long is simulated."""

    cells: int = 32  # along the longer side of the wafer
    chunks: int = 16  # parts of a sample
    samples: int = 24  # the second half of them is measured
    colours: int = 24  # per link of the wafer


@dataclass(frozen=True, slots=True)
class WaferMeasurement:
    """Steady-state throughput of a mapping, and where the time goes."""

    cycles_per_sample: float
    bound_cycles: float  # of the contest: no mapping has a smaller deltaT
    limit: str  # what sets the pace, in words
    shapes: tuple[KernelShape, ...]  # per kernel
    kernel_cycles: FloatArray  # [num_kernels] least cycles per sample
    streams: tuple[Stream, ...]  # per edge
    stream_cycles: FloatArray  # [num_streams] least cycles per sample, lanes and colours
    link_cycles: FloatArray  # [num_streams] least cycles per sample of the fullest link on its way

    @property
    def throughput(self) -> float:
        """Return the bound / cycles per sample, in (0, 1]."""
        return self.bound_cycles / self.cycles_per_sample


def simulate_mapping(problem: Problem, layout: KernelLayout, resolution: Resolution | None = None) -> WaferMeasurement:
    """Simulate a legal layout."""
    graph, options = problem.graph, resolution or Resolution()
    shapes, streams, cycles = lay_streams(graph, layout)
    grid = coarse_grid(graph.wafer, options.cells)
    routes = make_routes(grid, streams)
    pipeline = _pipeline(grid, routes, shapes, streams, cycles, options.colours)
    finish = run_pipeline(pipeline, routes, options.chunks, options.samples)
    ends = finish[:, options.chunks - 1 :: options.chunks]  # of samples, [num_kernels, samples]
    half = options.samples // 2
    # Kernels that fill buffers are still ahead of those that set the pace: the slowest counts.
    period = float((ends[:, -1] - ends[:, half - 1]).max()) / (options.samples - half)
    link_cycles = _link_cycles(pipeline, routes)
    return WaferMeasurement(
        cycles_per_sample=period,
        bound_cycles=float(problem.least_time),
        limit=_limit(graph, period, cycles, pipeline.stream_cycles, link_cycles),
        shapes=tuple(shapes),
        kernel_cycles=cycles,
        streams=tuple(streams),
        stream_cycles=pipeline.stream_cycles,
        link_cycles=link_cycles,
    )


def _pipeline(
    grid: Coarse, routes: Routes, shapes: list[KernelShape], streams: list[Stream],
    cycles: FloatArray, colours: int,
) -> Pipeline:  # fmt: skip
    used, covered = link_shares(grid, shapes, float(cycles.max()))
    kept = colour_shares(grid, routes, streams, covered, colours)
    lanes = kept * np.array([stream.lanes for stream in streams])
    wavelets = np.array([stream.wavelets for stream in streams])
    kernel_latency = np.array([shape.latency for shape in shapes])
    stream_latency = np.array([float(stream.latency) for stream in streams])
    edges = np.array([(s.source, s.target) for s in streams], np.int64).reshape(-1, 2)
    incident = np.argsort(edges.ravel(), kind="stable")
    return Pipeline(
        edges=edges,
        incident_start=np.searchsorted(edges.ravel()[incident], np.arange(len(shapes) + 1)),
        incident=incident // 2,
        kernel_cycles=cycles,
        kernel_latency=kernel_latency,
        stream_cycles=np.array([s.cycles(n) for s, n in zip(streams, lanes, strict=True)]),
        stream_latency=stream_latency,
        # A wavelet per lane and hop is on its way; the target has room for one sample.
        stream_samples=1 + (kernel_latency[edges[:, 0]] + stream_latency) * lanes / wavelets,
        part_wavelets=wavelets / np.diff(routes.part_start),
        capacity=link_capacity(grid, used, colours),
    )


def _link_cycles(pipeline: Pipeline, routes: Routes) -> FloatArray:
    """Return the time per sample that the fullest link on the way of each stream is busy."""
    stream = stream_of_links(routes)
    demand = np.bincount(routes.links, pipeline.part_wavelets[stream], len(pipeline.capacity))
    fullest = np.zeros(len(pipeline.edges))
    np.maximum.at(fullest, stream, (demand / pipeline.capacity)[routes.links])
    return fullest


def _limit(graph: KernelGraph, period: float, kernels: FloatArray, streams: FloatArray, links: FloatArray) -> str:
    """Name the busiest resource, if it is busy all the time."""
    names = [f"{graph.kernels[u].name} -> {graph.kernels[v].name}" for u, v in graph.edges]
    busiest = [(float(kernels.max()), f"kernel {graph.kernels[int(kernels.argmax())].name}")]
    if names:
        busiest.append((float(streams.max()), f"lanes of {names[int(streams.argmax())]}"))
        busiest.append((float(links.max()), f"links on the way of {names[int(links.argmax())]}"))
    cycles, name = max(busiest)
    if cycles < _LIMIT_SHARE * period:
        return f"kernels that wait for each other (busiest: {name}, {cycles / period:.0%})"
    return name


class Scores(NamedTuple):
    """What a cost says of some mappings."""

    throughput: FloatArray  # [num_mappings] normalised, in (0, 1]; higher is better
    busy: FloatArray  # [num_mappings, num_kernels] share of the time that kernels work, about


class MappingCost(Protocol):
    """Scores mappings of one problem."""

    def score(self, problem: Problem, tables: LongArray) -> Scores:
        """Judge `tables` [num_mappings, num_kernels, NUM_COLUMNS]: see model/layout.py."""
        ...


class SimulatorCost:
    """The wafer truth model itself: exact, and slow."""

    def score(self, problem: Problem, tables: LongArray) -> Scores:
        measured = [simulate_mapping(problem, layout_of(table)) for table in tables]
        return Scores(
            np.array([m.throughput for m in measured]),
            np.array([m.kernel_cycles / m.cycles_per_sample for m in measured]),
        )


def simulated_throughput(problem: Problem, table: LongArray, cost: MappingCost, liked: float) -> float:
    """Simulate a mapping to which `cost` has given the throughput `liked`, but never twice."""
    if isinstance(cost, SimulatorCost):
        return liked
    return float(SimulatorCost().score(problem, table[None]).throughput[0])


class FormulaCost:
    """The slowest kernel by the formulas of the truth model; streams do not hold it up.

    Quick, and an upper bound of what the simulator gives: a strong rule of thumb.
    """

    def score(self, problem: Problem, tables: LongArray) -> Scores:
        parts = [lay_streams(problem.graph, layout_of(table)) for table in tables]
        cycles = np.array([each for _, _, each in parts])
        slowest = cycles.max(axis=1)
        return Scores(float(problem.least_time) / slowest, cycles / slowest[:, None])
