"""Count a netlist again, from its units and flows alone: is it what the plan of its section says?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import product
from math import prod

from placer.base import InputError
from placer.fabric import Fabric, SiteKind
from placer.graph import PRODUCT_KINDS, WINDOW_KINDS, DataflowGraph, OpKind, window_of
from placer.netlist import Flow, Netlist
from placer.netlist.lowering.check import Facts, Network, Part, check_facts, even_sizes
from placer.netlist.plan import SectionPlan


def check_section(fabric: Fabric, graph: DataflowGraph, plan: SectionPlan, netlist: Netlist) -> None:
    """Raise InputError if a netlist is not the graph of one sample laid out as planned.

    Units and bytes are those of the plan; every vector of a tensor is written once into every copy
    of its buffers and held until it is read; every unit gets at least the vectors that its share of
    the work takes; and all units of a product together do its multiply-accumulates.
    """
    network = Network(graph)
    made = sorted(network.chains, key=lambda name: graph.position(network.chains[name][0].name))
    part = Part(network, tuple(made), f"netlist {netlist.name!r}")
    facts = Facts(fabric, part, plan, {name: network.sizes(name) for name in part.tensors})
    check_facts(facts)
    count = _Count(facts, netlist)
    for flow in netlist.flows:
        count.check_flow(flow)
    for name in part.tensors:
        count.check_buffers(name)
    for name in made:
        count.check_units(name)


class _Count:
    """What the units of each tensor have, send and get."""

    def __init__(self, facts: Facts, netlist: Netlist) -> None:
        if netlist.fabric != facts.fabric.name:
            raise InputError(f"netlist {netlist.name!r} is for fabric {netlist.fabric!r}, not {facts.fabric.name!r}")
        self.facts, self.netlist, self.require = facts, netlist, facts.part.require
        # Units are named by the tensor that they make or hold: x.0, x.b0, x.b0.1, x.w0, x.l0, x.s0.
        self.owner = [_owner(unit.name, unit.kind) for unit in netlist.units]
        self.units: dict[str, list[int]] = {}
        for number, name in enumerate(self.owner):
            self.require(name in facts.sizes, f"unit {netlist.units[number].name!r} belongs to no tensor")
            self.units.setdefault(name, []).append(number)
        self.passed: Counter[tuple[str, str]] = Counter()  # vectors by tensor and by what takes them
        self.fed: Counter[tuple[int, str]] = Counter()  # vectors by unit and by what gives them

    def check_flow(self, flow: Flow) -> None:
        """Check where a flow leads, and count its vectors."""
        units, name = self.netlist.units, self.owner[flow.source]
        source, first = units[flow.source], units[flow.targets[0]]
        for target in flow.targets:
            self.fed[target, source.op] += flow.tokens
            distance = units[target].stage - source.stage
            least = 1 if source.op == "buffer" else 0
            self.require(distance >= least, f"flow {flow.name!r} leads over {distance} stages; at least {least}")
            is_held = source.op != "buffer" or source.slots > distance
            self.require(is_held, f"{source.name!r} has {source.slots} slots; a reader is {distance} stages behind")
        if first.kind == SiteKind.MEMORY:
            plan, owners = self.facts.buffers[name], {self.owner[target] for target in flow.targets}
            is_right = owners == {name} and len(flow.targets) == plan.copies
            self.require(
                is_right, f"flow {flow.name!r} reaches {len(flow.targets)} buffers, needed all {plan.copies} copies"
            )
            self.passed[name, "written"] += flow.tokens
        elif source.kind == first.kind == SiteKind.COMPUTE:
            self.passed[name, "partial sums"] += flow.tokens
        elif first.op == "store":
            self.passed[name, "stored"] += flow.tokens

    def check_buffers(self, name: str) -> None:
        """Check the buffers of a tensor, and what is written into them."""
        facts, plan = self.facts, self.facts.buffers[name]
        held = [self.netlist.units[k] for k in self.units[name] if self.netlist.units[k].kind == SiteKind.MEMORY]
        buffers = [unit for unit in held if unit.op != "weights"]
        size = plan.slots * plan.copies * facts.vectors(name) * facts.fabric.vector_bytes
        self._equal(name, "buffers", len(buffers), plan.parts * plan.copies)
        self._equal(name, "bytes of buffers", sum(unit.bytes for unit in buffers), size)
        self._equal(name, "vectors written", self.passed[name, "written"], facts.vectors(name))
        for unit in buffers:
            self._equal(name, f"slots of {unit.name!r}", unit.slots, plan.slots)
        stores = [op for op in facts.part.network.graph.consumers[name] if op.kind == OpKind.STORE]
        if stores:
            least = len(stores) * facts.vectors(name)
            self.require(self.passed[name, "stored"] >= least, f"{name!r} is not stored whole: {least} vectors needed")
        if name in facts.weights:
            sizes = [unit.bytes for unit in held if unit.op == "weights"]
            self._equal(name, "bytes of each weights", sizes, facts.weight_bytes(name))

    def check_units(self, name: str) -> None:
        """Check the compute units of a group: what they do, get and hand on."""
        facts, plan, main = self.facts, self.facts.groups[name], self.facts.part.main(name)
        shards = [k for k in self.units[name] if self.netlist.units[k].kind == SiteKind.COMPUTE]
        self._equal(name, "compute units", len(shards), plan.units)
        self._equal(name, "partial sums", self.passed[name, "partial sums"], (plan.inner - 1) * facts.vectors(name))
        work = sum(self.netlist.units[k].cycles for k in shards) * facts.fabric.compute.macs_per_cycle
        macs = facts.part.network.graph.macs(main)
        self.require(work >= macs, f"{name!r}: its units do {work} multiply-accumulates, needed {macs}")
        for shard, (reads, weights) in zip(shards, _least_reads(facts, name), strict=True):
            for op, needed in (("buffer", reads), ("weights", weights)):
                seen = self.fed[shard, op]
                where = f"{self.netlist.units[shard].name!r} gets {seen} vectors of {op}"
                self.require(seen >= needed, f"{where}; needed {needed}")

    def _equal(self, name: str, what: str, seen: object, needed: object) -> None:
        self.require(seen == needed, f"{name!r}: {what}: {seen}, needed {needed}")


def _owner(name: str, kind: SiteKind) -> str:
    """Return the tensor that a unit belongs to."""
    ends = {SiteKind.COMPUTE: r"\d+", SiteKind.MEMORY: r"(w\d+|b\d+(\.\d+)?)", SiteKind.PORT: r"[ls]\d+"}
    found = re.fullmatch(rf"(.*)\.{ends[kind]}", name)
    return found[1] if found else ""


def _least_reads(facts: Facts, name: str) -> Iterator[tuple[int, int]]:
    """Yield for each part of a group the vectors of activations and of weights that it must get."""
    plan, size, compute = facts.groups[name], facts.sizes[name], facts.fabric.compute
    main, graph = facts.part.main(name), facts.part.network.graph
    spans = facts.cut(graph.inner_length(main), plan.inner) if main.kind in PRODUCT_KINDS else [0]
    for heads, rows, columns, inner in product(
        even_sizes(size.heads, plan.heads),
        even_sizes(size.rows, plan.rows),
        facts.cut(size.columns, plan.columns),
        spans,
    ):
        if main.kind not in PRODUCT_KINDS:
            yield sum(_plain_reads(facts, name, k, (heads, rows, columns)) for k in range(len(main.inputs))), 0
            continue
        left = heads * rows * inner * -(-columns // compute.block_columns)
        right = heads * columns * inner * -(-rows // compute.block_rows)
        if main.kind == OpKind.LINEAR:
            yield _seen(facts, main.inputs[0], left), facts.in_vectors(right)
        else:
            yield _seen(facts, main.inputs[0], left) + _seen(facts, main.inputs[1], right), 0


def _plain_reads(facts: Facts, name: str, position: int, size: tuple[int, int, int]) -> int:
    """Return the vectors of one input that a part of an op other than a product must get."""
    main = facts.part.main(name)
    heads, rows, columns = size
    tensor, output = facts.part.network.sizes(main.inputs[position]), facts.part.network.sizes(name)
    if main.kind in (OpKind.DISPATCH, OpKind.COMBINE):
        is_gates = position == (main.kind == OpKind.DISPATCH)
        return _seen(facts, main.inputs[position], tensor.rows * (tensor.columns if is_gates else columns))
    taps = window_of(main).taps if main.kind in WINDOW_KINDS else max(1, main.attributes.repeats)
    elements = (heads if tensor.heads > 1 else 1) * rows * (columns if tensor.columns == output.columns else 1)
    return _seen(facts, main.inputs[position], taps * elements)


def _seen(facts: Facts, tensor: str, elements: int) -> int:
    """Return the vectors of some elements of an input; heads that are repeated may pass once for all."""
    repeats = max(
        prod(view.attributes.repeats or 1 for view in path.views) for path in facts.part.network.paths[tensor]
    )
    return facts.in_vectors(-(-elements // repeats))
