"""How units that may share a site are packed into few of them."""

from __future__ import annotations


def first_fit_decreasing(sizes: tuple[int, ...], capacity: int, max_units: int) -> tuple[int, ...]:
    """Return a bin per size: large ones first, each into the first bin with room."""
    used_bytes: list[int] = []
    used_units: list[int] = []
    packing = [0] * len(sizes)
    for item in sorted(range(len(sizes)), key=lambda item: -sizes[item]):
        place = 0
        while place < len(used_bytes) and (
            used_units[place] == max_units or used_bytes[place] + sizes[item] > capacity
        ):
            place += 1
        if place == len(used_bytes):
            used_bytes.append(0)
            used_units.append(0)
        used_bytes[place] += sizes[item]
        used_units[place] += 1
        packing[item] = place
    return tuple(packing)
