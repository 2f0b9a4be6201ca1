"""Groups: ops that one set of compute units runs together, and their pipeline stages.

A matrix product, softmax, ... starts a group; element-wise ops with one input that follow it, and
whose input nobody else reads, are fused into it (they ride in the same pipeline). Views are no
groups.
"""

from __future__ import annotations

from dataclasses import dataclass

from placer.graph import SOURCE_KINDS, DataflowGraph, Op, OpKind
from placer.netlist.lowering.regions import VIEW_KINDS

FUSIBLE_KINDS = frozenset({OpKind.BIAS, OpKind.SCALE, OpKind.RELU, OpKind.GELU})
ROW_KINDS = frozenset(  # nothing of a row comes out before its last input
    {OpKind.SOFTMAX, OpKind.LAYERNORM, OpKind.SOFTMAX_GRAD, OpKind.LAYERNORM_GRAD}
)


@dataclass(frozen=True, slots=True)
class Group:
    """Ops that are run by the same compute units."""

    ops: tuple[Op, ...]  # the first does the main work, the others are fused
    stage: int

    @property
    def main(self) -> Op:
        return self.ops[0]

    @property
    def output(self) -> str:
        """Name of the tensor that the group makes."""
        return self.ops[-1].name


def is_compute(op: Op) -> bool:
    """Say whether an op needs compute units."""
    return op.kind not in VIEW_KINDS | SOURCE_KINDS and op.kind != OpKind.STORE


def form_groups(graph: DataflowGraph) -> list[Group]:
    """Form groups in topological order, with the pipeline stage of each (sources: stage 0)."""
    chains: dict[str, list[Op]] = {}  # by name of the tensor at the end of the chain
    for op in graph.ops:
        if not is_compute(op):
            continue
        source = op.inputs[0]
        if op.kind in FUSIBLE_KINDS and source in chains and len(graph.consumers[source]) == 1:
            chains[op.name] = [*chains.pop(source), op]
        else:
            chains[op.name] = [op]
    ordered = sorted(chains.values(), key=lambda chain: graph.position(chain[0].name))
    stage_of: dict[str, int] = {}
    groups = []
    for chain in ordered:
        stage = 1 + max(stage_of.get(name, 0) for tensor in chain[0].inputs for name in stored(graph, tensor))
        stage_of[chain[-1].name] = stage
        groups.append(Group(tuple(chain), stage))
    return groups


def stored(graph: DataflowGraph, tensor: str) -> set[str]:
    """Return the tensors that exist in memory behind a tensor that may be a view."""
    op = graph.op(tensor)
    if op.kind not in VIEW_KINDS:
        return {tensor}
    return {name for source in op.inputs for name in stored(graph, source)}
