"""The portfolio: rows by dynamic programming, joint sizing, then search around the best of them.

1. The best target time for rows in depth-first order, and for a single row that is sized jointly;
   with another seed than 0, also for rows in an order of the seed's own.
2. Round after round, on the most promising candidates: lower times, other orders of kernels,
   annealing of rows, times near by, other choices of labels; everything that comes near the best is
   sized jointly, aligned and judged. With a cost that is not the score: walks by it (walks.py).
"""

from __future__ import annotations

from itertools import count
from typing import NamedTuple

import numpy as np

from placer.base import LongArray
from placer.kernels.engines.floorplan import align, wire_length
from placer.kernels.engines.search import ROUNDS, Schedule, Search, finish_rectangles, offer_shelves, scan, size_shelves
from placer.kernels.engines.shelf_search import anneal_shelves, change_order, improve_order, judge_order
from placer.kernels.engines.shelves import Shelves, floorplan_of, is_on_wafer, shelves_of
from placer.kernels.engines.slicing import run_slicing
from placer.kernels.engines.strips import Rows, arrange, best_rows
from placer.kernels.engines.tbs import run_tbs
from placer.kernels.engines.walks import Steering, start_state
from placer.kernels.model import Mapping, depth_first_order
from placer.kernels.sizing import Sized

NEAR = 1.004  # what scores this close to the best, adapters left out, is sized jointly
TEMPERATURES = (2.0, 40.0, 8.0, 100.0)  # tiles of wire, where annealing begins
COLD = 0.3
ANNEAL_STEPS = 60_000
NUM_KINDS = 5  # of rounds
NEAR_TIMES = 3  # looked at in a round
MAX_CLIMBS = 4  # searches for lower times that go on
FORCE_ROUNDS = 20  # climbs over orders, where no order that was tried has rows
EXTRA_HEIGHT = 24  # tiles above the wafer that a search for lower times begins with
POOL_SIZE = 12
SHAKES = 4  # changes of an order, from where a climb begins elsewhere


class Candidate(NamedTuple):
    """Rows at a target time, with their score (adapters left out)."""

    score: float
    ticks: int
    shelves: Shelves


