"""Graphs cut into sections: the parts compute what the whole computes, and each part fits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placer.base import DoesNotFitError, InputError
from placer.decision import check, random_sites
from placer.decision.routing import route
from placer.fabric import Fabric, MemorySpec, SiteKind, load_fabric
from placer.graph import DataflowGraph, OpKind
from placer.graph.workloads import ModelSpec, build, with_backward
from placer.graph.workloads.build import add_and_normalise, attention, feed_forward
from placer.graph.workloads.builder import GraphBuilder
from placer.graph.workloads.specs import FfnSpec, GemmSpec, MhaSpec, MlpSpec
from placer.netlist.lowering import (
    Plan,
    Section,
    TileAxis,
    check_plan,
    cutting,
    default_plan,
    is_compute,
    lower,
    lower_plan,
    lower_sections,
    sections,
)
from placer.netlist.lowering.groups import form_groups
from tests.placer.netlist.evaluate import assert_computes, assert_counts
from tests.placer.netlist.random_plans import KINDS, random_graph

SMALL, LARGE = load_fabric("small"), load_fabric("large")
TINY_MEMORY = MemorySpec(capacity_bytes=16384)
TINY = Fabric("tiny", 4, 4, memory=TINY_MEMORY, ops=SMALL.ops)
LITTLE = Fabric("little", 6, 6, memory=TINY_MEMORY, ops=SMALL.ops, switch_cycles=0)
QUICK = replace(TINY, name="quick", switch_cycles=0)  # sections cost nothing but their time


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


@contextmanager
def cutting_rules(max_sample_cycles: int) -> Iterator[None]:
    """Other constants for where to cut: graphs small enough to evaluate would not be cut."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cutting, "WAIT_CYCLES", 0)
        patch.setattr(cutting, "MAX_SAMPLE_CYCLES", max_sample_cycles)
        patch.setattr(sections, "MAX_SAMPLE_CYCLES", max_sample_cycles)
        patch.setattr(cutting, "TILES", (2, 3, 5, 8, 12))
        patch.setattr(cutting, "BANDS", (1, 2, 3))
        yield


def assert_right(fabric: Fabric, graph: DataflowGraph, plan: Plan) -> None:
    """The sections, one after the other, make the outputs and weight gradients of the graph."""
    assert_computes(fabric, graph, plan)
    check_plan(fabric, graph, plan)
    assert_counts(fabric, graph, plan)


@pytest.mark.parametrize("name", GRAPHS)
def test_sections_compute_what_the_graph_computes(name: str) -> None:
    with cutting_rules(60):
        plan = default_plan(QUICK, GRAPHS[name])
    axes = {plan.layouts[cut.layout].tiling.axis for cut in plan.sections}
    assert TileAxis.ROWS in axes
    assert len(plan.sections) > 1
    assert_right(QUICK, GRAPHS[name], plan)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(sorted(GRAPHS)),
    # At 0, many short sections are best; far above, few long ones.
    switch_cycles=st.sampled_from([0, 50, 2000]),
    max_sample_cycles=st.integers(20, 8000),
    batch=st.sampled_from([1, 4, 64]),
)
def test_any_cut_computes_what_the_graph_computes(
    name: str, switch_cycles: int, max_sample_cycles: int, batch: int
) -> None:
    fabric = replace(TINY, switch_cycles=switch_cycles)
    with cutting_rules(max_sample_cycles):
        plan = default_plan(fabric, GRAPHS[name], batch=batch)
    assert_right(fabric, GRAPHS[name], plan)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_default_plans_of_random_networks_compute_what_they_should(kind: str, seed: int) -> None:
    graph = random_graph(np.random.default_rng(seed), kind)
    with cutting_rules(100):
        plan = default_plan(QUICK, graph)
    assert_right(QUICK, graph, plan)


def test_heads_that_lie_in_rows_are_not_tiled_as_columns() -> None:
    b = GraphBuilder()
    x = b.linear(b.load((24, 16), name="x"), 16)
    heads = b.transpose(b.split_heads(b.transpose(x), 4))  # [4, 6, 16]: rows 0..5, 6..11, ...
    scores = b.softmax(b.matmul(heads, heads, transpose_b=True))
    b.store(b.matmul(scores, heads), name="y")
    graph = b.build("batch", "test")
    with cutting_rules(10):
        plan = default_plan(QUICK, graph)
    assert len(plan.sections) > 2
    assert_right(QUICK, graph, plan)


def test_a_causal_softmax_alone_is_not_cut_into_rows() -> None:
    graph = build(ModelSpec("gpt2", 1, sequence=512))
    plan = default_plan(SMALL, graph)
    (softmax,) = [op.name for op in graph.ops if op.kind == OpKind.SOFTMAX]
    (cut,) = [cut for cut in plan.sections if softmax in cut.groups]
    assert plan.layouts[cut.layout].tiling.axis != TileAxis.ROWS


def assert_consistent(graph: DataflowGraph, plan: Plan, parts: tuple[Section, ...]) -> None:
    """Every compute op is in one section, every section stands for itself or for one alike."""
    groups = {group.output: group for group in form_groups(graph)}
    assert [name for cut in plan.sections for name in cut.groups] == list(groups)
    alike = Counter(cut.layout for cut in plan.sections)
    firsts = {cut.layout: cut for cut in reversed(plan.sections)}
    assert [part.repeats for part in parts] == list(alike.values())
    assert [part.plan for part in parts] == [plan.layouts[layout] for layout in alike]
    macs = 0
    for part, layout in zip(parts, alike, strict=True):
        cut = firsts[layout]
        assert part.samples == plan.layouts[layout].sample.samples
        assert {op.name for name in cut.groups for op in groups[name].ops} <= set(part.ops)
        shards = [unit.name for unit in part.netlist.units if unit.kind == SiteKind.COMPUTE]
        assert {name.rpartition(".")[0] for name in shards} == set(cut.groups)
        macs += part.repeats * part.samples * (part.macs + 1)
    assert macs >= graph.total_macs


