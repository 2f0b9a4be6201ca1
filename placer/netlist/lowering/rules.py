"""How a section is laid out when nobody says otherwise: a good plan by rules.

Units go to the groups so that the slowest part is as fast as can be (`balance`). Each stored tensor
is then cut into the fewest parts whose ports and flows leave room at that pace, and so are weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from placer.base import DoesNotFitError, InputError
from placer.fabric import Fabric, SiteKind, nearest_hops, round_trip_cycles, window_vectors
from placer.graph import SOURCE_KINDS, DataflowGraph, OpKind
from placer.netlist.lowering.buffers import choose_parts, tensor_traffic
from placer.netlist.lowering.draft import Draft, StoredTensor, make_draft
from placer.netlist.lowering.groups import form_groups
from placer.netlist.lowering.regions import vectors, whole
from placer.netlist.lowering.work import USUAL, GroupSize, Options, Rates, Style, balance, options_of, rates_of, size_of
from placer.netlist.plan import BufferPlan, GroupPlan, SectionPlan, Tiling, WeightsPlan

DEFAULT_FILL = 1.0  # share of the compute units that the rules may use
MOST_RATE = 1.0  # vectors per cycle that any flow can have
MIN_FILL = 0.5  # share of the compute units below which flows may need the most
WRITE_WAY = 1 / 8  # of columns and rows together, taken for the way from a compute unit to a buffer,
LOAD_WAY = 1 / 4  # and from a DRAM port; from a buffer to compute units the shortest there is
DRAM_SHARE = 0.7  # of the rate of DRAM, and of a link for each port, that a section may ask for
EXTRA_PARTS = 40  # more parts than the capacity asks for that are tried
SLOT_ROOM = 0.6  # of the on-chip memory that may be used before more slots are given
TIGHT_SHARE = 0.85  # of the on-chip memory beyond which buffers are cut no finer than their size asks for
OWN_SHARE = 0.7  # of the memory units without large weights that all other buffers may fill
MIN_SHARED = 16  # a memory unit is shared with large weights if they leave this part of it, one in ...
MAX_SHARED_WEIGHTS = 0.5  # of a memory unit that weights which share it may take together


@dataclass(frozen=True, slots=True)
class Reach:
    """How fast a flow may be, by the number of its targets."""

    to_compute: list[float]  # vectors per cycle to n = 1, 2, ... compute units
    written: float  # by a compute unit, vectors per cycle into a buffer
    loaded: float  # from DRAM
    most: float  # vectors per cycle of any flow

    def share(self, targets: int) -> float:
        """Return the vectors per cycle that a flow out of a buffer may need."""
        return min(self.most, self.to_compute[min(targets, len(self.to_compute)) - 1]) if targets else self.most


def reach_of(fabric: Fabric, style: Style) -> Reach:
    """Return what a flow may need of the rates that windows allow at the shortest distances."""
    hops = nearest_hops(fabric, SiteKind.MEMORY, SiteKind.COMPUTE)
    window = window_vectors(fabric, SiteKind.COMPUTE)
    rates = (style.reach_share * window / round_trip_cycles(fabric, hops.astype(float))).tolist()
    size, window = fabric.columns + fabric.rows, window_vectors(fabric, SiteKind.MEMORY)
    ways = [window / round_trip_cycles(fabric, way * size) for way in (WRITE_WAY, LOAD_WAY)]
    written, loaded = (min(style.flow_share, style.reach_share * rate) for rate in ways)
    return Reach(rates, written, loaded, style.flow_share)


@lru_cache(maxsize=4096)
def group_options(rates: Rates, size: GroupSize, most: int, style: Style) -> Options:
    """Return the cuts worth having of a group of this size; alike groups are worked out once."""
    return options_of(rates, size, most, style)


def balance_groups(
    fabric: Fabric, sizes: list[GroupSize], budget: int, dram_vectors: float, style: Style = USUAL
) -> tuple[float, list[GroupPlan]]:
    """Return the pace and the cuts of some groups that share `budget` compute units.

    `dram_vectors` pass DRAM per sample: no faster pace than that allows is asked for. Flows may need
    the rate of the style; the most that there is if most units would be left.
    """
    if len(sizes) > budget:
        raise DoesNotFitError("compute units", len(sizes), budget, "cut the graph into sections or use a larger fabric")
    ports = fabric.num_sites(SiteKind.PORT) * fabric.link.vectors_per_cycle
    least = dram_vectors / (DRAM_SHARE * min(fabric.dram_vectors_per_cycle, ports))
    figures = rates_of(fabric)
    for flow_rate in (style.flow_rate, MOST_RATE):  # the last one is taken in any case
        taken = style._replace(flow_rate=flow_rate)
        options = [group_options(figures, size, budget, taken) for size in sizes]
        found = balance(options, budget, least, style.vector_slack)
        used = sum(plan.units for plan in found[1])
        if found[0] == least or used >= MIN_FILL * fabric.num_sites(SiteKind.COMPUTE):
            return found
    return found


def compute_budget(fabric: Fabric, fill: float) -> int:
    """Return the compute units that the rules may use."""
    return max(1, int(fill * fabric.num_sites(SiteKind.COMPUTE)))


def plan_section(
    fabric: Fabric, graph: DataflowGraph, fill: float = DEFAULT_FILL, tiling: Tiling | None = None, style: Style = USUAL
) -> SectionPlan:
    """Lay out the graph of one sample. Raises DoesNotFitError when it does not fit."""
    if not 0 < fill <= 1:
        raise InputError(f"fill={fill} is out of range; allowed: above 0 up to 1")
    sizes = [size_of(fabric, graph, group) for group in form_groups(graph)]
    _, groups = balance_groups(fabric, sizes, compute_budget(fabric, fill), _dram_vectors(fabric, graph), style)
    draft = make_draft(fabric, graph, groups)
    weights = [_plan_weights(fabric, draft, number, style) for number in range(len(draft.weights))]
    buffers = _plan_buffers(fabric, draft, weights, style)
    return SectionPlan(tiling or Tiling(), tuple(groups), tuple(buffers), tuple(weights))


def _dram_vectors(fabric: Fabric, graph: DataflowGraph) -> float:
    """Return the vectors that a sample loads and stores."""
    moved = [op.name for op in graph.ops if op.kind in SOURCE_KINDS or op.kind == OpKind.STORE]
    return sum(graph.tensors[name].elements for name in moved) / fabric.elements_per_vector


def _plan_weights(fabric: Fabric, draft: Draft, number: int, style: Style) -> WeightsPlan:
    """Cut spans that are too large or too busy for one memory; let small ones share one."""
    capacity = fabric.memory.capacity_bytes
    _, spans = draft.weights[number]
    size = max(span.matrices * span.columns * span.vectors for span in spans) * fabric.vector_bytes
    tokens = max(span.tokens for span in spans)
    longest = max(span.vectors for span in spans)
    slice_bytes = max(span.matrices * span.columns for span in spans) * fabric.vector_bytes
    port = int(style.port_share * draft.pace)
    pieces = max(-(-longest // max(1, capacity // slice_bytes)), -(-tokens // max(1, port)))
    pieces = min(pieces, min(span.vectors for span in spans))
    if pieces > 1:
        return WeightsPlan(pieces=pieces)
    by_size = int(MAX_SHARED_WEIGHTS * capacity) // size
    return WeightsPlan(shared=max(1, min(by_size, port // tokens, len(spans))))


def _plan_buffers(fabric: Fabric, draft: Draft, weights: list[WeightsPlan], style: Style) -> list[BufferPlan]:
    """Plan the buffers of all tensors; each leaves at least one to every tensor after it."""
    reach = reach_of(fabric, style)
    room = fabric.max_units(SiteKind.MEMORY) * fabric.num_sites(SiteKind.MEMORY)
    for plan, (_, spans) in zip(weights, draft.weights, strict=True):
        room -= -(-len(spans) * plan.pieces // plan.shared)
    slots, streams = _slots(fabric, draft, style.extra_slots), _stream_limits(fabric, draft)
    is_tight = _held_bytes(fabric, draft, slots) > TIGHT_SHARE * _memory_bytes(fabric)
    largest = _part_bytes(fabric, draft, weights, slots)
    plans = []
    for number, tensor in enumerate(draft.tensors):
        left = min(room - (len(draft.tensors) - number - 1), streams.get(tensor.name, room))
        left = 1 if is_tight else left
        port = style.port_share * draft.pace
        plans.append(_plan_buffer(fabric, draft, tensor, slots[number], reach, port, left, largest))
        room -= plans[-1].parts
    return plans


def _part_bytes(fabric: Fabric, draft: Draft, weights: list[WeightsPlan], slots: list[int]) -> int:
    """Return the most bytes of a part: all of a memory unit, or what large weights leave of theirs."""
    capacity, left = fabric.memory.capacity_bytes, fabric.num_sites(SiteKind.MEMORY)
    shared = capacity
    for plan, (_, spans) in zip(weights, draft.weights, strict=True):
        size = max(span.matrices * span.columns * -(-span.vectors // plan.pieces) for span in spans)
        size *= fabric.vector_bytes * plan.shared
        if size > capacity // 2:  # one of them takes a memory unit for itself
            left -= -(-len(spans) * plan.pieces // plan.shared)
            shared = min(shared, capacity - size)
    held = sum(number * _slot_bytes(fabric, draft, tensor) for tensor, number in zip(draft.tensors, slots, strict=True))
    if held <= OWN_SHARE * left * capacity or shared * MIN_SHARED < capacity:
        return capacity
    return shared


def _held_bytes(fabric: Fabric, draft: Draft, slots: list[int]) -> int:
    """Return the bytes of all buffers and weights."""
    vectors_held = sum(span.matrices * span.columns * span.vectors for _, spans in draft.weights for span in spans)
    held = sum(number * _slot_bytes(fabric, draft, tensor) for tensor, number in zip(draft.tensors, slots, strict=True))
    return vectors_held * fabric.vector_bytes + held


def _memory_bytes(fabric: Fabric) -> int:
    return fabric.num_sites(SiteKind.MEMORY) * fabric.memory.capacity_bytes


def _slot_bytes(fabric: Fabric, draft: Draft, tensor: StoredTensor) -> int:
    return vectors(whole(draft.graph.tensors[tensor.name]), fabric.elements_per_vector) * fabric.vector_bytes


def _stream_limits(fabric: Fabric, draft: Draft) -> dict[str, int]:
    """Return the most parts of each tensor that is loaded or stored: each part takes a DRAM stream."""
    streams = fabric.max_units(SiteKind.PORT) * fabric.num_sites(SiteKind.PORT)
    strided = fabric.memory.strided_read_cycles
    loads: dict[str, int] = {}  # cycles of the ports, written and read
    passing: dict[str, int] = {}  # streams for each part
    for tensor in draft.tensors:
        streams_of_part = (not tensor.producers) + sum(not need.targets for need in tensor.needs)
        if streams_of_part:
            reads = sum(need.tokens * (strided if need.read.strided else 1) for need in tensor.needs)
            loads[tensor.name] = reads + _slot_bytes(fabric, draft, tensor) // fabric.vector_bytes
            passing[tensor.name] = streams_of_part
    spare, total = streams - sum(passing.values()), max(1, sum(loads.values()))
    return {name: 1 + max(0, spare * load // (total * passing[name])) for name, load in loads.items()}


def _slots(fabric: Fabric, draft: Draft, extra: int) -> list[int]:
    """Return the slots of each tensor: `extra` more than the stages ask for where memory is left."""
    sizes = [_slot_bytes(fabric, draft, tensor) for tensor in draft.tensors]
    slots = [tensor.least_slots for tensor in draft.tensors]
    held, limit = _held_bytes(fabric, draft, slots), SLOT_ROOM * _memory_bytes(fabric)
    for number, tensor in enumerate(draft.tensors):
        if tensor.needs and held + extra * sizes[number] <= limit:
            slots[number] += extra
            held += extra * sizes[number]
    return slots


def _plan_buffer(
    fabric: Fabric, draft: Draft, tensor: StoredTensor, slots: int, reach: Reach, port: float, most: int, largest: int
) -> BufferPlan:
    """Cut a tensor into the fewest parts that keep up, of at most `largest` bytes each.

    A port may be needed for `port` cycles of a sample. More than `most` parts only if its size asks for them.
    """
    limits = [draft.pace * reach.share(len(need.targets)) for need in tensor.needs]
    traffic = tensor_traffic(fabric, draft, tensor, limits)
    slot_vectors = largest // (slots * fabric.vector_bytes)
    size = _slot_bytes(fabric, draft, tensor) // fabric.vector_bytes
    fewest = -(-size // max(1, slot_vectors))
    cut = choose_parts(
        traffic, fewest, max(fewest, min(most, fewest + EXTRA_PARTS)), slot_vectors,
        port, (reach.written if tensor.producers else reach.loaded) * draft.pace,
    )  # fmt: skip
    if not np.any(cut):
        raise DoesNotFitError(
            f"bytes in one memory unit for {slots} slots of tensor {tensor.name!r}",
            slots * fabric.vector_bytes * -(-size // max(1, fewest + EXTRA_PARTS)),
            fabric.memory.capacity_bytes,
            "use smaller samples (fewer rows) or a fabric with larger memory units",
        )
    heads, rows, columns = map(int, cut)
    return BufferPlan(heads, rows, columns, slots=slots)


def macs_for_cycles(fabric: Fabric, cycles: int, fill: float = DEFAULT_FILL) -> int:
    """Return the multiply-accumulates of the fabric, filled as the rules do, in `cycles`."""
    return int(fill * fabric.num_sites(SiteKind.COMPUTE) * fabric.compute.macs_per_cycle * cycles)
