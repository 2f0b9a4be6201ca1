"""The front: designs that no other one beats in both area and throughput."""

from __future__ import annotations

from collections.abc import Sequence


def front_of(areas: Sequence[float], rates: Sequence[float]) -> list[int]:
    """Return the designs for which no other one has as little area and as high a rate; by area, one of equal ones."""
    order = sorted(range(len(areas)), key=lambda k: (areas[k], -rates[k]))
    front: list[int] = []
    for k in order:
        if not front or rates[k] > rates[front[-1]]:
            front.append(k)
    return front


def hopeful(areas: Sequence[float], rates: Sequence[float], margin: float) -> list[int]:
    """Return the designs that would be on the front if their rate were higher by the share `margin`, in order."""
    return [
        k
        for k in range(len(areas))
        if all(
            areas[other] > areas[k] or rates[other] < rates[k] * (1 + margin)
            for other in range(len(areas))
            if other != k
        )
    ]
