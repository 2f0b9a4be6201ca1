"""Engines and layout files: legal results, laws, round trips."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from placer.base import InputError
from placer.kernels.bench.tables import PUBLISHED
from placer.kernels.engines import EngineName, Floorplan, Search, auto, finish_rectangles, map_kernels, shelf_search
from placer.kernels.engines.mapper import ENGINES
from placer.kernels.model import (
    KernelGraph,
    Mapping,
    Part,
    Wafer,
    find_faults,
    format_layout,
    from_json,
    fully_connected,
    generate,
    judge,
    load_kgraph,
    parse_layout,
    to_json,
)
from placer.kernels.sizing import Problem, Target
from placer.kernels.sizing.labels import CORE, MAX_LABELS, kernel_labels
from tests.placer.kernels.cases import PUBLIC, needs_public_graphs, small_graphs

GRAPHS = small_graphs()


def mapped(graph: KernelGraph, engine: EngineName, seconds: float = 0.2, seed: int = 0) -> Mapping:
    return map_kernels(Search(Problem(graph), seconds, seed), engine)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", GRAPHS)
def test_every_engine_maps_every_graph(name: str, engine: EngineName) -> None:
    graph = GRAPHS[name]
    mapping = mapped(graph, engine)
    assert find_faults(graph, mapping.layout) == []
    assert mapping.score == judge(graph, mapping.layout)
    problem = Problem(graph)
    assert mapping.score.slowest * graph.time_scale >= problem.bound


@pytest.mark.parametrize("name", GRAPHS)
def test_layout_files_round_trip(name: str) -> None:
    graph = GRAPHS[name]
    mapping = mapped(graph, "slicing")
    layout = mapping.layout
    assert parse_layout(graph, "include 'lib'\n" + format_layout(graph, layout)) == layout
    assert from_json(graph, to_json([Part(0, graph, mapping, Fraction(1))], {})) == layout


def test_layouts_with_the_other_order_of_formal_arguments_are_read() -> None:
    graph = fully_connected((8, 4))
    text = "k1 = conv( 1 1 1 1 8 4 1 1 1 1 2 4 )\nk1 : place(3 4 R90)\n"
    usual = "k1 = conv( 1 1 8 4 1 1 1 1 1 1 2 4 )\nk1 : place(3 4 R90)\n"
    assert parse_layout(graph, text) == parse_layout(graph, usual)
    with pytest.raises(InputError, match="must begin with"):
        parse_layout(graph, text.replace("8 4", "8 5"))
    with pytest.raises(InputError, match="no place"):
        parse_layout(graph, "k1 = conv( 1 1 8 4 1 1 1 1 1 1 2 4 )")


class Ticker:
    """A clock that counts how often it is asked: budgets that depend on no machine."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["unet", "blocks"])
def test_more_time_only_makes_the_same_search_longer(name: str, engine: EngineName) -> None:
    problem = Problem(GRAPHS[name])
    courses = []
    for budget in (20, 60, 180, 400):
        totals: list[float] = []
        search = Search(
            problem, budget, 3, on_better=lambda m, t=totals: t.append(m.score.total),
            clock=Ticker(),
        )  # fmt: skip
        best = map_kernels(search, engine)
        assert best.score.total == min(totals)
        courses.append(totals)
    for short, long in pairwise(courses):
        if problem.tables.width == problem.tables.height:
            assert long[: len(short)] == short
        assert min(long) <= min(short)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_engines_look_at_the_clock_often(engine: EngineName) -> None:
    """After the end, an engine asks only a few times more: no step of it is long."""
    clock = Ticker()
    search = Search(Problem(GRAPHS["unet"]), 150, clock=clock)
    map_kernels(search, engine)
    assert clock.now < 150 + 40


@pytest.mark.slow
def test_ids_may_be_shuffled() -> None:
    graph = GRAPHS["convs"]
    place = np.random.default_rng(0).permutation(len(graph.kernels))
    kernels = tuple(graph.kernels[int(i)] for i in place)
    where = {int(old): new for new, old in enumerate(place)}
    edges = tuple((where[u], where[v]) for u, v in graph.edges)
    shuffled = replace(graph, kernels=kernels, edges=edges)
    one, two = (map_kernels(Search(Problem(each), 200, clock=Ticker()), "strips") for each in (graph, shuffled))
    assert one.score.slowest == two.score.slowest


@pytest.mark.slow
def test_one_kernel_alone_needs_no_wire() -> None:
    graph = fully_connected((16, 8), Wafer(30, 40))
    for engine in ENGINES:
        score = mapped(graph, engine, 0.1).score
        assert score.wire_length == 0
        assert score.adapters == 0


