"""The last steps for any rows of slots: joint sizing, places, alignment, judgement."""

from __future__ import annotations

import numpy as np

from placer.kernels.floorplan import Floorplan, align, is_legal
from placer.kernels.flow import flow_along
from placer.kernels.joint import Frames, JointSizing, Sized
from placer.kernels.problem import Problem, Shapes
from placer.kernels.search import Search
from placer.kernels.shapes import LongArray
from placer.kernels.shelves import (
    NEW_ROW,
    STACKED,
    Shelves,
    floorplan_of,
    place_shelves,
)

ROUNDS = 8  # forests per choice of labels


def frames_of(problem: Problem, shapes: Shapes, shelves: Shelves) -> Frames:
    """Kernels alone in their slot may use the row's height; stacked ones keep their rectangle."""
    plan = floorplan_of(problem, shapes, shelves)
    order = shelves.order
    begins_row = shelves.begin == NEW_ROW
    row_of_place = np.cumsum(begins_row) - 1
    heights = _row_heights(problem, shelves)
    follows = np.append(shelves.begin[1:] == STACKED, False)
    is_stacked = (shelves.begin == STACKED) | follows
    row, height = np.empty_like(order), np.empty_like(order)
    row[order] = row_of_place
    height[order] = heights[row_of_place]
    width = np.zeros_like(order)
    stacked = order[is_stacked]
    height[stacked] = plan.extent_y[stacked]
    width[stacked] = plan.extent_x[stacked]
    fixed = np.zeros(len(heights))
    slot_of_place = np.cumsum(shelves.begin != STACKED) - 1
    widest = np.zeros(slot_of_place[-1] + 1, np.int64)
    np.maximum.at(widest, slot_of_place[is_stacked], plan.extent_x[stacked])
    first = np.flatnonzero(shelves.begin != STACKED)
    np.add.at(fixed, row_of_place[first], widest)
    flow = flow_along(problem.edges, order)
    return Frames(height, width, flow.cover[flow.place], row, fixed)


def _row_heights(problem: Problem, shelves: Shelves) -> LongArray:
    """Heights of the rows, with what is left given to the one with most kernels."""
    starts = np.flatnonzero(shelves.begin == NEW_ROW)
    heights = shelves.height[starts].copy()
    sizes = np.diff(np.append(starts, len(shelves.order)))
    spare = problem.tables.height - heights.sum()
    heights[np.argmax(sizes)] += max(0, spare)
    return heights


def finish(
    search: Search, sizing: JointSizing, shapes: Shapes, shelves: Shelves, rounds: int, seed: int
) -> None:
    """Offer the best mapping with these rows, if there is one."""
    sized = sizing.choose_that_fit(frames_of(search.problem, shapes, shelves), rounds, seed)
    if sized is not None:
        offer_shelves(search, shelves, sized)


def offer_shelves(search: Search, shelves: Shelves, sized: Sized) -> None:
    """Place sized kernels in their rows, align and judge them."""
    width = search.problem.tables.width
    _offer(search, place_shelves(shelves, sized.extent_x, sized.extent_y, width), sized)


def finish_rectangles(
    search: Search, sizing: JointSizing, plan: Floorplan, room: LongArray
) -> None:
    """Offer a floorplan with the fewest adapters that its widths allow.

    `room` [kernel]: tiles along y that a kernel may take, its rectangle being in the middle; if
    kernels then overlap, they keep to their rectangles.
    """
    zeros = np.zeros(search.problem.num, np.int64)
    for height in (room, plan.extent_y):
        frames = Frames(height, plan.extent_x, zeros.astype(np.float64), zeros, np.zeros(1))
        sized = sizing.choose(frames, np.zeros(1), ROUNDS, search.seed)
        if sized is None:
            return
        x = plan.x + (plan.extent_x - sized.extent_x) // 2
        y = plan.y + (plan.extent_y - sized.extent_y) // 2
        y = np.clip(y, 0, search.problem.tables.height - sized.extent_y)
        if _offer(search, Floorplan(x, y, sized.extent_x, sized.extent_y), sized):
            return


def _offer(search: Search, plan: Floorplan, sized: Sized) -> bool:
    """Align and judge a floorplan; returns whether it was legal."""
    width, height = search.problem.tables.width, search.problem.tables.height
    if not is_legal(plan, width, height):
        return False
    search.offer(align(plan, search.problem.edges, width, height), sized)
    return True
