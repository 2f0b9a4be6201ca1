"""Check a plan without the code that builds what it says.

`check_plan` works out from the graph what every section must make, load, store and hold, and counts
what the plan gives it. `recount` checks what was built.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import gcd
from operator import attrgetter
from typing import NamedTuple, TypeVar

from placer.base import DoesNotFitError, InputError
from placer.fabric import Fabric, SiteKind
from placer.graph import PRODUCT_KINDS, SOURCE_KINDS, VIEW_KINDS, WINDOW_KINDS, DataflowGraph, Op, OpKind, window_of
from placer.netlist.lowering.draft import WAIT_BLOCKS
from placer.netlist.lowering.slicing import sliced
from placer.netlist.plan import BufferPlan, GroupPlan, Plan, SectionPlan, TileAxis, require_match

P = TypeVar("P", GroupPlan, BufferPlan)

_RIDES_ALONG = frozenset(  # in the units of the op that it follows
    {OpKind.BIAS, OpKind.GAIN, OpKind.SCALE, OpKind.RELU, OpKind.GELU, OpKind.SILU, OpKind.SIGMOID, OpKind.TANH}
)
_NEEDS_WHOLE_ROWS = frozenset(
    {
        OpKind.SOFTMAX, OpKind.LAYERNORM, OpKind.RMSNORM, OpKind.TOP_K, OpKind.ROTARY, OpKind.SOFTMAX_GRAD,
        OpKind.LAYERNORM_GRAD, OpKind.RMSNORM_GRAD,
    }
)  # fmt: skip
_NEEDS_ALL_ROWS = frozenset({OpKind.MATMUL, OpKind.DISPATCH, OpKind.COMBINE})
_MOVES_ROWS = frozenset(
    {OpKind.TRANSPOSE, OpKind.CONCAT_ROWS, OpKind.SLICE_ROWS, OpKind.ROWS_TO_HEADS, OpKind.HEADS_TO_ROWS}
)
_MAKES_HEADS = {OpKind.SPLIT_HEADS: "columns", OpKind.ROWS_TO_HEADS: "rows"}  # of what lies below
_MOVES_HEADS = frozenset({OpKind.MERGE_HEADS, OpKind.HEADS_TO_ROWS, OpKind.PATCHES, *_MAKES_HEADS})
_FORM = attrgetter(  # what the layout of an op depends on, besides sizes
    "repeats",
    "start",
    "stop",
    "transpose_a",
    "transpose_b",
    "stacked",
    "causal",
    "kernel",
    "stride",
    "dilation",
    "groups",
)


class Sizes(NamedTuple):
    """The sizes of a tensor in one sample, or of a part of it."""

    heads: int
    rows: int
    columns: int


class Path(NamedTuple):
    """A tensor in memory behind an input, and the views between them from the input down."""

    stored: str
    views: tuple[Op, ...]


class Network:
    """A graph as a checker sees it: what one set of units runs together, and who reads what."""

    def __init__(self, graph: DataflowGraph) -> None:
        self.graph = graph
        self.chains: dict[str, list[Op]] = {}  # by the tensor that a chain of ops makes
        self.paths: dict[str, tuple[Path, ...]] = {}
        self.readers: dict[str, set[str]] = {}  # of stored tensors: ops, before they are told apart by chains
        uncomputed = VIEW_KINDS | SOURCE_KINDS
        for op in graph.ops:
            self.paths[op.name] = tuple(self._paths(op))
            if op.kind in uncomputed:
                continue
            for tensor in op.inputs:
                for path in self.paths[tensor]:
                    self.readers.setdefault(path.stored, set()).add(op.name)
            if op.kind != OpKind.STORE:
                rides = op.kind in _RIDES_ALONG and op.inputs[0] in self.chains
                rides = rides and len(graph.consumers[op.inputs[0]]) == 1
                self.chains[op.name] = [*(self.chains.pop(op.inputs[0]) if rides else []), op]

    def _paths(self, op: Op) -> Iterator[Path]:
        if op.kind not in VIEW_KINDS:
            yield Path(op.name, ())
            return
        for source in op.inputs:
            for path in self.paths[source]:
                yield Path(path.stored, (op, *path.views))

    def inputs(self, name: str) -> Iterator[Path]:
        """Yield the stored tensors that the chain of a tensor reads."""
        for tensor in self.chains[name][0].inputs:
            yield from self.paths[tensor]

    def sizes(self, name: str) -> Sizes:
        tensor = self.graph.tensors[name]
        return Sizes(tensor.heads, tensor.rows, tensor.columns)


def _form(op: Op) -> tuple[object, ...]:
    at = op.attributes
    return op.kind, _FORM(at), at.image[1:], at.padding[1::2]  # heights are those of a sample


class Part:
    """One section of a network: what it makes, loads, stores and holds."""

    def __init__(self, network: Network, made: tuple[str, ...], where: str) -> None:
        self.network, self.made, self.where = network, made, where
        loads = {path.stored for name in made for path in network.inputs(name)} - set(made)
        self.loads = sorted(loads, key=network.graph.position)
        self.tensors = [*self.loads, *made]
        inside = {op.name for name in made for op in network.chains[name]}
        self.stores = [name for name in made if not network.readers.get(name, set()) <= inside]
        self.held = [name for name in made if self.main(name).kind == OpKind.LINEAR]

    def main(self, name: str) -> Op:
        return self.network.chains[name][0]

    def is_sum(self, name: str) -> bool:
        """Say whether a tensor is a sum over all samples."""
        return name in self.network.chains and self.main(name).kind == OpKind.WEIGHT_GRAD

    def form(self, sizes: dict[str, Sizes]) -> tuple[object, ...]:
        """Return what sections must have in common to share a layout: sizes of a sample, ops and wiring."""
        number = {name: k for k, name in enumerate(self.tensors)}
        parts: list[object] = [tuple(sizes[name] for name in self.loads)]
        for name in self.made:
            chain = tuple(_form(op) for op in self.network.chains[name])
            inputs = tuple(
                (number[path.stored], tuple(_form(view) for view in path.views)) for path in self.network.inputs(name)
            )
            parts.append((chain, sizes[name], inputs, name in self.stores))
        return tuple(parts)

    def require(self, is_right: bool, sentence: str) -> None:
        if not is_right:
            raise InputError(f"plan: {self.where}: {sentence}")


def check_plan(fabric: Fabric, graph: DataflowGraph, plan: Plan) -> None:
    """Raise InputError if a plan is of another network or fabric, cannot be carried out, or does not fit."""
    require_match(plan, fabric, graph)
    network = Network(sliced(graph, plan.slices))
    _check_order(network, plan)
    forms: dict[int, tuple[tuple[object, ...], str]] = {}
    for number, cut in enumerate(plan.sections):
        part = Part(network, cut.groups, f"section {number} ({cut.groups[0]!r} to {cut.groups[-1]!r})")
        part.require(0 <= cut.layout < len(plan.layouts), f"layout {cut.layout} of {len(plan.layouts)} from 0 on")
        layout = plan.layouts[cut.layout]
        sizes = _sample_sizes(part, layout)
        form = part.form(sizes)
        if cut.layout in forms:
            known, where = forms[cut.layout]
            part.require(form == known, f"shares layout {cut.layout} with {where}, but is not like it; give it its own")
            continue
        forms[cut.layout] = form, part.where
        check_facts(Facts(fabric, part, layout, sizes))


def check_facts(facts: Facts) -> None:
    """Raise InputError if a layout cannot be carried out, or does not fit."""
    _check_splits(facts)
    _check_slots(facts)
    _check_room(facts)


def _check_order(network: Network, plan: Plan) -> None:
    """Check that every tensor is made once, and after its inputs."""
    done: set[str] = set()
    for number, cut in enumerate(plan.sections):
        where, last = f"plan: section {number}", -1
        if not cut.groups:
            raise InputError(f"{where} makes nothing; leave it out")
        for name in cut.groups:
            if name not in network.chains:
                raise InputError(f"{where} makes {name!r}, which no group of ops of the network makes")
            if name in done:
                raise InputError(f"{where} makes {name!r}, which was made before; each is made once")
            for path in network.inputs(name):
                if path.stored in network.chains and path.stored not in done:
                    raise InputError(f"{where} makes {name!r} before its input {path.stored!r}; put it behind")
            position = network.graph.position(network.chains[name][0].name)
            if position < last:
                raise InputError(f"{where} makes {name!r} out of order; groups stand in the order of the network")
            last = position
            done.add(name)
    missing = [name for name in network.chains if name not in done]
    if missing:
        raise InputError(f"plan: no section makes {', '.join(map(repr, missing[:5]))}; each must be made once")


def _check_numbers(part: Part, layout: SectionPlan) -> None:
    """Check that there is a plan for every group, buffer and weight, and tiles for every copy."""
    for what, given, needed in (
        ("groups", len(layout.groups), len(part.made)),
        ("buffers", len(layout.buffers), len(part.tensors)),
        ("weights", len(layout.weights), len(part.held)),
    ):
        part.require(given == needed, f"its layout has {given} {what}, needed {needed}")
    samples, copies = layout.tiling.samples, layout.copies
    part.require(
        copies <= samples and (layout.tiling.axis != TileAxis.HEADS or samples % copies == 0),
        f"{copies} copies of the pipeline share {samples} tiles; each needs one, and of heads as many as the others",
    )


def _sample_sizes(part: Part, layout: SectionPlan) -> dict[str, Sizes]:
    """Return the sizes of every tensor in one sample. Raises InputError if the samples are no tiles."""
    tiling = layout.tiling
    if tiling.axis == TileAxis.ROWS:
        return _tiles_of_rows(part, layout)
    if tiling.axis == TileAxis.HEADS:
        return _tiles_of_heads(part, layout)
    part.require(
        (tiling.size, tiling.samples) == (0, 1),
        f"{tiling.samples} samples of {tiling.size}, but no axis; needed 1 of 0",
    )
    return {name: part.network.sizes(name) for name in part.tensors}


def _tiles_of_rows(part: Part, layout: SectionPlan) -> dict[str, Sizes]:
    tensors = part.network.graph.tensors
    rows = {tensors[part.main(n).inputs[0] if part.is_sum(n) else n].rows for n in part.made}
    part.require(len(rows) == 1, f"is cut along rows, but what it makes has {sorted(rows)} rows; all must be equal")
    looks: dict[str, set[Op | None]] = {}  # windows through which a tensor is seen
    for name in part.made:
        main = part.main(name)
        is_mixed = main.kind in _NEEDS_ALL_ROWS or main.attributes.causal
        part.require(not is_mixed, f"is cut along rows, but a row of {name!r} needs all of them")
        for path in part.network.inputs(name):
            seen = [view for view in path.views if view.kind == OpKind.PATCHES]
            seen += [main] if main.kind in WINDOW_KINDS else []
            is_moved = any(view.kind in _MOVES_ROWS for view in path.views) or (path.stored in part.made and seen)
            part.require(not is_moved, f"is cut along rows, but {name!r} sees those of {path.stored!r} moved")
            looks.setdefault(path.stored, set()).update(seen or [None])
    windows = [window_of(look) for found in looks.values() for look in found if look is not None]
    heights = {(w.image, w.output, w.kernel[0], w.stride[0], w.padding[0], w.dilation[0]) for w in windows}
    is_alike = len(heights) <= 1 and all(None not in found or len(found) == 1 for found in looks.values())
    part.require(is_alike, "is cut along rows, but its images are seen through windows that differ")
    size, samples, total = layout.tiling.size, layout.tiling.samples, rows.pop()
    step = windows[0].output[1] if windows else 1
    is_covered = size % step == 0 and 0 <= size * samples - total < size
    part.require(is_covered, f"{samples} tiles of {size} rows for {total}; as few, multiples of {step}, as cover them")
    size *= layout.copies
    sizes = {name: part.network.sizes(name)._replace(rows=size) for name in part.tensors}
    sizes |= {name: part.network.sizes(name) for name in part.made if part.is_sum(name)}
    for image, output, kernel, stride, _, dilation in heights:
        pixels = image[1] * ((size // output[1] - 1) * stride + dilation * (kernel - 1) + 1)
        sizes |= {name: sizes[name]._replace(rows=pixels) for name in part.loads if None not in looks[name]}
    return sizes


def _tiles_of_heads(part: Part, layout: SectionPlan) -> dict[str, Sizes]:
    tensors, samples = part.network.graph.tensors, layout.sample.samples
    lies: dict[str, str] = {}  # the axis of a tensor along which its heads lie, "" if it has none
    total = 0
    for name in part.made:
        has_heads = len(tensors[name].shape) == 3 and not part.is_sum(name) and not part.main(name).attributes.stacked
        part.require(has_heads, f"is cut along heads, but {name!r} has none, or a weight for each")
        lies[name] = "heads"
        total = gcd(total, tensors[name].heads)
        for stored, views in part.network.inputs(name):
            axis = "heads" if len(tensors[stored].shape) == 3 else ""
            count = tensors[stored].heads if axis else 0
            if views and views[-1].kind in _MAKES_HEADS:
                axis = _MAKES_HEADS[views[-1].kind]
                count = tensors[stored].rows if axis == "rows" else views[-1].attributes.heads
                views = views[:-1]
            is_seen = all(view.kind not in _MOVES_HEADS for view in views) and lies.setdefault(stored, axis) == axis
            part.require(is_seen, f"is cut along heads, but {name!r} does not see {stored!r} head by head")
            total = gcd(total, count)
    size, tiles = layout.tiling.size, layout.tiling.samples
    part.require(size * tiles == total, f"{tiles} tiles of {size} heads; all have {total} equal parts to share")
    sizes = {name: part.network.sizes(name) for name in part.tensors}
    for name, axis in lies.items():
        if axis:
            sizes[name] = sizes[name]._replace(**{axis: getattr(sizes[name], axis) // samples})
    return sizes


def _up(total: int, parts: int) -> int:
    return -(-total // parts)


def even_sizes(total: int, parts: int) -> list[int]:
    """Return the sizes of equal parts; where they cannot be equal, they differ by one."""
    return [total * (k + 1) // parts - total * k // parts for k in range(parts)]


class Facts:
    """A section with its layout: sizes of one sample, and the parts of all copies of the pipeline."""

    def __init__(self, fabric: Fabric, part: Part, layout: SectionPlan, sizes: dict[str, Sizes]) -> None:
        _check_numbers(part, layout)
        self.fabric, self.part, self.layout, self.sizes = fabric, part, layout, sizes
        self.groups = {n: self._copied(n, plan) for n, plan in zip(part.made, layout.groups, strict=True)}
        self.buffers = {n: self._copied(n, plan) for n, plan in zip(part.tensors, layout.buffers, strict=True)}
        self.weights = dict(zip(part.held, layout.weights, strict=True))

    def _copied(self, name: str, plan: P) -> P:
        axis = "rows"
        if self.layout.tiling.axis == TileAxis.HEADS:
            axis = "heads" if len(self.part.network.graph.tensors[name].shape) == 3 else "columns"
        if self.part.is_sum(name):  # every pipeline adds its share to one sum
            if isinstance(plan, BufferPlan):
                return plan
            axis = "inner"
        return replace(plan, **{axis: getattr(plan, axis) * self.layout.copies})

    def inner_vectors(self, name: str) -> int:
        """Return the vectors that the sums of a product are over in one sample; 1 for other ops."""
        main, length = self.part.main(name), self.part.network.graph.inner_length(self.part.main(name))
        if self.part.is_sum(name):
            rows = self.part.network.sizes(main.inputs[0])
            length = rows.heads * (self.layout.sample.size if self.layout.tiling.axis == TileAxis.ROWS else rows.rows)
        return max(1, self.in_vectors(length))

    def in_vectors(self, elements: int) -> int:
        return _up(elements, self.fabric.elements_per_vector)

    def vectors(self, name: str) -> int:
        heads, rows, columns = self.sizes[name]
        return heads * rows * self.in_vectors(columns)

    def cut(self, total: int, parts: int) -> list[int]:
        """Return the sizes of parts that are cut between vectors."""
        sizes = [size * self.fabric.elements_per_vector for size in even_sizes(self.in_vectors(total), parts)]
        return [*sizes[:-1], total - sum(sizes[:-1])]

    def weight_bytes(self, name: str) -> list[int]:
        """Return the bytes of each memory unit that holds weights of a product."""
        plan, keep = self.groups[name], self.weights[name]
        is_stacked = self.part.main(name).attributes.stacked
        pieces = [
            matrices * columns * vectors * self.fabric.vector_bytes
            for matrices in (even_sizes(self.sizes[name].heads, plan.heads) if is_stacked else [1])
            for columns in self.cut(self.sizes[name].columns, plan.columns)
            for span in even_sizes(self.inner_vectors(name), plan.inner)
            for vectors in even_sizes(span, keep.pieces)
        ]
        return [sum(pieces[k : k + keep.shared]) for k in range(0, len(pieces), keep.shared)]

    def stages(self) -> dict[str, int]:
        """Return the pipeline stage in which each tensor is complete; what is loaded, in stage 0.

        Units that share a sum begin one after the other, when some blocks of partial sums are there.
        """
        stages = dict.fromkeys(self.part.loads, 0)
        compute = self.fabric.compute
        for name, plan in self.groups.items():
            heads, rows, columns = self.sizes[name]
            row_blocks = _up(rows // plan.rows, compute.block_rows)
            width = self.cut(columns, plan.columns)[0]
            blocks = heads // plan.heads * row_blocks * _up(width, compute.block_columns)
            behind = _up((plan.inner - 1) * min(WAIT_BLOCKS, blocks), blocks)
            stages[name] = 1 + max(stages[path.stored] for path in self.part.network.inputs(name)) + behind
        return stages


def _check_splits(facts: Facts) -> None:
    """Check that nothing is cut into more parts than there are."""
    part = facts.part
    for kind, plans in (("group", facts.groups), ("buffers", facts.buffers)):
        for name, plan in plans.items():
            heads, rows, columns = facts.sizes[name]
            most = {"heads": heads, "rows": rows, "columns": facts.in_vectors(columns)}
            if isinstance(plan, GroupPlan):
                most["inner"] = facts.inner_vectors(name) if part.main(name).kind in PRODUCT_KINDS else 1
                most["columns"] = 1 if part.main(name).kind in _NEEDS_WHOLE_ROWS else most["columns"]
            for axis, limit in most.items():
                given = getattr(plan, axis)
                part.require(1 <= given <= limit, f"{kind} of {name!r} in {given} parts along {axis}; at most {limit}")
    for name, weights in facts.weights.items():
        limit = facts.inner_vectors(name) // facts.groups[name].inner
        is_right = 1 <= weights.pieces <= limit and weights.shared >= 1
        part.require(
            is_right, f"weights of {name!r} in {weights.pieces} pieces; at most {limit} in each part of the sums"
        )


def _check_slots(facts: Facts) -> None:
    """Check that every tensor is held until the last stage has read it."""
    part, stages = facts.part, facts.stages()
    last = {name: stages[name] + (name in part.stores) for name in part.tensors}
    for name in part.made:
        for stored, views in part.network.inputs(name):
            # Of tensors side by side, perhaps only the first units that share a sum read this one, or none.
            if not any(view.kind in (OpKind.CONCAT, OpKind.CONCAT_ROWS) for view in views):
                last[stored] = max(last[stored], stages[name])
    for name, plan in facts.buffers.items():
        least = 1 + last[name] - stages[name]
        part.require(plan.slots >= least, f"buffers of {name!r} have {plan.slots} slots; its readers need {least}")


def _check_room(facts: Facts) -> None:
    """Check that what a section takes is there."""
    fabric, part = facts.fabric, facts.part
    counts = [
        sum(plan.units for plan in facts.groups.values()),
        sum(plan.parts * plan.copies for plan in facts.buffers.values()),
        sum(facts.buffers[name].parts for name in (*part.loads, *part.stores)),
    ]
    held = 0
    capacity, memories = fabric.memory.capacity_bytes, fabric.num_sites(SiteKind.MEMORY)
    for name, plan in facts.buffers.items():
        heads, rows, columns = facts.sizes[name]
        largest = _up(heads, plan.heads) * _up(rows, plan.rows) * _up(facts.in_vectors(columns), plan.columns)
        _fit(part, f"bytes in one memory unit for {name!r}", plan.slots * largest * fabric.vector_bytes, capacity)
        held += plan.slots * plan.copies * facts.vectors(name) * fabric.vector_bytes
    for name in facts.weights:
        sizes = facts.weight_bytes(name)
        _fit(part, f"bytes in one memory unit for weights of {name!r}", max(sizes), capacity)
        counts[SiteKind.MEMORY] += len(sizes)
        held += sum(sizes)
    for kind, what in zip(SiteKind, ("compute units", "buffers", "DRAM streams"), strict=True):
        _fit(part, what, counts[kind], fabric.max_units(kind) * fabric.num_sites(kind))
    _fit(part, "bytes of on-chip memory", held, memories * capacity)


def _fit(part: Part, what: str, needed: int, room: int) -> None:
    if needed > room:
        raise DoesNotFitError(f"{what}, in {part.where} of the plan,", needed, room, "use fewer parts, slots or copies")