TIGHT = fully_connected((64, 64, 64, 64, 64), Wafer(12, 12, 150))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_graph_that_does_not_fit_says_so(engine: EngineName) -> None:
    with pytest.raises(InputError) as caught:
        mapped(TIGHT, engine)
    text = str(caught.value)
    assert f"engine {engine} found no layout of all 4 kernels on 12 x 12 tiles" in text
    assert "the largest is k1" in text
    found = re.search(r"rows of them fit: (\d+) x", text)
    assert found is not None
    side = int(found[1])
    assert mapped(replace(TIGHT, wafer=replace(TIGHT.wafer, width=side, height=side)), "strips")
    with pytest.raises(InputError):
        smaller = replace(TIGHT.wafer, width=side - 1, height=side - 1)
        mapped(replace(TIGHT, wafer=smaller), "strips")


@pytest.mark.slow
def test_one_way_round_may_have_no_rows() -> None:
    """Four flat kernels fit a long wafer one way only; engines must not mind the other."""
    wafer = Wafer(200, 6, 150)
    for size in ((200, 6), (6, 200)):
        graph = replace(TIGHT, wafer=replace(wafer, width=size[0], height=size[1]))
        for engine in ENGINES:
            mapping = mapped(graph, engine, 0.05)
            assert find_faults(graph, mapping.layout) == []


def test_other_floorplans_help_where_rows_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "best_rows", lambda *_, **__: None)
    monkeypatch.setattr(shelf_search, "best_rows", lambda *_, **__: None)
    mapping = mapped(GRAPHS["chain"], "auto", 0.1)
    assert find_faults(GRAPHS["chain"], mapping.layout) == []


@pytest.mark.slow
@pytest.mark.parametrize("weights", [(1, 1, 100), (1, 0, 0), (1, 0, 50), (0, 1, 1), (0, 0, 0), (1, 1000, 1e6)])
@pytest.mark.parametrize("name", ["blocks", "convs"])
def test_any_weights_work(name: str, weights: tuple[float, float, float]) -> None:
    graph = GRAPHS[name]
    time_weight, wire_weight, adapter_weight = weights
    wafer = replace(graph.wafer, time_weight=time_weight, wire_weight=wire_weight, adapter_weight=adapter_weight)
    graph = replace(graph, wafer=wafer)
    for engine in ENGINES:
        assert find_faults(graph, mapped(graph, engine, 0.05).layout) == []


def test_labels_of_blocks_are_limited() -> None:
    """Cheap wires and dear adapters allow any width: without a limit, gigabytes of labels."""
    kernel = generate("resnet50").kernels[1]
    ends = kernel_labels(kernel, Target(40_000 * 4, 24576, 4), 633, 633)
    for labels in ends:
        assert 1000 < len(labels) <= 1.1 * MAX_LABELS
        assert set(labels[:, CORE]) == set(ends[0][:, CORE])


def test_overlapping_rectangles_are_not_offered() -> None:
    problem = Problem(GRAPHS["chain"])
    search = Search(problem, 1.0)
    ticks = int(problem.times[-1])
    size = np.full(problem.num, 20)
    plan = Floorplan(np.zeros_like(size), np.zeros_like(size), size, size)
    finish_rectangles(search, ticks, plan, size)
    assert search.best is None


@needs_public_graphs
@pytest.mark.slow
@pytest.mark.parametrize("letter", ["A", "K", "Q", "S"])
def test_strips_are_near_the_published_winner(letter: str) -> None:
    score = mapped(load_kgraph(PUBLIC / f"{letter}.kgraph"), "strips", 30.0).score
    assert score.total <= 1.001 * PUBLISHED[letter].score


def test_unknown_presets_are_refused() -> None:
    with pytest.raises(InputError, match="unknown preset 'nope'; allowed: resnet50"):
        generate("nope")


@pytest.mark.parametrize("name", ["resnet50", "resnet50_convs"])  # a chain, and forks
def test_a_second_seed_searches_elsewhere(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From its first scan on, and not only where rounds are random."""
    scanned: list[list[int]] = []
    monkeypatch.setattr(Search, "is_over", lambda self: False)
    for part in ("_scan_single_row", "_force_rows"):
        monkeypatch.setattr(auto.Portfolio, part, lambda self: None)
    monkeypatch.setattr(auto.Portfolio, "scan_rows", lambda self, order: scanned.append(order.tolist()))
    problem, orders = Problem(generate(name)), []
    for seed in (0, 1, 2):
        scanned.clear()
        auto.Portfolio(Search(problem, 1.0, seed)).run()
        orders.append([tuple(order) for order in scanned])
        assert all(sorted(order) == list(range(problem.num)) for order in scanned)
    assert len(orders[0]) == 2
    assert orders[1][:2] == orders[2][:2] == orders[0]
    assert len({orders[0][0], orders[1][2], orders[2][2]}) == 3
