"""Graphs cut into sections: the parts compute what the whole computes, and each part fits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from placer.base import DoesNotFitError
from placer.decision import check, random_sites
from placer.decision.routing import route
from placer.fabric import Fabric, MemorySpec, SiteKind, load_fabric
from placer.graph import SOURCE_KINDS, Array, DataflowGraph, OpKind, compute_values
from placer.graph.workloads import ModelSpec, build, with_backward
from placer.graph.workloads.build import add_and_normalise, attention, feed_forward
from placer.graph.workloads.builder import GraphBuilder
from placer.graph.workloads.specs import FfnSpec, GemmSpec, MhaSpec, MlpSpec
from placer.netlist.lowering import DEFAULT_FILL, Section, cutting, is_compute, lower, lower_sections, sections
from placer.netlist.lowering.cutting import Segment, TileAxis, Tiling, find_segments, section_graph
from placer.netlist.lowering.groups import form_groups, stored
from tests.placer.graph.random_values import random_inputs, random_weights

SMALL, LARGE = load_fabric("small"), load_fabric("large")
TINY_MEMORY = MemorySpec(capacity_bytes=16384)
TINY = Fabric("tiny", 4, 4, memory=TINY_MEMORY, ops=SMALL.ops)
LITTLE = Fabric("little", 6, 6, memory=TINY_MEMORY, ops=SMALL.ops)


def transformer(causal: bool, layers: int = 1) -> DataflowGraph:
    """A model as the published ones are, but small: embedding, attention, feed-forward."""
    b = GraphBuilder()
    token, position = b.embedding(24, 32, 50, name="token"), b.embedding(24, 32, 24)
    x = b.layernorm(b.add(token, position))
    for layer in range(layers):
        branch = attention(b, x, 32, 4, f"{layer}.attention", causal=causal)
        x = add_and_normalise(b, x, branch, f"{layer}.attention")
        x = add_and_normalise(b, x, feed_forward(b, x, 32, 64, f"{layer}.ffn"), f"{layer}.ffn")
    b.store(x, name="y")
    return b.build("transformer", "transformer")


GRAPHS = {
    "mlp": build(MlpSpec(24, 32, 3)),
    "ffn": build(FfnSpec(24, 32, 64)),
    "mha": build(MhaSpec(24, 32, 4)),
    "encoder": transformer(causal=False),
    "decoder": transformer(causal=True),
}
GRAPHS |= {f"{name} training": with_backward(graph) for name, graph in GRAPHS.items()}
NOT_CAUSAL = [name for name in GRAPHS if not name.startswith("decoder")]


def tile(array: NDArray[Any], tiling: Tiling, number: int) -> NDArray[Any]:
    """Part `number` of a tensor in DRAM, or of the row indices of an embedding."""
    if tiling.axis == TileAxis.NONE:
        return array
    matrix_axis = 0 if tiling.axis == TileAxis.ROWS else 1  # heads are groups of columns there
    stack_axis = 1 if tiling.axis == TileAxis.ROWS else 0
    axis = {1: 0, 2: matrix_axis, 3: stack_axis}[array.ndim]
    assert array.shape[axis] % tiling.samples == 0
    return np.split(array, tiling.samples, axis)[number]


def join(parts: list[Array], tiling: Tiling) -> Array:
    return np.concatenate(parts, axis=-2 if tiling.axis == TileAxis.ROWS else 0)


def run_segment(
    graph: DataflowGraph, segment: Segment, dram: dict[str, NDArray[Any]], weights: dict[str, Array]
) -> dict[str, Array]:
    """What a section leaves in DRAM or on chip (weight gradients), tile by tile."""
    part = section_graph(graph, segment, "part")
    made: dict[str, list[Array]] = {}
    for number in range(segment.tiling.samples):
        sources = [op.name for op in part.ops if op.kind in SOURCE_KINDS]
        inputs = {name: tile(dram[name], segment.tiling, number) for name in sources}
        values = compute_values(part, inputs, weights)
        for op in part.ops:
            if op.kind == OpKind.STORE:
                made.setdefault(op.inputs[0], []).append(values[op.name])
            elif op.kind == OpKind.WEIGHT_GRAD:
                made.setdefault(op.name, []).append(values[op.name])
    return {
        name: sum(parts[1:], parts[0]) if graph.op(name).kind == OpKind.WEIGHT_GRAD else join(parts, segment.tiling)
        for name, parts in made.items()
    }


def assert_equivalent(graph: DataflowGraph, segments: list[Segment]) -> None:
    """The sections, one after the other, make the outputs and weight gradients of the graph."""
    rng = np.random.default_rng(3)
    inputs, weights = random_inputs(graph, rng), random_weights(graph, rng)
    dram: dict[str, NDArray[Any]] = dict(inputs)
    for segment in segments:
        dram |= run_segment(graph, segment, dram, weights)
    whole = compute_values(graph, inputs, weights)
    wanted = {op.name for op in graph.ops if op.kind == OpKind.WEIGHT_GRAD}
    for op in graph.ops:
        if op.kind == OpKind.STORE:
            wanted |= stored(graph, op.inputs[0])
    assert wanted <= dram.keys()
    for name in dram.keys() - inputs.keys():
        np.testing.assert_allclose(dram[name], whole[name], rtol=1e-9, atol=1e-9, err_msg=name)


@contextmanager
def cutting_rules(
    switch_cycles: int, min_sample_cycles: int, max_sample_cycles: int, min_tile_rows: int
) -> Iterator[None]:
    """Other constants for where to cut: graphs small enough to evaluate would not be cut."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Fabric, "switch_cycles", property(lambda fabric: switch_cycles))  # a fabric refuses one below 0
        patch.setattr(cutting, "MIN_SAMPLE_CYCLES", min_sample_cycles)
        patch.setattr(cutting, "MAX_SAMPLE_CYCLES", max_sample_cycles)
        patch.setattr(sections, "MAX_SAMPLE_CYCLES", max_sample_cycles)
        patch.setattr(cutting, "MIN_TILE_ROWS", min_tile_rows)
        yield


