"""Plans: whatever they choose, the network computes the same; and what cannot be is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placer.base import DoesNotFitError, InputError
from placer.decision import check, random_sites
from placer.decision.routing import route
from placer.fabric import Fabric, load_fabric
from placer.graph import DataflowGraph, OpKind
from placer.graph.workloads import ModelSpec, VisionSpec, build
from placer.graph.workloads.specs import FfnSpec, MhaSpec, MlpSpec, Spec
from placer.netlist import Netlist, full_bound
from placer.netlist.lowering import (
    BufferPlan,
    Cut,
    GroupPlan,
    Plan,
    SectionPlan,
    TileAxis,
    Tiling,
    WeightsPlan,
    check_plan,
    default_plan,
    load_plan,
    lower_plan,
    plan_from_dict,
)
from placer.netlist.lowering.groups import form_groups, stored
from placer.netlist.plan import fabric_key
from placer.simulation import Limits, Status, simulate_stack
from tests.placer.netlist.evaluate import assert_computes, assert_counts
from tests.placer.netlist.random_plans import KINDS, random_fabric, random_graph, random_plan

seeds = st.integers(0, 2**32 - 1)


def random_case(kind: str, seed: int) -> tuple[Fabric, DataflowGraph, Plan]:
    rng = np.random.default_rng(seed)
    fabric, graph = random_fabric(rng), random_graph(rng, kind)
    return fabric, graph, random_plan(rng, fabric, graph)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=4, deadline=None)
@given(seed=seeds)
def test_any_plan_computes_what_the_graph_computes(kind: str, seed: int) -> None:
    case = random_case(kind, seed)
    assert_computes(*case)
    check_plan(*case)
    assert_counts(*case)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40, deadline=None)
@given(seed=seeds)
def test_any_of_many_plans_computes_what_the_graph_computes(kind: str, seed: int) -> None:
    case = random_case(kind, seed)
    assert_computes(*case)
    check_plan(*case)
    assert_counts(*case)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=3, deadline=None)
@given(seed=seeds)
def test_a_plan_passes_through_a_file(kind: str, seed: int) -> None:
    fabric, graph, plan = random_case(kind, seed)
    again = plan_from_dict(json.loads(plan.to_json()))
    assert again == plan
    first, second = lower_plan(fabric, graph, plan), lower_plan(fabric, graph, again)
    assert [one.netlist.fingerprint for one in first] == [one.netlist.fingerprint for one in second]


def test_a_plan_file_that_is_none_is_refused(tmp_path: Path) -> None:
    _, _, plan = random_case("mlp", 0)
    path = tmp_path / "plan.json"
    path.write_text(plan.to_json())
    assert load_plan(path) == plan
    for old, new in (
        ('"schema": 1', '"schema": 2'),
        ('"copies": 1', '"copies": 0'),
        ('"slots": 2', '"slots": "two"'),
        ('"heads": 1', '"hats": 1'),
        ('"axis": "', '"axis": "a'),
        ('"layout": 0', '"layout": 99'),
        ('"schema": 1', '"schema": 1, "schema": 1'),
        ('"slices": []', '"slices": [["up", 2], ["up", 2]]'),
        ('"layouts": [', f'"layouts": [{json.dumps(plan.to_dict()["layouts"][0])},'),
    ):
        assert old in plan.to_json(), old
        path.write_text(plan.to_json().replace(old, new, 1))
        with pytest.raises(InputError, match=r"plan\.json"):
            load_plan(path)


BRIEF = Limits(1, 1, tolerance=0.05, max_cycles=30_000, max_samples=6)


def assert_runs(fabric: Fabric, netlist: Netlist, seed: int) -> None:
    """One random placement passes some samples, and none faster than the bound."""
    decisions = route(fabric, netlist, random_sites(fabric, netlist, 1, seed))
    check(fabric, netlist, decisions)
    outcome = simulate_stack(fabric, netlist, decisions, BRIEF)
    assert outcome.status[0] != Status.DEADLOCK, netlist.name
    assert outcome.samples[0] >= 1


@pytest.mark.parametrize("kind", KINDS)
def test_netlists_of_any_plan_run(kind: str) -> None:
    for section in lower_plan(*(case := random_case(kind, 1)))[:4]:
        assert_runs(case[0], section.netlist, 1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15, deadline=None)
@given(seed=seeds)
def test_netlists_of_many_plans_run(kind: str, seed: int) -> None:
    fabric, graph, plan = random_case(kind, seed)
    for section in lower_plan(fabric, graph, plan):
        assert_runs(fabric, section.netlist, seed)


SMALL = load_fabric("small")


@pytest.mark.parametrize("spec", [MlpSpec(200, 32, 3), FfnSpec(40, 32, 64, training=True), MhaSpec(24, 32, 4)])
def test_default_plans_pass_all_checks(spec: Spec) -> None:
    graph = build(spec)
    plan = default_plan(SMALL, graph)
    assert_computes(SMALL, graph, plan)
    check_plan(SMALL, graph, plan)
    assert_counts(SMALL, graph, plan)


@pytest.mark.slow
@pytest.mark.parametrize("spec", [ModelSpec("bert_large"), ModelSpec("gpt2", 2, training=True), VisionSpec("resnet50")])
def test_default_plans_of_published_networks_pass_the_checks(spec: Spec) -> None:
    large, graph = load_fabric("large"), build(spec)
    plan = default_plan(large, graph)
    check_plan(large, graph, plan)
    assert_counts(large, graph, replace(plan, sections=tuple({cut.layout: cut for cut in plan.sections}.values())))
    for section in lower_plan(large, graph, plan):
        assert full_bound(large, section.netlist).cycles >= section.netlist.bound_cycles


# Two products with a relu each, on a fabric whose vectors hold 4 numbers; one section and one sample.
FABRIC = Fabric("hand", 6, 6, vector_bytes=16, ops=SMALL.ops)
GRAPH = build(MlpSpec(rows=12, width=8, depth=2))
NAMES = tuple(group.output for group in form_groups(GRAPH))
LAYOUT = SectionPlan(Tiling(), (GroupPlan(),) * 2, (BufferPlan(slots=2),) * 3, (WeightsPlan(),) * 2)
ROWS = replace(LAYOUT, tiling=Tiling(TileAxis.ROWS, 5, 3))


def plan_of(layout: SectionPlan, fabric: Fabric = FABRIC, graph: DataflowGraph = GRAPH) -> Plan:
    plan = replace(default_plan(FABRIC, graph), fabric=fabric_key(fabric))
    return replace(plan, layouts=(layout,), sections=(Cut(tuple(g.output for g in form_groups(graph)), 0),))


def with_group(layout: SectionPlan, **parts: int) -> SectionPlan:
    return replace(layout, groups=(GroupPlan(**parts), *layout.groups[1:]))


def with_buffer(layout: SectionPlan, **parts: int) -> SectionPlan:
    return replace(layout, buffers=(replace(layout.buffers[0], **parts), *layout.buffers[1:]))


def with_memory(**changes: int) -> Fabric:
    return replace(FABRIC, memory=replace(FABRIC.memory, **changes))


@pytest.mark.parametrize(
    "layout",
    [
        LAYOUT,
        ROWS,
        replace(ROWS, copies=3),
        with_group(LAYOUT, rows=12),
        with_buffer(with_group(LAYOUT, columns=2, inner=2), slots=3),
        with_buffer(LAYOUT, rows=3, columns=2),
        replace(LAYOUT, weights=(WeightsPlan(pieces=2), WeightsPlan(shared=3))),
    ],
)
def test_what_can_be_is_accepted(layout: SectionPlan) -> None:
    plan = plan_of(layout)
    assert_computes(FABRIC, GRAPH, plan)
    assert_counts(FABRIC, GRAPH, plan)
    (section,) = lower_plan(FABRIC, GRAPH, plan)
    assert section.samples == layout.sample.samples


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        (with_group(LAYOUT, rows=13), "13 parts along rows; at most 12"),
        (with_group(LAYOUT, columns=3), "3 parts along columns; at most 2"),
        (with_group(LAYOUT, inner=3), "3 parts along inner; at most 2"),
        (with_group(LAYOUT, heads=2), "2 parts along heads; at most 1"),
        (with_buffer(LAYOUT, columns=3), "buffers of 'x' in 3 parts along columns; at most 2"),
        (with_buffer(LAYOUT, slots=1), "buffers of 'x' have 1 slots; its readers need 2"),
        (replace(LAYOUT, groups=LAYOUT.groups[:1]), "1 groups, needed 2"),
        (replace(LAYOUT, buffers=LAYOUT.buffers[:2]), "2 buffers, needed 3"),
        (replace(LAYOUT, buffers=LAYOUT.buffers + LAYOUT.buffers), "6 buffers, needed 3"),
        (replace(LAYOUT, weights=()), "0 weights, needed 2"),
        (replace(LAYOUT, weights=(WeightsPlan(pieces=3), WeightsPlan())), "3 pieces; at most 2"),
        (replace(LAYOUT, copies=2), "2 copies of the pipeline share 1 tiles"),
        (replace(ROWS, tiling=Tiling(TileAxis.ROWS, 5, 2)), "2 tiles of 5 rows for 12"),
        (replace(ROWS, tiling=Tiling(TileAxis.ROWS, 5, 4)), "4 tiles of 5 rows for 12"),
        (replace(ROWS, tiling=Tiling(TileAxis.HEADS, 1, 1)), "is cut along heads, but"),
        (replace(LAYOUT, tiling=Tiling(TileAxis.NONE, 0, 2)), "2 samples of 0, but no axis"),
        (with_group(ROWS, rows=6), "6 parts along rows; at most 5"),
    ],
)
def test_what_cannot_be_is_refused(layout: SectionPlan, message: str) -> None:
    with pytest.raises(InputError, match=message):
        lower_plan(FABRIC, GRAPH, plan_of(layout))


@pytest.mark.parametrize(
    ("layout", "fabric", "resource"),
    [
        (with_group(LAYOUT, rows=12, columns=2), FABRIC, "compute units"),
        (with_buffer(LAYOUT, rows=12, columns=2), with_memory(max_buffers=1), "buffers"),
        (with_buffer(LAYOUT, rows=12, columns=2), replace(FABRIC, ports_per_side=2), "DRAM streams"),
        (with_buffer(LAYOUT, slots=3000), with_memory(capacity_bytes=1 << 20), "bytes in one memory unit for 'x'"),
        (with_buffer(LAYOUT, slots=4000, rows=12, columns=2), with_memory(capacity_bytes=1 << 16), "bytes of on-chip"),
        (LAYOUT, with_memory(capacity_bytes=255), "bytes in one memory unit"),
    ],
)
def test_what_overfills_the_fabric_is_refused(layout: SectionPlan, fabric: Fabric, resource: str) -> None:
    with pytest.raises(DoesNotFitError) as caught:
        lower_plan(fabric, GRAPH, plan_of(layout, fabric))
    assert resource in caught.value.resource
    assert "section 0" in caught.value.resource
    assert caught.value.demand > caught.value.limit


def test_weights_that_overfill_a_memory_unit_are_refused() -> None:
    layout = replace(LAYOUT, groups=(GroupPlan(columns=2),) * 2, buffers=(BufferPlan(rows=6, columns=2),) * 3)
    fabric = with_memory(capacity_bytes=255)
    lower_plan(fabric, GRAPH, plan_of(layout, fabric))
    shared = replace(layout, weights=(WeightsPlan(shared=2),) * 2)
    with pytest.raises(DoesNotFitError, match=f"weights of '{NAMES[0]}'"):
        lower_plan(fabric, GRAPH, plan_of(shared, fabric))


def two_sections(first: tuple[str, ...], second: tuple[str, ...], layout: int = 1) -> Plan:
    one = replace(LAYOUT, groups=(GroupPlan(),), buffers=(BufferPlan(),) * 2, weights=(WeightsPlan(),))
    return replace(plan_of(LAYOUT), layouts=(one, one), sections=(Cut(first, 0), Cut(second, layout)))


def test_layers_that_are_alike_may_share_a_layout() -> None:
    # The relu behind the first product makes the difference; a deeper network has two alike.
    graph = build(MlpSpec(rows=12, width=8, depth=3))
    names = [group.output for group in form_groups(graph)]
    one = two_sections((), ()).layouts[0]
    sections = (Cut((names[0],), 0), Cut((names[1],), 0), Cut((names[2],), 1))
    plan = replace(plan_of(LAYOUT, graph=graph), layouts=(one, one), sections=sections)
    first, second = lower_plan(FABRIC, graph, plan)
    assert (first.repeats, second.repeats) == (2, 1)


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (two_sections(NAMES[1:], NAMES[:1]), "before its input"),
        (two_sections(NAMES[:1], NAMES[:1]), "made before; each is made once"),
        (replace(two_sections(NAMES[:1], ()), sections=(Cut(NAMES[:1], 0),)), f"no section makes '{NAMES[1]}'"),
        (two_sections(NAMES[:1], ("nothing",)), "which no group of ops of the network makes"),
        (two_sections(NAMES[:1], ()), "makes nothing"),
        (two_sections(NAMES[:1], NAMES[1:], layout=7), "layout 7 of 2"),
        (replace(plan_of(LAYOUT), fabric="other"), "is for fabric 'other'"),
        (replace(plan_of(LAYOUT), graph="0" * 16), "is for another network"),
    ],
)
def test_a_plan_of_something_else_is_refused(plan: Plan, message: str) -> None:
    with pytest.raises(InputError, match=message):
        lower_plan(FABRIC, GRAPH, plan)


def test_sections_that_differ_cannot_share_a_layout() -> None:
    graph = build(FfnSpec(rows=12, width=8, hidden=16))
    one = two_sections((), ()).layouts[0]
    sections = tuple(Cut((group.output,), 0) for group in form_groups(graph))
    plan = replace(plan_of(LAYOUT, graph=graph), layouts=(one,), sections=sections)
    with pytest.raises(InputError, match=r"section 1 .* shares layout 0 with section 0 .*, but is not like it"):
        lower_plan(FABRIC, graph, plan)


def attention_plan(tiling: Tiling, copies: int = 1, columns: int = 1) -> tuple[DataflowGraph, Plan]:
    """Attention in three sections: projections, the heads, the output."""
    graph = build(MhaSpec(rows=6, width=12, heads=3))
    groups = form_groups(graph)
    kinds = [group.main.kind for group in groups]
    first, last = kinds.index(OpKind.MATMUL), len(kinds) - kinds[::-1].index(OpKind.MATMUL)
    layouts, cuts = [], []
    for number, (start, end) in enumerate(((0, first), (first, last), (last, len(groups)))):
        part = groups[start:end]
        loads = {name for group in part for tensor in group.main.inputs for name in stored(graph, tensor)}
        loads -= {group.output for group in part}
        held = sum(group.main.kind == OpKind.LINEAR for group in part)
        plans = [GroupPlan(columns=columns if g.main.kind == OpKind.SOFTMAX else 1) for g in part]
        buffers = (BufferPlan(slots=4),) * (len(loads) + len(part))
        is_middle = number == 1
        layouts.append(
            SectionPlan(
                tiling if is_middle else Tiling(), tuple(plans), buffers, (WeightsPlan(),) * held,
                copies if is_middle else 1,
            )
        )  # fmt: skip
        cuts.append(Cut(tuple(group.output for group in part), number))
    return graph, replace(default_plan(FABRIC, graph), layouts=tuple(layouts), sections=tuple(cuts))


@pytest.mark.parametrize(
    ("tiling", "copies"), [(Tiling(), 1), (Tiling(TileAxis.HEADS, 1, 3), 1), (Tiling(TileAxis.HEADS, 1, 3), 3)]
)
def test_heads_may_be_tiles(tiling: Tiling, copies: int) -> None:
    graph, plan = attention_plan(tiling, copies)
    assert_computes(FABRIC, graph, plan)
    lower_plan(FABRIC, graph, plan)


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (attention_plan(Tiling(TileAxis.HEADS, 1, 2)), "2 tiles of 1 heads; all have 3 equal parts"),
        (attention_plan(Tiling(TileAxis.HEADS, 2, 2)), "2 tiles of 2 heads"),
        (attention_plan(Tiling(TileAxis.HEADS, 1, 3), copies=2), "2 copies of the pipeline share 3 tiles"),
        (attention_plan(Tiling(TileAxis.ROWS, 2, 3)), "a row of 'mha.scale' needs all of them"),
        (attention_plan(Tiling(), columns=2), "softmax.* in 2 parts along columns; at most 1"),
    ],
)
def test_tiles_that_would_compute_something_else_are_refused(case: tuple[DataflowGraph, Plan], message: str) -> None:
    with pytest.raises(InputError, match=message):
        lower_plan(FABRIC, *case)


def test_a_causal_softmax_is_not_cut_into_rows() -> None:
    rng = np.random.default_rng(0)
    graph = random_graph(rng, "prefill")
    (softmax,) = [group for group in form_groups(graph) if group.main.kind == OpKind.SOFTMAX]
    rows = graph.tensors[softmax.output].rows
    plan = random_plan(rng, FABRIC, graph)
    number = next(k for k, cut in enumerate(plan.sections) if softmax.output in cut.groups)
    layout = plan.sections[number].layout
    tiled = replace(plan.layouts[layout], tiling=Tiling(TileAxis.ROWS, 1, rows), copies=1)
    layouts = (*plan.layouts[:layout], tiled, *plan.layouts[layout + 1 :])
    with pytest.raises(InputError, match="rows"):
        lower_plan(FABRIC, graph, replace(plan, layouts=layouts))


@pytest.mark.parametrize(
    ("kind", "number"),
    [(GroupPlan, {"rows": 0}), (BufferPlan, {"slots": -1}), (BufferPlan, {"copies": 0}), (WeightsPlan, {"shared": 0})],
)
def test_numbers_below_one_are_refused(kind: type, number: dict[str, int]) -> None:
    with pytest.raises(InputError, match="is out of range; allowed: 1 or more"):
        kind(**number)


def test_a_plan_is_for_one_hardware() -> None:
    graph = build(FfnSpec(48, 64, 128))
    plan = default_plan(load_fabric("small"), graph)
    other = load_fabric("small", ["link.hop_cycles=3"])
    with pytest.raises(InputError, match="the plan is for fabric 'small:"):
        lower_plan(other, graph, plan)
    assert lower_plan(load_fabric("small", ["clock_mhz=500"]), graph, plan)
