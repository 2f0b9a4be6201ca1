"""Short notation for graphs: each method adds an op and returns the name of its tensor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from placer.graph import DataflowGraph, Op, OpAttributes, OpKind, Shape


class GraphBuilder:
    """Collects ops until `build` makes the graph, which checks them all.

        builder = GraphBuilder()
        x = builder.load((64, 32))
        builder.store(builder.relu(builder.linear(x, 48)))
        graph = builder.build("example", "mlp")

    An op without a name is called by its kind and a number: `relu_0`, `relu_1`, ... A weight
    without a name is called by its op: `linear_0.weight`.
    """

    def __init__(self, ops: Iterable[Op] = ()) -> None:
        self._ops = list(ops)
        self._numbers: Counter[OpKind] = Counter(op.kind for op in self._ops)

    def build(self, name: str, family: str) -> DataflowGraph:
        return DataflowGraph(name, family, tuple(self._ops))

    def add_op(self, kind: OpKind, *inputs: str, name: str = "", **attributes: Any) -> str:
        """Add an op of any kind with attributes of `OpAttributes`."""
        self._ops.append(Op(self._named(kind, name), kind, inputs, OpAttributes(**attributes)))
        self._numbers[kind] += 1
        return self._ops[-1].name

    def load(self, shape: Shape, name: str = "") -> str:
        return self.add_op(OpKind.LOAD, name=name, shape=shape)

    def store(self, x: str, name: str = "") -> str:
        return self.add_op(OpKind.STORE, x, name=name)

    def embedding(self, rows: int, columns: int, table_rows: int, name: str = "") -> str:
        kind = OpKind.EMBEDDING
        name = self._named(kind, name)
        shape, weight = (rows, columns), f"{name}.table"
        return self.add_op(kind, name=name, shape=shape, weight=weight, table_rows=table_rows)

    def linear(self, x: str, columns: int, name: str = "", weight: str = "", transposed_weight: bool = False) -> str:
        name = self._named(OpKind.LINEAR, name)
        return self.add_op(
            OpKind.LINEAR, x, name=name, weight=weight or f"{name}.weight", columns=columns,
            transposed_weight=transposed_weight,
        )  # fmt: skip

    def matmul(
        self, left: str, right: str, transpose_a: bool = False, transpose_b: bool = False, name: str = ""
    ) -> str:
        turned = {"transpose_a": transpose_a, "transpose_b": transpose_b}
        return self.add_op(OpKind.MATMUL, left, right, name=name, **turned)

    def add(self, left: str, right: str, name: str = "") -> str:
        return self.add_op(OpKind.ADD, left, right, name=name)

    def bias(self, x: str, name: str = "") -> str:
        return self._with_weight(OpKind.BIAS, x, name)

    def scale(self, x: str, factor: float, name: str = "") -> str:
        return self.add_op(OpKind.SCALE, x, name=name, factor=factor)

    def relu(self, x: str, name: str = "") -> str:
        return self.add_op(OpKind.RELU, x, name=name)

    def gelu(self, x: str, name: str = "") -> str:
        return self.add_op(OpKind.GELU, x, name=name)

    def softmax(self, x: str, causal: bool = False, name: str = "") -> str:
        return self.add_op(OpKind.SOFTMAX, x, name=name, causal=causal)

    def layernorm(self, x: str, name: str = "") -> str:
        return self._with_weight(OpKind.LAYERNORM, x, name)

    def transpose(self, x: str, name: str = "") -> str:
        return self.add_op(OpKind.TRANSPOSE, x, name=name)

    def split_heads(self, x: str, heads: int, name: str = "") -> str:
        return self.add_op(OpKind.SPLIT_HEADS, x, name=name, heads=heads)

    def merge_heads(self, x: str, name: str = "") -> str:
        return self.add_op(OpKind.MERGE_HEADS, x, name=name)

    def concat(self, *parts: str, name: str = "") -> str:
        return self.add_op(OpKind.CONCAT, *parts, name=name)

    def slice(self, x: str, start: int, stop: int, name: str = "") -> str:
        return self.add_op(OpKind.SLICE, x, name=name, start=start, stop=stop)

    def _with_weight(self, kind: OpKind, x: str, name: str) -> str:
        name = self._named(kind, name)
        return self.add_op(kind, x, name=name, weight=f"{name}.weight")

    def _named(self, kind: OpKind, name: str) -> str:
        return name or f"{kind}_{self._numbers[kind]}"
