"""Mappings of one kernel graph by all engines with random parameters, labelled by simulation."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from costmodel.wafer.graphs import draw_fitting
from placer.base import LongArray
from placer.kernels.engines import (
    Floorplan,
    Schedule,
    Search,
    Shelves,
    State,
    anneal_shelves,
    anneal_twins,
    arrange,
    best_rows,
    change_order,
    fill_rows,
    finish_rectangles,
    floorplan_of,
    frames_of,
    shelves_of,
    slice_wafer,
    start_state,
    walk,
)
from placer.kernels.model import KernelGraph, KernelLayout, format_kgraph, judge, layout_of
from placer.kernels.sizing import JointSizing, Problem
from placer.kernels.truth import FormulaCost, MappingCost, SimulatorCost, WaferMeasurement, simulate_mapping

LOOSEST = 2.5  # target times go up to this, times the smallest one with rows
ENGINES = ("strips", "rows", "auto", "slicing", "tbs")
# Share of the mappings that walks find: near the starts, and on the way to the best.
NEAR_SHARE, FAR_SHARE = 0.15, 0.5
NUM_WALKS = 4  # of each kind
TBS_STEPS = 10_000  # of a run of that engine
NEAR_STEPS, FAR_STEPS = 60, 1_500  # changes that are tried per walk


@dataclass(frozen=True, slots=True)
class Found:
    """A mapping, and how it was found."""

    engine: str
    search: dict[str, Any]
    layout: KernelLayout


@dataclass(frozen=True, slots=True)
class GraphSamples:
    """All samples of one kernel graph."""

    netlist_id: int  # position in the dataset
    seed: tuple[int, ...]
    spec: dict[str, Any]
    graph: KernelGraph
    found: tuple[Found, ...]
    measured: tuple[WaferMeasurement, ...]  # [num_decisions]
    failures: tuple[str, ...]

    @property
    def fingerprint(self) -> str:
        """Return a hash that is the same for equal graphs."""
        text = format_kgraph(self.graph)
        return hashlib.sha256(text.encode()).hexdigest()


def make_samples(family: str, num_decisions: int, seed: int, netlist_id: int) -> GraphSamples:
    """Return the samples of graph number `netlist_id`, which depend on nothing but the arguments."""
    rng = np.random.default_rng([seed, netlist_id])
    failures: list[str] = []
    problem, smallest, spec = draw_fitting(family, rng, failures)
    explorer = Explorer(problem, smallest, rng, failures)
    num_near, num_far = round(NEAR_SHARE * num_decisions), round(FAR_SHARE * num_decisions)
    found = (
        *explorer.engines(num_decisions - num_near - num_far),
        *explorer.walks(num_near, SimulatorCost(), NEAR_STEPS),
        *explorer.walks(num_far, FormulaCost(), FAR_STEPS),
    )
    for each in found:
        judge(problem.graph, each.layout)
    measured = tuple(simulate_mapping(problem, each.layout) for each in found)
    return GraphSamples(netlist_id, (seed, netlist_id), spec, problem.graph, found, measured, tuple(failures))


class Explorer:
    """Finds mappings of one graph; what it does depends on the generator alone."""

    def __init__(self, problem: Problem, smallest: int, rng: np.random.Generator, failures: list[str]) -> None:
        self._problem, self._smallest, self._rng = problem, smallest, rng
        self._failures = failures
        self._starts: list[State] = []
        self._orders = [problem.depth_first, problem.breadth_first]

    def engines(self, number: int) -> Iterator[Found]:
        """Yield mappings of all engines in turn; those that find none are told in `failures`."""
        run: dict[str, Callable[[int, LongArray], tuple[dict[str, Any], KernelLayout | None]]] = {
            "strips": self._strips,
            "rows": self._rows,
            "auto": self._auto,
            "slicing": self._slicing,
            "tbs": self._tbs,
        }
        for k in range(number):
            engine = ENGINES[k % len(ENGINES)]
            ticks, order = self._ticks(), self._order()
            search, layout = run[engine](ticks, order)
            if layout is None:
                self._failures.append(f"{engine} found nothing: {search}")
                continue
            yield Found(engine, {"ticks": ticks, **search}, layout)

    def walks(self, number: int, cost: MappingCost, num_steps: int) -> Iterator[Found]:
        """Yield mappings on annealed walks: every now and then the one that a walk has got to."""
        rng, starts = self._rng, self._starts
        for w in range(NUM_WALKS if starts else 0):
            start = starts[int(rng.integers(len(starts)))]
            hot = float(0.003 * 20 ** rng.random())
            seed, wanted = int(rng.integers(1 << 31)), (number + w) // NUM_WALKS
            accepted = [
                step.state.table
                for step in walk(self._problem, start, cost, Schedule(num_steps, hot, hot / 10), seed)
                if step.is_accepted
            ]
            # Equally many of each doubling of the steps: progress slows down.
            kept = np.geomspace(1, len(accepted), wanted + 1)[1:].astype(int) - 1
            for k in np.unique(kept).tolist():
                search = {"hot": hot, "seed": seed, "step": k, "cost": type(cost).__name__}
                yield Found("walk", search, layout_of(accepted[k]))

    def _ticks(self) -> int:
        times = self._problem.times
        wanted = self._smallest * LOOSEST ** (self._rng.random() ** 2)
        return int(times[min(int(np.searchsorted(times, wanted)), len(times) - 1)])

    def _order(self) -> LongArray:
        """Return a depth-first or breadth-first order, with a few random changes."""
        rng = self._rng
        order = self._orders[int(rng.integers(2))]
        for _ in range(int(rng.integers(5)) if rng.random() < 0.5 else 0):
            order = change_order(order, rng)
        return order

    def _strips(self, ticks: int, order: LongArray) -> tuple[dict[str, Any], KernelLayout | None]:
        stack = int(self._rng.integers(1, 4))
        shapes = self._problem.shapes_at(ticks)
        rows = best_rows(shapes, arrange(self._problem.edges, order), stack)
        if rows is None:
            return {"stack": stack}, None
        return {"stack": stack, "rows": len(rows.heights)}, self._joint(ticks, shelves_of(rows))

    def _rows(self, ticks: int, order: LongArray) -> tuple[dict[str, Any], KernelLayout | None]:
        rows = fill_rows(self._problem.shapes_at(ticks), arrange(self._problem.edges, order))
        if rows is None:
            return {}, None
        return {"rows": len(rows.heights)}, self._joint(ticks, shelves_of(rows))

    def _auto(self, ticks: int, order: LongArray) -> tuple[dict[str, Any], KernelLayout | None]:
        """Anneal rows at a random temperature, as the portfolio does."""
        rng, shapes = self._rng, self._problem.shapes_at(ticks)
        hot, seed = float(2 * 50 ** rng.random()), int(rng.integers(1 << 31))
        search = {"hot": hot, "seed": seed}
        rows = best_rows(shapes, arrange(self._problem.edges, order))
        if rows is None:
            return search, None
        schedule = Schedule(6_000, hot, 0.3)
        found = anneal_shelves(shapes, shelves_of(rows), schedule, seed, lambda: False)
        return search, None if found is None else self._joint(ticks, found)

    def _slicing(self, ticks: int, order: LongArray) -> tuple[dict[str, Any], KernelLayout | None]:
        width = int(self._problem.tables.width * (0.6 + 0.4 * self._rng.random()))
        plan = slice_wafer(self._problem.shapes_at(ticks), order, width)
        return {"width": width}, None if plan is None else self._rectangles(ticks, plan)

    def _tbs(self, ticks: int, order: LongArray) -> tuple[dict[str, Any], KernelLayout | None]:
        seed, steps = int(self._rng.integers(1 << 31)), TBS_STEPS
        place = int(np.searchsorted(self._problem.times, 2 * ticks))
        ticks = int(self._problem.times[min(place, len(self._problem.times) - 1)])
        shapes = self._problem.shapes_at(ticks)
        plan = anneal_twins(self._problem, shapes, steps, seed, lambda: False)
        search = {"seed": seed, "looser": ticks}
        return search, None if plan is None else self._rectangles(ticks, plan)

    def _joint(self, ticks: int, shelves: Shelves) -> KernelLayout | None:
        """Size the shelves jointly, and note the result as a start for walks."""
        problem, seed = self._problem, int(self._rng.integers(1 << 31))
        sizing = JointSizing(problem, ticks, lambda: False)
        sized = sizing.choose_that_fit(frames_of(problem.shapes_at(ticks), shelves), 2, seed)
        start = None if sized is None else start_state(problem, shelves, sized)
        if start is None:
            return self._rectangles(ticks, floorplan_of(problem.shapes_at(ticks), shelves))
        self._starts.append(start)
        return layout_of(start.table)

    def _rectangles(self, ticks: int, plan: Floorplan) -> KernelLayout | None:
        search = Search(self._problem, float("inf"), int(self._rng.integers(1 << 31)))
        finish_rectangles(search, ticks, plan)
        return None if search.best is None else search.best.layout
