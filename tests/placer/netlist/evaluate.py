"""Run a lowered network with numbers: section by section, sample by sample, unit by unit.

Every shard sees what the flows of the netlist bring, and of that only the regions that it is said
to read: anything else is NaN. What crosses a cut goes through a dict, the DRAM.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from placer.fabric import Fabric
from placer.graph import (
    PRODUCT_KINDS,
    SOURCE_KINDS,
    VIEW_KINDS,
    Array,
    DataflowGraph,
    Op,
    OpKind,
    Tensor,
    compute_values,
)
from placer.graph.rules import apply_op
from placer.netlist import Netlist
from placer.netlist.lowering import Plan, SectionPlan, TileAxis, check_section, lower
from placer.netlist.lowering.draft import Draft, Shard, make_draft, with_copies
from placer.netlist.lowering.groups import Group, form_groups, stored
from placer.netlist.lowering.regions import Region
from placer.netlist.lowering.slicing import sliced
from placer.netlist.lowering.tiling import TileOf, Tiles, band_height, find_tiles, section_graph, stored_readers
from tests.placer.graph.random_values import random_inputs, random_weights

Arrays = dict[str, Array]
Box = tuple[slice, ...]


def run_plan(fabric: Fabric, graph: DataflowGraph, plan: Plan, sources: Arrays, weights: Arrays) -> Arrays:
    """Return what the sections of a plan leave in DRAM, and the weight gradients; `sources` are there before."""
    work = sliced(graph, plan.slices)
    groups = {group.output: group for group in form_groups(work)}
    dram = dict(sources)
    for cut in plan.sections:
        part = tuple(groups[name] for name in cut.groups)
        dram |= run_section(fabric, work, part, plan.layouts[cut.layout], dram, weights)
    return {name: value for name, value in dram.items() if name not in sources}


def assert_computes(fabric: Fabric, graph: DataflowGraph, plan: Plan) -> None:
    """What the sections leave in DRAM, and the weight gradients, are those of the graph."""
    rng = np.random.default_rng(7)
    inputs, weights = random_inputs(graph, rng), random_weights(graph, rng)
    work = sliced(graph, plan.slices)
    expected = compute_values(work, inputs, weights)
    for name, value in compute_values(graph, inputs, weights).items():
        if name in expected:
            np.testing.assert_allclose(expected[name], value, rtol=1e-9, atol=1e-9, err_msg=name)
    sources = {op.name: expected[op.name] for op in graph.ops if op.kind in SOURCE_KINDS}
    made = run_plan(fabric, graph, plan, sources, weights)
    wanted = {op.name for op in graph.ops if op.kind == OpKind.WEIGHT_GRAD}
    for op in graph.ops:
        if op.kind == OpKind.STORE:
            wanted |= stored(work, op.inputs[0]) - sources.keys()
    assert wanted <= made.keys()
    for name, value in made.items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-9, atol=1e-9, err_msg=name)


def assert_counts(fabric: Fabric, graph: DataflowGraph, plan: Plan) -> None:
    """Every netlist of a plan has what its section must have."""
    graph = sliced(graph, plan.slices)
    groups, readers = {group.output: group for group in form_groups(graph)}, stored_readers(graph)
    for cut in plan.sections:
        layout = plan.layouts[cut.layout]
        part = section_graph(graph, tuple(groups[name] for name in cut.groups), layout.sample, readers, "part")
        check_section(fabric, part, layout, lower(fabric, part, layout))


def run_section(
    fabric: Fabric, graph: DataflowGraph, groups: tuple[Group, ...], layout: SectionPlan, dram: Arrays, weights: Arrays
) -> Arrays:
    """Return what one section makes of all its samples, in the shapes of the whole network."""
    tiling = layout.sample
    part = section_graph(graph, groups, tiling, stored_readers(graph), "part")
    tiles = find_tiles(graph, groups)
    chip = Chip(fabric, part, layout)
    stored = [op.inputs[0] for op in part.ops if op.kind == OpKind.STORE]
    gradients = [op.name for op in part.ops if op.kind == OpKind.WEIGHT_GRAD]
    results = {name: np.full(graph.tensors[name].shape, np.nan) for name in stored}
    results |= {name: np.zeros(graph.tensors[name].shape) for name in gradients}
    for number in range(tiling.samples):
        loads = {}
        for op in part.ops:
            if op.kind in SOURCE_KINDS:
                of = tiles.loads[op.name] if tiling.axis != TileAxis.NONE else TileOf.EVERYTHING
                loads[op.name] = tile_of(dram[op.name], of, tiles, layout, number, beyond(part, op.name))
                assert loads[op.name].shape == part.tensors[op.name].shape
        made = chip.run(loads, weights)
        for name in stored:
            place(results[name], made[name], layout, number)
        for name in gradients:
            results[name] += made[name]
    return results


def beyond(part: DataflowGraph, tensor: str) -> float:
    """Return what lies beyond the border of an image: a pool takes the largest of what is inside."""
    return -np.inf if any(op.kind == OpKind.MAX_POOL for op in part.consumers[tensor]) else 0.0


def tile_of(whole: Array, of: TileOf, tiles: Tiles, layout: SectionPlan, number: int, fill: float) -> Array:
    """Return what sample `number` takes of a tensor in DRAM; rows beyond its end are 0."""
    tiling = layout.sample
    if of is TileOf.EVERYTHING:
        return whole
    if of is TileOf.BAND:
        assert tiles.window is not None
        window, height = tiles.window, band_height(tiles, tiling)
        top = number * (tiling.size // tiles.step) * window.stride[0] - window.padding[0]
        return cut_out(whole, -2, top * window.image[1], height * window.image[1], fill)
    axis = {TileOf.ROWS: -2, TileOf.COLUMNS: -1, TileOf.HEADS: 0}[of]
    size = tiling.size if tiling.axis == TileAxis.ROWS else whole.shape[axis] // tiling.samples
    return cut_out(whole, axis, number * size, size, 0.0)


def cut_out(whole: Array, axis: int, first: int, size: int, fill: float) -> Array:
    """Return `size` rows from `first` on, which may lie beyond either end."""
    positions = np.arange(first, first + size)
    is_inside = (positions >= 0) & (positions < whole.shape[axis])
    taken = np.take(whole, positions.clip(0, whole.shape[axis] - 1), axis)
    shape = [1] * whole.ndim
    shape[axis] = size
    return np.where(is_inside.reshape(shape), taken, fill)


def place(whole: Array, made: Array, layout: SectionPlan, number: int) -> None:
    """Put what a sample made into its place; rows beyond the end are dropped."""
    axis = layout.tiling.axis
    if axis == TileAxis.NONE:
        whole[:] = made
    elif axis == TileAxis.HEADS:
        whole[number * len(made) : (number + 1) * len(made)] = made
    else:
        first = number * made.shape[-2]
        target = whole[..., first : first + made.shape[-2], :]
        target[:] = made[..., : target.shape[-2], :]


def box_of(tensor: Tensor, region: Region) -> Box:
    box = tuple(slice(*span) for span in region)
    if len(tensor.shape) == 2:
        assert region.heads == (0, 1)
        return box[1:]
    return box


@dataclass
class Chip:
    """One section on the fabric: its netlist, and what the draft says that each flow carries."""

    fabric: Fabric
    part: DataflowGraph
    layout: SectionPlan
    netlist: Netlist = field(init=False)
    draft: Draft = field(init=False)
    buffers: dict[int, tuple[str, Region]] = field(init=False)  # tensor and part of it, by unit id

    def __post_init__(self) -> None:
        self.netlist = lower(self.fabric, self.part, self.layout)
        groups, _ = with_copies(self.part, self.layout)
        self.draft = make_draft(self.fabric, self.part, groups)
        self.buffers = self._find_buffers()
        self.incoming: list[set[int]] = [set() for _ in self.netlist.units]
        for flow in self.netlist.flows:
            for target in flow.targets:
                self.incoming[target].add(flow.source)

    def _find_buffers(self) -> dict[int, tuple[str, Region]]:
        """Return the part of a tensor that each buffer holds, by its name."""
        _, plans = with_copies(self.part, self.layout)
        parts: dict[str, Region] = {}
        for tensor, plan in zip(self.draft.tensors, plans, strict=True):
            shape, number = self.part.tensors[tensor.name], 0
            for heads in even_spans(shape.heads, plan.heads, 1):
                for rows in even_spans(shape.rows, plan.rows, 1):
                    for columns in even_spans(shape.columns, plan.columns, self.fabric.elements_per_vector):
                        parts[f"{tensor.name}.b{number}"] = Region(heads, rows, columns)
                        number += 1
        found = {}
        for number, unit in enumerate(self.netlist.units):
            if unit.op in ("buffer", "gradient"):
                match = re.fullmatch(r"((.*)\.b\d+)(\.\d+)?", unit.name)
                assert match is not None
                found[number] = match[2], parts[match[1]]
        return found

    def run(self, loads: Arrays, weights: Arrays) -> Arrays:
        """Return what one sample leaves in DRAM, and its weight gradients."""
        held = {unit: np.full(self.part.tensors[name].shape, np.nan) for unit, (name, _) in self.buffers.items()}
        for unit, (name, region) in self.buffers.items():
            box = box_of(self.part.tensors[name], region)
            if name in loads and any(self.netlist.units[source].op == "load" for source in self.incoming[unit]):
                held[unit][box] = loads[name][box]
        partial: dict[int, Array] = {}
        for shard in self.draft.shards:
            value = self._compute(shard, self._visible(shard, held), partial, weights)
            partial[shard.unit] = value
            if shard.is_last:
                self._write(shard, value, held)
        return self._results(held)

    def _visible(self, shard: Shard, held: dict[int, Array]) -> Arrays:
        """Return what a shard sees of each stored tensor."""
        seen = {tensor.name: np.full(self.part.tensors[tensor.name].shape, np.nan) for tensor in self.draft.tensors}
        for tensor in self.draft.tensors:
            for need in tensor.needs:
                if shard.unit in need.targets:
                    self._copy(tensor.name, need.read.region, self.incoming[shard.unit], held, seen[tensor.name])
        return seen

    def _copy(self, name: str, region: Region, sources: set[int], held: dict[int, Array], into: Array) -> None:
        """Copy a region from those of its buffers that are among some units."""
        for source in sources:
            if source in self.buffers and self.buffers[source][0] == name:
                common = region.intersect(self.buffers[source][1])
                if common.elements:
                    box = box_of(self.part.tensors[name], common)
                    into[box] = held[source][box]

    def _write(self, shard: Shard, value: Array, held: dict[int, Array]) -> None:
        name = self.draft.groups[shard.group].output
        for unit, (tensor, region) in self.buffers.items():
            common = region.intersect(shard.region)
            if tensor == name and shard.unit in self.incoming[unit] and common.elements:
                box = box_of(self.part.tensors[name], common)
                held[unit][box] = value[box]

    def _results(self, held: dict[int, Array]) -> Arrays:
        """Return the tensors that ports store, and the weight gradients in their buffers."""
        made: Arrays = {}
        for op in self.part.ops:
            name = op.inputs[0] if op.kind == OpKind.STORE else op.name
            if op.kind in (OpKind.STORE, OpKind.WEIGHT_GRAD):
                made[name] = np.full(self.part.tensors[name].shape, np.nan)
                everything = Region(*((0, size) for size in shape_of(self.part.tensors[name])))
                sources = {unit for unit in self.buffers if op.kind == OpKind.WEIGHT_GRAD or self._is_stored(unit)}
                self._copy(name, everything, sources, held, made[name])
        return made

    def _is_stored(self, unit: int) -> bool:
        stores = [k for k, one in enumerate(self.netlist.units) if one.op == "store"]
        return any(unit in self.incoming[store] for store in stores)

    def _compute(self, shard: Shard, seen: Arrays, partial: dict[int, Array], weights: Arrays) -> Array:
        """Return the part of the output, or of its partial sums, that a shard makes; NaN elsewhere."""
        group = self.draft.groups[shard.group]
        inputs = [self._through_views(name, seen) for name in group.main.inputs]
        if group.main.kind == OpKind.LINEAR:
            assert any(self.netlist.units[source].op == "weights" for source in self.incoming[shard.unit])
        with np.errstate(all="ignore"):
            if group.main.kind in PRODUCT_KINDS:
                value = product(group.main, shard.inner, inputs, weights)
                if shard.partial_from >= 0:
                    assert shard.partial_from in self.incoming[shard.unit]
                    value = value + partial[shard.partial_from]
            else:
                value = apply_op(group.main, weights, *inputs)
            for op in group.ops[1:] if shard.is_last else ():
                value = apply_op(op, weights, value)
        made = np.full_like(value, np.nan)
        box = box_of(self.part.tensors[group.output], shard.region)
        made[box] = value[box]
        return made

    def _through_views(self, name: str, seen: Arrays) -> Array:
        op = self.part.op(name)
        if op.kind not in VIEW_KINDS:
            return seen[name]
        return apply_op(op, {}, *(self._through_views(source, seen) for source in op.inputs))


def shape_of(tensor: Tensor) -> tuple[int, int, int]:
    return tensor.heads, tensor.rows, tensor.columns


def even_spans(total: int, parts: int, multiple: int) -> list[tuple[int, int]]:
    """Return spans that differ by at most `multiple`, the shorter ones where the division says so."""
    chunks = -(-total // multiple)
    edges = [min(total, chunks * k // parts * multiple) for k in range(parts + 1)]
    return list(pairwise(edges))


def product(op: Op, inner: tuple[int, int], inputs: list[Array], weights: Arrays) -> Array:
    """Return the sums of a product over a part of its inner dimension."""
    span, at = slice(*inner), op.attributes
    if op.kind == OpKind.WEIGHT_GRAD:
        x, dy = (one.reshape(-1, one.shape[-1])[span] for one in inputs)
        return np.asarray(x.T @ dy)
    left = inputs[0].swapaxes(-1, -2) if at.transpose_a else inputs[0]
    is_linear = op.kind == OpKind.LINEAR
    right, is_turned = (weights[at.weight], at.transposed_weight) if is_linear else (inputs[1], at.transpose_b)
    right = right.swapaxes(-1, -2) if is_turned else right
    if is_linear:
        right = right[..., at.first_column : at.first_column + at.columns]
    return np.asarray(left[..., span] @ right[..., span, :])
