"""Products whose weights are too large for the chip: their columns are made by several sections."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from placer.base import InputError
from placer.fabric import Fabric, SiteKind
from placer.graph import DataflowGraph, Op, OpAttributes, OpKind
from placer.netlist.lowering.groups import Group, form_groups
from placer.netlist.lowering.regions import split
from placer.netlist.lowering.rules import group_options
from placer.netlist.lowering.work import USUAL, rates_of, size_of

Slices = tuple[tuple[str, int], ...]

WEIGHT_SHARE = 0.85  # of the on-chip memory that the weights of one section may take
MORE_SLICES = 3  # than needed that are tried: some numbers fill the fabric better
SLICE_COLUMNS = 64  # slices begin at multiples of this, where they can: whole vectors of any fabric
TILE_ROWS = 16  # for which they are tried


def weight_bytes(fabric: Fabric, graph: DataflowGraph, op: Op) -> int:
    """Return the bytes of the resident weights of a linear op; 0 for other ops."""
    if op.kind != OpKind.LINEAR:
        return 0
    vectors = -(-graph.inner_length(op) // fabric.elements_per_vector)
    output = graph.tensors[op.name]
    return (output.heads if op.attributes.stacked else 1) * vectors * output.columns * fabric.vector_bytes


def choose_slices(fabric: Fabric, graph: DataflowGraph) -> Slices:
    """Return the linear ops that no section can hold, and into how many slices each should be cut."""
    room = WEIGHT_SHARE * fabric.num_sites(SiteKind.MEMORY) * fabric.memory.capacity_bytes
    found = []
    for group in form_groups(graph):
        size = weight_bytes(fabric, graph, group.main)
        chunks = graph.tensors[group.output].columns // fabric.elements_per_vector
        if size > room and chunks > 1 and not group.main.attributes.stacked:
            fewest = min(chunks, -int(-size // room))
            tried = range(fewest, min(chunks, fewest + MORE_SLICES) + 1)
            found.append((group.main.name, min(tried, key=lambda number: _time(fabric, graph, group, number))))
    return tuple(found)


def _time(fabric: Fabric, graph: DataflowGraph, group: Group, number: int) -> float:
    """Return the cycles that so many slices take one after the other, for some rows."""
    size, units = size_of(fabric, graph, group), fabric.num_sites(SiteKind.COMPUTE)
    columns = max(end - start for start, end in split(size.columns, number, fabric.elements_per_vector))
    options = group_options(
        rates_of(fabric),
        size._replace(columns=columns, rows=min(size.rows, TILE_ROWS)),
        units,
        USUAL._replace(flow_rate=1.0),
    )
    return number * options.paces[-1]


def sliced(graph: DataflowGraph, slices: Slices) -> DataflowGraph:
    """Return the graph in which each named product is several ones, side by side.

    The ops that are fused into a product are cut with it. Raises InputError for a name that is no
    linear op, or for more slices than it has columns.
    """
    if not slices:
        return graph
    numbers = dict(slices)
    groups = {group.main.name: group for group in form_groups(graph)}
    replaced: dict[str, list[Op]] = {}  # by the first op of a group
    dropped: set[str] = set()
    for name, number in numbers.items():
        if name not in groups or groups[name].main.kind != OpKind.LINEAR:
            raise InputError(f"the plan slices {name!r}, which is no linear op of {graph.name!r}")
        columns = graph.tensors[name].columns
        if not 2 <= number <= columns:
            raise InputError(f"the plan cuts {name!r} into {number} slices; allowed: 2 to its {columns} columns")
        replaced[name] = list(_slices_of(graph, groups[name], number))
        dropped.update(op.name for op in groups[name].ops)
    ops: list[Op] = []
    for op in graph.ops:
        ops.extend(replaced.get(op.name, () if op.name in dropped else (op,)))
    return DataflowGraph(graph.name, graph.family, tuple(ops))


def unsliced(name: str) -> str:
    """Return the name of the op that a slice belongs to."""
    head, at, number = name.rpartition("@")
    return head if at and number.isdigit() else name


def _slices_of(graph: DataflowGraph, group: Group, number: int) -> Iterator[Op]:
    """Yield the ops of all slices of a group, and the view that joins them under its name."""
    total, ends = graph.tensors[group.output].columns, []
    chunk = math.gcd(total, SLICE_COLUMNS)
    spans = split(total, number, chunk if total // chunk >= number else 1)
    for k, (start, end) in enumerate(spans):
        source = group.main.inputs[0]
        for op in group.ops:
            changed = replace(op, name=f"{op.name}@{k}", inputs=(source,))
            yield replace(changed, attributes=_of_slice(op.attributes, op.kind, start, end, total))
            source = changed.name
        ends.append(source)
    yield Op(group.output, OpKind.CONCAT, tuple(ends))


def _of_slice(attributes: OpAttributes, kind: OpKind, start: int, end: int, total: int) -> OpAttributes:
    """Return the constants of an op that makes columns start:end only."""
    if kind not in (OpKind.LINEAR, OpKind.BIAS, OpKind.GAIN):
        return attributes
    columns = end - start if kind == OpKind.LINEAR else 0
    return replace(attributes, columns=columns, first_column=start, weight_columns=total)
