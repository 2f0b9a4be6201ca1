"""What the samples of a section may be tiles of, and the graph of one sample.

A section of row-wise ops takes a tile of rows at a time, or of rows of pixels where the images that
it loads are read through windows; a section of attention takes some heads. Otherwise a sample is
the whole input.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from math import gcd

from placer.base import InputError
from placer.graph import (
    SOURCE_KINDS,
    VIEW_KINDS,
    WINDOW_KINDS,
    DataflowGraph,
    Op,
    OpAttributes,
    OpKind,
    Shape,
    Window,
    window_of,
)
from placer.netlist.lowering.groups import Group, stored
from placer.netlist.lowering.work import GroupSize
from placer.netlist.plan import TileAxis, Tiling

_MIXING_VIEWS = frozenset(  # a tile of their rows is no tile of the rows below
    {OpKind.TRANSPOSE, OpKind.CONCAT_ROWS, OpKind.SLICE_ROWS, OpKind.ROWS_TO_HEADS, OpKind.HEADS_TO_ROWS}
)
_MIXING_KINDS = frozenset({OpKind.MATMUL, OpKind.DISPATCH, OpKind.COMBINE})  # every row needs all rows


class TileOf(Enum):
    """What of a loaded tensor belongs to one sample."""

    EVERYTHING = 0
    ROWS = 1
    COLUMNS = 2  # heads side by side
    HEADS = 3
    BAND = 4  # rows of pixels that the windows of a sample touch


@dataclass(frozen=True, slots=True)
class Tiles:
    """How a part of a graph can be tiled."""

    axis: TileAxis
    extent: int  # rows, rows of pixels or heads in all
    step: int  # rows per unit of the extent: the width of an image, else 1
    loads: dict[str, TileOf]  # by name of the loaded tensor
    window: Window | None = None  # of the images, if they are read through windows

    def tiling(self, size: int) -> Tiling:
        """Return samples of `size` rows (of pixels) or heads."""
        if self.axis == TileAxis.NONE:
            return Tiling()
        return Tiling(self.axis, size * self.step, -(-self.extent // size))


def views_below(graph: DataflowGraph, tensor: str) -> Iterator[Op]:
    """Yield the views between a tensor and the stored ones behind it, from the top."""
    op = graph.op(tensor)
    if op.kind in VIEW_KINDS:
        yield op
        for source in op.inputs:
            yield from views_below(graph, source)


def num_rows(graph: DataflowGraph, group: Group) -> int:
    """Return the rows that pass a group; a weight gradient sums over those of its inputs."""
    is_sum = group.main.kind == OpKind.WEIGHT_GRAD
    return graph.tensors[group.main.inputs[0] if is_sum else group.output].rows


def find_tiles(graph: DataflowGraph, groups: tuple[Group, ...]) -> Tiles:
    """Return how consecutive groups can be tiled: along rows if they can, else along heads, else not."""
    made = {group.output for group in groups}
    return _row_tiles(graph, groups, made) or _head_tiles(graph, groups, made) or _no_tiles(graph, groups, made)


def _no_tiles(graph: DataflowGraph, groups: tuple[Group, ...], made: set[str]) -> Tiles:
    names = {name for group in groups for tensor in group.main.inputs for name in stored(graph, tensor)} - made
    return Tiles(TileAxis.NONE, 1, 1, dict.fromkeys(names, TileOf.EVERYTHING))


def _row_tiles(graph: DataflowGraph, groups: tuple[Group, ...], made: set[str]) -> Tiles | None:
    rows = {num_rows(graph, group) for group in groups}
    if len(rows) != 1:
        return None
    loads: dict[str, TileOf] = {}
    windows: set[Window] = set()
    for group in groups:
        if group.main.kind in _MIXING_KINDS or group.main.attributes.causal:
            return None
        for tensor in group.main.inputs:
            views = list(views_below(graph, tensor))
            if any(view.kind in _MIXING_VIEWS for view in views):
                return None
            looks = [view for view in views if view.kind == OpKind.PATCHES]
            looks += [group.main] if group.main.kind in WINDOW_KINDS else []
            of = TileOf.BAND if looks else TileOf.ROWS
            if looks and (len(views) != (looks[0].kind == OpKind.PATCHES) or len(looks) > 1):
                return None
            if any(_counts_border(look) for look in looks):
                return None
            windows.update(window_of(look) for look in looks)
            for name in stored(graph, tensor):
                if (name in made and looks) or loads.setdefault(name, of) != of:
                    return None
    for name in made:
        loads.pop(name, None)
    return _with_windows(rows.pop(), loads, windows)


def _counts_border(op: Op) -> bool:
    """Say whether a window must know where the image ends: a mean of the pixels in the image only."""
    at = op.attributes
    return op.kind == OpKind.AVERAGE_POOL and not at.count_padding and bool(at.padding[0] or at.padding[2])


def _with_windows(rows: int, loads: dict[str, TileOf], windows: set[Window]) -> Tiles | None:
    """Return tiles of rows; of whole rows of pixels if there are windows, which must be alike."""
    if not windows:
        return Tiles(TileAxis.ROWS, rows, 1, loads)
    shapes = {(window.output, window.image, window.stride[0]) for window in windows}
    if len(shapes) > 1 or len({(w.kernel[0], w.padding[0], w.dilation[0]) for w in windows}) > 1:
        return None
    window = next(iter(windows))
    height, width = window.output
    return Tiles(TileAxis.ROWS, height, width, loads, window) if height * width == rows else None


def _head_tiles(graph: DataflowGraph, groups: tuple[Group, ...], made: set[str]) -> Tiles | None:
    loads: dict[str, TileOf] = {}
    extent = 0
    for group in groups:
        output, main = graph.tensors[group.output], group.main
        if len(output.shape) != 3 or main.kind == OpKind.WEIGHT_GRAD or main.attributes.stacked:
            return None
        extent = gcd(extent, output.heads)
        for tensor in main.inputs:
            for name, of, heads in _head_sources(graph, tensor):
                if of is None or (name in made and of is not TileOf.HEADS) or loads.setdefault(name, of) != of:
                    return None
                extent = gcd(extent, heads)
    return Tiles(TileAxis.HEADS, extent, 1, {name: of for name, of in loads.items() if name not in made})


def _head_sources(graph: DataflowGraph, tensor: str) -> Iterator[tuple[str, TileOf | None, int]]:
    """Yield the stored tensors behind a tensor, what of each belongs to a head, and how many there are.

    None: something else than heads. A transpose below the split into heads would make them rows.
    """
    op = graph.op(tensor)
    heads = graph.tensors[tensor].heads
    match op.kind:
        case OpKind.TRANSPOSE | OpKind.REPEAT_HEADS | OpKind.CONCAT_ROWS | OpKind.SLICE_ROWS | OpKind.SLICE:
            for source in op.inputs:
                yield from _head_sources(graph, source)
        case OpKind.CONCAT if len(graph.tensors[tensor].shape) == 3:
            for source in op.inputs:
                yield from _head_sources(graph, source)
        case OpKind.SPLIT_HEADS | OpKind.ROWS_TO_HEADS:
            of = TileOf.COLUMNS if op.kind == OpKind.SPLIT_HEADS else TileOf.ROWS
            count = heads if of is TileOf.COLUMNS else graph.tensors[op.inputs[0]].rows
            is_direct = graph.op(op.inputs[0]).kind not in VIEW_KINDS
            yield op.inputs[0], of if is_direct else None, count
        case kind if kind in VIEW_KINDS:
            yield op.inputs[0], None, heads
        case _ if len(graph.tensors[tensor].shape) == 3:
            yield tensor, TileOf.HEADS, heads
        case _:
            yield tensor, TileOf.EVERYTHING, 0  # one matrix for all heads


def tiled_size(size: GroupSize, group: Group, tiles: Tiles, tiling: Tiling) -> GroupSize:
    """Return the sizes of a group in one sample."""
    if tiling.axis == TileAxis.NONE:
        return size
    if tiling.axis == TileAxis.HEADS:
        return size._replace(heads=size.heads // tiling.samples)
    if group.main.kind == OpKind.WEIGHT_GRAD:
        return size._replace(inner=size.inner // (tiles.extent * tiles.step) * tiling.size)
    return size._replace(rows=tiling.size)


def crossing(
    graph: DataflowGraph, groups: tuple[Group, ...], readers: dict[str, frozenset[str]]
) -> tuple[list[str], list[str]]:
    """Return the stored tensors that some groups must load, and those they must store, in order."""
    made = {group.output for group in groups}
    inside = {op.name for group in groups for op in group.ops}
    loads = {name for group in groups for tensor in group.main.inputs for name in stored(graph, tensor)} - made
    stores = {name for name in made if not readers.get(name, frozenset()) <= inside}
    return sorted(loads, key=graph.position), sorted(stores, key=graph.position)


def stored_readers(graph: DataflowGraph) -> dict[str, frozenset[str]]:
    """Return the ops that read each stored tensor, directly or through views."""
    readers: dict[str, set[str]] = {}
    for op in graph.ops:
        if op.kind not in VIEW_KINDS:
            for tensor in op.inputs:
                for name in stored(graph, tensor):
                    readers.setdefault(name, set()).add(op.name)
    return {name: frozenset(ops) for name, ops in readers.items()}


def section_graph(
    graph: DataflowGraph, groups: tuple[Group, ...], tiling: Tiling, readers: dict[str, frozenset[str]], name: str
) -> DataflowGraph:
    """Make the graph of one sample: loads and stores at its cuts, sizes of one tile."""
    tiles = find_tiles(graph, groups) if tiling.axis != TileAxis.NONE else _no_tiles(graph, groups, _made(groups))
    _require_tiles(tiles, tiling, groups)
    loads, stores = crossing(graph, groups, readers)
    ops: dict[str, Op] = {}
    for tensor in loads:
        source = graph.op(tensor)
        shape = load_shape(graph.tensors[tensor].shape, tiles, tiling, tensor)
        is_kept = source.kind in SOURCE_KINDS and (source.kind != OpKind.CONSTANT or shape == source.attributes.shape)
        kind = source.kind if is_kept else OpKind.LOAD
        kept = OpAttributes() if kind == OpKind.LOAD else source.attributes
        ops[tensor] = Op(tensor, kind, (), replace(kept, shape=shape))
    for group in groups:
        for tensor in group.main.inputs:
            for view in views_below(graph, tensor):
                if view.name not in ops:
                    ops[view.name] = _tiled(graph, view, tiles, tiling)
        ops.update({op.name: _tiled(graph, op, tiles, tiling) for op in group.ops})
    for tensor in stores:
        ops[f"{tensor}.out"] = Op(f"{tensor}.out", OpKind.STORE, (tensor,))
    return DataflowGraph(name, graph.family, tuple(ops.values()))


def _require_tiles(tiles: Tiles, tiling: Tiling, groups: tuple[Group, ...]) -> None:
    """Raise InputError for samples that are no tiles of some groups, or leave a part of them out."""
    extent = tiles.extent * tiles.step
    where = f"the section of {groups[0].main.name!r} to {groups[-1].output!r}"
    if tiles.axis != tiling.axis:
        raise InputError(f"{where} cannot be cut along {tiling.axis}, but along {tiles.axis}")
    if tiling.axis == TileAxis.NONE:
        is_right, allowed = tiling == Tiling(), "no size and 1 sample"
    elif tiling.axis == TileAxis.HEADS:
        is_right, allowed = tiling.size * tiling.samples == extent, f"heads in equal parts, {extent} in all"
    else:
        is_right = tiling.size % tiles.step == 0 and 0 <= tiling.size * tiling.samples - extent < tiling.size
        allowed = f"multiples of {tiles.step} rows, as many as cover {extent}"
    if not is_right:
        raise InputError(f"{where} has {tiling.samples} samples of {tiling.size}; allowed: {allowed}")


def _made(groups: tuple[Group, ...]) -> set[str]:
    return {group.output for group in groups}


def load_shape(shape: Shape, tiles: Tiles, tiling: Tiling, tensor: str) -> Shape:
    """Return the shape of what one sample takes of a loaded tensor."""
    match tiles.loads[tensor]:
        case TileOf.EVERYTHING:
            return shape
        case TileOf.ROWS if tiling.axis == TileAxis.ROWS:
            return (*shape[:-2], tiling.size, shape[-1])
        case TileOf.ROWS:
            return (*shape[:-2], shape[-2] // tiling.samples, shape[-1])
        case TileOf.COLUMNS:
            return (*shape[:-1], shape[-1] // tiling.samples)
        case TileOf.HEADS:
            return (shape[0] // tiling.samples, *shape[1:])
        case TileOf.BAND:
            assert tiles.window is not None
            return (band_height(tiles, tiling) * tiles.window.image[1], shape[-1])


def band_height(tiles: Tiles, tiling: Tiling) -> int:
    """Return the rows of pixels that the windows of one sample touch, with padding above and below."""
    assert tiles.window is not None
    window = tiles.window
    rows = tiling.size // tiles.step
    return (rows - 1) * window.stride[0] + window.dilation[0] * (window.kernel[0] - 1) + 1


def _tiled(graph: DataflowGraph, op: Op, tiles: Tiles, tiling: Tiling) -> Op:
    """Return an op of the graph with the constants of one sample."""
    at = op.attributes
    if tiling.axis == TileAxis.HEADS and op.kind == OpKind.SPLIT_HEADS:
        return replace(op, attributes=replace(at, heads=at.heads // tiling.samples))
    if tiling.axis == TileAxis.ROWS and op.kind in WINDOW_KINDS | {OpKind.PATCHES}:
        image = (band_height(tiles, tiling), at.image[1])
        return replace(op, attributes=replace(at, image=image, padding=(0, at.padding[1], 0, at.padding[3])))
    return op
