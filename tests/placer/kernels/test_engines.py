"""Engines, chains of wafers and layout files: legal results, laws, round trips."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from placer.errors import InputError
from placer.kernels.chain import Chain
from placer.kernels.check import find_faults, judge
from placer.kernels.engines import ENGINES, EngineName, map_kernels
from placer.kernels.generate import fully_connected, generate
from placer.kernels.graph import KernelGraph, Wafer
from placer.kernels.kgraph_file import load_kgraph
from placer.kernels.layout_file import format_layout, from_json, parse_layout, to_json
from placer.kernels.mapping import Mapping
from placer.kernels.problem import Problem
from placer.kernels.published import PUBLISHED
from placer.kernels.search import Search
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
    assert from_json(graph, to_json([(graph, layout, mapping.score)], {})) == layout


def test_layouts_with_the_other_order_of_formal_arguments_are_read() -> None:
    graph = fully_connected((8, 4))
    text = "k1 = conv( 1 1 1 1 8 4 1 1 1 1 2 4 )\nk1 : place(3 4 R90)\n"
    usual = "k1 = conv( 1 1 8 4 1 1 1 1 1 1 2 4 )\nk1 : place(3 4 R90)\n"
    assert parse_layout(graph, text) == parse_layout(graph, usual)
    with pytest.raises(InputError, match="must begin with"):
        parse_layout(graph, text.replace("8 4", "8 5"))
    with pytest.raises(InputError, match="no place"):
        parse_layout(graph, "k1 = conv( 1 1 8 4 1 1 1 1 1 1 2 4 )")


@pytest.mark.slow
def test_the_same_seed_gives_the_same_sequence_of_improvements() -> None:
    graph = GRAPHS["unet"]
    courses = []
    for seconds in (0.5, 1.5):
        totals: list[float] = []
        search = Search(
            Problem(graph), seconds, 3, on_better=lambda m, t=totals: t.append(m.score.total)
        )
        map_kernels(search, "auto")
        courses.append(totals)
    shared = min(map(len, courses))
    assert courses[0][:shared] == courses[1][:shared]
    assert all(np.diff(courses[1]) < 0)
    assert courses[1][-1] <= courses[0][-1]


@pytest.mark.slow
def test_ids_may_be_shuffled() -> None:
    graph = GRAPHS["convs"]
    place = np.random.default_rng(0).permutation(len(graph.kernels))
    kernels = tuple(graph.kernels[int(i)] for i in place)
    where = {int(old): new for new, old in enumerate(place)}
    edges = tuple((where[u], where[v]) for u, v in graph.edges)
    shuffled = replace(graph, kernels=kernels, edges=edges)
    one, two = mapped(graph, "strips"), mapped(shuffled, "strips")
    assert one.score.slowest == two.score.slowest


@pytest.mark.slow
def test_one_kernel_alone_needs_no_wire() -> None:
    graph = fully_connected((16, 8), Wafer(30, 40))
    for engine in ENGINES:
        score = mapped(graph, engine, 0.1).score
        assert score.wire_length == 0
        assert score.adapters == 0


def test_a_graph_that_does_not_fit_says_so() -> None:
    graph = fully_connected((64, 64, 64, 64, 64), Wafer(12, 12, 150))
    with pytest.raises(InputError, match="engine strips found no layout on 12 x 12"):
        mapped(graph, "strips")


def test_a_chain_is_faster_than_one_wafer_and_every_kernel_is_on_it() -> None:
    graph = GRAPHS["blocks"]
    one = mapped(graph, "strips").score.slowest
    parts = Chain(graph, [(90, 70), (60, 60)], 0).run()
    assert max(part.mapping.score.slowest for part in parts) <= one
    names = sorted(kernel.name for part in parts for kernel in part.graph.kernels)
    assert names == sorted(kernel.name for kernel in graph.kernels)
    for part in parts:
        assert find_faults(part.graph, part.mapping.layout) == []


def test_a_chain_of_one_wafer_that_is_too_small_says_so() -> None:
    graph = fully_connected((64, 64, 64, 64, 64), Wafer(12, 12, 150))
    with pytest.raises(InputError, match="does not fit on 1 wafers"):
        Chain(graph, [(12, 12)], 0).run()


@needs_public_graphs
@pytest.mark.slow
@pytest.mark.parametrize("letter", ["A", "K", "Q", "S"])
def test_strips_are_near_the_published_winner(letter: str) -> None:
    score = mapped(load_kgraph(PUBLIC / f"{letter}.kgraph"), "strips", 30.0).score
    assert score.total <= 1.001 * PUBLISHED[letter].score


def test_unknown_presets_are_refused() -> None:
    with pytest.raises(InputError, match="unknown preset 'nope'; allowed: resnet50"):
        generate("nope")
