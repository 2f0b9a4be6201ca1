"""The compiled encoder against the truth model's own streams; networks against compiled ones."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.encoding.graph_set import _join
from costmodel.model import Model
from costmodel.networks import FlowConfig, build_network
from costmodel.wafer import WAFER_FEATURES, LearnedMappingCost, WaferHardware
from costmodel.wafer.dataset import LabelledMappings, part_of
from costmodel.wafer.encode import Encoder
from costmodel.wafer.streams import count_adapters, stream_of
from placer.base import InputError, LongArray
from placer.kernels.engines import Schedule, walk
from placer.kernels.model import layout_of
from placer.kernels.sizing import Problem
from placer.kernels.truth.streams import conv_phases, kernel_shape, make_streams, rim_hops
from tests.placer.kernels.engines.test_walk import GRAPHS, PROBLEMS, STARTS, RowsCost


def tables_of(name: str, seed: int, number: int = 8) -> LongArray:
    """Some mappings on a hot walk."""
    steps = walk(PROBLEMS[name], STARTS[name], RowsCost(), Schedule(4 * number, 9.0, 9.0), seed)
    return np.stack([step.state.table for step in steps][:number])


def model_of(seed: int = 0) -> Model:
    config = FlowConfig(width=12, lane_width=8, rounds=2)
    network = build_network(config, seed, WAFER_FEATURES)
    return Model(config, network, 1.0, {"fabric": asdict(WaferHardware())})


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(st.sampled_from(sorted(GRAPHS)), st.integers(0, 2**20))
def test_streams_are_those_of_the_truth_model(name: str, seed: int) -> None:
    graph, table = GRAPHS[name], tables_of(name, seed)[-1]
    layout = layout_of(table)
    shapes = [kernel_shape(k, p) for k, p in zip(graph.kernels, layout, strict=True)]
    streams = make_streams(graph, layout, shapes)
    for (u, v), stream in zip(graph.edges, streams, strict=True):
        expected = (
            stream.axis, stream.lanes, stream.out_tile, stream.in_tile, stream.out_start,
            stream.in_start,
        )  # fmt: skip
        assert stream_of(table, u, v) == expected
        assert count_adapters(table, u, v, len(graph.kernels[u].convs)) == stream.adapters
    problem = PROBLEMS[name]
    room, bound = Encoder.of(problem).encode(table), problem.bound / graph.time_scale
    columns = WAFER_FEATURES.unit_columns
    unit = dict(zip(columns, room.unit.T.astype(float), strict=True))
    hops = np.exp(unit["log_rim_in"]) + np.exp(unit["log_rim_out"]) - 2e-3
    np.testing.assert_allclose(hops * bound, rim_hops(shapes, streams), atol=1e-3 * bound)
    flow = dict(zip(WAFER_FEATURES.flow_columns, room.flow.T, strict=True))
    spread = (np.exp(flow["log_spread"]) - 1e-3) * bound
    np.testing.assert_allclose(spread, [s.spread for s in streams], rtol=1e-3, atol=1e-3 * bound)


def test_columns_of_a_kernel_are_its_phases() -> None:
    problem, table = PROBLEMS["tiny"], STARTS["tiny"].table
    room = Encoder.of(problem).encode(table)
    columns = WAFER_FEATURES.unit_columns
    bound = problem.bound / problem.graph.time_scale
    layout = layout_of(table)
    for row, kernel, placed in zip(room.unit, problem.graph.kernels, layout, strict=True):
        found, execution = dict(zip(columns, row.tolist(), strict=True)), placed.execution
        loops = zip(kernel.convs, execution.channels_in, execution.channels_out, strict=True)
        phases = [conv_phases(conv, execution.image_height, execution.image_width, c, k) for conv, c, k in loops]
        busiest = max(phases, key=lambda p: p.compute + p.inputs + p.reduction + p.outputs + p.hops)
        for name in ("compute", "inputs", "reduction", "outputs", "hops"):
            most = max(getattr(phase, name) for phase in phases)
            for column, expected in ((name, getattr(busiest, name)), (f"most_{name}", most)):
                assert np.exp(found[f"log_{column}"]) - 1e-3 == pytest.approx(expected / bound, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("name", sorted(GRAPHS))
def test_routes_lead_from_lane_to_lane(name: str) -> None:
    for table in tables_of(name, 1):
        room = Encoder.of(PROBLEMS[name]).encode(table)
        visits, lanes, (num_visits, num_lanes) = room.routes
        flow, lane, before = visits[:, :num_visits]
        assert set(lane.tolist()) == set(range(num_lanes))
        first = np.flatnonzero(np.diff(flow, prepend=-1))
        np.testing.assert_array_equal(flow[first], np.arange(len(GRAPHS[name].edges)))
        is_first = np.zeros(num_visits, np.bool_)
        is_first[first] = True
        np.testing.assert_array_equal(before == -1, is_first)
        np.testing.assert_array_equal(lanes[0, lane] == 0, is_first)  # rims


@pytest.mark.parametrize("name", sorted(GRAPHS))
def test_compiled_cost_is_the_network(name: str) -> None:
    tables, model = tables_of(name, 2), model_of()
    busy = np.full(tables.shape[:2], 0.5, np.float32)
    part = part_of(LabelledMappings(GRAPHS[name], tables, np.full(len(tables), 0.5), busy))
    graphs = _join([part])
    expected = model.predict_graphs(graphs, np.arange(len(tables))).throughput
    cost = LearnedMappingCost(model)
    np.testing.assert_allclose(cost.score(PROBLEMS[name], tables).throughput, expected, rtol=1e-4)
    # Again, and on another problem between: nothing is left over.
    other = next(iter(GRAPHS))
    cost.score(Problem(GRAPHS[other]), tables_of(other, 5))
    np.testing.assert_allclose(cost.score(PROBLEMS[name], tables).throughput, expected, rtol=1e-4)


def test_models_of_another_truth_model_are_refused() -> None:
    other = replace(model_of(), origin={"fabric": {"cells": 1}})
    with pytest.raises(InputError, match="train it again"):
        LearnedMappingCost(other)


def test_model_files_keep_their_features(tmp_path: object) -> None:
    path = f"{tmp_path}/flow.pt"
    model_of(3).save(path)
    assert Model.load(path).features is WAFER_FEATURES
