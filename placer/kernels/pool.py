"""The most promising rows that the portfolio has found, one for each target time."""

from __future__ import annotations

from dataclasses import dataclass

from placer.kernels.shelves import Shelves

POOL_SIZE = 12


@dataclass(frozen=True, slots=True)
class Candidate:
    """Rows at a target time, with their score (adapters left out)."""

    score: float
    ticks: int
    shelves: Shelves


class Pool:
    """Keeps the best rows of each time, for the best few times."""

    def __init__(self) -> None:
        self._best: dict[int, Candidate] = {}  # by time
        self._seen: set[tuple[int, bytes]] = set()  # all rows that were ever looked at

    def __len__(self) -> int:
        return len(self._best)

    def see(self, ticks: int, shelves: Shelves) -> bool:
        """Whether these rows are looked at for the first time."""
        key = (ticks, b"".join(array.tobytes() for array in shelves))
        is_new = key not in self._seen
        self._seen.add(key)
        return is_new

    def enter(self, candidate: Candidate) -> bool:
        """Whether it is the best of its time; it stays if that is one of the best times."""
        known = self._best.get(candidate.ticks)
        if known is not None and known.score <= candidate.score:
            return False
        self._best[candidate.ticks] = candidate
        if len(self._best) > POOL_SIZE:
            worst = max(self._best.values(), key=lambda item: item.score)
            del self._best[worst.ticks]
        return True

    def ranked(self) -> list[Candidate]:
        """The best first."""
        return sorted(self._best.values(), key=lambda item: item.score)
