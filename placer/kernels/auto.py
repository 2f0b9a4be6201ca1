"""The portfolio: rows by dynamic programming, joint sizing, then search around the best of them.

1. The best target time for rows in depth-first order, and for a single row that is sized jointly.
2. Round after round, on the most promising candidates: lower times, other orders of kernels,
   annealing of rows, times near by, other choices of labels; everything that comes near the best is
   sized jointly, aligned and judged. With a cost that is not the score: walks by it (steer.py).
"""

from __future__ import annotations

from itertools import count

import numpy as np

from placer.kernels.finish import finish, finish_rectangles, frames_of, offer_shelves
from placer.kernels.floorplan import align, length_of
from placer.kernels.flow import flow_along
from placer.kernels.graph import breadth_first_order, depth_first_order
from placer.kernels.joint import JointSizing, Sized
from placer.kernels.mapping import Mapping
from placer.kernels.orders import improve_order, judge_order
from placer.kernels.pool import POOL_SIZE, Candidate, Pool
from placer.kernels.scan import scan
from placer.kernels.search import Search
from placer.kernels.shapes import LongArray
from placer.kernels.shelf_search import Schedule, anneal_shelves
from placer.kernels.shelves import Shelves, floorplan_of, is_on_wafer, shelves_of
from placer.kernels.slicing import run_slicing
from placer.kernels.steer import Steering
from placer.kernels.strips import Rows, best_rows
from placer.kernels.tbs import run_tbs
from placer.kernels.walk import start_state

NEAR = 1.004  # what scores this close to the best, adapters left out, is sized jointly
TEMPERATURES = (2.0, 40.0, 8.0, 100.0)  # tiles of wire, where annealing begins
COLD = 0.3
ROUNDS = 8  # forests per joint choice
ANNEAL_STEPS = 60_000
ORDER_TRIES = 24
NUM_KINDS = 5  # of rounds
NEAR_TIMES = 3  # looked at in a round
MAX_CLIMBS = 4  # searches for lower times that go on
FORCE_ROUNDS = 20  # of ORDER_TRIES each, where no order that was tried has rows
EXTRA_HEIGHT = 24  # tiles above the wafer that a search for lower times begins with


