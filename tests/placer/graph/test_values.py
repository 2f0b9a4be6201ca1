"""The numpy evaluation and the backward pass agree with torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F  # noqa: N812

from placer.base import InputError
from placer.graph import Array, DataflowGraph, Op, OpKind, Shape, Window, compute_values
from placer.graph.workloads import ModelSpec, build, with_backward
from placer.graph.workloads.builder import GraphBuilder
from placer.graph.workloads.specs import FfnSpec, GemmSpec, MhaSpec, MlpSpec, Spec
from tests.placer.graph.random_values import random_inputs, random_weights

Torch = torch.Tensor
Weights = Mapping[str, Torch]


def to_torch(arrays: Mapping[str, Any], requires_grad: bool = False) -> dict[str, Torch]:
    return {k: torch.tensor(v, requires_grad=requires_grad) for k, v in arrays.items()}


def projected(x: Torch, weights: Weights, name: str, has_bias: bool = True) -> Torch:
    y = x @ weights[f"{name}.weight"]
    return y + weights[f"{name}.bias.weight"] if has_bias else y


def normed(x: Torch, weights: Weights, name: str) -> Torch:
    gamma, beta = weights[f"{name}.weight.gamma"], weights[f"{name}.weight.beta"]
    return F.layer_norm(x, x.shape[-1:], gamma, beta, eps=1e-5)


def torch_attention(x: Torch, weights: Weights, heads: int, name: str, has_bias: bool, causal: bool) -> Torch:
    rows, width = x.shape

    def heads_of(part: str) -> Torch:
        y = projected(x, weights, f"{name}.{part}", has_bias)
        return y.reshape(rows, heads, width // heads).transpose(0, 1)

    context = F.scaled_dot_product_attention(heads_of("query"), heads_of("key"), heads_of("value"), is_causal=causal)
    merged = context.transpose(0, 1).reshape(rows, width)
    return projected(merged, weights, f"{name}.output", has_bias)


def torch_mlp(x: Torch, weights: Weights) -> Torch:
    x = F.relu(projected(x, weights, "layer0"))
    x = F.relu(projected(x, weights, "layer1"))
    return projected(x, weights, "layer2")


def torch_feed_forward(x: Torch, weights: Weights, name: str) -> Torch:
    return projected(F.gelu(projected(x, weights, f"{name}.up")), weights, f"{name}.down")


def torch_ffn(x: Torch, weights: Weights) -> Torch:
    return normed(x + torch_feed_forward(x, weights, "ffn"), weights, "ffn.norm")


def torch_mha(x: Torch, weights: Weights) -> Torch:
    y = torch_attention(x, weights, 4, "mha", has_bias=False, causal=False)
    return normed(x + y, weights, "mha.norm")


def torch_gpt2_layer(x: Torch, weights: Weights) -> Torch:
    part = "layer0.attention"
    y = normed(x, weights, f"{part}.norm")
    x = x + torch_attention(y, weights, 12, part, has_bias=True, causal=True)
    y = normed(x, weights, "layer0.ffn.norm")
    x = x + torch_feed_forward(y, weights, "layer0.ffn")
    return normed(x, weights, "final.norm")


def torch_bert_layer(x: Torch, weights: Weights) -> Torch:
    part = "layer0.attention"
    y = torch_attention(x, weights, 12, part, has_bias=True, causal=False)
    x = normed(x + y, weights, f"{part}.norm")
    return normed(x + torch_feed_forward(x, weights, "layer0.ffn"), weights, "layer0.ffn.norm")


MODEL_CASES: dict[str, tuple[Spec, Callable[[Torch, Weights], Torch]]] = {
    "mlp": (MlpSpec(6, 8, 3, training=True), torch_mlp),
    "ffn": (FfnSpec(6, 8, 20, training=True), torch_ffn),
    "mha": (MhaSpec(6, 16, 4, training=True), torch_mha),
    "gpt2": (ModelSpec("gpt2", 1, 8, embedding=False, training=True), torch_gpt2_layer),
    "bert_base": (ModelSpec("bert_base", 1, 8, embedding=False, training=True), torch_bert_layer),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", MODEL_CASES)
def test_workloads_compute_what_torch_computes_forward_and_backward(case: str) -> None:
    spec, function = MODEL_CASES[case]
    graph, rng = build(spec), np.random.default_rng(7)
    inputs, weights = random_inputs(graph, rng), random_weights(graph, rng)
    tensors = compute_values(graph, inputs, weights)
    torch_weights = to_torch(weights, requires_grad=True)
    y = function(torch.tensor(inputs[graph.ops[0].name]), torch_weights)
    np.testing.assert_allclose(tensors["y"], y.detach().numpy(), rtol=1e-9, atol=1e-9)
    y.backward(torch.tensor(inputs["y.grad_0"]))  # type: ignore[no-untyped-call]
    assert_weight_gradients(graph, tensors, torch_weights)


def assert_weight_gradients(graph: DataflowGraph, tensors: Mapping[str, Any], torch_weights: Weights) -> None:
    """Weight gradients, summed where ops share a weight, equal those of torch."""
    sums: dict[str, Any] = {}
    for op in graph.ops:
        if op.kind == OpKind.WEIGHT_GRAD:
            sums[op.attributes.weight] = sums.get(op.attributes.weight, 0) + tensors[op.name]
    assert sums
    for name, gradient in sums.items():
        expected = torch_weights[name].grad
        assert expected is not None
        scale = 1 + float(expected.abs().max())
        np.testing.assert_allclose(gradient, expected.numpy(), rtol=1e-7, atol=1e-9 * scale)


def torch_rule(op: Op, inputs: list[Torch], weights: Weights) -> Torch:
    """Forward meaning of an op, written again in torch."""
    x, attributes = inputs[0], op.attributes
    match op.kind:
        case OpKind.STORE:
            return x
        case OpKind.LINEAR:
            weight = weights[attributes.weight]
            return F.linear(x, weight if attributes.transposed_weight else weight.T)
        case OpKind.MATMUL:
            left = x.mT if attributes.transpose_a else x
            return torch.matmul(left, inputs[1].mT if attributes.transpose_b else inputs[1])
        case OpKind.ADD:
            return torch.add(*inputs)
        case OpKind.BIAS:
            return x + weights[attributes.weight]
        case OpKind.SCALE:
            return torch.mul(x, attributes.factor)
        case OpKind.RELU:
            return F.relu(x)
        case OpKind.GELU:
            return F.gelu(x, approximate="tanh" if attributes.tanh else "none")
        case OpKind.SOFTMAX:
            hidden = torch.ones(x.shape[-2:], dtype=torch.bool).triu(1)
            return F.softmax(x.masked_fill(hidden, -math.inf) if attributes.causal else x, dim=-1)
        case OpKind.LAYERNORM:
            gamma, beta = (weights[f"{attributes.weight}.{part}"] for part in ("gamma", "beta"))
            return F.layer_norm(x, x.shape[-1:], gamma, beta, attributes.epsilon)
        case OpKind.TRANSPOSE:
            return x.mT
        case OpKind.SPLIT_HEADS:
            return torch.stack(x.chunk(attributes.heads, dim=-1))
        case OpKind.MERGE_HEADS:
            return torch.cat(list(x), dim=-1)
        case OpKind.CONCAT:
            return torch.cat(inputs, dim=-1)
        case OpKind.SLICE:
            return x[..., attributes.start : attributes.stop]
        case OpKind.MULTIPLY:
            return torch.mul(*inputs)
        case OpKind.GAIN:
            return x * weights[attributes.weight]
        case OpKind.SILU:
            return F.silu(x)
        case OpKind.SIGMOID:
            return torch.sigmoid(x)
        case OpKind.TANH:
            return torch.tanh(x)
        case OpKind.RMSNORM:
            return F.rms_norm(x, x.shape[-1:], weights[f"{attributes.weight}.gamma"], attributes.epsilon)
        case OpKind.ROTARY:
            return torch_rotary(x, inputs[1], -inputs[2] if attributes.inverse else inputs[2])
        case OpKind.CONCAT_ROWS:
            return torch.cat(inputs, dim=-2)
        case OpKind.SLICE_ROWS:
            return x[..., attributes.start : attributes.stop, :]
        case OpKind.REPEAT_HEADS:
            return x.repeat_interleave(attributes.repeats, dim=0)
        case OpKind.SUM_HEADS:
            return torch.stack([part.sum(dim=0) for part in torch.split(x, attributes.repeats)])
        case _:
            raise AssertionError(op.kind)


def torch_rotary(x: Torch, cos: Torch, sin: Torch) -> Torch:
    """Turn each pair as a complex number."""
    half = x.shape[-1] // 2
    turned = torch.complex(x[..., :half], x[..., half:]) * torch.complex(cos, sin)[..., :half]
    return torch.cat((turned.real, turned.imag), dim=-1)


def torch_evaluate(graph: DataflowGraph, inputs: Weights, weights: Weights) -> dict[str, Torch]:
    tensors: dict[str, Torch] = {}
    for op in graph.ops:
        arguments = [tensors[name] for name in op.inputs]
        if op.kind == OpKind.LOAD:
            tensors[op.name] = inputs[op.name]
        elif op.kind == OpKind.CONSTANT:
            tensors[op.name] = weights[op.attributes.weight]
        else:
            tensors[op.name] = torch_rule(op, arguments, weights)
    return tensors


def rotary_table(name: str, shape: Shape) -> Array:
    """Numbers whose halves are equal, as those of cosines and sines are."""
    rng = np.random.default_rng(list(name.encode()))
    return np.tile(rng.standard_normal((shape[0], shape[1] // 2)), 2)


def assert_agrees_with_autograd(graph: DataflowGraph) -> None:
    step, rng = with_backward(graph), np.random.default_rng(5)
    inputs, weights = random_inputs(step, rng), random_weights(step, rng)
    weights |= {name: rotary_table(name, shape) for name, shape in step.weights.items() if "table" in name}
    tensors = compute_values(step, inputs, weights)
    torch_inputs, torch_weights = to_torch(inputs), to_torch(weights, requires_grad=True)
    expected = torch_evaluate(graph, torch_inputs, torch_weights)
    for name, value in expected.items():
        np.testing.assert_allclose(tensors[name], value.detach().numpy(), rtol=1e-8, atol=1e-8)
    loss = sum(
        (expected[op.name] * torch_inputs[f"{op.name}.grad_0"]).sum()
        for op in graph.ops
        if f"{op.name}.grad_0" in torch_inputs
    )
    assert isinstance(loss, Torch)
    loss.backward()  # type: ignore[no-untyped-call]
    assert_weight_gradients(step, tensors, torch_weights)


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_gradients_of_products_with_transposes(transpose_a: bool, transpose_b: bool) -> None:
    b = GraphBuilder()
    x = b.load((4, 6))
    left = b.split_heads(b.linear(x, 10), 2)  # [2, 4, 5]
    right = b.split_heads(b.linear(x, 10), 2)
    right = right if transpose_a != transpose_b else b.transpose(right)
    b.store(b.matmul(left, right, transpose_a, transpose_b))
    assert_agrees_with_autograd(b.build("product", "test"))


@pytest.mark.parametrize(
    "ranges", [[(0, 4), (4, 8), (8, 12)], [(2, 5)], [(0, 12)], [(6, 12), (0, 8)], [(1, 3), (3, 5), (2, 7), (9, 11)]]
)
def test_gradients_of_slices(ranges: list[tuple[int, int]]) -> None:
    b = GraphBuilder()
    fused = b.linear(b.load((4, 6)), 12)
    for start, stop in ranges:
        b.store(b.gelu(b.slice(fused, start, stop)))
    assert_agrees_with_autograd(b.build("slices", "test"))


def test_slices_side_by_side_need_no_addition() -> None:
    b = GraphBuilder()
    fused = b.linear(b.load((4, 6)), 12)
    for start in (8, 0, 4):
        b.store(b.slice(fused, start, start + 4))
    added = with_backward(b.build("slices", "test")).ops[8:]
    assert sorted(op.kind for op in added) == ["concat", "load", "load", "load", "weight_grad"]


def test_gradients_of_shared_weights() -> None:
    b = GraphBuilder()
    x = b.linear(b.load((4, 6)), 8, weight="shared")
    x = b.linear(b.relu(x), 6, weight="shared", transposed_weight=True)
    b.store(b.bias(b.linear(x, 8, weight="shared")))
    assert_agrees_with_autograd(b.build("shared", "test"))


ROW_OPS: dict[str, Callable[[GraphBuilder, str, str], str]] = {
    "linear": lambda b, x, y: b.linear(x, 8),
    "tall_product": lambda b, x, y: b.matmul(b.softmax(b.matmul(x, y, transpose_b=True)), y),
    "wide_product": lambda b, x, y: b.matmul(x, b.softmax(b.matmul(x, y, transpose_a=True))),
    "causal": lambda b, x, y: b.matmul(b.softmax(b.matmul(x, x, False, True), causal=True), y),
    "add": lambda b, x, y: b.add(x, y),
    "bias": lambda b, x, y: b.bias(x),
    "scale": lambda b, x, y: b.scale(x, -0.7),
    "relu": lambda b, x, y: b.relu(x),
    "gelu": lambda b, x, y: b.gelu(x),
    "gelu_tanh": lambda b, x, y: b.add_op(OpKind.GELU, x, tanh=True),
    "layernorm": lambda b, x, y: b.layernorm(x),
    "layernorm_epsilon": lambda b, x, y: b.add_op(OpKind.LAYERNORM, x, weight=f"norm_{x}", epsilon=0.3),
    "transpose": lambda b, x, y: b.transpose(b.gelu(b.transpose(x))),
    "heads": lambda b, x, y: b.merge_heads(b.softmax(b.split_heads(x, 2))),
    "swap": lambda b, x, y: b.concat(b.slice(x, 5, 8), b.slice(y, 0, 5)),
    "twice": lambda b, x, y: b.slice(b.concat(x, y, x), 6, 14),
    "multiply": lambda b, x, y: b.multiply(x, y),
    "multiply_rows": lambda b, x, y: b.multiply(x, b.load((5, 1))),
    "multiply_heads": lambda b, x, y: b.merge_heads(b.multiply(b.split_heads(x, 2), b.load((5, 4)))),
    "gain": lambda b, x, y: b.gain(x),
    "silu": lambda b, x, y: b.multiply(b.silu(x), y),
    "sigmoid": lambda b, x, y: b.sigmoid(x),
    "tanh": lambda b, x, y: b.tanh(x),
    "rmsnorm": lambda b, x, y: b.rmsnorm(x),
    "rmsnorm_epsilon": lambda b, x, y: b.add_op(OpKind.RMSNORM, x, weight=f"norm_{x}", epsilon=0.3),
    "rotary": lambda b, x, y: b.rotary(x, *tables(b, 8)),
    "rotary_heads": lambda b, x, y: b.merge_heads(b.rotary(b.split_heads(x, 2), *tables(b, 4), inverse=True)),
    "shared_heads": lambda b, x, y: b.merge_heads(
        b.sum_heads(b.multiply(b.repeat_heads(b.split_heads(x, 2), 2), b.split_heads(b.concat(y, x), 4)), 2)
    ),
    "rows": lambda b, x, y: b.slice_rows(b.concat_rows(b.slice_rows(x, 1, 3), y, x), 1, 6),
}


def tables(b: GraphBuilder, columns: int) -> tuple[str, str]:
    """Cosines and sines of 5 rows."""
    return b.constant((5, columns), weight=f"cos_table{columns}"), b.constant(
        (5, columns), weight=f"sin_table{columns}"
    )


STEPS = st.tuples(st.sampled_from(sorted(ROW_OPS)), st.integers(0, 9), st.integers(0, 9))


@given(st.lists(STEPS, max_size=8))
@settings(max_examples=30, deadline=None)
def test_random_graphs_agree_with_torch(steps: list[tuple[str, int, int]]) -> None:
    b = GraphBuilder()
    tensors = [b.load((5, 8))]
    tensors.append(b.linear(tensors[0], 8))
    for kind, left, right in steps:
        x, y = tensors[left % len(tensors)], tensors[right % len(tensors)]
        # Normalised inputs keep long chains within the range where float64 can compare them.
        tensors.append(b.layernorm(ROW_OPS[kind](b, x, y)))
    for tensor in tensors:
        b.store(tensor)
    assert_agrees_with_autograd(b.build("random", "test"))


@pytest.mark.parametrize("kind", sorted(ROW_OPS))
def test_each_op_agrees_with_torch(kind: str) -> None:
    b = GraphBuilder()
    x = b.load((5, 8))
    b.store(ROW_OPS[kind](b, b.linear(x, 8), b.linear(x, 8)))
    assert_agrees_with_autograd(with_all_stored(b))


def with_all_stored(b: GraphBuilder) -> DataflowGraph:
    """Store what nobody reads: ops of one input leave the second unused."""
    for op in list(b.ops):
        if op.kind != OpKind.STORE and not any(op.name in other.inputs for other in b.ops):
            b.store(op.name)
    return b.build("one", "test")


IMAGE = Window((2, 3), (2, 2))
UNTRAINED: dict[str, Callable[[GraphBuilder, str], str]] = {
    "patches": lambda b, x: b.patches(x, IMAGE),
    "max_pool": lambda b, x: b.max_pool(x, IMAGE),
    "average_pool": lambda b, x: b.average_pool(x, IMAGE),
    "depthwise": lambda b, x: b.depthwise(x, IMAGE),
    "top_k": lambda b, x: b.top_k(x, 2),
    "dispatch": lambda b, x: b.dispatch(x, b.load((6, 2)), 0, 3),
    "combine": lambda b, x: b.combine(b.load((6, 1)), x),
    "rows_to_heads": lambda b, x: b.rows_to_heads(x, 2),
    "multiply": lambda b, x: b.multiply(b.load((3, 6, 4)), x),
    "rotary": lambda b, x: b.rotary(b.load((6, 4)), x, x),
    "linear": lambda b, x: b.linear(b.split_heads(x, 2), 3, stacked=True),
}


@pytest.mark.parametrize("kind", UNTRAINED)
def test_training_of_ops_without_a_gradient_is_refused(kind: str) -> None:
    b = GraphBuilder()
    b.store(UNTRAINED[kind](b, b.linear(b.load((6, 5)), 4)))
    name = next(op.name for op in reversed(b.ops) if op.kind == kind)
    with pytest.raises(InputError, match=f"op '{name}': training of {kind} is not supported"):
        with_backward(b.build("untrained", "test"))


def test_embedding_gathers_rows() -> None:
    b = GraphBuilder()
    b.store(b.embedding(3, 2, 10, name="token"), name="y")
    graph = b.build("gather", "test")
    table = np.arange(20.0).reshape(10, 2)
    tensors = compute_values(graph, {"token": np.array([7, 0, 7])}, {"token.table": table})
    assert tensors["y"].tolist() == [[14.0, 15.0], [0.0, 1.0], [14.0, 15.0]]
    with pytest.raises(InputError, match=r"indices must lie in 0\.\.9"):
        compute_values(graph, {"token": np.array([7, 0, 10])}, {"token.table": table})


def test_random_arrays_fit_a_graph_with_embeddings() -> None:
    b, rng = GraphBuilder(), np.random.default_rng(0)
    x = b.add(b.embedding(40, 16, 5, name="token"), b.load((40, 16), name="hidden"))
    b.store(b.layernorm(x), name="y")
    graph = b.build("embedded", "test")
    inputs = random_inputs(graph, rng)
    assert set(inputs["token"]) == {0, 1, 2, 3, 4}
    assert compute_values(graph, inputs, random_weights(graph, rng))["y"].shape == (40, 16)


def test_missing_and_misshaped_arrays_are_refused() -> None:
    graph = build(GemmSpec(2, 3, 4))
    x, weight = np.zeros((2, 3)), np.zeros((3, 4))
    with pytest.raises(InputError, match=r"weight 'product.weight' is missing; needed .*\[3, 4\]"):
        compute_values(graph, {"x": x}, {})
    with pytest.raises(InputError, match=r"input 'x' has shape \[3, 2\]; needed \[2, 3\]"):
        compute_values(graph, {"x": x.T}, {"product.weight": weight})
