"""Random small networks of all kinds, fabrics, and plans: cuts, tiles, splits and buffers, all legal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import numpy as np

from placer.fabric import DramSpec, Fabric, MemorySpec, SiteKind, load_fabric
from placer.fabric.fabric import ComputeSpec
from placer.graph import PRODUCT_KINDS, SOURCE_KINDS, DataflowGraph, OpKind, Window
from placer.graph.workloads import GraphBuilder, build, with_backward
from placer.graph.workloads.build import add_and_normalise, attention, feed_forward
from placer.graph.workloads.decoders import decoder_layers
from placer.graph.workloads.networks import PublishedDecoder
from placer.graph.workloads.specs import FfnSpec, MlpSpec
from placer.netlist.lowering import BufferPlan, Cut, GroupPlan, Plan, SectionPlan, TileAxis, Tiling, WeightsPlan
from placer.netlist.lowering.draft import Draft, make_draft, with_copies
from placer.netlist.lowering.groups import ROW_KINDS, Group, form_groups
from placer.netlist.lowering.slicing import Slices, sliced
from placer.netlist.lowering.tiling import find_tiles, section_graph, stored_readers
from placer.netlist.plan import fabric_key, graph_fingerprint

Rng = np.random.Generator
P = TypeVar("P", GroupPlan, BufferPlan)
WHOLE_ROWS = ROW_KINDS | {OpKind.ROTARY}
OPS = load_fabric("small").ops


def between(rng: Rng, low: int, high: int) -> int:
    return int(rng.integers(low, high + 1))


def random_fabric(rng: Rng) -> Fabric:
    """A small fabric with room for many buffers and DRAM streams."""
    return Fabric(
        "random",
        between(rng, 4, 7),
        between(rng, 4, 6),
        vector_bytes=4 * int(rng.choice([2, 4, 8, 16])),
        compute=ComputeSpec(block_rows=int(rng.choice([2, 4, 16])), block_columns=int(rng.choice([2, 4, 16]))),
        memory=MemorySpec(max_buffers=64),
        dram=DramSpec(latency_cycles=between(rng, 4, 20), max_streams=64),
        ops=OPS,
    )


def _mlp(rng: Rng) -> DataflowGraph:
    return build(MlpSpec(between(rng, 2, 20), 4 * between(rng, 1, 6), between(rng, 1, 3)))


def _ffn(rng: Rng) -> DataflowGraph:
    return build(FfnSpec(between(rng, 2, 20), 4 * between(rng, 1, 5), 4 * between(rng, 2, 8)))


def _transformer(rng: Rng) -> DataflowGraph:
    """Embedding, attention and feed-forward, causal or not."""
    b = GraphBuilder()
    rows, heads = between(rng, 2, 12), between(rng, 1, 4)
    width = heads * 2 * between(rng, 1, 4)
    x = b.layernorm(b.add(b.embedding(rows, width, 9, name="token"), b.embedding(rows, width, rows)))
    branch = attention(b, x, width, heads, "attention", causal=bool(rng.integers(2)))
    x = add_and_normalise(b, x, branch, "attention")
    x = add_and_normalise(b, x, feed_forward(b, x, width, 2 * width, "ffn"), "ffn")
    b.store(x, name="y")
    return b.build("transformer", "transformer")


def _decoder_of(rng: Rng, experts: int = 0) -> PublishedDecoder:
    key_heads, shared, half = between(rng, 1, 3), between(rng, 1, 3), between(rng, 1, 4)
    width = key_heads * shared * 2 * half
    hidden = 2 * between(rng, 2, 10)
    return PublishedDecoder(1, width, key_heads * shared, key_heads, hidden, 50, 64, 100.0, experts, min(experts, 2))


def _prefill(rng: Rng, experts: int = 0) -> DataflowGraph:
    """Grouped-query attention with rotary positions, then a gated feed-forward part or experts."""
    b, model, rows = GraphBuilder(), _decoder_of(rng, experts), between(rng, 2, 10)
    b.store(decoder_layers(b, b.load((rows, model.width), name="x"), model, rows, 1), name="y")
    return b.build("prefill", "decoder")


def _experts(rng: Rng) -> DataflowGraph:
    return _prefill(rng, between(rng, 2, 3))


def _decode(rng: Rng) -> DataflowGraph:
    """One step of several sequences, each with its cache."""
    b, model, rows = GraphBuilder(), _decoder_of(rng), between(rng, 1, 4)
    x = b.load((rows, model.width), name="x")
    b.store(decoder_layers(b, x, model, rows, 1, context=between(rng, 1, 6)), name="y")
    return b.build("decode", "decoder")


def _window(rng: Rng, image: tuple[int, int], pool: bool = False) -> Window:
    kernel = between(rng, 1, 3), between(rng, 1, 3)
    dilation = (1, 1) if pool else (between(rng, 1, 2), between(rng, 1, 2))
    top, left, bottom, right = (between(rng, 0, size - 1) for size in (*kernel, *kernel))
    return Window(image, kernel, (between(rng, 1, 2), between(rng, 1, 2)), (top, left, bottom, right), dilation)


def _convolutions(rng: Rng) -> DataflowGraph:
    """Windows of all kinds, one after the other, with a residual where the shape allows."""
    b = GraphBuilder()
    image, channels = (between(rng, 3, 7), between(rng, 3, 7)), 2 * between(rng, 1, 4)
    x = b.load((image[0] * image[1], channels), name="image")
    for number in range(between(rng, 1, 4)):
        kind, name, before = rng.choice(["full", "grouped", "depthwise", "max", "mean"]), f"layer{number}", x
        window = _window(rng, image, kind in ("max", "mean"))
        while min(window.output) < 1 or not window.is_inside:
            window = _window(rng, image, kind in ("max", "mean"))
        out = channels
        if kind == "full":
            out = 2 * between(rng, 1, 5)
            x = b.relu(b.bias(b.convolution(x, out, window, name=name), name=f"{name}.bias"), name=f"{name}.relu")
        elif kind == "grouped":
            out = 2 * between(rng, 1, 4)
            x = b.convolution(x, out, window, 2, name=name)
        elif kind == "depthwise":
            x = b.silu(b.depthwise(x, window, name=name), name=f"{name}.silu")
        else:
            x = (b.max_pool if kind == "max" else b.average_pool)(x, window, name=name)
        if (window.output, out) == (image, channels) and rng.integers(2):
            x = b.add(x, before, name=f"{name}.residual")
        image, channels = window.output, out
    b.store(b.linear(x, 3, name="last"), name="y")
    return b.build("convolutions", "convolutions")


def _views(rng: Rng) -> DataflowGraph:
    """Heads that share a weight, slices, concatenations and products of turned operands."""
    b = GraphBuilder()
    rows, heads, half = between(rng, 2, 8), between(rng, 1, 4), between(rng, 1, 5)
    x = b.load((rows, heads * between(rng, 1, 6)), name="x")
    a = b.linear(b.split_heads(x, heads), 2 * half)
    first = between(rng, 1, rows)
    parts = [b.slice_rows(a, 0, first)] + ([b.slice_rows(a, first, rows)] if first < rows else [])
    again = b.concat_rows(*parts[::-1]) if len(parts) > 1 else parts[0]
    y = b.concat(b.tanh(b.slice(a, half, 2 * half)), b.slice(again, 0, half))
    squares = b.matmul(y, a, transpose_a=True)  # [heads, 2 half, 2 half]
    turned = b.transpose(b.softmax(b.matmul(a, squares, transpose_b=bool(rng.integers(2)))))
    z = b.matmul(turned, b.sigmoid(squares), transpose_a=True)
    b.store(b.linear(b.merge_heads(z), between(rng, 1, 9)), name="y")
    return b.build("views", "views")


FORWARD: dict[str, Callable[[Rng], DataflowGraph]] = {
    "mlp": _mlp,
    "ffn": _ffn,
    "transformer": _transformer,
    "prefill": _prefill,
    "experts": _experts,
    "decode": _decode,
    "convolutions": _convolutions,
    "views": _views,
}
TRAINED = ("mlp", "ffn", "transformer", "prefill", "views")
KINDS = [*FORWARD, *(f"{kind} training" for kind in TRAINED)]


def random_graph(rng: Rng, kind: str) -> DataflowGraph:
    graph = FORWARD[kind.removesuffix(" training")](rng)
    return with_backward(graph) if kind.endswith(" training") else graph


def random_plan(rng: Rng, fabric: Fabric, graph: DataflowGraph) -> Plan:
    """Slice some products and cut a graph at random, tile every section and lay it out at random."""
    fingerprint, slices = graph_fingerprint(graph), _random_slices(rng, graph)
    graph = sliced(graph, slices)
    groups, sites = form_groups(graph), fabric.num_sites(SiteKind.COMPUTE)
    mean = rng.choice([1, 3, 8])
    layouts, cuts = [], []
    start = 0
    while start < len(groups):
        end = min(len(groups), start + min(sites, int(rng.geometric(1 / mean))))
        part = tuple(groups[start:end])
        layouts.append(random_layout(rng, fabric, graph, part))
        cuts.append(Cut(tuple(group.output for group in part), len(layouts) - 1))
        start = end
    return Plan(fingerprint, fabric_key(fabric), slices, tuple(layouts), tuple(cuts))


def _random_slices(rng: Rng, graph: DataflowGraph) -> Slices:
    products = [op for op in graph.ops if op.kind == OpKind.LINEAR and op.attributes.columns > 1]
    return tuple(
        (op.name, between(rng, 2, min(3, op.attributes.columns)))
        for op in products
        if not op.attributes.stacked and rng.random() < 0.15
    )


def random_layout(rng: Rng, fabric: Fabric, graph: DataflowGraph, groups: tuple[Group, ...]) -> SectionPlan:
    tiling, copies = _random_tiling(rng, graph, groups)
    readers = stored_readers(graph)
    empty = SectionPlan(tiling, (), (), (), copies)
    part = section_graph(graph, groups, empty.sample, readers, "part")
    if not _can_copy(fabric, part, empty):
        copies, empty = 1, replace(empty, copies=1)
        part = section_graph(graph, groups, tiling, readers, "part")
    sites = fabric.num_sites(SiteKind.COMPUTE)
    members = form_groups(part)
    plans = [GroupPlan()] * len(members)
    for _ in range(between(rng, 0, 6 * len(members))):
        number = between(rng, 0, len(members) - 1)
        tried = list(plans)
        tried[number] = _random_step(rng, tried[number])
        layout = replace(empty, groups=tuple(tried))
        split = _with_copies(part, layout)
        units = sum(plan.units for plan in split)
        if units <= sites and _is_possible(fabric, part, members[number], split[number]):
            plans = tried
    layout = replace(empty, groups=tuple(plans))
    draft = make_draft(fabric, part, _with_copies(part, layout))
    weights = tuple(_random_weights(rng, draft, number) for number in range(len(draft.weights)))
    buffers = tuple(_random_buffer(rng, fabric, draft, number, layout) for number in range(len(draft.tensors)))
    return replace(layout, buffers=buffers, weights=weights)


def _random_tiling(rng: Rng, graph: DataflowGraph, groups: tuple[Group, ...]) -> tuple[Tiling, int]:
    """Draw samples and copies; with heads both must divide."""
    tiles = find_tiles(graph, groups)
    if tiles.axis == TileAxis.NONE or rng.random() < 0.15:
        return Tiling(), 1
    sizes = list(range(1, tiles.extent + 1))
    if tiles.axis == TileAxis.HEADS:
        sizes = [size for size in sizes if tiles.extent % size == 0]
    tiling = tiles.tiling(int(rng.choice(sizes)))
    copies = [number for number in (1, 2, 3) if number <= tiling.samples]
    if tiles.axis == TileAxis.HEADS:
        copies = [number for number in copies if tiling.samples % number == 0]
    return tiling, int(rng.choice(copies))


def _with_copies(part: DataflowGraph, layout: SectionPlan) -> tuple[GroupPlan, ...]:
    names = sum(op.kind in SOURCE_KINDS for op in part.ops) + len(form_groups(part))
    return with_copies(part, replace(layout, buffers=(BufferPlan(),) * names))[0]


def _can_copy(fabric: Fabric, part: DataflowGraph, layout: SectionPlan) -> bool:
    """Say whether every tensor is long enough to be cut for all copies, and units suffice."""
    groups = form_groups(part)
    if layout.copies * len(groups) > fabric.num_sites(SiteKind.COMPUTE):
        return False
    names = [op.name for op in part.ops if op.kind in SOURCE_KINDS] + [group.output for group in groups]
    plain = replace(layout, groups=(GroupPlan(),) * len(groups), buffers=(BufferPlan(),) * len(names))
    plans, buffers = with_copies(part, plain)
    fits = [_is_possible(fabric, part, group, plan) for group, plan in zip(groups, plans, strict=True)]
    fits += [_is_cuttable(fabric, part, name, buffer) for name, buffer in zip(names, buffers, strict=True)]
    return all(fits)


def _is_cuttable(fabric: Fabric, part: DataflowGraph, name: str, plan: GroupPlan | BufferPlan) -> bool:
    tensor = part.tensors[name]
    vectors = -(-tensor.columns // fabric.elements_per_vector)
    return plan.heads <= tensor.heads and plan.rows <= tensor.rows and plan.columns <= vectors


def _is_possible(fabric: Fabric, part: DataflowGraph, group: Group, plan: GroupPlan) -> bool:
    inner = 1
    if group.main.kind in PRODUCT_KINDS:
        inner = -(-part.inner_length(group.main) // fabric.elements_per_vector)
    if plan.columns > 1 and group.main.kind in WHOLE_ROWS:
        return False
    return _is_cuttable(fabric, part, group.output, plan) and plan.inner <= inner


def _random_step(rng: Rng, plan: P, axes: tuple[str, ...] = ("heads", "rows", "columns", "inner")) -> P:
    axis = str(rng.choice(axes))
    return replace(plan, **{axis: getattr(plan, axis) + between(rng, 1, 2)})


def _random_weights(rng: Rng, draft: Draft, number: int) -> WeightsPlan:
    _, spans = draft.weights[number]
    if rng.integers(2):
        return WeightsPlan(pieces=between(rng, 1, min(span.vectors for span in spans)))
    return WeightsPlan(shared=between(rng, 1, len(spans)))


def _random_buffer(rng: Rng, fabric: Fabric, draft: Draft, number: int, layout: SectionPlan) -> BufferPlan:
    tensor, count = draft.tensors[number], len(draft.tensors)
    readers = max((len(need.targets) for need in tensor.needs), default=1) or 1
    plan = BufferPlan(
        copies=between(rng, 1, readers) if rng.random() < 0.3 else 1, slots=tensor.least_slots + between(rng, 0, 2)
    )
    for _ in range(between(rng, 0, 3)):
        tried = _random_step(rng, plan, ("heads", "rows", "columns"))
        _, split = with_copies(draft.graph, replace(layout, buffers=(tried,) * count))
        if _is_cuttable(fabric, draft.graph, tensor.name, split[number]):
            plan = tried
    return plan