@pytest.mark.parametrize("name", GRAPHS)
def test_sections_compute_what_the_graph_computes(name: str) -> None:
    with cutting_rules(0, 20, 300, 2):
        segments = find_segments(TINY, GRAPHS[name], DEFAULT_FILL, set())
    tilings = {segment.tiling.axis for segment in segments if segment.tiling.samples > 1}
    has_heads = not name.startswith(("mlp", "ffn"))
    assert tilings == ({TileAxis.ROWS, TileAxis.HEADS} if has_heads else {TileAxis.ROWS})
    assert len(segments) > 1
    assert_equivalent(GRAPHS[name], segments)


@pytest.mark.slow
@settings(max_examples=60)
@given(
    name=st.sampled_from(NOT_CAUSAL),
    # Below 0, many short sections are best; far above, few long ones.
    switch_cycles=st.sampled_from([-(10**6), 0, 50, 2000]),
    min_sample_cycles=st.integers(1, 700),
    max_sample_cycles=st.integers(20, 8000),
    min_tile_rows=st.integers(1, 9),
)
def test_any_cut_computes_what_the_graph_computes(
    name: str, switch_cycles: int, min_sample_cycles: int, max_sample_cycles: int, min_tile_rows: int
) -> None:
    with cutting_rules(switch_cycles, min_sample_cycles, max_sample_cycles, min_tile_rows):
        segments = find_segments(TINY, GRAPHS[name], DEFAULT_FILL, set())
    assert_equivalent(GRAPHS[name], segments)


def test_heads_that_lie_in_rows_are_not_tiled_as_columns() -> None:
    b = GraphBuilder()
    x = b.linear(b.load((24, 16), name="x"), 16)
    heads = b.transpose(b.split_heads(b.transpose(x), 4))  # [4, 6, 16]: rows 0..5, 6..11, ...
    scores = b.softmax(b.matmul(heads, heads, transpose_b=True))
    b.store(b.matmul(scores, heads), name="y")
    graph = b.build("batch", "test")
    with cutting_rules(-(10**6), 1, 300, 2):
        segments = find_segments(TINY, graph, DEFAULT_FILL, set())
    assert len(segments) > 2
    assert_equivalent(graph, segments)


def test_a_causal_softmax_alone_is_not_cut_into_rows() -> None:
    graph = build(ModelSpec("gpt2", 1, sequence=1024))
    segments = find_segments(SMALL, graph, DEFAULT_FILL, set())
    parts = [section_graph(graph, segment, "part") for segment in segments]
    assert sum(op.kind == OpKind.SOFTMAX for part in parts for op in part.ops) == 1


def lowered(
    fabric: Fabric, graph: DataflowGraph, patch: pytest.MonkeyPatch
) -> tuple[tuple[Section, ...], list[Segment]]:
    """The sections of a graph, and the segments that they were made from."""
    attempts: list[list[Segment]] = []

    def remember(*arguments: Any) -> list[Segment]:
        attempts.append(find_segments(*arguments))
        return attempts[-1]

    patch.setattr(sections, "find_segments", remember)
    return lower_sections(fabric, graph), attempts[-1]


