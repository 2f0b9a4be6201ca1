"""The best way through a network, if the time of every segment is known or believed: dynamic programming.

A step of the way is a segment behind another one. What it costs depends on both, since the weights of
a section are loaded while the one before it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from placer.fabric import Fabric
from placer.netlist.lowering import NearSegment
from placer.pipeline import SectionRun, section_time


@dataclass(frozen=True, slots=True)
class Draft:
    """The best way, and for each segment the best one that goes through it."""

    cycles: float  # per input; inf if there is no way
    path: tuple[int, ...]  # numbers of its segments
    through: tuple[float, ...]  # cycles per input of the best way through each segment


def best_draft(fabric: Fabric, places: Sequence[NearSegment], runs: Sequence[SectionRun | None], batch: int) -> Draft:
    """Return the best way from the first group to the last one. Segments without a run are not used."""
    usable = [number for number, run in enumerate(runs) if run is not None]
    steps = _steps(fabric, places, runs, usable, batch)
    last = max(place.end for place in places)
    before, behind = [inf] * len(places), [inf] * len(places)
    prior = [-1] * len(places)
    for number in sorted(usable, key=lambda one: places[one].start):
        for other, cycles in steps[number]:
            known = 0.0 if other < 0 else before[other]
            if known + cycles < before[number]:
                before[number], prior[number] = known + cycles, other
    for number in sorted(usable, key=lambda one: -places[one].start):
        if places[number].end == last:
            behind[number] = 0.0
        for other, cycles in steps[number]:
            if other >= 0:
                behind[other] = min(behind[other], cycles + behind[number])
    through = tuple(one + other for one, other in zip(before, behind, strict=True))
    ends = [number for number in usable if places[number].end == last]
    number = min(ends, key=lambda one: before[one], default=-1)
    cycles = inf if number < 0 else before[number]
    path: list[int] = []
    while number >= 0 and cycles < inf:
        path.append(number)
        number = prior[number]
    return Draft(cycles, tuple(path[::-1]), through)


def _steps(
    fabric: Fabric, places: Sequence[NearSegment], runs: Sequence[SectionRun | None], usable: list[int], batch: int
) -> dict[int, list[tuple[int, float]]]:
    """Return for each segment those that can come before it, -1 for none, and what it then costs."""
    ending: dict[int, list[int]] = {}
    for number in usable:
        ending.setdefault(places[number].end, []).append(number)
    steps: dict[int, list[tuple[int, float]]] = {}
    for number in usable:
        run = runs[number]
        assert run is not None
        start = places[number].start
        others = [-1] if start == 0 else ending.get(start, [])
        steps[number] = [
            (other, section_time(fabric, None if other < 0 else runs[other], run, batch).cycles_per_input)
            for other in others
        ]
    return steps
