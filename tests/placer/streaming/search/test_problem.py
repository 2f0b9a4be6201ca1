"""Infeasible inputs, and lower bounds."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placer.base import InputError
from placer.streaming.model import Budget, Device, InfeasibleError, Program, growing_network
from placer.streaming.search import make_problem, solve
from placer.streaming.search.bounds import _fits
from tests.placer.streaming.cases import graph, least_cycles

STAR = graph(8, *((0, child) for child in range(1, 8)))


@pytest.mark.parametrize(
    ("program", "device", "message"),
    [
        (STAR, Device(tiles=6), "instruction 0 has 7 successors"),
        (STAR, Device(max_hop=2), "only 5 tiles can be reached"),
        (graph(5), Device(tiles=4), "5 flow starts"),
        (graph(3, (0, 1), (1, 2), a=(0, 1, 2)), Device(ii=2), "'a'.*3 instructions, but ii=2"),
        (graph(7, (0, 1), (1, 2), (2, 3)), Device(tiles=2, ii=2), "7 instructions.*4 slots"),
        (graph(3, (0, 1), (0, 2), a=(1, 2)), Device(sibling="strict"), "1 and 2 are siblings.*'a'"),
        (graph(3, (0, 1), (0, 2), a=(1, 2)), Device(timing="exact"), "same slot"),
        (graph(2, a=(0, 1)), Device(), "flow starts 0 and 1.*'a'"),
    ],
)
def test_infeasible_inputs_have_a_reason(program: Program, device: Device, message: str) -> None:
    with pytest.raises(InfeasibleError, match=message):
        make_problem(program, device)


def test_relaxed_siblings_are_a_warning() -> None:
    problem = make_problem(graph(3, (0, 1), (0, 2), a=(1, 2)), Device())
    assert len(problem.warnings) == 1
    assert "they share a tile" in problem.warnings[0]


@pytest.mark.parametrize("wrong", [{"tiles": 0}, {"ii": 0}, {"depth": 0}, {"max_hop": -1}])
def test_impossible_devices_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(InputError):
        Device(**wrong)


@st.composite
def _children(draw: st.DrawFn) -> tuple[int, int, int, int, list[tuple[int, int]]]:
    """Bound, separation, depth, longest hop, and (path, cut) of some children."""
    pairs = draw(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3)), min_size=1, max_size=5))
    children = [(path, path + more) for path, more in pairs]
    numbers = (st.integers(0, 14), st.integers(0, 6), st.integers(1, 3), st.integers(0, 5))
    return *(draw(number) for number in numbers), children


@settings(max_examples=150)
@given(_children())
def test_sweep_against_trying_all_places(case: tuple[int, int, int, int, list[tuple[int, int]]]) -> None:
    bound, separation, depth, max_hop, children = case
    rows = np.zeros((6, len(children) + 1), np.int64)
    rows[:2, :-1] = np.array(children).T
    places = [
        {y for y in range(-max_hop, max_hop + 1) if depth + abs(y) + max(cut, path + abs(y - separation)) <= bound}
        for path, cut in children
    ]
    fits = any(len(set(choice)) == len(choice) for choice in product(*places))
    assert _fits(bound, separation, depth, max_hop, len(children), rows) == fits


@pytest.mark.slow
def test_bounds_of_a_large_graph_come_in_time() -> None:
    """Work is counted: without more cuts the bound is still that of the path."""
    star = graph(600, *((0, c) for c in range(1, 599)), *((c, 599) for c in range(1, 599)))
    problem = make_problem(star, Device(tiles=600))
    assert problem.bounds.total >= 3 * 3


def test_bounds_by_hand() -> None:
    chain = make_problem(graph(3, (0, 1), (1, 2)), Device())
    assert chain.bounds.total == 10  # three times depth, and slot 0 is taken after two: one more
    # Seven children sit 0, 1, 1, 2, 2, 3, 3 tiles from their parent.
    assert make_problem(STAR, Device()).bounds.total == 3 + 3 + 3
    # Three ways from 0 to 4: one child is beside both, or a way there and back.
    diamond = graph(5, (0, 1), (0, 2), (0, 3), (1, 4), (2, 4), (3, 4))
    assert make_problem(diamond, Device()).bounds.distance[0, 4] == 8


@st.composite
def _tiny(draw: st.DrawFn) -> tuple[Program, Device]:
    size = draw(st.integers(2, 4))
    pairs = [(a, b) for b in range(size) for a in range(b)]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True))
    memories = {"m": (0, size - 1)} if draw(st.booleans()) else {}
    device = Device(
        tiles=draw(st.integers(1, 3)),
        ii=draw(st.integers(1, 3)),
        depth=draw(st.integers(1, 3)),
        timing=draw(st.sampled_from(["delay", "exact"])),
        sibling=draw(st.sampled_from(["relax", "strict"])),
        max_hop=draw(st.sampled_from([None, 1])),
    )
    return graph(size, *edges, **memories), device


@settings(max_examples=60)
@given(_tiny())
def test_bounds_and_reasons_against_trying_everything(case: tuple[Program, Device]) -> None:
    """No bound above the optimum, no reason given where there is a mapping; exact finds it."""
    program, device = case
    best = least_cycles(program, device)
    try:
        problem = make_problem(program, device)
    except InfeasibleError:
        assert best is None
        return
    found = solve(problem, Budget(20.0), seed=0, workers=1)
    assert found.is_infeasible == (best is None)
    if best is not None:
        assert found.mapping is not None
        assert problem.bounds.total <= best == found.mapping.cycles == found.bound


def test_distance_matrix_keeps_the_triangle() -> None:
    bounds = make_problem(growing_network(25, np.random.default_rng(0)), Device(tiles=64)).bounds
    for a in range(25):
        for b in np.flatnonzero(bounds.distance[a] > 0):
            for c in np.flatnonzero(bounds.distance[b] > 0):
                assert bounds.path[a, c] >= bounds.path[a, b] + bounds.path[b, c]
