"""Time that is left to a mapping, and whether its next step still fits."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS_PER_CELL = 3e-7  # of a step of the search, before the first one is measured
SECONDS_PER_PE = 4e-6  # for placing, likewise
FIRST_SECONDS = 1.0  # of the first partition, whose sampling is small in any volume
SECONDS_PER_POINT = 3e-8  # to look at the heat before that, per lattice point
FINISH_PER_PE = 1.5e-6  # seconds for checking and writing, on a core of its own
LEAST_FINISH = 0.2  # seconds for that on the smallest fabric, likewise
SLACK = 1.1  # a step may take longer than the last ones
LEAST_CELLS = 1e6  # of a step whose speed tells that of larger ones


class Clock:
    """Keeps enough time to place the last partition, to check it and to write it.

    It has run since `begin`, and what follows the mapping takes `ending` seconds on a core of its
    own; on a busy machine, more time is kept for that. `slowness` is how many seconds have passed
    per second of computing so far, which counts for the first seconds. The clock only says when to
    stop: what is done until then does not depend on it.
    """

    def __init__(
        self,
        limit: float,
        num_pes: int,
        begin: float | None = None,
        ending: float = 0.0,
        is_interrupted: Callable[[], bool] = lambda: False,
        slowness: float = 1.0,
    ) -> None:
        self._slowness = max(1.0, slowness)
        self._begin = time.perf_counter() if begin is None else begin
        self._limit = limit
        self._finish = ending + LEAST_FINISH + FINISH_PER_PE * num_pes
        self._busy_begin = self.seconds, time.process_time()
        self._is_interrupted = is_interrupted
        self._num_pes = num_pes
        self._seconds_per_pe = SECONDS_PER_PE
        self._seconds_per_cell = SECONDS_PER_CELL
        self._part_seconds = 0.0  # of the longest part of a step between two questions, per cell
        self._cells, self._step_begin, self._part_begin = 0.0, self.seconds, self.seconds

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._begin

    @property
    def slowness(self) -> float:
        """Return the seconds that pass per second of computing, because others compute on the same machine."""
        wall, computing = self._busy_begin
        return max(1.0, (self._slowness + self.seconds - wall) / (1 + time.process_time() - computing))

    def has_time(self, seconds: float = 0.0) -> bool:
        """Tell whether a step of so many seconds fits before the end must begin."""
        end = self._limit - self.slowness * self._finish
        return not self._is_interrupted() and self.seconds + SLACK * seconds < end

    def least_limit(self, num_points: int) -> float:
        """Return the shortest limit that holds for a heat map of so many points, asked at the begin.

        A first partition is made, placed, checked and written whatever the limit is.
        """
        first = FIRST_SECONDS + SECONDS_PER_POINT * num_points
        return self.seconds + self.slowness * (first + self.placing_seconds + self._finish)

    def affords(self, cells: float) -> bool:
        """Tell whether there is time for a step of the search; the slowest so far tells the speed.

        Time to place what is found is kept.
        """
        self.end_step()
        self._cells, self._step_begin = max(cells, LEAST_CELLS), self.seconds
        self._part_begin = self._step_begin
        return self.has_time(cells * self._seconds_per_cell + self.placing_seconds)

    def is_over(self) -> bool:
        """Tell, between parts of a step, that there is no time for another one and for placing."""
        part = self.seconds - self._part_begin
        self._part_begin += part
        if self._cells > 0:
            self._part_seconds = max(self._part_seconds, part / self._cells)
        return not self.has_time(self._part_seconds * self._cells + self.placing_seconds)

    def end_step(self) -> None:
        """Note that something else than a step of the search follows."""
        if self._cells > 0:
            speed = (self.seconds - self._step_begin) / self._cells
            self._seconds_per_cell = max(self._seconds_per_cell, speed)
        self._cells = 0.0

    @property
    def placing_seconds(self) -> float:
        """Return the seconds to place a partition that fills the fabric."""
        return self._seconds_per_pe * self._num_pes

    def note_placing(self, seconds: float, num_nodes: int) -> None:
        """Note how long it took to place so many nodes."""
        if num_nodes > 1000:
            self._seconds_per_pe = max(self._seconds_per_pe, seconds / num_nodes)
