"""The checker: official scores, one case per rule, and laws of the score."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placer.base import InputError, LongArray, rng_state
from placer.stencil.judge import IllegalSolutionError, score
from placer.stencil.judge.kernels import box_integral, box_maximum
from placer.stencil.judge.scoring import Fault
from placer.stencil.model import INPUTS, Problem, Solution, ball, read_problem, read_solution
from placer.stencil.model.files import parse_solution
from placer.stencil.model.generate import flat, make_problem, ramp
from placer.stencil.search import Netlist
from placer.stencil.search.moves import anneal_sweep, candidates_of
from placer.stencil.search.netlist import netlist_of
from placer.stencil.search.partition import coarsest
from placer.stencil.search.places import best_layout, solution_of
from placer.stencil.search.pyramid import build_pyramid

OFFICIAL = Path(__file__).resolve().parents[5] / "shared/data/ispd2021"
SCORES = {  # of the official checker: accuracy, S^(2/3), score
    "2d_box_small_solved": (6.625, 30.395527, 0.265),
    "2d_simple_2d": (8.0, None, 0.5),
    "2d_flat_small": (16.0, None, 1.0),
    "2d_flat_small_2": (4.0, None, 0.25),
    "2d_flat_gradient": (2.0, None, 0.125),
    "2d_gradient_gradient": (2.5, None, 0.15625),
    "3d_simple_3d": (4.0, None, 0.25),
}
FAULTS = {
    "2d_empty_err": Fault.EMPTY,
    "2d_overlap_flat": Fault.OVERLAP,
    "2d_overlap_gradient": Fault.OVERLAP,
    "3d_overlap_3d": Fault.OVERLAP,
}
# 6 x 6 volume, heat 1 in the middle: the solution that the contest shipped.
SHIPPED = b"""10
1 0 0 3 1
1 0 20 1 1
1 40 20 1 1
1 0 40 3 1
0 20 20 2 2
compute_map:
0 0\n0 1\n0 2\n0 3\n1 0\n1 1\n1 2\n1 3\n2 0\n2 1\n2 2\n2 3
adapter_map:
3 0\n3 0\n3 1\n3 1\n3 2\n3 2\n3 3\n3 3
"""


def shipped() -> tuple[Problem, Solution]:
    return INPUTS["box_small_solved"](), parse_solution(SHIPPED, 2)


def test_the_shipped_solution_has_its_official_score() -> None:
    result = score(*shipped())
    assert result.accuracy == pytest.approx(6.625, abs=1e-6)
    assert result.wires ** (2 / 3) == pytest.approx(30.395527, abs=1e-6)
    assert result.total == pytest.approx(0.265, abs=1e-6)
    assert (result.num_tiles, result.num_adapters, result.scale) == (12, 4, 2.0)


@pytest.mark.skipif(not OFFICIAL.exists(), reason="the official cases are not at hand")
@pytest.mark.parametrize("name", SCORES)
def test_official_scores(name: str) -> None:
    problem = read_problem(OFFICIAL / f"{name}.in")
    result = score(problem, read_solution(OFFICIAL / f"{name}.out", problem.dimension))
    accuracy, wires, total = SCORES[name]
    assert result.accuracy == pytest.approx(accuracy, abs=1e-6)
    assert wires is None or result.wires ** (2 / 3) == pytest.approx(wires, abs=1e-6)
    assert result.total == pytest.approx(total, abs=1e-6)


@pytest.mark.skipif(not OFFICIAL.exists(), reason="the official cases are not at hand")
@pytest.mark.parametrize("name", FAULTS)
def test_official_illegal_cases(name: str) -> None:
    problem = read_problem(OFFICIAL / f"{name}.in")
    with pytest.raises(IllegalSolutionError) as caught:
        score(problem, read_solution(OFFICIAL / f"{name}.out", problem.dimension))
    assert caught.value.fault is FAULTS[name]


def test_flat_volume_in_uniform_columns() -> None:
    """2 x 2 x 2 tiles in a 4 x 2 fabric, worked out by hand: x next door, y two away, z four."""
    text = b"10\n0 0 0 0 2 2 2\ncompute_map:\n0 0\n1 0\n2 0\n3 0\n0 1\n1 1\n2 1\n3 1\nadapter_map:\n"
    result = score(flat((2, 2, 2), (4, 2)), parse_solution(text, 3))
    # Four x wires of length 1, four y wires of length 2, four z wires of length 1.
    assert result.wires == pytest.approx(2 * (4 + 4 * 2**1.5 + 4))
    assert (result.accuracy, result.accuracy_norm) == (8.0, 1.0)


BROKEN = {
    Fault.SAMPLING: (b"10\n1 0 0 3", b"9\n1 0 0 3"),
    Fault.PRISM: (b"1 0 0 3 1", b"1 0 0 3 0"),
    Fault.OUTSIDE: (b"1 40 20 1 1", b"1 50 20 1 1"),
    Fault.OVERLAP: (b"1 40 20 1 1", b"1 40 10 1 1"),
    Fault.COVERAGE: (b"1 40 20 1 1\n", b""),
    Fault.EMPTY: (b"0 20 20 2 2", b"-1 20 20 2 2"),
    Fault.COMPUTE_COUNT: (b"2 3\nadapter", b"adapter"),
    Fault.COMPUTE_RANGE: (b"2 3\nadapter", b"5 3\nadapter"),
    Fault.COMPUTE_SHARED: (b"2 3\nadapter", b"0 0\nadapter"),
    Fault.ADAPTER_COUNT: (b"3 3\n3 3\n", b""),
    Fault.ADAPTER_RANGE: (b"3 3\n3 3\n", b"3 5\n3 5\n"),
    Fault.ADAPTER_SPLIT: (b"3 3\n3 3\n", b"3 3\n4 3\n"),
    Fault.ADAPTER_SHARED: (b"3 3\n3 3\n", b"3 2\n3 2\n"),
}


@pytest.mark.parametrize("fault", BROKEN, ids=lambda fault: fault.name)
def test_each_broken_rule_is_named(fault: Fault) -> None:
    problem, _ = shipped()
    old, new = BROKEN[fault]
    assert old in SHIPPED
    with pytest.raises(IllegalSolutionError) as caught:
        score(problem, parse_solution(SHIPPED.replace(old, new), 2))
    assert caught.value.fault is fault


def test_an_adapter_that_is_missing_in_the_middle_is_counted() -> None:
    """Not taken for one whose connections name different PEs."""
    problem, _ = shipped()
    both = b"3 1\n3 1\n"
    for left, num_rows in ((b"", 6), (b"3 1\n", 7)):
        with pytest.raises(IllegalSolutionError) as caught:
            score(problem, parse_solution(SHIPPED.replace(both, left), 2))
        assert caught.value.fault is Fault.ADAPTER_COUNT
        assert f"{num_rows} rows for 4 adapters of 2 connections" in str(caught.value)


def test_an_adapter_on_the_place_of_a_tile_is_refused() -> None:
    problem, _ = shipped()
    with pytest.raises(IllegalSolutionError) as caught:
        score(problem, parse_solution(SHIPPED.replace(b"3 3\n3 3\n", b"0 0\n0 0\n"), 2))
    assert caught.value.fault is Fault.ADAPTER_SHARED


def places(count: int) -> bytes:
    return b"".join(b"%d %d\n" % (k % 8, k // 8) for k in range(count))


@pytest.mark.parametrize(
    ("prisms", "tiles", "fault"),
    [
        # A tile of level 2 beside four of level 0.
        (b"2 0 0 1 1\n0 40 0 4 4\n", 17, Fault.LEVELS),
        # Half of the face of a tile is matched, half is empty.
        (b"1 0 0 1 1\n0 20 0 1 1\n-1 20 10 1 1\n-1 30 0 1 2\n-1 0 20 4 2\n-1 40 0 4 4\n", 2,
         Fault.PARTIAL),
        # Level 1 tiles, shifted against each other by half an edge.
        (b"1 0 0 1 2\n0 20 0 2 1\n1 20 10 1 1\n0 20 30 2 1\n0 40 0 4 4\n", 23, Fault.PARTIAL),
    ],
)  # fmt: skip
def test_faces_must_be_matched(prisms: bytes, tiles: int, fault: Fault) -> None:
    heat = 0.0 if b"-1" in prisms else 1.0
    text = b"10\n" + prisms + b"compute_map:\n" + places(tiles) + b"adapter_map:\n"
    with pytest.raises(IllegalSolutionError) as caught:
        score(flat((8, 4), (8, 8), heat), parse_solution(text, 2))
    assert caught.value.fault is fault


def test_integral_and_maximum_of_a_box_agree_with_fine_sampling() -> None:
    rng = np.random.default_rng(0)
    heat = make_problem((3, 2, 4), (4, 4), rng.random((5, 3, 4))).heat
    low, high = (0.3, 0.0, 1.1), (2.45, 1.9, 3.0)
    points = [a + (b - a) * (np.arange(60) + 0.5) / 60 for a, b in zip(low, high, strict=True)]
    values = _interpolate(heat, *points)
    volume = float(np.prod(np.subtract(high, low)))
    assert box_integral(heat, low, high) == pytest.approx(values.mean() * volume, rel=1e-4)
    ends = [np.unique([a, b, *range(int(a) + 1, int(np.ceil(b)))]) for a, b in
            zip(low, high, strict=True)]  # fmt: skip
    assert box_maximum(heat, low, high) == pytest.approx(_interpolate(heat, *ends).max())
    assert box_maximum(heat, low, high) >= values.max()


def _interpolate(heat: np.ndarray, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    for axis, points in ((2, x), (1, y), (0, z)):
        cell = np.minimum(points.astype(int), heat.shape[axis] - 2)
        shape = [1, 1, 1]
        shape[axis] = -1
        share = (points - cell).reshape(shape)
        heat = np.take(heat, cell, axis) * (1 - share) + np.take(heat, cell + 1, axis) * share
    return heat


@pytest.mark.slow
@settings(max_examples=25)
@given(st.integers(0, 10_000), st.sampled_from([2, 3]))
def test_splitting_and_renaming_prisms_leaves_the_score(seed: int, dimension: int) -> None:
    """Random legal partitions with random places; every tile becomes a prism, in random order."""
    rng = np.random.default_rng(seed)
    centre = tuple(rng.uniform(0, 4, dimension))
    problem = ball((4,) * dimension, (50, 50), centre, float(rng.uniform(2, 12)), 0.0)
    pyramid = build_pyramid(problem, 20)
    _, tree, ledger = coarsest(pyramid, 1.0)
    candidates = candidates_of(tree)
    if len(candidates):
        anneal_sweep(tree, ledger, candidates, 0, 1, rng_state(seed), 1.0, 0.3, 1900.0)
    netlist = netlist_of(pyramid, tree)
    sites = rng.permutation(problem.num_pes)[: netlist.num_nodes]
    places = np.stack([sites % 50, sites // 50], axis=1).astype(np.int32)
    layout = best_layout(netlist, problem.fabric)
    solution = solution_of(netlist, replace(layout, places=places))
    before, after = (score(problem, s) for s in (solution, _shuffled(netlist, solution, rng)))
    assert after.accuracy == pytest.approx(before.accuracy)
    assert after.wires == pytest.approx(before.wires)
    assert (after.num_tiles, after.num_adapters) == (before.num_tiles, before.num_adapters)


def _shuffled(netlist: Netlist, solution: Solution, rng: np.random.Generator) -> Solution:
    """One prism per tile, in random order; tiles and adapters keep their places."""
    singles: list[LongArray] = []
    tiles: list[int] = []
    for prism in solution.prisms:
        for k in range(prism[4] if prism[0] >= 0 else 1):
            single = prism.copy()
            if prism[0] >= 0:
                single[1] += k * 10 * 2 ** prism[0]
                single[4] = 1
            singles.append(single)
            tiles.append(sum(t >= 0 for t in tiles) if prism[0] >= 0 else -1)
    order = rng.permutation(len(singles))
    old = [tiles[k] for k in order if tiles[k] >= 0]
    new_id = np.zeros(netlist.num_tiles, np.int64)
    new_id[old] = np.arange(len(old))
    # The first wire of an adapter leads to its coarse tile, across one face of it.
    coarse = {int(a): int(b) for a, b in netlist.wires[::-1] if a >= netlist.num_tiles}
    keys = []
    for adapter in sorted(coarse):
        tile = coarse[adapter]
        away = netlist.position[adapter] - netlist.position[tile]
        axis = int(np.argmax(np.abs(away)))
        keys.append((new_id[tile], 2 * axis + int(away[axis] > 0)))
    fan = 2 ** (netlist.dimension - 1)
    rows = [fan * k + q for k in sorted(range(len(keys)), key=keys.__getitem__) for q in range(fan)]
    return replace(
        solution,
        prisms=np.array([singles[k] for k in order]),
        compute_map=solution.compute_map[old],
        adapter_map=solution.adapter_map[rows].reshape(-1, 2),
    )


def test_renaming_keeps_wires_when_adapters_follow() -> None:
    """The same tiles listed from the last prism to the first: rows of adapters change order."""
    problem, solution = shipped()
    order = [4, 3, 2, 1, 0]
    counts = [3, 1, 1, 3, 4]
    starts = np.cumsum([0, *counts])
    sites = np.concatenate([solution.compute_map[starts[k] : starts[k + 1]] for k in order])
    adapters = np.repeat(np.array([[3, 3], [3, 2], [3, 1], [3, 0]], np.int32), 2, axis=0)
    renamed = Solution(2, 10, solution.prisms[order], sites, adapters)
    assert score(problem, renamed).wires == pytest.approx(score(problem, solution).wires)


def test_doubling_sampling_and_levels_changes_nothing() -> None:
    problem, solution = shipped()
    prisms = solution.prisms.copy()
    prisms[:, 0] += 1
    prisms[:, 1:3] *= 2
    lifted = replace(solution, sampling=20, prisms=prisms)
    one, two = score(problem, solution), score(problem, lifted)
    assert (two.accuracy, two.wires, two.scale) == (one.accuracy, one.wires, 2 * one.scale)


def test_a_high_sampling_of_large_tiles_takes_no_memory() -> None:
    problem, solution = shipped()
    prisms = solution.prisms.copy()
    prisms[:, 0] += 20
    prisms[:, 1:3] <<= 20
    lifted = replace(solution, sampling=10 << 20, prisms=prisms)
    assert score(problem, lifted).accuracy == score(problem, solution).accuracy


def test_more_cells_than_can_be_held_are_refused() -> None:
    n = 6 << 16
    rows = [[-1, 0, 0, 0, 1, n, 1], [-1, 10, 0, 0, n - 1, n, 1]]
    nothing = np.zeros((0, 2), np.int32)
    solution = Solution(2, 10 << 16, np.array(rows), nothing, nothing)
    with pytest.raises(InputError, match="cells; this checker can hold"):
        score(flat((6, 6), (4, 4), 0.0), solution)


def test_prisms_beyond_64_bits_leave_the_volume() -> None:
    _, solution = shipped()
    prisms = solution.prisms.copy()
    prisms[0, 0], prisms[0, 4] = 30, 2**31 - 1
    with pytest.raises(IllegalSolutionError) as caught:
        score(INPUTS["box_small_solved"](), replace(solution, prisms=prisms))
    assert caught.value.fault is Fault.OUTSIDE


def test_empty_prisms_may_hold_a_millionth_of_heat() -> None:
    text = b"10\n-1 0 0 4 4\ncompute_map:\nadapter_map:\n"
    assert score(flat((4, 4), (4, 4), 6e-8), parse_solution(text, 2)).num_tiles == 0
    with pytest.raises(IllegalSolutionError) as caught:
        score(flat((4, 4), (4, 4), 7e-8), parse_solution(text, 2))
    assert caught.value.fault is Fault.EMPTY


def test_a_coarse_face_needs_all_four_in_3d() -> None:
    """Three of four quarters behind a face are tiles, one is empty."""
    prisms = b"1 0 0 0 1 1 1\n0 20 0 0 1 2 1\n0 20 0 10 1 1 1\n-1 20 10 10 1 1 1\n-1 30 0 0 1 2 2\n"
    text = b"10\n" + prisms + b"compute_map:\n" + places(4) + b"adapter_map:\n"
    with pytest.raises(IllegalSolutionError) as caught:
        score(flat((4, 2, 2), (8, 8), 0.0), parse_solution(text, 3))
    assert caught.value.fault is Fault.PARTIAL


def test_contacts_at_edges_and_corners_do_not_count() -> None:
    """Levels 2 and 0 may meet at a corner; the rest is empty."""
    prisms = b"2 0 0 1 1\n0 40 40 1 1\n-1 40 0 4 4\n-1 0 40 4 4\n-1 50 40 3 4\n-1 40 50 1 3\n"
    text = b"10\n" + prisms + b"compute_map:\n" + places(2) + b"adapter_map:\n"
    assert score(flat((8, 8), (8, 8), 0.0), parse_solution(text, 2)).wires == 0.0


def test_zero_heat_everywhere_scores_zero() -> None:
    text = b"10\n-1 0 0 4 4\ncompute_map:\nadapter_map:\n"
    result = score(INPUTS["empty"](), parse_solution(text, 2))
    assert (result.total, result.accuracy_norm, result.wires_norm) == (0.0, 0.0, 1.0)


def test_ramp_is_worth_half() -> None:
    text = b"10\n0 0 0 2 2\ncompute_map:\n0 0\n1 0\n0 1\n1 1\nadapter_map:\n"
    assert score(ramp((2, 2), (2, 2)), parse_solution(text, 2)).accuracy_norm == 0.5