def assert_fits(fabric: Fabric, section: Section) -> None:
    netlist = section.netlist
    assert netlist.count(SiteKind.COMPUTE) <= fabric.num_sites(SiteKind.COMPUTE)
    assert max(unit.bytes for unit in netlist.units) <= fabric.memory.capacity_bytes
    check(fabric, netlist, route(fabric, netlist, random_sites(fabric, netlist, 1, seed=0)))


@pytest.mark.parametrize("name", GRAPHS)
def test_sections_of_small_graphs_fit(name: str) -> None:
    with cutting_rules(60):
        plan = default_plan(LITTLE, GRAPHS[name])
    parts = lower_plan(LITTLE, GRAPHS[name], plan)
    assert_consistent(GRAPHS[name], plan, parts)
    for part in parts:
        assert_fits(LITTLE, part)
    assert_right(LITTLE, GRAPHS[name], plan)


def test_layers_that_are_alike_are_lowered_once() -> None:
    graph = transformer(causal=False, layers=4)
    with cutting_rules(60):
        plan = default_plan(LITTLE, graph)
    parts = lower_plan(LITTLE, graph, plan)
    assert_consistent(graph, plan, parts)
    assert max(part.repeats for part in parts) >= 3
    assert len(parts) <= len(plan.sections) / 2


def test_a_graph_that_fits_is_one_section() -> None:
    graph = build(FfnSpec(48, 64, 128))
    (section,) = lower_sections(SMALL, graph)
    assert (section.samples, section.repeats) == (1, 1)
    computed = {op.name for op in graph.ops if is_compute(op)}
    assert computed == {op.name for op in graph.ops if op.name in section.ops and is_compute(op)}
    assert section.macs == graph.total_macs
    assert section.netlist.count(SiteKind.COMPUTE) == lower(SMALL, graph).count(SiteKind.COMPUTE)


def test_a_graph_that_fits_but_has_long_samples_is_cut() -> None:
    graph = build(GemmSpec(256, 64, 64))
    limit = lower(SMALL, graph).bound_cycles - 1
    with cutting_rules(limit):
        plan = default_plan(SMALL, graph)
    parts = lower_plan(SMALL, graph, plan)
    assert_consistent(graph, plan, parts)
    (section,) = parts
    assert section.samples > 1
    assert section.netlist.bound_cycles <= limit


def test_a_product_too_large_for_the_chip_is_sliced() -> None:
    # 64 x 256 numbers are 64 KiB; the memories of the chip hold 24 KiB.
    fabric = replace(TINY, memory=MemorySpec(capacity_bytes=3072))
    b = GraphBuilder()
    b.store(b.relu(b.bias(b.linear(b.load((6, 64), name="x"), 256, name="wide"))), name="y")
    graph = b.build("wide", "test")
    plan = default_plan(fabric, graph)
    assert dict(plan.slices)["wide"] >= 4
    assert len(plan.sections) == dict(plan.slices)["wide"]
    assert_right(fabric, graph, plan)


@pytest.mark.parametrize("slices", [(("nothing", 2),), (("wide", 1),), (("wide", 99),), (("relu_0", 2),)])
def test_wrong_slices_are_refused(slices: tuple[tuple[str, int], ...]) -> None:
    b = GraphBuilder()
    b.store(b.relu(b.linear(b.load((6, 16), name="x"), 32, name="wide")), name="y")
    graph = b.build("wide", "test")
    with pytest.raises(InputError, match="slices"):
        lower_plan(TINY, graph, replace(default_plan(TINY, graph), slices=slices))


def test_what_does_not_fit_names_op_resource_demand_and_limit() -> None:
    fabric = replace(TINY, memory=MemorySpec(capacity_bytes=64))
    with pytest.raises(DoesNotFitError) as caught:
        lower_sections(fabric, GRAPHS["mlp"])
    error = caught.value
    assert error.demand > error.limit
    for words in ("op 'layer0", "bytes", str(error.demand), f"the fabric has {error.limit}"):
        assert words in str(error)


def test_when_every_cut_is_refused_the_last_reason_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sections, "MAX_ATTEMPTS", 2)
    fabric = replace(LITTLE, ports_per_side=1, dram=replace(LITTLE.dram, max_streams=1))
    with pytest.raises(DoesNotFitError) as caught:
        lower_sections(fabric, GRAPHS["mlp training"])
    error = caught.value
    assert isinstance(error.__cause__, DoesNotFitError)
    assert (error.demand, error.limit) == (error.__cause__.demand, 2)
    assert error.demand > error.limit
    for words in ("DRAM streams", "the last of 2 tries"):
        assert words in str(error)


@pytest.mark.slow
@pytest.mark.parametrize("training", [False, True], ids=["forward", "training"])
@pytest.mark.parametrize("model", ["bert_large", "gpt2_xl"])
def test_a_layer_of_a_published_model_lowers(model: str, training: bool) -> None:
    graph = build(ModelSpec(model, 1, training=training))
    plan = default_plan(LARGE, graph)
    parts = lower_plan(LARGE, graph, plan)
    assert_consistent(graph, plan, parts)
    for part in parts:
        assert_fits(LARGE, part)


@pytest.mark.slow
def test_the_layers_of_a_published_model_share_their_sections() -> None:
    graph = build(ModelSpec("bert_large"))
    plan = default_plan(LARGE, graph)
    parts = lower_plan(LARGE, graph, plan)
    assert_consistent(graph, plan, parts)
    assert len(parts) < 10
    assert max(part.repeats for part in parts) >= 23
