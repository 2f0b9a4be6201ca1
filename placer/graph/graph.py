"""The dataflow graph: operations and tensors of a model, with shapes.

`ops` says what each kind of op means, `shapes` what it makes; `workloads` makes graphs; `graph_file`
reads and writes them.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter

from placer.base import InputError
from placer.graph.ops import PRODUCT_KINDS, SINK_KINDS, SOURCE_KINDS, Op, OpKind, Shape, Weights
from placer.graph.shapes import held_weights, output_shape


@dataclass(frozen=True, slots=True)
class Tensor:
    """What an op makes: a matrix, or one matrix per head."""

    name: str
    shape: Shape  # (rows, columns) or (heads, rows, columns)

    @property
    def heads(self) -> int:
        return self.shape[0] if len(self.shape) == 3 else 1

    @property
    def rows(self) -> int:
        return self.shape[-2]

    @property
    def columns(self) -> int:
        return self.shape[-1]

    @property
    def elements(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class DataflowGraph:
    """Ops in topological order; a topological order is made if they are given in another one.

    Raises InputError for an unknown tensor, a cycle, a name used twice, shapes that do not fit,
    a tensor that nobody reads, and a graph without input or output.
    """

    name: str
    family: str  # kind of workload: "gemm", "mha", "bert_large", ...
    ops: tuple[Op, ...]

    def __post_init__(self) -> None:
        where = f"graph {self.name!r}"
        for text in (self.name, self.family):
            if not text or not text.isprintable():
                raise InputError(f"{where}: name and family must be printable text, got {text!r}")
        _check_names(where, self.ops)
        object.__setattr__(self, "ops", tuple(_topological(where, self.ops)))
        _check_ends(where, self.ops)
        _check_weights(where, self)

    @cached_property
    def tensors(self) -> Mapping[str, Tensor]:
        """Return every tensor by name; the tensor of an op has the op's name."""
        tensors: dict[str, Tensor] = {}
        for op in self.ops:
            shapes = [tensors[name].shape for name in op.inputs]
            tensors[op.name] = Tensor(op.name, output_shape(op, shapes))
        return tensors

    @cached_property
    def consumers(self) -> Mapping[str, tuple[Op, ...]]:
        """Return the ops that read a tensor, by its name, in topological order, each once."""
        consumers: dict[str, list[Op]] = {op.name: [] for op in self.ops}
        for op in self.ops:
            for name in dict.fromkeys(op.inputs):
                consumers[name].append(op)
        return {name: tuple(ops) for name, ops in consumers.items()}

    @cached_property
    def weights(self) -> Mapping[str, Shape]:
        """Return the shape of every weight by name; several ops may hold the same one."""
        return {name: shape for op in self.ops for name, shape in self.weights_of(op).items()}

    @property
    def total_macs(self) -> int:
        return sum(self.macs(op) for op in self.ops)

    def op(self, name: str) -> Op:
        """Return the op that makes a tensor."""
        return self.ops[self.position(name)]

    def position(self, name: str) -> int:
        """Return the place of an op in the topological order."""
        return self._positions[name]

    @cached_property
    def _positions(self) -> Mapping[str, int]:
        return {op.name: position for position, op in enumerate(self.ops)}

    def weights_of(self, op: Op) -> Weights:
        """Return the weights of `op`; resident, but for embeddings and constants, which are in DRAM."""
        return held_weights(op, [self.tensors[name].shape for name in op.inputs])

    def inner_length(self, op: Op) -> int:
        """Return the length of the sums of a matrix product, K of [M, K] x [K, N]; else 0."""
        if op.kind not in PRODUCT_KINDS:
            return 0
        left = self.tensors[op.inputs[0]]
        if op.kind == OpKind.WEIGHT_GRAD:
            return left.heads * left.rows
        return left.rows if op.attributes.transpose_a else left.columns

    def macs(self, op: Op) -> int:
        """Return the multiply-accumulates of a matrix product; 0 for other ops (`elements`)."""
        return self.elements(op) * self.inner_length(op)

    def elements(self, op: Op) -> int:
        """Return how many numbers `op` makes: the work of all ops that are no matrix product."""
        return self.tensors[op.name].elements


def _check_names(where: str, ops: Sequence[Op]) -> None:
    repeated = [name for name, count in Counter(op.name for op in ops).items() if count > 1]
    if repeated:
        raise InputError(f"{where}: names used more than once: {repeated}; each op needs its own")
    known = {op.name for op in ops if op.kind != OpKind.STORE}
    for op in ops:
        for name in op.inputs:
            if name not in known:
                raise InputError(f"{where}: op {op.name!r} reads {name!r}, which no op makes for reading")


def _topological(where: str, ops: Sequence[Op]) -> Iterable[Op]:
    """Put producers first; among the ops that are ready, the one given first."""
    position = {op.name: index for index, op in enumerate(ops)}
    inputs = {index: [position[name] for name in op.inputs] for index, op in enumerate(ops)}
    sorter = TopologicalSorter(inputs)
    try:
        sorter.prepare()
    except CycleError as error:
        cycle = " -> ".join(ops[index].name for index in error.args[1])
        raise InputError(f"{where}: cycle {cycle}; a graph must have none") from error
    ready: list[int] = []
    order = []
    while sorter:
        for index in sorter.get_ready():
            heapq.heappush(ready, index)
        first = heapq.heappop(ready)
        sorter.done(first)
        order.append(ops[first])
    return order


def _check_ends(where: str, ops: Sequence[Op]) -> None:
    if not any(op.kind in SOURCE_KINDS for op in ops):
        raise InputError(f"{where}: no input; a graph needs a load, an embedding or a constant")
    if not any(op.kind in SINK_KINDS for op in ops):
        raise InputError(f"{where}: no output; a graph needs a store or a weight_grad")
    read = {name for op in ops for name in op.inputs}
    for op in ops:
        if op.kind not in SINK_KINDS and op.name not in read:
            raise InputError(f"{where}: nobody reads the tensor of op {op.name!r}; store it or remove the op")
        if op.kind in SINK_KINDS and op.name in read:
            raise InputError(f"{where}: the tensor of {op.kind} {op.name!r} cannot be read")


def _check_weights(where: str, graph: DataflowGraph) -> None:
    """Check that ops that share a weight, or make its gradient, agree on its shape."""
    known: Weights = {}
    for op in graph.ops:
        shapes = graph.weights_of(op)
        if op.kind == OpKind.WEIGHT_GRAD:
            shapes = {op.attributes.weight: graph.tensors[op.name].shape}
        for name, shape in shapes.items():
            if known.setdefault(name, shape) != shape:
                raise InputError(
                    f"{where}: op {op.name!r} takes weight {name!r} to have shape {list(shape)}, "
                    f"another op {list(known[name])}"
                )
