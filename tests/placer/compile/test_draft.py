"""The best way through a network, against all ways."""

from __future__ import annotations

from itertools import pairwise
from math import inf, isclose

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from placer.compile.draft import best_draft
from placer.fabric import load_fabric
from placer.graph.workloads import build
from placer.graph.workloads.specs import MhaSpec, MlpSpec
from placer.netlist.lowering import NearSegment, Tiling, default_plan, near_segments
from placer.pipeline import SectionRun, section_time

SMALL = load_fabric("small", ["columns=6", "rows=6"])
GRAPH = build(MlpSpec(8, 8, 1))
BATCH = 4


def run(rng: np.random.Generator) -> SectionRun:
    period = float(rng.integers(10, 100))
    weights, free = int(rng.integers(0, 50_000)), int(rng.integers(0, 50_000))
    return SectionRun("s", "a", "b", 1, 2, 10, weights, free, 64, period, period, "", 3 * period, period, "unit")


def all_ways(places: list[NearSegment], position: int, last: int) -> list[tuple[int, ...]]:
    if position == last:
        return [()]
    return [
        (number, *rest)
        for number, place in enumerate(places)
        if place.start == position
        for rest in all_ways(places, place.end, last)
    ]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_the_best_of_all_ways_is_found(seed: int) -> None:
    rng = np.random.default_rng(seed)
    last = int(rng.integers(1, 6))
    spans = [(start, end) for start in range(last) for end in range(start + 1, last + 1) if rng.random() < 0.7]
    places = [NearSegment(start, end, (), GRAPH, Tiling(), n) for n, (start, end) in enumerate([*spans, (0, last)])]
    runs = [run(rng) if rng.random() < 0.8 else None for _ in places]
    draft = best_draft(SMALL, places, runs, BATCH)

    def cycles(way: tuple[int, ...]) -> float:
        taken = [runs[number] for number in way]
        if None in taken:
            return inf
        pairs = [(None, taken[0]), *pairwise(taken)]
        return sum(section_time(SMALL, one, two, BATCH).cycles_per_input for one, two in pairs if two is not None)

    ways = {way: cycles(way) for way in all_ways(places, 0, last)}
    best = min(ways.values())
    assert draft.cycles == best or isclose(draft.cycles, best)
    assert draft.path == () if best == inf else isclose(ways[draft.path], best)
    for number, through in enumerate(draft.through):
        expected = min((time for way, time in ways.items() if number in way), default=inf)
        assert through == expected or isclose(through, expected)


def test_the_sections_of_a_plan_are_near_and_come_first() -> None:
    graph = build(MhaSpec(24, 64, 4))
    small = load_fabric("small", ["columns=4", "rows=4"])
    plan = default_plan(small, graph)
    places = near_segments(small, graph, plan, 32, 2.0, 20)
    assert [place.names for place in places[: len(plan.sections)]] == [cut.groups for cut in plan.sections]
    assert len(places) > len(plan.sections) > 1
    assert near_segments(small, graph, plan, 32, 2.0, 0)[: len(plan.sections)] == places[: len(plan.sections)]
