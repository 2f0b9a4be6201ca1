"""Short notation for graphs: each method adds an op and returns the name of its tensor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from placer.base import InputError
from placer.graph import DataflowGraph, Op, OpAttributes, OpKind, Shape, Window


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

    @property
    def ops(self) -> tuple[Op, ...]:
        """Return the ops added so far."""
        return tuple(self._ops)

    def build(self, name: str, family: str) -> DataflowGraph:
        return DataflowGraph(name, family, tuple(self._ops))

    def add_op(self, kind: OpKind, *inputs: str, name: str = "", **attributes: Any) -> str:
        """Add an op of any kind with attributes of `OpAttributes`."""
        self._ops.append(Op(self._named(kind, name), kind, inputs, OpAttributes(**attributes)))
        self._numbers[kind] += 1
        return self._ops[-1].name

    def load(self, shape: Shape, name: str = "") -> str:
        return self.add_op(OpKind.LOAD, name=name, shape=shape)

    def constant(self, shape: Shape, name: str = "", weight: str = "") -> str:
        name = self._named(OpKind.CONSTANT, name)
        return self.add_op(OpKind.CONSTANT, name=name, shape=shape, weight=weight or f"{name}.weight")

    def store(self, x: str, name: str = "") -> str:
        return self.add_op(OpKind.STORE, x, name=name)

    def embedding(self, rows: int, columns: int, table_rows: int, name: str = "") -> str:
        kind = OpKind.EMBEDDING
        name = self._named(kind, name)
        shape, weight = (rows, columns), f"{name}.table"
        return self.add_op(kind, name=name, shape=shape, weight=weight, table_rows=table_rows)

    def linear(
        self, x: str, columns: int, name: str = "", weight: str = "", transposed_weight: bool = False,
        stacked: bool = False,
    ) -> str:  # fmt: skip
        name = self._named(OpKind.LINEAR, name)
        return self.add_op(
            OpKind.LINEAR, x, name=name, weight=weight or f"{name}.weight", columns=columns,
            transposed_weight=transposed_weight, stacked=stacked,
        )  # fmt: skip

    def matmul(
        self, left: str, right: str, transpose_a: bool = False, transpose_b: bool = False, name: str = ""
    ) -> str:
        turned = {"transpose_a": transpose_a, "transpose_b": transpose_b}
        return self.add_op(OpKind.MATMUL, left, right, name=name, **turned)

    def add(self, left: str, right: str, name: str = "") -> str:
        return self.add_op(OpKind.ADD, left, right, name=name)

    def multiply(self, left: str, right: str, name: str = "") -> str:
        return self.add_op(OpKind.MULTIPLY, left, right, name=name)

    def bias(self, x: str, name: str = "") -> str:
        return self._with_weight(OpKind.BIAS, x, name)

    def gain(self, x: str, name: str = "") -> str:
        return self._with_weight(OpKind.GAIN, x, name)

    def scale(self, x: str, factor: float, name: str = "") -> str:
        return self.add_op(OpKind.SCALE, x, name=name, factor=factor)

    def relu(self, x: str, name: str = "") -> str:
        return self.add_op(OpKind.RELU, x, name=name)

    def gelu(self, x: str, name: str = "") -> str:
        return self.add_op(OpKind.GELU, x, name=name)

    def silu(self, x: str, name: str = "") -> str:
        return self.add_op(OpKind.SILU, x, name=name)

    def sigmoid(self, x: str, name: str = "") -> str:
        return self.add_op(OpKind.SIGMOID, x, name=name)

    def tanh(self, x: str, name: str = "") -> str:
        return self.add_op(OpKind.TANH, x, name=name)

    def softmax(self, x: str, causal: bool = False, name: str = "") -> str:
        return self.add_op(OpKind.SOFTMAX, x, name=name, causal=causal)

    def layernorm(self, x: str, name: str = "") -> str:
        return self._with_weight(OpKind.LAYERNORM, x, name)

    def rmsnorm(self, x: str, name: str = "") -> str:
        return self._with_weight(OpKind.RMSNORM, x, name)

    def rotary(self, x: str, cos: str, sin: str, inverse: bool = False, name: str = "") -> str:
        return self.add_op(OpKind.ROTARY, x, cos, sin, name=name, inverse=inverse)

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

    def concat_rows(self, *parts: str, name: str = "") -> str:
        return self.add_op(OpKind.CONCAT_ROWS, *parts, name=name)

    def slice_rows(self, x: str, start: int, stop: int, name: str = "") -> str:
        return self.add_op(OpKind.SLICE_ROWS, x, name=name, start=start, stop=stop)

    def repeat_heads(self, x: str, repeats: int, name: str = "") -> str:
        return self.add_op(OpKind.REPEAT_HEADS, x, name=name, repeats=repeats)

    def sum_heads(self, x: str, repeats: int, name: str = "") -> str:
        return self.add_op(OpKind.SUM_HEADS, x, name=name, repeats=repeats)

    def rows_to_heads(self, x: str, heads: int, name: str = "") -> str:
        return self.add_op(OpKind.ROWS_TO_HEADS, x, name=name, heads=heads)

    def heads_to_rows(self, x: str, heads: int, name: str = "") -> str:
        return self.add_op(OpKind.HEADS_TO_ROWS, x, name=name, heads=heads)

    def top_k(self, x: str, top: int, name: str = "") -> str:
        return self.add_op(OpKind.TOP_K, x, name=name, top=top)

    def dispatch(self, x: str, gates: str, expert: int, capacity: int, name: str = "") -> str:
        return self.add_op(OpKind.DISPATCH, x, gates, name=name, expert=expert, capacity=capacity)

    def combine(self, gates: str, *results: str, name: str = "") -> str:
        return self.add_op(OpKind.COMBINE, gates, *results, name=name)

    def patches(self, x: str, window: Window, groups: int = 1, name: str = "") -> str:
        return self.add_op(OpKind.PATCHES, x, name=name, groups=groups, **window._asdict())

    def convolution(self, x: str, columns: int, window: Window, groups: int = 1, name: str = "") -> str:
        """Add patches and a product of each with a resident weight[kh * kw * channels, columns].

        With groups the weight is [groups, kh * kw * channels / groups, columns / groups]. Windows of
        one pixel at every pixel need no patches: the image is its own.
        """
        name = name or f"convolution_{self._numbers[OpKind.LINEAR]}"
        if groups > 1:
            if columns % groups:
                raise InputError(f"op {name!r}: {columns} columns are no multiple of groups={groups}")
            x = self.patches(x, window, groups, name=f"{name}.patches")
            y = self.linear(x, columns // groups, f"{name}.product", f"{name}.weight", stacked=True)
            return self.merge_heads(y, name=name)
        if not window.is_pointwise:
            x = self.patches(x, window, name=f"{name}.patches")
        return self.linear(x, columns, name)

    def depthwise(self, x: str, window: Window, name: str = "") -> str:
        name = self._named(OpKind.DEPTHWISE, name)
        return self.add_op(OpKind.DEPTHWISE, x, name=name, weight=f"{name}.weight", **window._asdict())

    def max_pool(self, x: str, window: Window, name: str = "") -> str:
        return self.add_op(OpKind.MAX_POOL, x, name=name, **window._asdict())

    def average_pool(self, x: str, window: Window, count_padding: bool = True, name: str = "") -> str:
        return self.add_op(OpKind.AVERAGE_POOL, x, name=name, count_padding=count_padding, **window._asdict())

    def _with_weight(self, kind: OpKind, x: str, name: str) -> str:
        name = self._named(kind, name)
        return self.add_op(kind, x, name=name, weight=f"{name}.weight")

    def _named(self, kind: OpKind, name: str) -> str:
        return name or f"{kind}_{self._numbers[kind]}"