class Portfolio:
    """Runs until the search is over; see the module's text."""

    def __init__(self, search: Search) -> None:
        self._search, self._problem = search, search.problem
        self._pool: dict[int, Candidate] = {}  # the best rows of each of the best times
        self._seen: set[tuple[int, bytes]] = set()  # all rows that were ever looked at
        self._leader: Candidate | None = None  # what the best mapping came from
        self._climbs: dict[int, LongArray] = {}  # time: order whose rows are still too high
        self._steering = None if search.cost is None else Steering(search, search.cost)

    def run(self) -> None:
        """Search until the time is over, or return at once if there are no rows that fit."""
        problem, search = self._problem, self._search
        self.scan_rows(problem.depth_first)
        if self._steering is None or not self._pool:  # walks need no other rows
            self._scan_single_row()
            self.scan_rows(problem.breadth_first)
            if search.seed > 0 and not search.is_over():
                self.scan_rows(self._own_order())
        if search.best is None:
            self._force_rows()
        for number in count():
            if search.is_over() or not self._pool:
                return
            if self._steering is None:
                self._round(number)
            else:
                self._steer(self._steering, number)

    def _own_order(self) -> LongArray:
        """Return an order of the seed's own: paths behind forks in random order, some kernels moved."""
        problem, generator = self._problem, np.random.default_rng(self._search.seed)
        names = generator.permutation(problem.num)  # of kernels, by which ties are broken
        edges = tuple((int(names[source]), int(names[target])) for source, target in problem.edges.tolist())
        walk = np.array(depth_first_order(problem.num, tuple(edges[i] for i in generator.permutation(len(edges)))))
        return shaken(np.argsort(names)[walk], generator)

    def _ranked(self) -> list[Candidate]:
        return sorted(self._pool.values(), key=lambda candidate: candidate.score)

    def _steer(self, steering: Steering, number: int) -> None:
        """Begin every third walk with other rows; the others go on from the best mapping."""
        repeat, kind = divmod(number, 3)
        start = steering.best
        if kind == 0 or start is None:
            ranked, search = self._ranked(), self._search
            _, ticks, shelves = ranked[repeat % len(ranked)]
            sized = size_shelves(search, ticks, shelves, ROUNDS, search.seed)
            if sized is not None:
                start = start_state(self._problem, shelves, sized) or start
        if start is None:
            self._round(number)  # no rows of the pool can be walked from
        else:
            steering.walk_from(start, number)

    def _force_rows(self) -> None:
        """Find rows for a graph that hardly fits: orders that lower the height beyond the wafer."""
        problem, search = self._problem, self._search
        generator = np.random.default_rng(search.seed)
        ticks, order = int(problem.times[-1]), problem.depth_first
        shapes = problem.shapes_at(ticks)
        for _ in range(FORCE_ROUNDS):
            found = improve_order(shapes, order, generator, search.is_late, shapes.height)
            if found is None:
                return
            if found.beyond == 0:
                self._add(ticks, found.shelves)
                return
            order = found.shelves.order

    def _add(self, ticks: int, shelves: Shelves | None) -> None:
        """Enter rows into the pool, if there are any, and judge them if they are near the best.

        Rows that were looked at before, or are not the best of their time, are left out.
        """
        problem, search, best = self._problem, self._search, self._search.best
        key = (ticks, b"" if shelves is None else np.array(shelves).tobytes())
        if shelves is None or key in self._seen:
            return
        self._seen.add(key)
        shapes = problem.shapes_at(ticks)
        plan = align(floorplan_of(shapes, shelves), shapes.edges, shapes.width, shapes.height)
        score = problem.score(ticks, wire_length(plan, shapes.edges))
        if ticks in self._pool and self._pool[ticks].score <= score:
            return
        self._pool[ticks] = Candidate(score, ticks, shelves)
        if len(self._pool) > POOL_SIZE:
            del self._pool[max(self._pool.values(), key=lambda item: item.score).ticks]
        # Joint sizing may gain the parity of the edges.
        parity = problem.graph.wafer.wire_weight * len(problem.edges) / 4
        is_near = best is None or score - parity < NEAR * best.score.total_without_adapters
        if not search.is_over() and is_near:
            self._finish(ticks, shelves, ROUNDS, search.seed)

    def _judge(self, ticks: int, shelves: Shelves) -> None:
        """Align and judge rows with kernels as narrow as they can be."""
        before = self._search.best
        plan = floorplan_of(self._problem.shapes_at(ticks), shelves)
        finish_rectangles(self._search, ticks, plan)
        self._follow(before, ticks, shelves)

    def _follow(self, before: Mapping | None, ticks: int, shelves: Shelves) -> None:
        """Let these rows lead if the best mapping since `before` came from them."""
        best = self._search.best
        if best is not None and best is not before:
            self._leader = Candidate(best.score.total_without_adapters, ticks, shelves)

    def _finish(self, ticks: int, shelves: Shelves, rounds: int, seed: int) -> None:
        """Size, align and judge rows, as they are and jointly."""
        self._judge(ticks, shelves)
        before = self._search.best
        sized = size_shelves(self._search, ticks, shelves, rounds, seed)
        offer_shelves(self._search, shelves, sized)
        self._follow(before, ticks, shelves)

    def scan_rows(self, order: LongArray) -> None:
        """Find the best target time for rows in this order, and judge the best few of them."""
        problem = self._problem
        arranged = arrange(problem.edges, order)
        weight = problem.graph.wafer.wire_weight

        def evaluate(ticks: int) -> tuple[float, Shelves] | None:
            rows = best_rows(problem.shapes_at(ticks), arranged)
            return None if rows is None else (weight * rows.cost, shelves_of(rows))

        found: list[tuple[float, int, Shelves]] = []
        for score, ticks, shelves in scan(problem, evaluate, self._search.is_over):
            if not found or score < min(item[0] for item in found):
                self._judge(ticks, shelves)  # there is something if the time ends soon
            found.append((score, ticks, shelves))
        for _, ticks, shelves in sorted(found, key=lambda item: item[0])[: POOL_SIZE // 2]:
            if not self._search.is_over():
                self._add(ticks, shelves)

    def _scan_single_row(self) -> None:
        """Size one row of full height jointly at every time that is looked at."""
        problem, search = self._problem, self._search
        starts, heights = np.array([0, problem.num]), np.array([problem.tables.height])
        alone = np.zeros(problem.num, np.bool_)
        shelves = shelves_of(Rows(problem.depth_first, starts, heights, alone, 0.0))

        def evaluate(ticks: int) -> tuple[float, Sized] | None:
            if problem.shapes_at(ticks).widths[:, -1].sum() > problem.tables.width:
                return None
            sized = size_shelves(search, ticks, shelves, 4, search.seed)
            return None if sized is None else (sized.cost, sized)

        for score, ticks, sized in scan(problem, evaluate, self._search.is_over):
            if search.best is None or score < NEAR * search.best.score.total:
                before = search.best
                offer_shelves(search, shelves, sized)
                self._follow(before, ticks, shelves)
                self._add(ticks, shelves)

    def _round(self, number: int) -> None:
        """Take one kind of search, in turn, on a candidate that is likely to be good."""
        wafer, seed = self._problem.graph.wafer, self._search.seed
        generator = np.random.default_rng((seed, number))
        ranked = self._ranked()
        candidate = ranked[min(int(generator.geometric(0.5)) - 1, len(ranked) - 1)]
        repeat, kind = divmod(number, NUM_KINDS)
        if self._leader is not None and repeat % 2 == 0:
            candidate = self._leader
        elif repeat % 4 == 3:  # not always the most promising: what is best may be behind another one
            candidate = ranked[int(generator.integers(len(ranked)))]
        _, ticks, shelves = candidate
        is_over = self._search.is_over
        if wafer.wire_weight == 0 or kind == 0:
            self._try_lower_time(ranked[0], generator)
        elif kind == 1:
            shapes = self._problem.shapes_at(ticks)
            order = shaken(shelves.order, generator) if repeat % 2 else shelves.order
            found = improve_order(shapes, order, generator, is_over)
            self._add(ticks, found and found.shelves)
        elif kind == 2:
            hot = TEMPERATURES[repeat % len(TEMPERATURES)]
            schedule = Schedule(ANNEAL_STEPS * (1 + repeat // 8), hot, COLD)
            shapes, seed = self._problem.shapes_at(ticks), int(generator.integers(1 << 31))
            self._add(ticks, anneal_shelves(shapes, shelves, schedule, seed, is_over))
        elif kind == 3:
            self._try_near_times(ticks, shelves, generator)
        elif wafer.adapter_weight > 0:
            self._finish(ticks, shelves, 3 * ROUNDS, int(generator.integers(1 << 31)))

    def _try_near_times(self, ticks: int, shelves: Shelves, generator: np.random.Generator) -> None:
        """Add the same rows, and the best rows of the same order, at times a little off."""
        times = self._problem.times
        place = int(np.searchsorted(times, ticks))
        steps = generator.geometric(0.1, NEAR_TIMES) * generator.choice((-1, 1), NEAR_TIMES)
        for step in steps.tolist():
            if self._search.is_over() or not 0 <= place + step < len(times):
                continue
            near = int(times[place + step])
            shapes = self._problem.shapes_at(near)
            self._add(near, shelves if is_on_wafer(shapes, shelves) else None)
            found = judge_order(shapes, shelves.order)
            self._add(near, found and found.shelves)

    def _try_lower_time(self, candidate: Candidate, generator: np.random.Generator) -> None:
        """Begin at a lower time, or go on with a climb that has not reached the wafer's height."""
        problem = self._problem
        place = int(np.searchsorted(problem.times, candidate.ticks))
        self._climbs = {t: order for t, order in self._climbs.items() if t < candidate.ticks}
        if self._climbs and generator.integers(2):
            ticks = int(generator.choice(list(self._climbs)))
            order = self._climbs[ticks]
        else:
            ticks = int(problem.times[max(0, place - int(generator.geometric(0.03)))])
            order = candidate.shelves.order
        shapes, is_over = problem.shapes_at(ticks), self._search.is_over
        found = improve_order(shapes, order, generator, is_over, EXTRA_HEIGHT)
        if found is not None and found.beyond == 0:
            self._add(ticks, found.shelves)
        elif found is not None and (ticks in self._climbs or len(self._climbs) < MAX_CLIMBS):
            self._climbs[ticks] = found.shelves.order


def shaken(order: LongArray, generator: np.random.Generator) -> LongArray:
    """Return an order some changes away."""
    for _ in range(SHAKES):
        order = change_order(order, generator)
    return order


def run_auto(search: Search) -> None:
    """Run all of the portfolio until the time is over; other floorplans if no rows fit."""
    Portfolio(search).run()
    if not search.is_over():
        run_slicing(search)
        run_tbs(search)


def run_strips(search: Search) -> None:
    """Run only its first step: strips and stacks by dynamic programming, in two orders."""
    portfolio = Portfolio(search)
    for order in (search.problem.depth_first, search.problem.breadth_first):
        portfolio.scan_rows(order)
