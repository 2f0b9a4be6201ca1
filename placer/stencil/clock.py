"""Time that is left to a mapping, and whether its next step still fits."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS_PER_CELL = 3e-7  # of a step of the search, before the first one is measured
SECONDS_PER_PE = 1e-5  # for placing, likewise
FINISH_PER_PE = 1.2e-5  # seconds for checking and writing
LEAST_FINISH = 0.2  # seconds for that on the smallest fabric
LEAST_SHARE = 0.25  # of the limit that a mapping gets, however long all the rest takes
SLACK = 1.1  # a step may take longer than the last ones


class Clock:
    """Keeps enough time to place the last partition, to check it and to write it.

    It has run since `begin`, and what follows the mapping takes `ending` seconds. The clock only
    says when to stop: what is done until then does not depend on it.
    """

    def __init__(
        self,
        limit: float,
        num_pes: int,
        begin: float | None = None,
        ending: float = 0.0,
        is_interrupted: Callable[[], bool] = lambda: False,
    ) -> None:
        self._begin = time.perf_counter() if begin is None else begin
        last = limit - ending - LEAST_FINISH - FINISH_PER_PE * num_pes
        self._end = max(last, self.seconds + LEAST_SHARE * limit)
        self._is_interrupted = is_interrupted
        self._num_pes = num_pes
        self._seconds_per_pe = SECONDS_PER_PE
        self._seconds_per_cell = SECONDS_PER_CELL
        self._cells, self._step_begin = 0.0, self.seconds

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._begin

    def has_time(self, seconds: float = 0.0) -> bool:
        """Whether a step of so many seconds fits before the end must begin."""
        return not self._is_interrupted() and self.seconds + SLACK * seconds < self._end

    def affords(self, cells: float) -> bool:
        """Asked before a step of the search; the slowest one so far tells the speed.

        Time to place what is found is kept.
        """
        self.end_step()
        self._cells, self._step_begin = cells, self.seconds
        return self.has_time(cells * self._seconds_per_cell + self.placing_seconds)

    def is_over(self) -> bool:
        """Asked within a step of the search: time to place what was found is all that is left."""
        return not self.has_time(self.placing_seconds)

    def end_step(self) -> None:
        """Something else than a step of the search follows."""
        if self._cells > 0:
            speed = (self.seconds - self._step_begin) / self._cells
            self._seconds_per_cell = max(self._seconds_per_cell, speed)
        self._cells = 0.0

    @property
    def placing_seconds(self) -> float:
        """To place a partition that fills the fabric."""
        return self._seconds_per_pe * self._num_pes

    def note_placing(self, seconds: float, num_nodes: int) -> None:
        """How long it took to place so many nodes."""
        if num_nodes > 1000:
            self._seconds_per_pe = max(self._seconds_per_pe, seconds / num_nodes)
