"""Idioms: several operators of a network that compute what one op of the graph does.

Users write a norm, a gelu or a router in many ways. They are told by what they compute, not by how
they are written: the operators are run on a few inputs, and the results compared with those of the op.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placer.graph import DataflowGraph, Op, OpAttributes, OpKind, compute_values
from placer.graph.importing import layers
from placer.graph.importing.assembler import Assembler, Constant
from placer.graph.importing.elementwise import add, elementwise, multiply
from placer.graph.importing.views import Value

Array = NDArray[Any]

MAX_PROBE = 2**23  # elements of a tensor on which operators are run
MAX_ROWS = 64  # that are compared
MAX_COLUMNS = 1024  # of a router, or of positions that are turned
TOLERANCE = 2e-5  # operators compute in float32
MAX_EPSILON = 0.1

_ACTIVATIONS: list[tuple[OpKind, dict[str, Any]]] = [
    (OpKind.GELU, {}),
    (OpKind.GELU, {"tanh": True}),
    (OpKind.SILU, {}),
    (OpKind.RELU, {}),
    (OpKind.SIGMOID, {}),
    (OpKind.TANH, {}),
    (OpKind.SOFTMAX, {}),
]


@dataclass(frozen=True, slots=True)
class Function:
    """What some operators make of one tensor."""

    run: Callable[[Array], Array | None]  # None if they cannot be run
    numbers: tuple[float, ...]  # the constants in them

    def __call__(self, x: Array) -> Array:
        """Return the result; one that is not finite if there is none."""
        y = self.run(np.ascontiguousarray(x, np.float32))
        return np.full(1, np.nan) if y is None else np.asarray(y, np.float64)

    def of(self, shape: tuple[int, ...]) -> Function:
        """Return the same function of a tensor that was reshaped."""
        return Function(lambda x: self.run(x.reshape(shape)), self.numbers)


def recognise(a: Assembler, x: Value, function: Function) -> Value | None:
    """Return what a function makes of a value, if one op of the graph does it; else None."""
    if not x.shape or math.prod(x.shape) > MAX_PROBE:
        return None
    probe = _probe(x)
    y = function(probe)
    if not np.isfinite(y).all():
        return None
    if y.shape in ((*x.shape[:-1], 1), x.shape[:-1]) and x.shape[-1] > 1:
        return _router_column(a, x, function, y.shape)
    if y.shape != x.shape:
        return recognise(a, x.reshape(y.shape), function.of(x.shape)) if y.size == probe.size else None
    rows = np.concatenate([_rows(probe), _rows(8 * probe)])
    made = np.concatenate([_rows(y), _rows(function(8 * probe))])
    for kind, attributes in _ACTIVATIONS:
        if _agree(_compute(kind, [rows], **attributes), made):
            is_softmax = kind == OpKind.SOFTMAX
            return layers.softmax(a, x, -1) if is_softmax else elementwise(a, kind, x, **attributes)
    return _router(a, x, rows, made) or _norm(a, x, function, probe) or recognise_rotary(a, x, function)


def recognise_gelu(a: Assembler, x: Value, function: Function) -> Value | None:
    """Return gelu by tanh, of which the graph knows every operator by itself."""
    if not x.shape or math.prod(x.shape) > MAX_PROBE:
        return None
    probe = _probe(x)
    y = function(probe)
    if y.shape != x.shape or not _agree(_compute(OpKind.GELU, [_rows(probe)], tanh=True), _rows(y)):
        return None
    return elementwise(a, OpKind.GELU, x, tanh=True)


def _probe(x: Value) -> Array:
    return np.random.default_rng(0).standard_normal(x.shape).astype(np.float32)


def _rows(x: Array) -> Array:
    """Return the first rows of an array of any rank."""
    return x.reshape(-1, x.shape[-1])[:MAX_ROWS].astype(np.float64)


def _agree(ours: Array, theirs: Array) -> bool:
    return bool(np.abs(ours - theirs).max() <= TOLERANCE * max(1.0, float(np.abs(theirs).max())))


def _compute(kind: OpKind, inputs: list[Array], weights: dict[str, Array] | None = None, **attributes: Any) -> Array:
    """Return what one op makes of matrices."""
    names = [f"x{number}" for number in range(len(inputs))]
    loads = [Op(name, OpKind.LOAD, (), OpAttributes(shape=x.shape)) for name, x in zip(names, inputs, strict=True)]
    op = Op("y", kind, tuple(names), OpAttributes(**attributes))
    graph = DataflowGraph("idiom", "idiom", (*loads, op, Op("out", OpKind.STORE, ("y",))))
    return compute_values(graph, dict(zip(names, inputs, strict=True)), weights or {})["y"]


def _router(a: Assembler, x: Value, rows: Array, made: Array) -> Value | None:
    """Return the softmax over the largest elements of each row."""
    top = int(np.count_nonzero(made[0]))
    if not 1 <= top <= rows.shape[-1] or not _agree(_compute(OpKind.TOP_K, [rows], top=top), made):
        return None
    return layers.top_k(a, x, top)


def _router_column(a: Assembler, x: Value, function: Function, shape: tuple[int, ...]) -> Value | None:
    """Return one column of a router: the gate of one expert."""
    experts, count = x.shape[-1], math.prod(x.shape[:-1])
    tops = {int(number) for number in function.numbers if 1 <= number <= experts and number == int(number)}
    if experts > MAX_COLUMNS or not tops:
        return None
    inputs, results = [], []
    for start in range(0, experts, count):  # so that every expert is chosen by some row
        probe = _probe(x).reshape(-1, experts)
        probe[np.arange(count), (np.arange(count) + start) % experts] += 9
        inputs.append(probe)
        results.append(function(probe.reshape(x.shape)).reshape(-1))
    rows, made = np.concatenate(inputs).astype(np.float64), np.concatenate(results)
    if not np.isfinite(made).all() or len(made) != len(rows):
        return None
    for top in sorted(tops):
        gates = _compute(OpKind.TOP_K, [rows], top=top)
        for expert in range(experts):
            if _agree(gates[:, expert], made):
                column = layers.top_k(a, x, top).slice(len(x.shape) - 1, expert, expert + 1)
                return column.reshape(shape)
    return None


def _norm(a: Assembler, x: Value, function: Function, probe: Array) -> Value | None:
    """Return a norm by the root mean square, or by mean and variance, of the last dimension."""
    width = x.shape[-1]
    made = function(probe)
    if width < 2 or not np.allclose(function(2 * probe), made, rtol=0, atol=1e-2 * max(1, np.abs(made).max())):
        return None
    signs = np.resize([1.0, -1.0], width)
    beta = _rows(function(np.zeros(x.shape)))[0]
    tests = [(x_, _rows(function(x_))) for x_ in (probe, 1e-3 * probe)]
    for kind, pattern in ((OpKind.RMSNORM, np.ones(width)), (OpKind.LAYERNORM, signs)):
        answer = _rows(function(np.broadcast_to(pattern, x.shape)))[0] - beta
        for epsilon in _epsilons(function):
            plain = {"n.gamma": np.ones(width), "n.beta": np.zeros(width)}
            gamma = answer / _compute(kind, [pattern[None]], plain, weight="n", epsilon=epsilon)[0]
            weights = {"n.gamma": gamma, "n.beta": beta}
            if all(_agree(_compute(kind, [_rows(x_)], weights, weight="n", epsilon=epsilon), y) for x_, y in tests):
                return _norm_layer(a, kind, x, gamma, beta, epsilon)
    return None


def _epsilons(function: Function) -> list[float]:
    return sorted({number for number in function.numbers if 0 < number < MAX_EPSILON} | {0.0}, reverse=True)


def _norm_layer(a: Assembler, kind: OpKind, x: Value, gamma: Array, beta: Array, epsilon: float) -> Value | None:
    if kind == OpKind.LAYERNORM:
        weights = (Constant("layernorm.weight", _tidy(gamma)), Constant("layernorm.bias", _tidy(beta)))
        return layers.layernorm(a, x, x.shape[-1], *weights, epsilon)
    if np.abs(beta).max() > TOLERANCE:
        return None
    return layers.rmsnorm(a, x, x.shape[-1], Constant("rmsnorm.weight", _tidy(gamma)), epsilon)


def _tidy(vector: Array) -> Array:
    """Return a measured vector without the errors of float32, if it is all zeros or all ones."""
    for number in (0.0, 1.0):
        if np.abs(vector - number).max() < TOLERANCE:
            return np.full_like(vector, number)
    return vector


def recognise_rotary(a: Assembler, x: Value, function: Function) -> Value | None:
    """Return rotary positions: pairs of columns turned, by angles that differ along one dimension."""
    rank, width = len(x.shape), x.shape[-1] if x.shape else 0
    if rank < 2 or width % 2 or width > MAX_COLUMNS or math.prod(x.shape) > MAX_PROBE:
        return None
    probe = _probe(x)
    made = function(probe)
    if made.shape != x.shape or not _agree(2 * made, function(2 * probe)):
        return None
    halves = np.arange(width) < width // 2
    for first, partner in ((halves, np.roll(np.arange(width), width // 2)), (_even(width), _neighbour(width))):
        cos, sin = _tables(function, x.shape, first)
        turned = np.where(first, -1, 1) * probe[..., partner]
        if np.abs(sin).max() < TOLERANCE or not _agree(probe * cos + turned * sin, made):
            continue
        varying = [dim for dim in range(rank - 1) if _varies(cos, dim) or _varies(sin, dim)]
        if len(varying) > 1:
            return None
        dim = varying[0] if varying else rank - 2
        tables = [np.moveaxis(table, dim, -2).reshape(-1, x.shape[dim], width)[0] for table in (cos, sin)]
        is_by_halves = first is halves
        return layers.rotary(a, x, dim, *tables) if is_by_halves else _neighbours_turned(a, x, dim, *tables)
    return None


def _even(width: int) -> Array:
    return np.asarray(np.arange(width) % 2 == 0)


def _neighbour(width: int) -> Array:
    return np.arange(width) ^ 1


def _tables(function: Function, shape: tuple[int, ...], first: Array) -> tuple[Array, Array]:
    """Return cosines and sines of a turn, from what it makes of the first and of the second of each pair."""
    one = function(np.broadcast_to(first.astype(np.float32), shape))
    two = function(np.broadcast_to((~first).astype(np.float32), shape))
    return np.where(first, one, two), np.where(first, -two, one)


def _varies(table: Array, dim: int) -> bool:
    return bool(np.abs(table - table.take([0], axis=dim)).max() > TOLERANCE)


def _neighbours_turned(a: Assembler, x: Value, dim: int, cos: Array, sin: Array) -> Value:
    """Turn neighbouring columns: x times cosines, plus x with each pair swapped times sines."""
    x, width = a.by_rows(x), x.shape[-1]
    swap = np.zeros((width, width))
    swap[_neighbour(width), np.arange(width)] = np.where(_even(width), -1, 1)
    shape = [size if number in (dim, len(x.shape) - 1) else 1 for number, size in enumerate(x.shape)]
    swapped = layers.linear(a, x, Constant("rotary_swap", swap), transposed=False)
    one = multiply(a, x, Constant("rotary_cos", cos.reshape(shape)))
    return add(a, one, multiply(a, swapped, Constant("rotary_sin", sin.reshape(shape))))
