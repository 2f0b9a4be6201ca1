"""Random fabrics, netlists and decisions for tests: small, legal, and everything shared.

A netlist consists of *clusters*, one per stage: compute units joined by streaming flows that form
a tree (a multicast flow joins its source and all its targets). Buffers carry data from a cluster
to clusters of later stages only. Nothing can then wait for itself: a cluster needs only whole
samples of earlier stages, and inside a tree there is only one way between two units. With
`deadlock_free=False` some netlists get flows that break the tree; a part of these cases runs into
a deadlock.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from placer.decision import Decisions
from placer.fabric import Direction, DramSpec, Fabric, MemorySpec, SiteKind
from placer.fabric.fabric import ComputeSpec, LinkSpec, LocalSpec
from placer.netlist import Flow, Netlist, Unit

MIN_UNITS, MAX_UNITS = 3, 14
MAX_TOKENS = 40


def random_case(seed: int, *, deadlock_free: bool = False) -> tuple[Fabric, Netlist, Decisions]:
    """A fabric, a netlist that fits it, and one decision; the same for the same seed."""
    rng = np.random.default_rng(seed)
    fabric = random_fabric(rng)
    netlist = random_netlist(rng, fabric, deadlock_free=deadlock_free)
    return fabric, netlist, random_decision(rng, fabric, netlist)


def random_fabric(rng: np.random.Generator) -> Fabric:
    """A small fabric with low latencies and short queues, so that every limit is met."""

    def between(low: int, high: int) -> int:
        return int(rng.integers(low, high + 1))

    burst = between(1, 8)
    rows = between(3, 4)
    return Fabric(
        name="random",
        columns=between(3, 5),
        rows=rows,
        ports_per_side=between(1, rows),
        link=LinkSpec(
            vectors_per_cycle=between(1, 2),
            hop_cycles=between(1, 4),
            channels=2 * between(1, 2),
            fifo_vectors=between(1, 4),
            credit_hop_cycles=between(1, 4),
        ),
        local=LocalSpec(vectors_per_cycle=between(1, 2), hop_cycles=between(1, 2)),
        compute=ComputeSpec(window_vectors=between(1, 16), output_vectors=between(1, 8)),
        memory=MemorySpec(
            window_vectors=between(1, 16),
            output_vectors=between(1, 8),
            latency_cycles=between(1, 6),
            max_buffers=between(2, 4),
        ),
        dram=DramSpec(
            latency_cycles=between(1, 20),
            channels=between(1, 3),
            burst_vectors=burst,
            burst_cycles=between(1, 8),
            window_vectors=between(burst, 16),
            prefetch_vectors=between(burst, 32),
            max_streams=between(2, 4),
        ),
    )


def random_netlist(rng: np.random.Generator, fabric: Fabric, *, deadlock_free: bool = False) -> Netlist:
    """An acyclic netlist that fits the fabric: loads, weights, buffers, trees of compute, sinks."""
    draft = _Draft(rng, fabric)
    num_clusters = int(rng.integers(1, 5))
    while draft.stage + 1 < num_clusters or len(draft.units) < MIN_UNITS:
        draft.add_cluster()
    if not deadlock_free and rng.random() < 0.3:
        draft.add_shortcut()
    flows = [draft.flows[i] for i in rng.permutation(len(draft.flows))]
    units = [draft.finished(unit_id) for unit_id in range(len(draft.units))]
    return Netlist("random", "random", fabric.name, tuple(units), tuple(flows))


def random_placement(rng: np.random.Generator, fabric: Fabric, netlist: Netlist) -> list[int]:
    """A site for every unit; buffers and DRAM streams share sites up to the fabric's limits."""
    sites = [-1] * netlist.num_units
    for kind, limit in _site_limits(fabric).items():
        units = [i for i, unit in enumerate(netlist.units) if unit.kind == kind]
        free = np.flatnonzero(fabric.topology.site_kind == kind)
        least = math.ceil(len(units) / limit)
        used = rng.permutation(free)[: rng.integers(least, len(free) + 1)]
        # Every used site has `limit` places; what is not needed stays empty.
        places = rng.permutation(np.repeat(used, limit))
        for unit_id, site in zip(units, places.tolist(), strict=False):
            sites[unit_id] = site
    return sites


def random_decision(rng: np.random.Generator, fabric: Fabric, netlist: Netlist) -> Decisions:
    """One decision: random sites, XY or YX routes and channels of their class at random."""
    sites = random_placement(rng, fabric, netlist)
    yx = [bool(rng.integers(2)) for _ in netlist.flows]
    half = fabric.link.channels // 2
    channels = [half * is_yx + int(rng.integers(half)) for is_yx in yx]
    return dimension_ordered(fabric, netlist, sites, yx, channels)


