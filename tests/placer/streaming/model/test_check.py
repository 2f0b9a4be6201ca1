"""The checker and the execution of mappings, on cases that can be followed on paper."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placer.streaming.model import Device, check, execute, meaning_of, require_same_values
from placer.streaming.model.programs import distance
from tests.placer.streaming.cases import graph

# Figure 1 of the paper: three tiles are enough for the distance function with ii = 3.
FIGURE = Device(tiles=4, ii=3)
FIGURE_TILE, FIGURE_SPOKE = [3, 2, 1, 3, 2, 1], [0, 0, 0, 1, 1, 2]


def test_start_is_arrival_and_wait() -> None:
    """Start 0, depth 3, two hops, ii 3: slot 5 mod 3 = 2 (the text of figure 1 says 1)."""
    pair = graph(2, (0, 1))
    assert check(pair, FIGURE, [3, 1], [0, 2]).start == (0, 5)
    assert check(pair, FIGURE, [3, 1], [0, 1]).start == (0, 7)
    assert check(pair, replace(FIGURE, timing="exact"), [3, 1], [0, 2]).is_legal
    late = check(pair, replace(FIGURE, timing="exact"), [3, 1], [0, 1])
    assert late.violations == ("timing: instruction 1 waits 2 cycles",)


def test_distance_function_by_hand() -> None:
    """dx 0..3, xx at 4 (slot 1 of its tile), dy 0, xy at 8, dz 0, xyz at 13: 16 cycles.

    xy: xx is ready at 7, one tile away: arrival 8, spoke 2, so it waits until 10 (spoke 1).
    """
    verdict = check(distance(), FIGURE, FIGURE_TILE, FIGURE_SPOKE)
    assert verdict.is_legal
    assert verdict.start == (0, 0, 0, 4, 10, 14)
    assert verdict.cycles == 17


def test_the_last_to_arrive_counts_not_the_last_to_finish() -> None:
    """Node 0 is ready at 3 and four tiles away, node 1 at 5 on the same tile."""
    join = graph(3, (0, 2), (1, 2))
    verdict = check(join, Device(), [0, 4, 4], [0, 2, 1])
    assert verdict.start == (0, 2, 7)


@pytest.mark.parametrize(
    ("tile", "spoke", "rule"),
    [
        ([0, 0, 1, 2], [0, 0, 4, 1], "slot"),
        ([0, 1, 1, 2], [0, 1, 4, 1], "siblings"),
        ([0, 1, 2, 0], [0, 1, 4, 1], "flow start"),
        ([0, 9, 2, 3], [0, 1, 4, 1], "no tile"),
        ([0, 1, 2, 3], [0, 1, 4, 6], "no spoke"),
        ([0, 1], [0, 1], "4 entries"),
    ],
)
def test_broken_rules_are_named(tile: list[int], spoke: list[int], rule: str) -> None:
    program = graph(4, (0, 1), (0, 2))
    assert any(rule in text for text in check(program, Device(tiles=8), tile, spoke).violations)
    assert check(program, Device(tiles=8), [0, 1, 2, 3], [0, 1, 4, 1]).is_legal


def test_memory_hop_and_relaxed_siblings() -> None:
    program = graph(4, (0, 1), (0, 2), a=(1, 3), b=(2, 3))
    apart = check(program, Device(), [0, 1, 2, 1], [0, 0, 0, 1]).violations
    assert apart == ("tile memory: readers of 'b' are on different tiles",)
    together = [0, 5, 5, 5], [0, 2, 3, 1]
    assert check(program, Device(), *together).is_legal
    assert not check(program, Device(sibling="strict"), *together).is_legal
    hops = check(program, Device(max_hop=4), *together).violations
    assert hops == ("hop: edge 0 -> 1 spans 5 tiles", "hop: edge 0 -> 2 spans 5 tiles")


def test_execution_agrees_with_checker_and_graph() -> None:
    verdict = check(distance(), FIGURE, FIGURE_TILE, FIGURE_SPOKE)
    meaning = meaning_of(distance())
    require_same_values(meaning, FIGURE, FIGURE_TILE, FIGURE_SPOKE, verdict.start)
    with pytest.raises(RuntimeError, match="starts in cycle"):
        require_same_values(meaning, FIGURE, FIGURE_TILE, FIGURE_SPOKE, (0, 0, 0, 4, 10, 13))


def test_a_shared_slot_is_seen_by_the_execution() -> None:
    with pytest.raises(RuntimeError, match="instruction 0 ran for 0 of 1 threads"):
        execute(meaning_of(graph(2)), Device(), [0, 0], [0, 0], [{}], [{}])
