"""Short notation for graphs: each method adds an op and returns the name of its tensor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from placer.graph import DataflowGraph
from placer.ops import Op, OpAttributes, OpKind, Shape


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

    def add_op(
        self, kind: OpKind, *inputs: str, name: str = "", attributes: OpAttributes | None = None
    ) -> str:
        self._ops.append(Op(self._named(kind, name), kind, inputs, attributes or OpAttributes()))
        self._numbers[kind] += 1
        return self._ops[-1].name

    def load(self, shape: Shape, name: str = "") -> str:
        return self.add_op(OpKind.LOAD, name=name, attributes=OpAttributes(shape=shape))

    def store(self, x: str, name: str = "") -> str:
        return self.add_op(OpKind.STORE, x, name=name)

    def embedding(self, rows: int, columns: int, table_rows: int, name: str = "") -> str:
        name = self._named(OpKind.EMBEDDING, name)
        attributes = OpAttributes(
            shape=(rows, columns), weight=f"{name}.table", table_rows=table_rows
        )
        return self.add_op(OpKind.EMBEDDING, name=name, attributes=attributes)

    def linear(
        self,
        x: str,
        columns: int,
        name: str = "",
        weight: str = "",
        transposed_weight: bool = False,
    ) -> str:
        name = self._named(OpKind.LINEAR, name)
        attributes = OpAttributes(
            weight=weight or f"{name}.weight",
            columns=columns,
            transposed_weight=transposed_weight,
        )
        return self.add_op(OpKind.LINEAR, x, name=name, attributes=attributes)

    def matmul(
        self,
        left: str,
        right: str,
        transpose_a: bool = False,
        transpose_b: bool = False,
        name: str = "",
    ) -> str:
        attributes = OpAttributes(transpose_a=transpose_a, transpose_b=transpose_b)
        return self.add_op(OpKind.MATMUL, left, right, name=name, attributes=attributes)

    def add(self, left: str, right: str, name: str = "") -> str:
        return self.add_op(OpKind.ADD, left, right, name=name)

    def bias(self, x: str, name: str = "") -> str:
        return self._with_weight(OpKind.BIAS, x, name)

    def scale(self, x: str, factor: float, name: str = "") -> str:
        return self.add_op(OpKind.SCALE, x, name=name, attributes=OpAttributes(factor=factor))

    def relu(self, x: str, name: str = "") -> str:
        return self.add_op(OpKind.RELU, x, name=name)

    def gelu(self, x: str, name: str = "") -> str:
        return self.add_op(OpKind.GELU, x, name=name)

    def softmax(self, x: str, causal: bool = False, name: str = "") -> str:
        return self.add_op(OpKind.SOFTMAX, x, name=name, attributes=OpAttributes(causal=causal))

    def layernorm(self, x: str, name: str = "") -> str:
        return self._with_weight(OpKind.LAYERNORM, x, name)

    def transpose(self, x: str, name: str = "") -> str:
        return self.add_op(OpKind.TRANSPOSE, x, name=name)

    def split_heads(self, x: str, heads: int, name: str = "") -> str:
        return self.add_op(OpKind.SPLIT_HEADS, x, name=name, attributes=OpAttributes(heads=heads))

    def merge_heads(self, x: str, name: str = "") -> str:
        return self.add_op(OpKind.MERGE_HEADS, x, name=name)

    def concat(self, *parts: str, name: str = "") -> str:
        return self.add_op(OpKind.CONCAT, *parts, name=name)

    def slice(self, x: str, start: int, stop: int, name: str = "") -> str:
        attributes = OpAttributes(start=start, stop=stop)
        return self.add_op(OpKind.SLICE, x, name=name, attributes=attributes)

    def _with_weight(self, kind: OpKind, x: str, name: str) -> str:
        name = self._named(kind, name)
        return self.add_op(kind, x, name=name, attributes=OpAttributes(weight=f"{name}.weight"))

    def _named(self, kind: OpKind, name: str) -> str:
        return name or f"{kind}_{self._numbers[kind]}"