class Portfolio:
    """Runs until the search is over; see the module's text."""

    def __init__(self, search: Search) -> None:
        self._search, self._problem = search, search.problem
        self._pool = Pool()
        self._sizings: dict[int, JointSizing] = {}
        self._leader: Candidate | None = None  # what the best mapping came from
        self._climbs: dict[int, LongArray] = {}  # time: order whose rows are still too high
        self._steering = None if search.cost is None else Steering(search, search.cost)

    def run(self) -> None:
        """Returns at the end of the time, or if there are no rows that fit."""
        problem, search = self._problem, self._search
        edges = problem.graph.edges
        self.scan_rows(np.array(depth_first_order(problem.num, edges)))
        if self._steering is None or not self._pool:  # walks need no other rows
            self._scan_single_row()
            self.scan_rows(np.array(breadth_first_order(problem.num, edges)))
        if search.best is None:
            self._force_rows()
        for number in count():
            if search.is_over() or not self._pool:
                return
            if self._steering is None:
                self._round(number)
            else:
                self._steer(self._steering, number)

    def _steer(self, steering: Steering, number: int) -> None:
        """Every third walk begins with other rows, the others go on from the best mapping."""
        repeat, kind = divmod(number, 3)
        start = steering.best
        if kind == 0 or start is None:
            ranked = self._pool.ranked()
            rows = ranked[repeat % len(ranked)]
            shapes = self._problem.shapes_at(rows.ticks)
            frames = frames_of(self._problem, shapes, rows.shelves)
            sized = self._sizing(rows.ticks).choose_that_fit(frames, ROUNDS, self._search.seed)
            if sized is not None:
                start = start_state(self._problem, rows.shelves, sized) or start
        if start is None:
            self._round(number)  # no rows of the pool can be walked from
        else:
            steering.walk_from(start, number)

    def _force_rows(self) -> None:
        """Rows for a graph that hardly fits: orders that lower the height beyond the wafer."""
        problem, search = self._problem, self._search
        generator = np.random.default_rng(search.seed)
        ticks = int(problem.times[-1])
        order = np.array(depth_first_order(problem.num, problem.graph.edges))
        for _ in range(FORCE_ROUNDS):
            found = improve_order(
                problem, problem.shapes_at(ticks), order, ORDER_TRIES, generator, search.is_late,
                problem.tables.height,
            )  # fmt: skip
            if found is None:
                return
            if found.beyond == 0:
                self._add(ticks, found.shelves)
                return
            order = found.order

    def _add(self, ticks: int, shelves: Shelves) -> None:
        """Enter a candidate, and judge it if it is new and near the best."""
        problem, search = self._problem, self._search
        if not self._pool.see(ticks, shelves):
            return
        shapes = problem.shapes_at(ticks)
        plan = floorplan_of(problem, shapes, shelves)
        aligned = align(plan, problem.edges, problem.tables.width, problem.tables.height)
        length = length_of(aligned, problem.edges)
        candidate = Candidate(problem.score(ticks, length), ticks, shelves)
        best = search.best
        if not self._pool.enter(candidate) or search.is_over():
            return
        parity = (
            problem.graph.wafer.wire_weight * len(problem.edges) / 4
        )  # joint sizing may gain it
        if best is None or candidate.score - parity < NEAR * best.score.total_without_adapters:
            self._finish(candidate, ROUNDS, search.seed)

    def _judge(self, ticks: int, shelves: Shelves) -> None:
        """Align and judge rows with kernels as narrow as they can be."""
        before = self._search.best
        plan = floorplan_of(self._problem, self._problem.shapes_at(ticks), shelves)
        finish_rectangles(self._search, self._sizing(ticks), plan, plan.extent_y)
        self._follow(before, ticks, shelves)

    def _follow(self, before: Mapping | None, ticks: int, shelves: Shelves) -> None:
        """These rows lead if the best mapping since `before` came from them."""
        best = self._search.best
        if best is not None and best is not before:
            self._leader = Candidate(best.score.total_without_adapters, ticks, shelves)

    def _finish(self, candidate: Candidate, rounds: int, seed: int) -> None:
        """Size, align and judge a candidate, as it is and jointly."""
        search, ticks = self._search, candidate.ticks
        self._judge(ticks, candidate.shelves)
        before = search.best
        shapes = self._problem.shapes_at(ticks)
        finish(search, self._sizing(ticks), shapes, candidate.shelves, rounds, seed)
        self._follow(before, ticks, candidate.shelves)

    def _sizing(self, ticks: int) -> JointSizing:
        if ticks not in self._sizings:
            if len(self._sizings) > 3:
                self._sizings.clear()  # labels of many times would fill the memory
            self._sizings[ticks] = JointSizing(self._problem, ticks, self._search.is_over)
        return self._sizings[ticks]

    def scan_rows(self, order: LongArray) -> None:
        """Find the best target time for rows in this order, and judge the best few of them."""
        problem = self._problem
        flow = flow_along(problem.edges, order)
        weight = problem.graph.wafer.wire_weight

        def evaluate(ticks: int) -> tuple[float, Rows] | None:
            rows = best_rows(problem.shapes_at(ticks), flow)
            return None if rows is None else (weight * rows.cost, rows)

        found: list[tuple[float, int, Shelves]] = []
        for score, ticks, rows in scan(problem, evaluate, self._search.is_over):
            if not found or score < min(item[0] for item in found):
                self._judge(ticks, shelves_of(rows))  # there is something if the time ends soon
            found.append((score, ticks, shelves_of(rows)))
        for _, ticks, shelves in sorted(found, key=lambda item: item[0])[: POOL_SIZE // 2]:
            if not self._search.is_over():
                self._add(ticks, shelves)

    def _scan_single_row(self) -> None:
        """One row of full height, sized jointly at every time that is looked at."""
        problem, search = self._problem, self._search
        order = np.array(depth_first_order(problem.num, problem.graph.edges))
        starts, heights = np.array([0, problem.num]), np.array([problem.tables.height])
        shelves = shelves_of(Rows(order, starts, heights, np.zeros(problem.num, np.bool_), 0.0))

        def evaluate(ticks: int) -> tuple[float, Sized] | None:
            shapes = problem.shapes_at(ticks)
            if shapes.widths[:, -1].sum() > problem.tables.width:
                return None
            frames = frames_of(problem, shapes, shelves)
            sizing = JointSizing(problem, ticks, search.is_over)
            sized = sizing.choose_that_fit(frames, 4, search.seed)
            return None if sized is None else (sized.cost, sized)

        for score, ticks, sized in scan(problem, evaluate, self._search.is_over):
            if search.best is None or score < NEAR * search.best.score.total:
                before = search.best
                offer_shelves(search, shelves, sized)
                self._follow(before, ticks, shelves)
                self._add(ticks, shelves)

    def _round(self, number: int) -> None:
        """One kind of search, in turn, on a candidate that is likely to be good."""
        wafer, seed = self._problem.graph.wafer, self._search.seed
        generator = np.random.default_rng((seed, number))
        ranked = self._pool.ranked()
        candidate = ranked[min(int(generator.geometric(0.5)) - 1, len(ranked) - 1)]
        repeat, kind = divmod(number, NUM_KINDS)
        if self._leader is not None and repeat % 2 == 0:
            candidate = self._leader
        if wafer.wire_weight == 0 or kind == 0:
            self._try_lower_time(ranked[0], generator)
        elif kind == 1:
            self._try_orders(candidate, generator)
        elif kind == 2:
            self._try_annealing(candidate, repeat, int(generator.integers(1 << 31)))
        elif kind == 3:
            self._try_near_times(candidate, generator)
        elif wafer.adapter_weight > 0:
            self._finish(candidate, 3 * ROUNDS, int(generator.integers(1 << 31)))

    def _try_orders(self, candidate: Candidate, generator: np.random.Generator) -> None:
        shapes = self._problem.shapes_at(candidate.ticks)
        order = candidate.shelves.order
        is_over = self._search.is_over
        found = improve_order(self._problem, shapes, order, ORDER_TRIES, generator, is_over)
        if found is not None:
            self._add(candidate.ticks, found.shelves)

    def _try_annealing(self, candidate: Candidate, repeat: int, seed: int) -> None:
        hot = TEMPERATURES[repeat % len(TEMPERATURES)]
        schedule = Schedule(ANNEAL_STEPS * (1 + repeat // 8), hot, COLD)
        shapes = self._problem.shapes_at(candidate.ticks)
        found = anneal_shelves(
            self._problem, shapes, candidate.shelves, schedule, seed, self._search.is_over
        )
        if found is not None:
            self._add(candidate.ticks, found.shelves)

    def _try_near_times(self, candidate: Candidate, generator: np.random.Generator) -> None:
        """The same rows, and the best rows of the same order, at times a little off."""
        problem = self._problem
        place = int(np.searchsorted(problem.times, candidate.ticks))
        steps = generator.geometric(0.1, NEAR_TIMES) * generator.choice((-1, 1), NEAR_TIMES)
        for step in steps.tolist():
            if self._search.is_over() or not 0 <= place + step < len(problem.times):
                continue
            ticks = int(problem.times[place + step])
            shapes = problem.shapes_at(ticks)
            if is_on_wafer(problem, shapes, candidate.shelves):
                self._add(ticks, candidate.shelves)
            found = judge_order(problem, shapes, candidate.shelves.order)
            if found is not None:
                self._add(ticks, found.shelves)

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
        found = improve_order(
            problem, problem.shapes_at(ticks), order, ORDER_TRIES, generator,
            self._search.is_over, EXTRA_HEIGHT,
        )  # fmt: skip
        if found is not None and found.beyond == 0:
            self._add(ticks, found.shelves)
        elif found is not None and (ticks in self._climbs or len(self._climbs) < MAX_CLIMBS):
            self._climbs[ticks] = found.order


def run_auto(search: Search) -> None:
    """All of the portfolio, until the time is over; other floorplans if no rows fit."""
    Portfolio(search).run()
    if not search.is_over():
        run_slicing(search)
        run_tbs(search)


def run_strips(search: Search) -> None:
    """Only its first step: strips and stacks by dynamic programming, in two orders."""
    problem = search.problem
    portfolio = Portfolio(search)
    for find_order in (depth_first_order, breadth_first_order):
        portfolio.scan_rows(np.array(find_order(problem.num, problem.graph.edges)))
