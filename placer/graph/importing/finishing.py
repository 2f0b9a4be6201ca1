"""From the ops of an assembler to the network, with better ops for the same numbers.

That is: causal softmax, products that read transposed, packed projections split, gates and norms
in one op, gains folded into the weights before them.
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

_NORMS = {OpKind.LAYERNORM: (".gamma", ".beta"), OpKind.RMSNORM: (".gamma",)}


def finish(a: Assembler, name: str) -> ImportedNetwork:
    """Make the network of all ops that its outputs need. Raises InputError if it is no graph."""
    ops = {name: _with_causal_mask(a, op) for name, op in a.ops.items()}
    ops = _needed(_without_transposes(ops))
    ops = _needed(_with_fused_ops(a, ops))
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
            source = a.ops[mask]
            if source.kind == OpKind.CONSTANT and _is_causal(a.weights[source.attributes.weight]):
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
        chain = [op] if op.kind == OpKind.LINEAR and not op.attributes.stacked else []
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


def _with_fused_ops(a: Assembler, ops: Ops) -> Ops:
    """Return ops that make the same outputs, where an idiom of several ops is one."""
    result: Ops = {}
    readers: dict[str, int] = {}
    for op in ops.values():
        for tensor in op.inputs:
            readers[tensor] = readers.get(tensor, 0) + 1
    for name, op in ops.items():
        result[name] = op
        fused = _silu(op, result)
        if fused is None and op.kind in (OpKind.GAIN, OpKind.BIAS):
            fused = _folded(a, op, result, readers)
        result[name] = fused or op
    return result


def _silu(op: Op, ops: Ops) -> Op | None:
    """Return x times sigmoid(x) as silu(x)."""
    if op.kind == OpKind.MULTIPLY:
        for x, gate in (op.inputs, op.inputs[::-1]):
            if ops[gate].kind == OpKind.SIGMOID and ops[gate].inputs == (x,):
                return Op(op.name, OpKind.SILU, (x,))
    return None


def _folded(a: Assembler, op: Op, ops: Ops, readers: dict[str, int]) -> Op | None:
    """Fold a gain or a bias into what makes its input, if nobody else reads that."""
    chain = [op]
    while chain[-1].inputs and readers[chain[-1].inputs[0]] == 1:
        chain.append(ops[chain[-1].inputs[0]])
        if chain[-1].kind not in (OpKind.BIAS, OpKind.MERGE_HEADS):
            break
    vector = a.weights[op.attributes.weight]
    source = chain[1] if len(chain) > 1 else op
    if op.kind == OpKind.BIAS:
        if source.kind == OpKind.BIAS:
            total = a.weights[source.attributes.weight] + vector
            return _with_weight(a, source, op.name, f"{source.attributes.weight}+{op.attributes.weight}", total)
        return _with_beta(a, op, source, vector)
    if source.kind in _NORMS:
        return _with_gamma(a, op, source, vector)
    if len(chain) > 1 and chain[-1].kind in (OpKind.LINEAR, OpKind.DEPTHWISE):
        return _gain_in_weights(a, op, chain, ops, vector)
    return None


def _with_weight(a: Assembler, op: Op, name: str, weight: str, array: NDArray[Any]) -> Op:
    """Return an op under another name that holds another weight."""
    return replace(op, name=name, attributes=replace(op.attributes, weight=a.weight(weight, array)))


def _with_gamma(a: Assembler, op: Op, norm: Op, vector: NDArray[Any]) -> Op | None:
    """Let a norm multiply by a vector that follows it."""
    old = norm.attributes.weight
    arrays = {part: a.weights[old + part] * vector for part in _NORMS[norm.kind]}
    is_plain = bool((a.weights[f"{old}.gamma"] == 1).all())
    weight = op.attributes.weight.removesuffix(".weight") if is_plain else f"{old}*{op.attributes.weight}"
    attributes = replace(norm.attributes, weight=a.weight_parts(weight, arrays))
    return replace(norm, name=op.name, attributes=attributes)


def _with_beta(a: Assembler, op: Op, norm: Op, vector: NDArray[Any]) -> Op | None:
    """Let a layernorm without a bias of its own add the vector that follows it."""
    old = norm.attributes.weight
    if norm.kind != OpKind.LAYERNORM or a.weights[f"{old}.beta"].any():
        return None
    arrays = {".gamma": a.weights[f"{old}.gamma"], ".beta": vector}
    attributes = replace(norm.attributes, weight=a.weight_parts(old, arrays))
    return replace(norm, name=op.name, attributes=attributes)


def _gain_in_weights(a: Assembler, op: Op, chain: list[Op], ops: Ops, vector: NDArray[Any]) -> Op | None:
    """Multiply the weight, and the biases behind it, by a vector of one factor per column."""
    has_heads = any(part.kind == OpKind.MERGE_HEADS for part in chain)
    is_stacked = chain[-1].attributes.stacked and chain[-2].kind == OpKind.MERGE_HEADS
    if has_heads != is_stacked:
        return None
    for part in chain[1:]:
        if part.kind == OpKind.MERGE_HEADS:
            continue
        array, at = a.weights[part.attributes.weight], part.attributes
        factor = vector
        if part.kind != OpKind.BIAS:
            columns = array.shape[-2] if at.transposed_weight else array.shape[-1]
            factor = vector.reshape(-1, 1, columns) if is_stacked else vector[None]
            factor = np.swapaxes(factor, -1, -2) if at.transposed_weight else factor
        ops[part.name] = _with_weight(a, part, part.name, f"{at.weight}*{op.attributes.weight}", array * factor)
    del ops[op.name]
    return replace(ops.pop(chain[1].name), name=op.name)
