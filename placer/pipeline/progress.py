"""A bar that shows how a search gets on."""

from __future__ import annotations

import math

from rich.progress import TaskID

from placer.annealing import AnnealOptions, Round, StartResult
from placer.base import NotedBar


class SearchProgress(NotedBar):
    """Use as a context; `begin` a search, then hand over `on_round` and `on_finish`.

    A single start shows its rounds, several show how many have finished.
    """

    def __init__(self, options: AnnealOptions, starts: int, *, quiet: bool = False) -> None:
        super().__init__(quiet=quiet)
        self._options, self._starts = options, starts
        self._name = ""
        self._task = TaskID(0)
        self._best = math.inf
        self._first: Round | None = None

    def begin(self, name: str) -> None:
        """Begin a new search; its bar takes the place of the last one."""
        if self._name:
            self.remove_task(self._task)
        self._name, self._best, self._first = name, math.inf, None
        self._task = self.add_task(name, total=1.0, note="compiling")

    def note(self, text: str) -> None:
        """Say what comes after the search."""
        self.update(self._task, description=self._name, completed=1.0, note=text)

    def on_round(self, phase: str, point: Round) -> None:
        """Show a round of the only start."""
        if self._first is None or point.moves < self._first.moves:
            self._first = point  # a new phase counts its moves from 0
        speed = point.moves / max(point.seconds, 1e-9)
        self.update(
            self._task,
            description=f"{self._name}: {phase}",
            completed=self._share(self._first, point),
            note=f"{speed:,.0f} moves/s  best energy {point.best_energy:.4f}",
        )

    def on_finish(self, done: StartResult) -> None:
        """Show that one of several starts has ended."""
        self._best = min(self._best, done.result.energy)
        self.update(
            self._task,
            advance=1 / self._starts,
            note=f"{done.result.moves_per_second:,.0f} moves/s  best energy {self._best:.4f}",
        )

    def _share(self, first: Round, point: Round) -> float:
        """Return how much of the search is over, by the limit that comes first."""
        options, end = self._options, self._options.schedule.end
        shares = [0.0]
        if first.temperature > end:
            cooled = math.log(first.temperature / point.temperature)
            shares.append(cooled / math.log(first.temperature / end))
        if options.max_moves is not None:
            shares.append(point.moves / options.max_moves)
        if options.time_limit is not None:
            shares.append(point.seconds / options.time_limit)
        return min(1.0, max(shares))