def assert_consistent(graph: DataflowGraph, parts: tuple[Section, ...], segments: list[Segment]) -> None:
    """Every compute op is in one segment, every segment stands for itself or for one alike."""
    groups = [group for segment in segments for group in segment.groups]
    assert groups == form_groups(graph)
    assert Counter(op.name for group in groups for op in group.ops) == Counter(
        op.name for op in graph.ops if is_compute(op)
    )
    alike = Counter(segment.signature for segment in segments)
    firsts = {segment.signature: segment for segment in reversed(segments)}
    in_order = [firsts[signature] for signature in alike]
    assert [part.repeats for part in parts] == list(alike.values())
    assert [part.samples for part in parts] == [segment.tiling.samples for segment in in_order]
    macs = 0
    for part, segment in zip(parts, in_order, strict=True):
        sample = section_graph(graph, segment, "part")
        assert part.ops == tuple(op.name for op in sample.ops)
        shards = [unit.name for unit in part.netlist.units if unit.kind == SiteKind.COMPUTE]
        assert {name.rpartition(".")[0] for name in shards} == {g.output for g in segment.groups}
        macs += part.repeats * part.samples * sample.total_macs
    assert macs == graph.total_macs


def assert_fits(fabric: Fabric, section: Section) -> None:
    netlist = section.netlist
    assert netlist.count(SiteKind.COMPUTE) <= fabric.num_sites(SiteKind.COMPUTE)
    assert max(unit.bytes for unit in netlist.units) <= fabric.memory.capacity_bytes
    check(fabric, netlist, route(fabric, netlist, random_sites(fabric, netlist, 1, seed=0)))


@pytest.mark.slow
@pytest.mark.parametrize("name", GRAPHS)
def test_sections_of_small_graphs_fit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with cutting_rules(0, 10, 60, 8):
        parts, segments = lowered(LITTLE, GRAPHS[name], monkeypatch)
        assert_consistent(GRAPHS[name], parts, segments)
    for part in parts:
        assert_fits(LITTLE, part)
    assert_equivalent(GRAPHS[name], segments)


def test_layers_that_are_alike_are_lowered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = transformer(causal=False, layers=4)
    with cutting_rules(0, 10, 60, 8):
        parts, segments = lowered(LITTLE, graph, monkeypatch)
        assert_consistent(graph, parts, segments)
    assert max(part.repeats for part in parts) >= 3
    assert len(parts) <= len(segments) / 2


def test_a_graph_that_fits_is_one_section() -> None:
    graph = build(FfnSpec(48, 64, 128))
    (section,) = lower_sections(SMALL, graph)
    assert (section.samples, section.repeats) == (1, 1)
    assert section.ops == tuple(op.name for op in graph.ops)
    assert section.netlist == lower(SMALL, graph)


def test_a_graph_that_fits_but_has_long_samples_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = build(GemmSpec(256, 64, 64))
    limit = lower(SMALL, graph).bound_cycles - 1
    with cutting_rules(0, 20, limit, 8):
        parts, segments = lowered(SMALL, graph, monkeypatch)
        assert_consistent(graph, parts, segments)
    (section,) = parts
    assert section.samples > 1
    assert section.netlist.bound_cycles <= limit


def test_what_does_not_fit_names_op_resource_demand_and_limit() -> None:
    with pytest.raises(DoesNotFitError) as caught:
        lower_sections(SMALL, build(ModelSpec("bert_large", 1)))
    error = caught.value
    assert error.limit == SMALL.num_sites(SiteKind.MEMORY) * SMALL.memory.capacity_bytes
    assert error.demand > error.limit
    for words in ("op 'layer0.ffn.up'", "bytes of on-chip memory", str(error.demand)):
        assert words in str(error)
    assert f"the fabric has {error.limit}" in str(error)


def test_when_every_cut_is_refused_the_last_reason_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sections, "MAX_ATTEMPTS", 2)
    fabric = replace(LITTLE, ports_per_side=1, dram=replace(LITTLE.dram, max_streams=2))
    with pytest.raises(DoesNotFitError) as caught:
        lower_sections(fabric, GRAPHS["mlp training"])
    error = caught.value
    assert isinstance(error.__cause__, DoesNotFitError)
    assert (error.demand, error.limit) == (error.__cause__.demand, 4)
    assert error.demand > error.limit
    for words in ("DRAM streams, in the section of 'layer0'", "the last of 2 tries"):
        assert words in str(error)


@pytest.mark.slow
@pytest.mark.parametrize("training", [False, True], ids=["forward", "training"])
@pytest.mark.parametrize("model", ["bert_large", "gpt2_xl"])
def test_a_layer_of_a_published_model_lowers(model: str, training: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = build(ModelSpec(model, 1, training=training))
    parts, segments = lowered(LARGE, graph, monkeypatch)
    assert_consistent(graph, parts, segments)
    for part in parts:
        assert_fits(LARGE, part)


@pytest.mark.slow
def test_the_layers_of_a_published_model_share_their_sections(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = build(ModelSpec("bert_large"))
    parts, segments = lowered(LARGE, graph, monkeypatch)
    assert_consistent(graph, parts, segments)
    assert len(parts) < 10
    assert max(part.repeats for part in parts) >= 23
