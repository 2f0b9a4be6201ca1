"""A graph on several wafers in a row, also of unequal size: tensors flow from one to the next.

1. Cut the graph so that the slowest wafer is fast (stretches.py), in two orders of kernels.
2. Lower the times of the wafers that hold the chain up, with the engine and wires ignored.
3. Map every wafer with the engine and the graph's weights, no slower than the slowest has to be;
   or by a cost that predicts throughput.

After the chain of accelerators in the paper on strips and stacks; wires between wafers are not
counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from placer.kernels.check import OutRules, judge
from placer.kernels.engines import EngineName, map_kernels
from placer.kernels.finish import finish_rectangles
from placer.kernels.graph import KernelGraph, Wafer, breadth_first_order, depth_first_order
from placer.kernels.joint import JointSizing
from placer.kernels.mapping import Mapping
from placer.kernels.mapping_cost import MappingCost
from placer.kernels.problem import Problem
from placer.kernels.search import Search
from placer.kernels.shelves import floorplan_of, shelves_of
from placer.kernels.stretches import Size, Stretch, Stretches


@dataclass(frozen=True, slots=True)
class Part:
    """What one wafer holds."""

    wafer: int  # place in the chain, from 0
    graph: KernelGraph
    mapping: Mapping
    bound: Fraction  # of its time


@dataclass(frozen=True, slots=True)
class ChainOptions:
    """How a chain is searched."""

    engine: EngineName
    time_limit: float  # seconds for all wafers together
    seed: int
    rules: OutRules
    on_note: Callable[[str], None]  # what the search is doing
    cost: MappingCost | None = None  # chooses the mappings of step 3 in place of the score
    is_interrupted: Callable[[], bool] = lambda: False  # all steps come to their end


def map_chain(graph: KernelGraph, sizes: Sequence[Size], options: ChainOptions) -> list[Part]:
    """Mappings of all wafers that hold a kernel. Raises InputError if the graph does not fit."""
    end = time.perf_counter() + options.time_limit

    def left() -> float:
        return 0.0 if options.is_interrupted() else max(0.0, end - time.perf_counter())

    stretches = _cut(graph, sizes, lambda: left() <= options.time_limit / 2)
    options.on_note(f"cut for {_slowest(graph, stretches):,.10g}")
    searches = [_search(graph, sizes, stretch, options) for stretch in stretches]
    bounds = [_bound(search.problem) for search in searches]
    hopeful = [s for s in searches if _time(s) > max(bounds)]  # others never are the slowest
    seconds = left() / 2 / max(len(hopeful), 1)
    for search in hopeful:
        faster = replace(
            search, time_limit=seconds, on_better=search.take, is_interrupted=options.is_interrupted
        )
        map_kernels(faster, options.engine)
        options.on_note(f"slowest wafer {max(map(_time, searches)):,.10g}")
    slowest = Fraction(max(map(_time, searches)))
    parts = []
    for i, (stretch, search) in enumerate(zip(stretches, searches, strict=True)):
        seconds = left() / (len(searches) - i)
        own = _with_weights(search, graph.wafer, slowest, seconds, options)
        mapping = map_kernels(own, options.engine)
        parts.append(Part(stretch.wafer, own.problem.graph, mapping, bounds[i]))
    return parts


def _cut(graph: KernelGraph, sizes: Sequence[Size], is_over: Callable[[], bool]) -> list[Stretch]:
    """The better of the cuts of two orders."""
    num = len(graph.kernels)
    found: list[list[Stretch]] = []
    orders = [find(num, graph.edges) for find in (depth_first_order, breadth_first_order)]
    for order in orders[: 1 if orders[0] == orders[1] else 2]:
        if not found or not is_over():
            found.append(Stretches(graph, sizes, np.array(order)).cut(is_over))
    return min(found, key=lambda stretches: _slowest(graph, stretches))


def _slowest(graph: KernelGraph, stretches: Sequence[Stretch]) -> float:
    return max(stretch.ticks for stretch in stretches) / graph.time_scale


def _search(
    graph: KernelGraph, sizes: Sequence[Size], stretch: Stretch, options: ChainOptions
) -> Search:
    """A search for the smallest time of a wafer alone; its best mapping has the stretch's rows."""
    width, height = sizes[stretch.wafer]
    wafer = Wafer(width, height, graph.wafer.memory_limit, 1.0, wire_weight=0.0)
    own = subgraph(graph, stretch.kernels.tolist(), wafer)
    search = Search(Problem(own), 0.0, options.seed, options.rules)  # not to be interrupted
    part = search.part(0.0, stretch.is_turned)
    ticks = int(Fraction(stretch.ticks, graph.time_scale) * own.time_scale)
    rows = replace(stretch.rows, order=np.arange(len(stretch.kernels)))
    plan = floorplan_of(part.problem, part.problem.shapes_at(ticks), shelves_of(rows))
    sizing = JointSizing(part.problem, ticks, part.is_over)
    finish_rectangles(part, sizing, plan, plan.extent_y)
    return search


def _time(search: Search) -> float:
    assert search.best is not None, "searches of a chain begin with the rows of a stretch"
    return float(search.best.score.slowest)


def _bound(problem: Problem) -> Fraction:
    return Fraction(problem.bound, problem.graph.time_scale)


def _with_weights(
    search: Search, wafer: Wafer, slowest: Fraction, seconds: float, options: ChainOptions
) -> Search:
    """The search for the best score, no slower than `slowest`, from the best mapping so far."""
    own = search.problem.graph
    size = replace(wafer, width=own.wafer.width, height=own.wafer.height)
    graph = replace(own, wafer=size)
    assert search.best is not None
    layout, limit = search.best.layout, f"slowest wafer {float(slowest):,.10g}"
    # A cost may prefer a longer contest time that is shorter in truth.
    problem = Problem(graph, slowest if options.cost is None else None)
    weighted = Search(
        problem, seconds, options.seed, options.rules,
        lambda mapping: options.on_note(f"{limit}; this one: {mapping.describe()}"),
        cost=options.cost, is_interrupted=options.is_interrupted,
    )  # fmt: skip
    weighted.take(Mapping(layout, judge(graph, layout, search.rules)))
    return weighted


def subgraph(graph: KernelGraph, kernels: Sequence[int], wafer: Wafer) -> KernelGraph:
    """Some kernels of a graph with the edges between them, on a wafer of their own."""
    place = {kernel: i for i, kernel in enumerate(kernels)}
    edges = tuple((place[u], place[v]) for u, v in graph.edges if u in place and v in place)
    return KernelGraph(graph.name, tuple(graph.kernels[i] for i in kernels), edges, wafer)
