"""Lowering: nothing is lost, nothing is made twice, and what comes out fits and runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest

from placer.base import DoesNotFitError, InputError
from placer.decision import check
from placer.fabric import Fabric, SiteKind
from placer.graph import DataflowGraph, OpKind
from placer.graph.workloads import build
from placer.graph.workloads.specs import FfnSpec, GemmSpec, MhaSpec, MlpSpec, Spec
from placer.netlist import Netlist, Unit
from placer.netlist.lowering import check_section, default_plan, lower, plan_section
from placer.netlist.lowering.groups import Group, form_groups
from placer.simulation import Status, simulate_stack
from tests.placer.lowered_cases import KINDS, SMALL, graph_of, netlist_of, random_decisions

PRODUCTS = ("linear", "matmul", "weight_grad")

# Sizes that are no multiples of a vector.
ODD_SPECS = [
    GemmSpec(rows=50, width=40, columns=72, training=True),
    MlpSpec(rows=33, width=24, depth=3),
    FfnSpec(rows=21, width=40, hidden=88, training=True),
    MhaSpec(rows=30, width=36, heads=3),
]


@dataclass(frozen=True)
class Lowered:
    """A graph and what became of it."""

    graph: DataflowGraph
    netlist: Netlist

    def parts(self, tensor: str, infix: str) -> list[int]:
        """Units of a tensor by their names, such as x.b0, x.b1 for infix "b"."""
        return [
            number
            for number, unit in enumerate(self.netlist.units)
            if unit.name.rpartition(".")[0] == tensor and unit.name.rpartition(".")[2].rstrip("0123456789") == infix
        ]

    def units(self, tensor: str, infix: str) -> list[Unit]:
        return [self.netlist.units[number] for number in self.parts(tensor, infix)]


def _cases() -> Iterator[object]:
    for family, training in KINDS:
        name = f"{family}{'-training' if training else ''}"
        yield pytest.param((family, training, None), id=name)
        for seed in range(4):
            marks = [pytest.mark.slow]
            yield pytest.param((family, training, seed), id=f"{name}-{seed}", marks=marks)


@pytest.fixture(params=_cases())
def workload(request: pytest.FixtureRequest) -> Lowered:
    """A workload whose size suits the fabric."""
    return Lowered(graph_of(*request.param), netlist_of(*request.param))


def laid_out(fabric: Fabric, graph: DataflowGraph, fill: float = 1.0) -> Netlist:
    """A graph as one section, laid out by rules."""
    return lower(fabric, graph, plan_section(fabric, graph, fill))


@cache
def lowered_spec(spec: Spec) -> Lowered:
    graph = build(spec)
    return Lowered(graph, laid_out(SMALL, graph))


@pytest.fixture(params=[*_cases(), *ODD_SPECS], ids=lambda spec: type(spec).__name__)
def lowered(request: pytest.FixtureRequest) -> Lowered:
    """Any workload, also of odd sizes."""
    if isinstance(request.param, tuple):
        return Lowered(graph_of(*request.param), netlist_of(*request.param))
    return lowered_spec(request.param)


def stored_tensors(graph: DataflowGraph) -> list[str]:
    """Tensors that buffers hold: what is loaded, and what groups of ops make."""
    loads = [op.name for op in graph.ops if op.kind == OpKind.LOAD]
    return [*loads, *(group.output for group in form_groups(graph))]


def vectors_of(fabric: Fabric, graph: DataflowGraph, tensor: str) -> int:
    """Vectors of a tensor whose rows are padded to whole vectors."""
    shape = graph.tensors[tensor]
    return shape.heads * shape.rows * -(-shape.columns // fabric.elements_per_vector)


def test_fabric_is_filled(workload: Lowered) -> None:
    fill = workload.netlist.count(SiteKind.COMPUTE) / SMALL.num_sites(SiteKind.COMPUTE)
    assert 0.4 <= fill <= 1  # units that would not make a section faster stay free


@pytest.mark.slow
def test_workload_is_placeable_and_runs(workload: Lowered) -> None:
    decisions = random_decisions(workload.netlist, 2, seed=4)
    check(SMALL, workload.netlist, decisions)
    outcome = simulate_stack(SMALL, workload.netlist, decisions)
    assert outcome.status.tolist() == [Status.STEADY] * 2


def test_every_element_is_written_once(lowered: Lowered) -> None:
    for tensor in stored_tensors(lowered.graph):
        parts = lowered.parts(tensor, "b")
        written = sum(flow.tokens for flow in lowered.netlist.flows if set(flow.targets) & set(parts))
        assert written == vectors_of(SMALL, lowered.graph, tensor), tensor


def test_every_element_that_leaves_is_read_once(lowered: Lowered) -> None:
    is_store = [unit.op == "store" for unit in lowered.netlist.units]
    stored = sum(flow.tokens for flow in lowered.netlist.flows if any(is_store[t] for t in flow.targets))
    outputs = [op.inputs[0] for op in lowered.graph.ops if op.kind == OpKind.STORE]
    assert stored == sum(vectors_of(SMALL, lowered.graph, tensor) for tensor in outputs)


def test_buffers_hold_a_sample_for_every_stage_until_the_last_reader(lowered: Lowered) -> None:
    netlist = lowered.netlist
    for flow in netlist.flows:
        buffer = netlist.units[flow.source]
        if buffer.op != "buffer":
            continue
        for target in flow.targets:
            distance = netlist.units[target].stage - buffer.stage
            assert distance >= 1, flow.name
            assert buffer.slots >= distance + 1, flow.name


def test_buffers_have_the_bytes_of_their_slots(lowered: Lowered) -> None:
    for tensor in stored_tensors(lowered.graph):
        buffers = lowered.units(tensor, "b")
        assert len({buffer.slots for buffer in buffers}) == 1
        held = vectors_of(SMALL, lowered.graph, tensor) * SMALL.vector_bytes * buffers[0].slots
        assert sum(buffer.bytes for buffer in buffers) == held, tensor
        assert max(buffer.bytes for buffer in buffers) <= SMALL.memory.capacity_bytes


def linear_groups(graph: DataflowGraph) -> list[Group]:
    return [group for group in form_groups(graph) if group.main.kind == OpKind.LINEAR]


def test_weights_have_their_bytes(lowered: Lowered) -> None:
    graph = lowered.graph
    for group in linear_groups(graph):
        inner = graph.tensors[group.main.inputs[0]].columns
        columns = graph.tensors[group.output].columns
        # A column of the weight is a sequence of whole vectors.
        size = columns * -(-inner // SMALL.elements_per_vector) * SMALL.vector_bytes
        units = lowered.units(group.output, "w")
        assert sum(unit.bytes for unit in units) == size, group.output
        assert max(unit.bytes for unit in units) <= SMALL.memory.capacity_bytes


def test_every_shard_of_a_linear_layer_gets_its_weights(lowered: Lowered) -> None:
    for group in linear_groups(lowered.graph):
        weights = set(lowered.parts(group.output, "w"))
        flows = [flow for flow in lowered.netlist.flows if flow.source in weights]
        fed: Counter[int] = Counter()
        for flow in flows:
            fed.update(dict.fromkeys(flow.targets, flow.tokens))
        assert set(fed) == set(lowered.parts(group.output, "")), group.output
        # Every column passes once or more, in whole vectors along the sums.
        inner = lowered.graph.tensors[group.main.inputs[0]].columns
        columns = lowered.graph.tensors[group.output].columns
        inner_vectors = -(-inner // SMALL.elements_per_vector)
        assert sum(flow.tokens for flow in flows) >= columns * inner_vectors, group.output


def test_multiply_accumulates_are_conserved(lowered: Lowered) -> None:
    per_cycle = SMALL.compute.macs_per_cycle
    total = 0
    for group in form_groups(lowered.graph):
        if group.main.kind in PRODUCTS:
            work = sum(unit.cycles for unit in lowered.units(group.output, "")) * per_cycle
            assert work >= lowered.graph.macs(group.main), group.output
            total += work
    # Odd sizes waste a part of the last vector and register block.
    is_odd = any(tensor.columns % 16 for tensor in lowered.graph.tensors.values())
    assert total <= (1.6 if is_odd else 1.3) * lowered.graph.total_macs


def test_units_of_a_group_do_its_op_behind_its_inputs(lowered: Lowered) -> None:
    graph, netlist = lowered.graph, lowered.netlist
    for group in form_groups(graph):
        shards = lowered.units(group.output, "")
        assert {unit.op for unit in shards} == {str(group.main.kind)}
        # Units that share a sum begin one after the other; the last of them write the result.
        stages = sorted({unit.stage for unit in shards})
        assert stages == [*range(stages[0], stages[-1] + 1)]
        assert {unit.stage for unit in lowered.units(group.output, "b")} == {stages[-1]}
    for flow in netlist.flows:
        if netlist.units[flow.source].kind == SiteKind.COMPUTE:
            assert all(netlist.units[target].stage >= netlist.units[flow.source].stage for target in flow.targets)


def test_a_second_count_finds_nothing_wrong(lowered: Lowered) -> None:
    plan = plan_section(SMALL, lowered.graph)
    assert lower(SMALL, lowered.graph, plan) == lowered.netlist
    check_section(SMALL, lowered.graph, plan, lowered.netlist)


def test_a_second_count_finds_what_was_changed() -> None:
    graph = graph_of("ffn", False)
    plan = plan_section(SMALL, graph)
    netlist = lower(SMALL, graph, plan)
    check_section(SMALL, graph, plan, netlist)
    for damaged in damaged_netlists(netlist):
        with pytest.raises(InputError):
            check_section(SMALL, graph, plan, damaged)


def damaged_netlists(netlist: Netlist) -> Iterator[Netlist]:
    """Netlists in which one unit or flow is not what it was."""
    units, flows = netlist.units, netlist.flows

    def with_unit(number: int, **changes: Any) -> Netlist:
        changed = replace(units[number], **changes)
        return replace(netlist, units=(*units[:number], changed, *units[number + 1 :]))

    def first(op: str) -> int:
        return next(number for number, unit in enumerate(units) if unit.op == op)

    def with_flow(number: int, tokens: int) -> Netlist:
        changed = replace(flows[number], tokens=tokens)
        return replace(netlist, flows=(*flows[:number], changed, *flows[number + 1 :]))

    yield with_unit(first("buffer"), bytes=units[first("buffer")].bytes - 1)
    yield with_unit(first("buffer"), slots=1)
    yield with_unit(first("buffer"), stage=30)
    yield with_unit(first("weights"), bytes=units[first("weights")].bytes + 64)
    for op in ("weights", "load", "buffer"):
        number = next(k for k, flow in enumerate(flows) if units[flow.source].op == op)
        yield with_flow(number, 1)
        yield replace(netlist, flows=(*flows[:number], *flows[number + 1 :]))
    is_written = [units[flow.targets[0]].op == "buffer" and units[flow.source].op != "load" for flow in flows]
    yield with_flow(is_written.index(True), 1)
    yield replace(netlist, flows=tuple(flow for k, flow in enumerate(flows) if k != is_written.index(True)))
    yield replace(netlist, fabric="other")


def test_same_graph_same_netlist(workload: Lowered) -> None:
    graph = workload.graph
    again = laid_out(SMALL, DataflowGraph(graph.name, graph.family, graph.ops))
    assert again.fingerprint == workload.netlist.fingerprint


FINGERPRINTS = """
from tests.placer.lowered_cases import KINDS, netlist_of
print(*(netlist_of(*kind).fingerprint for kind in KINDS))
"""


@pytest.mark.slow
def test_same_netlist_in_every_process() -> None:
    # The order of sets of names differs from process to process.
    runs = [
        subprocess.run(
            [sys.executable, "-c", FINGERPRINTS],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1]
    assert len(runs[0].split()) == len(KINDS)


def with_memory(**changes: int) -> Fabric:
    return replace(SMALL, memory=replace(SMALL.memory, **changes))


# Many small memories: what cannot be cut further is too large for one of them.
CRUMBS = replace(with_memory(capacity_bytes=1024, max_buffers=64), dram=replace(SMALL.dram, max_streams=64))
LARGE_GEMM = GemmSpec(rows=64, width=4096, columns=4096)


@pytest.mark.parametrize(
    ("fabric", "spec", "resource"),
    [
        (SMALL, MlpSpec(rows=16, width=16, depth=40), "compute units"),
        (SMALL, LARGE_GEMM, "buffers"),
        (with_memory(max_buffers=64), LARGE_GEMM, "bytes of on-chip memory"),
        (with_memory(capacity_bytes=64), GemmSpec(64, 64, 64), "bytes in one memory unit"),
        (with_memory(capacity_bytes=100), GemmSpec(16, 16, 512), "slots of tensor 'x'"),
        (CRUMBS, GemmSpec(16, 16, 1024), "bytes in one memory unit for 'product.w"),
        (with_memory(capacity_bytes=512), GemmSpec(16, 16, 256), "DRAM streams"),
    ],
)
def test_what_does_not_fit_is_named(fabric: Fabric, spec: MlpSpec | GemmSpec, resource: str) -> None:
    with pytest.raises(DoesNotFitError) as caught:
        laid_out(fabric, build(spec))
    error = caught.value
    assert resource in error.resource
    assert error.demand > error.limit > 0
    assert f"short by {error.demand - error.limit}" in str(error)
    assert error.advice in str(error)


def with_few_buffers(columns: int, rows: int) -> Fabric:
    """A tiny fabric with two buffers per memory unit and plenty of DRAM streams."""
    fabric = replace(with_memory(max_buffers=2), dram=replace(SMALL.dram, max_streams=16))
    return replace(fabric, name="tiny", columns=columns, rows=rows)


@pytest.mark.parametrize(
    ("fabric", "spec"),
    [
        (with_few_buffers(4, 4), GemmSpec(64, 64, 64, training=True)),
        (with_few_buffers(3, 2), GemmSpec(64, 64, 64, training=True)),
        (with_few_buffers(3, 2), MlpSpec(64, 32, 2)),
    ],
)
def test_slow_ports_do_not_split_tensors_beyond_the_buffers(fabric: Fabric, spec: Spec) -> None:
    # For the ports alone, these would be cut into one to three buffers more than there are.
    netlist = laid_out(fabric, build(spec))
    assert netlist.count(SiteKind.MEMORY) <= 2 * fabric.num_sites(SiteKind.MEMORY)


@pytest.mark.parametrize("fill", [0.0, -1.0, 1.5])
def test_wrong_fill_is_refused(fill: float) -> None:
    with pytest.raises(InputError, match="fill"):
        default_plan(SMALL, graph_of("gemm", False), fill)


@pytest.mark.parametrize("fill", [0.2, 0.5, 1.0])
def test_fill_limits_the_compute_units(fill: float) -> None:
    netlist = laid_out(SMALL, graph_of("gemm", False), fill)
    assert netlist.count(SiteKind.COMPUTE) <= fill * SMALL.num_sites(SiteKind.COMPUTE)
