"""Where to cut a graph into segments, and the graph of one segment with its tile of the data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from itertools import takewhile

from placer.fabric import Fabric, SiteKind
from placer.graph import SOURCE_KINDS, DataflowGraph, Op, OpAttributes, OpKind, Shape
from placer.netlist.lowering.groups import Group, form_groups, stored
from placer.netlist.lowering.regions import VIEW_KINDS

MIN_SAMPLE_CYCLES = 600  # samples are tiles at least this long: shorter ones are all overhead
MAX_SAMPLE_CYCLES = 8000  # samples of this length and more are slow to simulate
MIN_TILE_ROWS = 8  # fewer rows than this reload the weights too often
WEIGHT_SHARE = 0.7  # of the on-chip memory that weights may take


class TileAxis(Enum):
    """What a section's samples are tiles of."""

    NONE = "none"  # a sample is the whole input
    ROWS = "rows"
    HEADS = "heads"


@dataclass(frozen=True, slots=True)
class Tiling:
    """Samples of a section."""

    axis: TileAxis
    samples: int  # per input of the graph


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive groups that form a section."""

    groups: tuple[Group, ...]
    tiling: Tiling
    signature: tuple[object, ...]  # equal for segments that are alike but for names

    @property
    def first_op(self) -> str:
        return self.groups[0].main.name

    @property
    def last_op(self) -> str:
        return self.groups[-1].output


def find_segments(fabric: Fabric, graph: DataflowGraph, fill: float, refused: set[tuple[object, ...]]) -> list[Segment]:
    """Cut into segments by dynamic programming over the cost of each; none is in `refused`.

    The cost of a segment is the larger of its compute and DRAM time, plus the switch to it.
    """
    groups = form_groups(graph)
    most = max(1, int(fill * fabric.num_sites(SiteKind.COMPUTE)) // 2)
    costs = [0.0]  # of the best cut of the first 0, 1, 2, ... groups
    last: list[Segment] = []  # the segment at the end of the best cut of the first 1, 2, ... groups
    for end in range(1, len(groups) + 1):
        choices = []
        for start in range(end - 1, max(-1, end - most - 1), -1):
            part = tuple(groups[start:end])
            if _is_too_long(fabric, graph, part, fill):
                break
            tiling = _choose_tiling(fabric, graph, part, fill)
            if tiling is None:
                continue
            segment = Segment(part, tiling, (tiling, *_signature(graph, part)))
            if segment.signature not in refused or len(part) == 1:
                choices.append((costs[start] + _cost(fabric, graph, segment, fill), segment))
        cost, chosen = min(choices, key=lambda choice: choice[0])
        costs.append(cost)
        last.append(chosen)
    segments: list[Segment] = []
    end = len(groups)
    while end > 0:
        segments.append(last[end - 1])
        end -= len(segments[-1].groups)
    return segments[::-1]


def _is_too_long(fabric: Fabric, graph: DataflowGraph, groups: tuple[Group, ...], fill: float) -> bool:
    """Say whether no segment that contains these groups can be a section."""
    if len(groups) == 1:
        return False
    weights = sum(
        graph.inner_length(group.main) * graph.tensors[group.output].columns
        for group in groups
        if group.main.kind == OpKind.LINEAR
    )
    room = fabric.num_sites(SiteKind.MEMORY) * fabric.memory.capacity_bytes
    shape = graph.tensors[groups[-1].output].shape
    rows = _num_rows(graph, groups[-1])
    most_samples = max(rows // MIN_TILE_ROWS, shape[0] if len(shape) == 3 else 1)
    cycles = _work_cycles(fabric, graph, groups, fill) / most_samples
    return weights * fabric.element_bytes > WEIGHT_SHARE * room or cycles > MAX_SAMPLE_CYCLES


def _work_cycles(fabric: Fabric, graph: DataflowGraph, groups: tuple[Group, ...], fill: float) -> float:
    """Return the cycles that all compute units together need for the groups, whole input."""
    macs = sum(graph.macs(group.main) for group in groups)
    vectors = sum(graph.tensors[group.output].elements for group in groups)
    busy = macs / fabric.compute.macs_per_cycle + vectors / fabric.elements_per_vector
    return busy / (fill * fabric.num_sites(SiteKind.COMPUTE))


def _choose_tiling(fabric: Fabric, graph: DataflowGraph, groups: tuple[Group, ...], fill: float) -> Tiling | None:
    """Choose the smallest samples that are not too short; None if even they are too long.

    A single group always gets a tiling.
    """
    cycles = _work_cycles(fabric, graph, groups, fill)
    axis = _tile_axis(graph, groups)
    if axis == TileAxis.NONE:
        return Tiling(axis, 1) if cycles <= MAX_SAMPLE_CYCLES or len(groups) == 1 else None
    if axis == TileAxis.ROWS:
        extent = _num_rows(graph, groups[0])
        is_short = cycles * 2 * MIN_TILE_ROWS <= MAX_SAMPLE_CYCLES * extent
        smallest = MIN_TILE_ROWS * (2 if is_short else 1)
    else:
        extent, smallest = graph.tensors[groups[0].output].heads, 1
    tiles = [tile for tile in range(1, extent + 1) if extent % tile == 0 and tile >= smallest]
    long_enough = (tile for tile in tiles if cycles * tile / extent >= MIN_SAMPLE_CYCLES)
    tile = next(long_enough, extent)
    is_short = cycles * tile / extent <= MAX_SAMPLE_CYCLES or len(groups) == 1
    return Tiling(axis, extent // tile) if is_short else None


def _num_rows(graph: DataflowGraph, group: Group) -> int:
    """Return the rows that pass a group; a weight gradient sums over those of its inputs."""
    is_sum = group.main.kind == OpKind.WEIGHT_GRAD
    return graph.tensors[group.main.inputs[0] if is_sum else group.output].rows


def _tile_axis(graph: DataflowGraph, groups: tuple[Group, ...]) -> TileAxis:
    num_rows = {_num_rows(graph, group) for group in groups}
    if len(num_rows) == 1 and all(_rows_are_independent(graph, group) for group in groups):
        return TileAxis.ROWS
    num_heads = {graph.tensors[group.output].heads for group in groups}
    if len(num_heads) == 1 and all(_heads_are_independent(graph, group) for group in groups):
        return TileAxis.HEADS
    return TileAxis.NONE


def _views_below(graph: DataflowGraph, tensor: str) -> Iterator[Op]:
    op = graph.op(tensor)
    if op.kind in VIEW_KINDS:
        yield op
        for source in op.inputs:
            yield from _views_below(graph, source)


def _rows_are_independent(graph: DataflowGraph, group: Group) -> bool:
    """Say whether a tile of rows of the inputs gives, or adds to, its rows of the output."""
    if group.main.kind == OpKind.MATMUL or group.main.attributes.causal:
        return False  # every row needs all rows, or its own number
    views = [view for name in group.main.inputs for view in _views_below(graph, name)]
    return all(view.kind != OpKind.TRANSPOSE for view in views)


def _heads_are_independent(graph: DataflowGraph, group: Group) -> bool:
    """Say whether each head of the output needs only this head of the inputs."""
    if len(graph.tensors[group.output].shape) != 3 or group.main.kind == OpKind.WEIGHT_GRAD:
        return False
    return all(_has_heads_in_columns(graph, name) for name in group.main.inputs)


def _has_heads_in_columns(graph: DataflowGraph, tensor: str) -> bool:
    """Say whether heads of a tensor are those of a stored stack, or columns of a stored matrix.

    A transpose below the split into heads would make them rows.
    """
    kinds = [view.kind for view in _views_below(graph, tensor)]
    above = list(takewhile(lambda kind: kind == OpKind.TRANSPOSE, kinds))
    return kinds[len(above) :] in ([], [OpKind.SPLIT_HEADS])


def _cost(fabric: Fabric, graph: DataflowGraph, segment: Segment, fill: float) -> float:
    loads, stores = crossing(graph, segment.groups)
    vectors = sum(graph.tensors[n].elements for n in loads | stores) / fabric.elements_per_vector
    compute = _work_cycles(fabric, graph, segment.groups, fill)
    return max(compute, vectors / fabric.dram_vectors_per_cycle) + fabric.switch_cycles


def crossing(graph: DataflowGraph, groups: tuple[Group, ...]) -> tuple[set[str], set[str]]:
    """Return the stored tensors that some groups must load, and those they must store."""
    made = {group.output for group in groups}
    inside = {op.name for group in groups for op in group.ops}
    loads = {name for group in groups for tensor in group.main.inputs for name in stored(graph, tensor)} - made
    readers = _stored_readers(graph)
    stores = {name for name in made if not readers.get(name, frozenset()) <= inside}
    return loads, stores


@cache
def _stored_readers(graph: DataflowGraph) -> dict[str, frozenset[str]]:
    """Return the ops that read each stored tensor, directly or through views."""
    readers: dict[str, set[str]] = {}
    for op in graph.ops:
        if op.kind not in VIEW_KINDS:
            for tensor in op.inputs:
                for name in stored(graph, tensor):
                    readers.setdefault(name, set()).add(op.name)
    return {name: frozenset(ops) for name, ops in readers.items()}


def _signature(graph: DataflowGraph, groups: tuple[Group, ...]) -> tuple[object, ...]:
    """Return kinds, shapes and wiring of some groups, without names."""
    loads, stores = crossing(graph, groups)
    order = sorted(loads, key=graph.position) + [group.output for group in groups]
    number = {name: position for position, name in enumerate(order)}
    parts: list[object] = [graph.tensors[name].shape for name in order[: len(loads)]]
    for group in groups:
        wiring = tuple(
            (number[name], tuple((v.kind, v.attributes) for v in _views_below(graph, tensor)))
            for tensor in group.main.inputs
            for name in sorted(stored(graph, tensor), key=graph.position)
        )
        kinds = tuple((op.kind, replace(op.attributes, weight="")) for op in group.ops)
        parts.append((kinds, graph.tensors[group.output].shape, wiring, group.output in stores))
    return tuple(parts)


def section_graph(graph: DataflowGraph, segment: Segment, name: str) -> DataflowGraph:
    """Make the graph of one segment: loads and stores at its cuts, sizes of one sample."""
    loads, stores = crossing(graph, segment.groups)
    ops: dict[str, Op] = {}
    for tensor in sorted(loads, key=graph.position):
        source = graph.op(tensor)
        shape = _tiled_shape(graph.tensors[tensor].shape, segment.tiling)
        kind = source.kind if source.kind in SOURCE_KINDS else OpKind.LOAD
        kept = source.attributes if kind == OpKind.EMBEDDING else OpAttributes()
        ops[tensor] = Op(tensor, kind, (), replace(kept, shape=shape))
    for group in segment.groups:
        for tensor in group.main.inputs:
            for view in _views_below(graph, tensor):
                ops.setdefault(view.name, _tiled_view(view, segment.tiling))
        ops.update({op.name: op for op in group.ops})
    for tensor in sorted(stores, key=graph.position):
        ops[f"{tensor}.out"] = Op(f"{tensor}.out", OpKind.STORE, (tensor,))
    return DataflowGraph(name, graph.family, tuple(ops.values()))


def _tiled_shape(shape: Shape, tiling: Tiling) -> Shape:
    if tiling.axis == TileAxis.NONE:
        return shape
    if tiling.axis == TileAxis.ROWS:
        return (*shape[:-2], shape[-2] // tiling.samples, shape[-1])
    if len(shape) == 3:
        return (shape[0] // tiling.samples, *shape[1:])
    return (shape[0], shape[1] // tiling.samples)  # heads side by side in a matrix


def _tiled_view(view: Op, tiling: Tiling) -> Op:
    if tiling.axis == TileAxis.HEADS and view.kind == OpKind.SPLIT_HEADS:
        heads = view.attributes.heads // tiling.samples
        return replace(view, attributes=replace(view.attributes, heads=heads))
    return view
