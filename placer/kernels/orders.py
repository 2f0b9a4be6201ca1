"""Search over the order of kernels: each order is judged by its best rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from placer.kernels.floorplan import length_of
from placer.kernels.flow import flow_along
from placer.kernels.problem import Problem, Shapes
from placer.kernels.shapes import LongArray
from placer.kernels.shelves import Shelves, floorplan_of, shelves_of
from placer.kernels.strips import best_rows


@dataclass(frozen=True, slots=True)
class Ordered:
    """An order with its rows: first what is too high, then the wire length, are to be small."""

    order: LongArray
    beyond: int  # tiles above the wafer
    wire_length: float
    shelves: Shelves

    @property
    def rank(self) -> tuple[int, float]:
        return self.beyond, self.wire_length


def judge_order(
    problem: Problem, shapes: Shapes, order: LongArray, extra: int = 0
) -> Ordered | None:
    """The best rows of an order at a target time; up to `extra` tiles above the wafer."""
    flow = flow_along(problem.edges, order)
    rows = best_rows(shapes, flow)
    beyond = 0
    if rows is None and extra > 0:
        rows = best_rows(shapes, flow, extra=extra)
        beyond = 0 if rows is None else int(rows.heights.sum()) - problem.tables.height
    if rows is None:
        return None
    shelves = shelves_of(rows)
    length = length_of(floorplan_of(problem, shapes, shelves), problem.edges)
    return Ordered(order, max(beyond, 0), length, shelves)


def change_order(order: LongArray, generator: np.random.Generator) -> LongArray:
    """One random change: a stretch moves, is turned round, or two kernels change places."""
    num = len(order)
    changed = order.copy()
    kind = generator.integers(4)
    first = int(generator.integers(num))
    if kind == 0:
        other = int(np.clip(first + generator.integers(-4, 5), 0, num - 1))
        changed[[first, other]] = changed[[other, first]]
    elif kind == 1:
        end = min(num, first + int(generator.integers(2, 7)))
        changed[first:end] = changed[first:end][::-1]
    else:
        size = int(generator.integers(1, 4))
        reach = 4 if kind == 2 else num
        stretch = changed[first : first + size]
        rest = np.delete(changed, np.arange(first, first + len(stretch)))
        target = int(np.clip(first + generator.integers(-reach, reach + 1), 0, len(rest)))
        changed = np.insert(rest, target, stretch)
    return changed


def improve_order(
    problem: Problem,
    shapes: Shapes,
    start: LongArray,
    tries: int,
    generator: np.random.Generator,
    is_over: Callable[[], bool],
    extra: int = 0,
) -> Ordered | None:
    """Hill climb over orders, sideways steps included; None if it is cut off."""
    best = judge_order(problem, shapes, start, extra)
    for _ in range(tries):
        if is_over():
            return None
        order = change_order(start if best is None else best.order, generator)
        found = judge_order(problem, shapes, order, best.beyond if best and best.beyond else extra)
        if found is not None and (best is None or found.rank <= best.rank):
            best = found
    return best