def dimension_ordered(
    fabric: Fabric, netlist: Netlist, sites: Sequence[int], yx: Sequence[bool], channels: Sequence[int]
) -> Decisions:
    """One decision with the route of every flow the union of its XY (or YX) paths."""
    trees = [
        _tree(fabric, sites[flow.source], [sites[target] for target in flow.targets], is_yx)
        for flow, is_yx in zip(netlist.flows, yx, strict=True)
    ]
    return Decisions(
        sites=np.array([sites], np.int32),
        channels=np.array([channels], np.int32),
        route_start=np.cumsum([0] + [len(tree) for tree in trees])[None, :],
        links=np.array([link for tree in trees for link in tree], np.int32),
        parents=np.array([parent for tree in trees for parent in tree.values()], np.int32),
    )


def _tree(fabric: Fabric, source: int, targets: list[int], is_yx: bool) -> dict[int, int]:
    """Link -> position of its parent link, in the order of the route's nodes."""
    topology = fabric.topology
    tree = {topology.inject_link(source): -1}
    for target in targets:
        path = _path(fabric, int(topology.site_switch[source]), target, is_yx)
        previous = topology.inject_link(source)
        for link in path:
            tree.setdefault(link, list(tree).index(previous))
            previous = link
    return tree


def _path(fabric: Fabric, switch: int, target: int, is_yx: bool) -> list[int]:
    """Mesh links from a switch to a site and the eject link, one dimension after the other."""
    topology = fabric.topology
    goal = int(topology.site_switch[target])
    right = goal % fabric.columns - switch % fabric.columns
    down = goal // fabric.columns - switch // fabric.columns
    horizontal = [Direction.EAST if right > 0 else Direction.WEST] * abs(right)
    vertical = [Direction.SOUTH if down > 0 else Direction.NORTH] * abs(down)
    links = []
    for heading in vertical + horizontal if is_yx else horizontal + vertical:
        links.append(int(topology.mesh_link[switch, heading]))
        switch = int(topology.link_target[links[-1]])
    return [*links, topology.eject_link(target)]


def _site_limits(fabric: Fabric) -> dict[SiteKind, int]:
    """Units that may share a site, by kind."""
    return {SiteKind.COMPUTE: 1, SiteKind.MEMORY: fabric.memory.max_buffers, SiteKind.PORT: fabric.dram.max_streams}


