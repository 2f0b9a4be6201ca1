"""Groups: ops that one set of compute units runs together.

A matrix product, softmax, ... starts a group; element-wise ops with one input that follow it, and
whose input nobody else reads, are fused into it (they ride in the same pipeline). Views are no
groups.
"""

from __future__ import annotations

from dataclasses import dataclass

from placer.graph import SOURCE_KINDS, VIEW_KINDS, DataflowGraph, Op, OpKind

FUSIBLE_KINDS = frozenset(
    {
        OpKind.BIAS, OpKind.GAIN, OpKind.SCALE, OpKind.RELU, OpKind.GELU, OpKind.SILU,
        OpKind.SIGMOID, OpKind.TANH,
    }
)  # fmt: skip
ROW_KINDS = frozenset(  # nothing of a row comes out before its last input
    {
        OpKind.SOFTMAX, OpKind.LAYERNORM, OpKind.RMSNORM, OpKind.TOP_K,
        OpKind.SOFTMAX_GRAD, OpKind.LAYERNORM_GRAD, OpKind.RMSNORM_GRAD,
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Group:
    """Ops that are run by the same compute units: the first does the main work, the others are fused."""

    ops: tuple[Op, ...]

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
    """Form groups in topological order."""
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
    return [Group(tuple(chain)) for chain in ordered]


def stored(graph: DataflowGraph, tensor: str) -> set[str]:
    """Return the tensors that exist in memory behind a tensor that may be a view."""
    op = graph.op(tensor)
    if op.kind not in VIEW_KINDS:
        return {tensor}
    return {name for source in op.inputs for name in stored(graph, source)}
