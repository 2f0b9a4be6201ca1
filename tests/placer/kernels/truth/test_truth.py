"""The wafer truth model: laws, hand-checked kernels, and the fabric's simulator as a witness."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placer.base.config import run_command
from placer.decision.routing import route
from placer.fabric import SiteKind, load_fabric
from placer.kernels.engines import Search, map_kernels
from placer.kernels.engines.search import turned_layout
from placer.kernels.model import (
    Conv,
    Execution,
    Kernel,
    KernelGraph,
    KernelLayout,
    Placed,
    Wafer,
    format_layout,
    generate,
)
from placer.kernels.sizing import Problem
from placer.kernels.truth import TRUTH_VERSION, Resolution, simulate_mapping
from placer.kernels.truth.__main__ import main
from placer.kernels.truth.engine import Pipeline, run_pipeline
from placer.kernels.truth.grid import Routes
from placer.kernels.truth.streams import conv_phases, kernel_shape
from placer.netlist import Flow, Netlist, Unit
from placer.simulation import simulate

WAFER = Wafer(200, 200)
STEP = Execution(2, 2, (4,), (5,))  # 15 x 20 tiles


def chain(num: int, side: int = 16) -> KernelGraph:
    """Equal 3 x 3 convolutions one after the other."""
    kernels = tuple(Kernel(i + 1, f"k{i + 1}", "conv", (Conv(side, side, 3, 3, 8, 20, 1),)) for i in range(num))
    return KernelGraph("chain", kernels, tuple((i, i + 1) for i in range(num - 1)), WAFER)


def in_a_row(num: int, gap: int = 0) -> KernelLayout:
    return tuple(Placed(STEP, i * (15 + gap), 50, False) for i in range(num))


def strips_layout(preset: str) -> tuple[Problem, KernelLayout]:
    problem = Problem(generate(preset))
    return problem, map_kernels(Search(problem, time_limit=0.3), "strips").layout


def test_phases_of_a_convolution_by_hand() -> None:
    phases = conv_phases(Conv(16, 16, 3, 3, 8, 20, 1), h=2, w=2, c=4, k=5)
    assert phases.compute == 8 * 8 * 2 * 4 * 9  # the contest's formula: 4608
    assert phases.inputs == 2 * 10 * 10 / 2  # two channels of a padded block, two per word
    assert phases.reduction == 4 * 64 * 3 / 4  # 4 filters, 64 results, 3 additions over 4 rows
    assert phases.outputs == 20 * 64 / 2 / 4  # 20 channels over 4 rows, two per word
    assert phases.hops == 15 + 4
    assert phases.cycles == 4608 + 192 + 160 + 19


def test_a_kernel_alone_runs_at_its_own_time() -> None:
    graph = chain(1)
    measured = simulate_mapping(Problem(graph), in_a_row(1))
    assert measured.cycles_per_sample == pytest.approx(4979)
    assert measured.limit == "kernel k1"


def test_aligned_kernels_side_by_side_cost_nothing_more() -> None:
    measured = simulate_mapping(Problem(chain(4)), in_a_row(4))
    assert measured.cycles_per_sample == pytest.approx(4979)
    assert [stream.lanes for stream in measured.streams] == [20, 20, 20]
    assert [stream.distance for stream in measured.streams] == [1, 1, 1]


def test_inputs_across_the_rows_pay_for_the_way() -> None:
    graph = chain(2)
    stacked = (Placed(STEP, 50, 50, False), Placed(STEP, 50, 70, False))
    measured = simulate_mapping(Problem(graph), stacked)
    assert measured.streams[0].lanes == 15
    assert measured.kernel_cycles.tolist() == [4979 + 20, 4979 + 20]


def test_a_stretch_that_is_shorter_than_the_rim_pays_for_the_rest() -> None:
    graph = chain(2)
    small = Execution(1, 2, (4,), (5,))  # 15 x 10
    layout = (Placed(STEP, 50, 50, False), Placed(small, 65, 56, False))
    measured = simulate_mapping(Problem(graph), layout)
    (stream,) = measured.streams
    assert (stream.lanes, stream.out_start, stream.in_start, stream.adapters) == (10, 56, 56, 1)
    assert stream.spread == pytest.approx(stream.wavelets * 6 / 20 / 15)
    assert measured.kernel_cycles[0] == 4979 + 10
    assert measured.stream_cycles[0] == 2 * 16 * 16 * 20 / 2 / 10


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 60), st.integers(0, 60), st.integers(2, 3))
def test_more_distance_never_helps(near: int, more: int, num: int) -> None:
    problem = Problem(chain(num, side=4))
    gap = near % 40
    periods = [simulate_mapping(problem, in_a_row(num, gap + extra)).cycles_per_sample for extra in (0, more)]
    assert periods[0] <= periods[1] * (1 + 1e-9)


@pytest.mark.parametrize("preset", ["tiny", "tiny_convs"])
def test_mirrored_and_turned_mappings_are_equal(preset: str) -> None:
    problem, layout = strips_layout(preset)
    wafer = problem.graph.wafer
    shapes = [kernel_shape(kernel, placed) for kernel, placed in zip(problem.graph.kernels, layout, strict=True)]
    mirrored = tuple(replace(placed, x=wafer.width - shape.right) for placed, shape in zip(layout, shapes, strict=True))
    expected = simulate_mapping(problem, layout).cycles_per_sample
    for other in (mirrored, turned_layout(layout)):
        assert simulate_mapping(problem, other).cycles_per_sample == pytest.approx(expected, 0.01)


def test_results_belong_to_the_version() -> None:
    """Other numbers need another TRUTH_VERSION: labels and models of the old one are stale."""
    kernels = (
        Kernel(1, "k1", "conv", (Conv(16, 16, 1, 1, 1, 64, 1),)),
        Kernel(2, "k2", "conv", (Conv(16, 16, 1, 1, 64, 1, 1),)),
    )
    wide, narrow = Execution(4, 4, (1,), (32,)), Execution(4, 4, (8,), (1,))
    layout = (Placed(wide, 0, 0, False), Placed(narrow, 195, 10, False))
    measured = simulate_mapping(Problem(KernelGraph("wide", kernels, ((0, 1),), WAFER)), layout)
    assert measured.limit == "lanes of k1 -> k2"
    skip = replace(chain(4, side=4), edges=((0, 1), (1, 2), (2, 3), (0, 3)))
    places = ((0, 0, False), (180, 0, False), (0, 150, True), (60, 70, False))
    spread = tuple(Placed(STEP, *place) for place in places)
    periods = measured.cycles_per_sample, simulate_mapping(Problem(skip), spread).cycles_per_sample
    assert TRUTH_VERSION == 2
    assert periods == pytest.approx((2123.851852, 354.0), rel=1e-8)


def test_numbers_of_kernels_and_edges_do_not_matter() -> None:
    problem, layout = strips_layout("tiny_convs")
    graph = problem.graph
    order = np.random.default_rng(1).permutation(len(graph.kernels))
    place = np.argsort(order)
    edges = [(int(place[u]), int(place[v])) for u, v in reversed(graph.edges)]
    other = replace(graph, kernels=tuple(graph.kernels[i] for i in order), edges=tuple(edges))
    renumbered = tuple(layout[i] for i in order)
    assert simulate_mapping(Problem(other), renumbered).cycles_per_sample == pytest.approx(
        simulate_mapping(problem, layout).cycles_per_sample, 0.01
    )


@pytest.mark.parametrize("preset", ["tiny", "tiny_convs"])
def test_more_colours_never_hurt_and_throughput_keeps_its_bound(preset: str) -> None:
    problem, layout = strips_layout(preset)
    periods = [
        simulate_mapping(problem, layout, Resolution(colours=colours)).cycles_per_sample for colours in (3, 6, 24, 48)
    ]
    assert all(more <= fewer * 1.001 for fewer, more in pairwise(periods))
    measured = simulate_mapping(problem, layout)
    assert 0 < measured.throughput <= 1
    assert measured.cycles_per_sample >= measured.kernel_cycles.max() * (1 - 1e-9)


@pytest.mark.slow
def test_half_the_coarsening_changes_less_than_three_percent() -> None:
    for preset in ("tiny", "tiny_convs"):
        problem, layout = strips_layout(preset)
        coarse = simulate_mapping(problem, layout).cycles_per_sample
        for finer in (Resolution(cells=64), Resolution(chunks=32), Resolution(64, 32, 48)):
            fine = simulate_mapping(problem, layout, finer).cycles_per_sample
            assert fine == pytest.approx(coarse, 0.03)


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["unet", "lean_convs_wired"])
def test_half_the_coarsening_on_a_whole_wafer(preset: str) -> None:
    problem = Problem(generate(preset))
    layout = map_kernels(Search(problem, time_limit=0.3), "slicing").layout
    coarse = simulate_mapping(problem, layout).cycles_per_sample
    fine = simulate_mapping(problem, layout, Resolution(64, 32, 24)).cycles_per_sample
    assert fine == pytest.approx(coarse, 0.03)


def pipeline(edges: list[tuple[int, int]], cycles: list[float], wavelets: float) -> Pipeline:
    """Streams without latency over links of one wavelet per cycle."""
    ends = np.array(edges)
    incident = np.argsort(ends.ravel(), kind="stable")
    num = len(edges)
    return Pipeline(
        edges=ends,
        incident_start=np.searchsorted(ends.ravel()[incident], np.arange(len(cycles) + 1)),
        incident=incident // 2,
        kernel_cycles=np.array(cycles),
        kernel_latency=np.zeros(len(cycles)),
        stream_cycles=np.full(num, wavelets),
        stream_latency=np.zeros(num),
        stream_samples=np.ones(num),
        part_wavelets=np.full(num, wavelets),
        capacity=np.ones(1),
    )


@pytest.mark.parametrize("cycles", [100, 240])
def test_streams_that_share_a_link_agree_with_the_fabric_simulator(cycles: int) -> None:
    """Two pairs of units whose flows share one link of one vector per cycle."""
    tokens = 80
    streams = pipeline([(0, 1), (2, 3)], [float(cycles)] * 4, float(tokens))
    routes = Routes(np.array([0, 1, 2]), np.array([0, 1, 2]), np.array([0, 0]))
    finish = run_pipeline(streams, routes, 16, 24)[:, 15::16].max(axis=0)
    period = (finish[-1] - finish[11]) / 12

    fabric = load_fabric("small")
    units = tuple(Unit(f"u{i}", SiteKind.COMPUTE, "matmul", i % 2, cycles, cycles, cycles, 1) for i in range(4))
    netlist = Netlist(
        "pairs", "hand", fabric.name, units,
        (Flow("a", 0, (1,), tokens), Flow("b", 2, (3,), tokens)),
    )  # fmt: skip
    # The row of the second switch: both flows go from left to right over the same middle link.
    columns, kinds = fabric.topology.columns, fabric.topology.site_kind
    row = [c for c in range(2 * columns) if kinds[c] == SiteKind.COMPUTE and c < columns]
    sites = np.array([[row[0], row[2], row[1], row[3]]], np.int32)
    (measured,) = simulate(fabric, netlist, route(fabric, netlist, sites))
    assert period == pytest.approx(max(cycles, 2 * tokens))
    assert measured.cycles_per_sample == pytest.approx(period, 0.05)


def test_the_command_prints_what_limits_a_mapping(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem, layout = strips_layout("tiny")
    path = tmp_path / "layout.txt"
    path.write_text(format_layout(problem.graph, layout))
    with pytest.raises(SystemExit, match="0"):
        run_command(main, "kernels_truth", ["preset=tiny", f"solution={path}"])
    text = capsys.readouterr().out
    assert f"{simulate_mapping(problem, layout).throughput:.4f}" in text
    assert "limited by: " in text
    with pytest.raises(SystemExit, match="2"):
        run_command(main, "kernels_truth", ["preset=tiny", f"solution={path}", "cells=0"])