@dataclass
class _Draft:
    """A netlist that grows cluster by cluster."""

    rng: np.random.Generator
    fabric: Fabric
    units: list[Unit] = field(default_factory=list)
    flows: list[Flow] = field(default_factory=list)
    stage: int = -1  # of the last cluster

    def add_cluster(self) -> None:
        """A tree of compute units of the next stage, with sources and sinks around it."""
        self.stage += 1
        first_flow = len(self.flows)
        members: list[int] = []
        for _ in range(int(self.rng.integers(1, 5))):
            unit = self.add_unit("op", SiteKind.COMPUTE)
            if unit is not None:
                self.attach(unit, members, first_flow)
                self.add_leaf(unit)
                if self.is_connected(unit) or self.feed(unit):
                    members.append(unit)
                else:
                    self.units.pop()
        for _ in range(int(self.rng.integers(4)) if members else 0):
            self.add_leaf(int(self.rng.choice(members)))

    def attach(self, unit: int, members: list[int], first_flow: int) -> None:
        """Join a unit to the tree: behind a member, before it, or as one more target of a flow."""
        way = self.rng.integers(3)
        if way == 2 and first_flow < len(self.flows):
            self.add_target(int(self.rng.integers(first_flow, len(self.flows))), unit)
        elif members:
            member = int(self.rng.choice(members))
            self.add_flow(*((unit, member) if way == 0 else (member, unit)))

    def add_leaf(self, unit: int) -> None:
        """Join the unit to a source or a sink, or a source to a sink past it, if one is left."""
        way = self.rng.choice(["in", "out", "past"], p=[0.45, 0.45, 0.1])
        source = unit if way == "out" else self.pick_source()
        if source is None:
            return
        sink = unit if way == "in" else self.pick_sink(source)
        if sink is None:  # the source may be new and must not stay alone
            sink = unit
        if sink != unit:
            self.units[sink] = replace(self.units[sink], stage=self.stage)
        outputs = [i for i, flow in enumerate(self.flows) if flow.source == source]
        if way == "out" and outputs and self.rng.random() < 0.4:
            self.add_target(outputs[0], sink)
        elif sink != source:
            self.add_flow(source, sink)

    def is_connected(self, unit: int) -> bool:
        return any(unit in (flow.source, *flow.targets) for flow in self.flows)

    def feed(self, unit: int) -> bool:
        """Join a unit that is alone to any source; False if there is none and no room for one.

        A source that cannot be made means that none was made for this unit either, so the unit is
        the last one and may be taken back.
        """
        written = [i for i in self.units_of("buffer") if self.units[i].stage < self.stage]
        sources = [*written, *self.units_of("load"), *self.units_of("weights")]
        source = int(self.rng.choice(sources)) if sources else self.add_unit("load", SiteKind.PORT)
        if source is None:
            return False
        self.add_flow(source, unit)
        return True

    def pick_source(self) -> int | None:
        """A load, weights, or a buffer that only earlier stages write."""
        if self.rng.random() < 0.5:
            written = [i for i in self.units_of("buffer") if self.units[i].stage < self.stage]
            return int(self.rng.choice(written)) if written else None
        if self.rng.random() < 0.5:
            return self.reuse_or_add("load", SiteKind.PORT, self.units_of("load"))
        return self.reuse_or_add("weights", SiteKind.MEMORY, self.units_of("weights"))

    def pick_sink(self, source: int) -> int | None:
        """A store, or a buffer that is not read yet: its readers will be of later stages."""
        if self.rng.random() < 0.3:
            return self.reuse_or_add("store", SiteKind.PORT, self.units_of("store"))
        read = {flow.source for flow in self.flows} | {source}
        unread = [i for i in self.units_of("buffer") if i not in read]
        return self.reuse_or_add("buffer", SiteKind.MEMORY, unread)

    def reuse_or_add(self, op: str, kind: SiteKind, reusable: list[int]) -> int | None:
        if reusable and self.rng.random() < 0.4:
            return int(self.rng.choice(reusable))
        return self.add_unit(op, kind)

    def units_of(self, op: str) -> list[int]:
        return [i for i, unit in enumerate(self.units) if unit.op == op]

    def add_unit(self, op: str, kind: SiteKind) -> int | None:
        """A new unit, or None if the fabric or the netlist is full."""
        places = self.fabric.num_sites(kind) * _site_limits(self.fabric)[kind]
        same_kind = sum(unit.kind == kind for unit in self.units)
        if same_kind == places or len(self.units) == MAX_UNITS:
            return None
        self.units.append(Unit(f"{op}{len(self.units)}", kind, op, self.stage))
        return len(self.units) - 1

    def add_flow(self, source: int, target: int) -> None:
        tokens = int(self.rng.integers(1, MAX_TOKENS + 1))
        read_cycles = int(self.rng.choice([1, 1, 2, 3]))
        self.flows.append(Flow(f"flow{len(self.flows)}", source, (target,), tokens, read_cycles))

    def add_target(self, flow_id: int, unit: int) -> None:
        flow = self.flows[flow_id]
        if unit not in (flow.source, *flow.targets):
            self.flows[flow_id] = replace(flow, targets=(*flow.targets, unit))

    def add_shortcut(self) -> None:
        """A streaming flow that closes a ring with other flows: it may deadlock."""
        computes = self.units_of("op")
        pairs = [(f.source, t) for f in self.flows for t in f.targets]
        pairs = [(a, b) for a, b in pairs if a in computes and b in computes]
        stage = [unit.stage for unit in self.units]
        pairs += [(a, b) for a in computes for b in computes if stage[a] < stage[b]]
        if pairs:
            source, target = self.rng.choice(pairs).tolist()
            self.add_flow(source, target)

    def finished(self, unit_id: int) -> Unit:
        """The unit with the numbers that depend on its flows."""
        unit = self.units[unit_id]
        inputs = [flow for flow in self.flows if unit_id in flow.targets]
        if unit.kind == SiteKind.COMPUTE:
            # Fed by memories only: with two streams of one unit, a barrier may wait for ever.
            sources = [self.units[flow.source].kind for flow in inputs]
            may_wait = SiteKind.COMPUTE not in sources
            most_tokens = max((flow.tokens for flow in inputs), default=1)
            return _with_work(self.rng, unit, most_tokens, may_wait)
        if unit.kind == SiteKind.PORT:
            return unit
        writers = [self.units[flow.source].stage for flow in inputs]
        outputs = [flow for flow in self.flows if flow.source == unit_id]
        readers = [self.units[target].stage for flow in outputs for target in flow.targets]
        distance = max(readers) - min(writers) if readers and writers else 0
        slots = int(self.rng.integers(1, distance + 3))
        num_tokens = sum(flow.tokens for flow in inputs)
        return replace(unit, slots=slots, bytes=slots * num_tokens * self.fabric.vector_bytes)


def _with_work(rng: np.random.Generator, unit: Unit, least_firings: int, may_wait: bool) -> Unit:
    firings = least_firings + (int(rng.integers(10)) if rng.random() < 0.3 else 0)
    extra_cycles = (0, int(rng.integers(firings + 1)), 2 * firings)[rng.integers(3)]
    releases = firings if rng.random() < 0.6 else int(rng.integers(1, firings + 1))
    return replace(
        unit,
        firings=firings,
        cycles=firings + extra_cycles,
        releases=releases,
        depth_cycles=int(rng.integers(1, 9)),
        waits_for_operands=may_wait and bool(rng.random() < 0.5),
    )
