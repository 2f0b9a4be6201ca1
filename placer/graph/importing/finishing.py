"""From the ops of an assembler to the network, with better ops for the same numbers.

That is: causal softmax, products that read transposed, packed projections split.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placer.graph import SINK_KINDS, DataflowGraph, Op, OpAttributes, OpKind
from placer.graph.importing.assembler import Assembler
from placer.graph.importing.layers import HIDDEN
from placer.graph.importing.network import ImportedNetwork

Ops = dict[str, Op]  # by name, producers first


def finish(a: Assembler, name: str) -> ImportedNetwork:
    """Make the network of all ops that its outputs need. Raises InputError if it is no graph."""
    ops = {name: _with_causal_mask(a, op) for name, op in a.ops.items()}
    ops = _needed(_without_transposes(ops))
    ops = _needed(_with_split_projections(a, ops))
    graph = DataflowGraph(name, "imported", tuple(ops.values()))
    return ImportedNetwork(
        graph,
        weights={weight: a.weights[weight] for weight in graph.weights},
        loads={op.name: a.loads[op.name] for op in graph.ops if op.name in a.loads},
        outputs=a.outputs,
    )


def _needed(ops: Ops) -> Ops:
    """Keep the ops from which a path leads to an output."""
    needed: set[str] = set()
    for name, op in reversed(ops.items()):
        if op.kind in SINK_KINDS or name in needed:
            needed.update((name, *op.inputs))
    return {name: op for name, op in ops.items() if name in needed}


def _with_causal_mask(a: Assembler, op: Op) -> Op:
    """Let a softmax of a sum with the causal mask look no further than its row by itself."""
    if op.kind != OpKind.SOFTMAX:
        return op
    total = a.ops[op.inputs[0]]
    if total.kind == OpKind.ADD:
        for scores, mask in (total.inputs, total.inputs[::-1]):
            loaded = a.loads.get(mask)
            if loaded and not isinstance(loaded.source, int) and _is_causal(loaded.array([])):
                return replace(op, inputs=(scores,), attributes=OpAttributes(causal=True))
    return op


def _is_causal(mask: NDArray[Any]) -> bool:
    rows, columns = mask.shape[-2:]
    if rows != columns:
        return False
    is_seen = np.tri(rows, dtype=bool)
    return bool((mask[..., is_seen] == 0).all() and (mask[..., ~is_seen] <= HIDDEN).all())


def _without_transposes(ops: Ops) -> Ops:
    """Cancel two transposes, and let a product read its operands transposed by itself."""
    stands_for: dict[str, str] = {}
    result: Ops = {}
    for name, op in ops.items():
        op = replace(op, inputs=tuple(stands_for.get(tensor, tensor) for tensor in op.inputs))
        source = ops[op.inputs[0]] if op.inputs else op
        if op.kind == source.kind == OpKind.TRANSPOSE and source is not op:
            stands_for[name] = result[source.name].inputs[0]
        result[name] = _reading_transposed(op, result) if op.kind == OpKind.MATMUL else op
    return result


def _reading_transposed(op: Op, ops: Ops) -> Op:
    inputs, flags = list(op.inputs), [op.attributes.transpose_a, op.attributes.transpose_b]
    for side, tensor in enumerate(op.inputs):
        if ops[tensor].kind == OpKind.TRANSPOSE:
            inputs[side] = ops[tensor].inputs[0]
            flags[side] = not flags[side]
    attributes = replace(op.attributes, transpose_a=flags[0], transpose_b=flags[1])
    return replace(op, inputs=tuple(inputs), attributes=attributes)


def _with_split_projections(a: Assembler, ops: Ops) -> Ops:
    """Make one linear layer for each part, where only disjoint columns of one are read.

    So a packed projection to query, key and value is three, which can lie in different places.
    """
    readers: dict[str, list[Op]] = {name: [] for name in ops}
    for op in ops.values():
        for tensor in op.inputs:
            readers[tensor].append(op)
    result: Ops = {}
    for name, op in ops.items():
        if name in result:
            continue  # a part that was put here before
        chain = [op] if op.kind == OpKind.LINEAR else []
        if chain and [reader.kind for reader in readers[name]] == [OpKind.BIAS]:
            chain.append(readers[name][0])
        parts = readers[chain[-1].name] if chain else []
        if not _are_disjoint(parts):
            result[name] = op
            continue
        for part in parts:
            result.update(_split(a, chain, part))
    return result


def _are_disjoint(parts: list[Op]) -> bool:
    if not parts or any(part.kind != OpKind.SLICE for part in parts):
        return False
    spans = sorted((part.attributes.start, part.attributes.stop) for part in parts)
    return all(one[1] <= two[0] for one, two in pairwise(spans))


def _split(a: Assembler, chain: list[Op], part: Op) -> Ops:
    """Make the part of a linear layer and its bias that one slice reads, in its name."""
    columns = slice(part.attributes.start, part.attributes.stop)
    suffix = f"[{columns.start}:{columns.stop}]"
    result: Ops = {}
    tensor = chain[0].inputs[0]
    for number, op in enumerate(chain):
        weight = op.attributes.weight
        array = a.weights[weight]
        is_turned = op.kind == OpKind.BIAS or op.attributes.transposed_weight
        a.weights[weight + suffix] = array[columns] if is_turned else array[:, columns]
        name = part.name if number == len(chain) - 1 else f"{part.name}.{op.kind}"
        attributes = replace(op.attributes, weight=weight + suffix)
        if op.kind == OpKind.LINEAR:
            attributes = replace(attributes, columns=columns.stop - columns.start)
        result[name] = Op(name, op.kind, (tensor,), attributes)
        tensor = name
    return result
