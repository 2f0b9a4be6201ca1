"""Networks of today have the published work and weights, and compute what they should."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from placer.base import InputError
from placer.graph import Array, DataflowGraph, OpKind, compute_values, expert_capacity
from placer.graph.graph_file import from_json, to_json
from placer.graph.routing import picked_rows, top_k
from placer.graph.workloads import DECODERS, DecoderSpec, GraphBuilder, VisionSpec, build, with_backward
from placer.graph.workloads.build import vision_transformer
from placer.graph.workloads.decoders import decoder_layers, rotary_tables
from placer.graph.workloads.networks import PublishedDecoder, PublishedResnet, PublishedVit
from placer.graph.workloads.specs import Spec
from placer.graph.workloads.vision import resnet
from tests.placer.graph.random_values import random_inputs, random_weights

TINY = PublishedDecoder(2, 24, 6, 2, 20, 50, 64, 100.0)
TINY_EXPERTS = PublishedDecoder(1, 16, 4, 2, 12, 50, 64, 100.0, experts=4, top=2)
ROWS = 8

SPECS: list[Spec] = [
    DecoderSpec("llama3_8b", 1),
    DecoderSpec("llama3_8b", 1, decode=True),
    DecoderSpec("llama3_8b", 1, training=True),
    DecoderSpec("mixtral_8x7b", 1),
    DecoderSpec("mixtral_8x7b", 1, decode=True),
    VisionSpec("vit_large", 1),
    VisionSpec("vit_large", 1, training=True),
    VisionSpec("resnet50"),
]


@pytest.mark.parametrize("spec", SPECS)
def test_files_give_networks_back(spec: Spec) -> None:
    graph = build(spec)
    assert from_json(to_json(graph)) == graph


@pytest.mark.parametrize(
    ("spec", "parameters"),
    [  # as published, without the head of language models and of the vision transformer
        (DecoderSpec("llama3_8b"), 8_030_261_248 - 128256 * 4096),
        (DecoderSpec("mixtral_8x7b"), 46_702_792_704 - 32000 * 4096),
        (VisionSpec("vit_large"), 304_326_632 - 1024 * 1000 - 1000),
        (VisionSpec("resnet50"), 25_557_032 - 26_560),  # the factors of batch norm are in the weights
    ],
)
def test_networks_have_the_published_number_of_parameters(spec: Spec, parameters: int) -> None:
    weights = build(spec).weights.items()
    assert sum(math.prod(shape) for name, shape in weights if not name.startswith("rotary")) == parameters


@pytest.mark.parametrize("model", DECODERS)
@pytest.mark.parametrize("decode", [False, True])
def test_work_of_decoders(model: str, decode: bool) -> None:
    m = DECODERS[model]
    rows, keys = (16, 2049) if decode else (512, 512)
    projections = rows * m.width * m.head_size * (2 * m.heads + 2 * m.key_heads)
    attention = 2 * rows * keys * m.width
    ffn = rows * 3 * m.width * m.hidden * max(m.top, 1) + rows * m.width * m.experts
    graph = build(DecoderSpec(model, decode=decode))
    assert graph.total_macs == m.layers * (projections + attention + ffn)
    counts = Counter(op.kind for op in graph.ops)
    assert counts[OpKind.CONSTANT] == 2 and counts[OpKind.RMSNORM] == 2 * m.layers + 1
    assert counts[OpKind.LOAD] == counts[OpKind.STORE] - 1 == (2 * m.layers if decode else 0)
    assert graph.tensors["layer0.attention.scores"].shape == ((16 * 32, 1, 2049) if decode else (32, 512, 512))


def test_work_of_networks_for_images() -> None:
    rows, width, hidden = 197, 1024, 4096
    layer = rows * (4 * width * width + 2 * width * hidden) + 2 * rows * rows * width
    assert build(VisionSpec("vit_large")).total_macs == 24 * layer + 196 * 16 * 16 * 3 * width
    assert build(VisionSpec("vit_large", 3, embedding=False)).total_macs == 3 * layer
    assert build(VisionSpec("resnet50")).total_macs == 4_089_184_256  # as counted by others
    two = build(VisionSpec("resnet50", 2))
    assert two.tensors["y"].shape == (56 * 56, 256)
    assert not any(op.kind == OpKind.AVERAGE_POOL for op in two.ops)


def prefill(model: PublishedDecoder, rows: int = ROWS) -> DataflowGraph:
    b = GraphBuilder()
    b.store(decoder_layers(b, b.load((rows, model.width), name="x"), model, rows, model.layers), name="y")
    return b.build("prefill", "test")


def torch_turned(x: torch.Tensor, base: float) -> torch.Tensor:
    """Rotary positions by complex numbers; x is [heads, rows, d]."""
    half = x.shape[-1] // 2
    angles = torch.outer(torch.arange(x.shape[1]).double(), base ** (-torch.arange(half).double() / half))
    turned = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat((turned.real, turned.imag), dim=-1)


def torch_llama(x: torch.Tensor, weights: dict[str, torch.Tensor], m: PublishedDecoder) -> torch.Tensor:
    def normed(x: torch.Tensor, name: str) -> torch.Tensor:
        return F.rms_norm(x, x.shape[-1:], weights[f"{name}.norm.weight.gamma"], 1e-5)

    for layer in range(m.layers):
        name = f"layer{layer}.attention"
        y = normed(x, name)
        q, k, v = (
            (y @ weights[f"{name}.{part}.weight"]).unflatten(-1, (-1, m.head_size)).transpose(0, 1)  # type: ignore[no-untyped-call]
            for part in ("query", "key", "value")
        )
        q, k = torch_turned(q, m.rotary_base), torch_turned(k, m.rotary_base)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + y.transpose(0, 1).flatten(1) @ weights[f"{name}.output.weight"]
        name = f"layer{layer}.ffn"
        y = normed(x, name)
        y = F.silu(y @ weights[f"{name}.gate.weight"]) * (y @ weights[f"{name}.up.weight"])
        x = x + y @ weights[f"{name}.down.weight"]
    return normed(x, "final")


def test_a_tiny_llama_computes_and_trains_as_in_torch() -> None:
    graph = with_backward(prefill(TINY))
    rng = np.random.default_rng(1)
    inputs, weights = random_inputs(graph, rng), random_weights(graph, rng) | rotary_tables(TINY, 0, ROWS)
    values = compute_values(graph, inputs, weights)
    leaves = {name: torch.tensor(weight, requires_grad=True) for name, weight in weights.items()}
    y = torch_llama(torch.tensor(inputs["x"]), leaves, TINY)
    np.testing.assert_allclose(values["y"], y.detach().numpy(), atol=1e-10)
    y.backward(torch.tensor(inputs["y.grad_0"]))  # type: ignore[no-untyped-call]
    gradients = [op for op in graph.ops if op.kind == OpKind.WEIGHT_GRAD]
    assert len(gradients) == 7 * TINY.layers
    for op in gradients:
        expected = leaves[op.attributes.weight].grad
        assert expected is not None
        np.testing.assert_allclose(values[op.name], expected.numpy(), atol=1e-9)


def decode_step(model: PublishedDecoder, sequences: int, context: int) -> DataflowGraph:
    b = GraphBuilder()
    x = b.load((sequences, model.width), name="x")
    b.store(decoder_layers(b, x, model, sequences, model.layers, context), name="y")
    return b.build("decode", "test")


def test_decode_equals_the_last_row_of_prefill() -> None:
    sequences, context = 3, ROWS - 1
    whole, step = prefill(TINY), decode_step(TINY, sequences, context)
    rng = np.random.default_rng(2)
    weights = random_weights(whole, rng) | rotary_tables(TINY, 0, ROWS)
    xs = rng.standard_normal((sequences, ROWS, TINY.width))
    runs = [compute_values(whole, {"x": x}, weights) for x in xs]

    def cached(name: str) -> Array:
        source = f"{name}.heads" if name.endswith("value") else f"{name}.rotary"
        return np.concatenate([run[source] for run in runs])  # [sequences * key heads, rows, d]

    parts = [f"layer{layer}.attention.{part}" for layer in range(TINY.layers) for part in ("key", "value")]
    inputs: dict[str, Any] = {f"{part}.cache": cached(part)[:, :context] for part in parts} | {"x": xs[:, -1]}
    values = compute_values(step, inputs, weights | rotary_tables(TINY, context, 1))
    np.testing.assert_allclose(values["y"], [run["y"][-1] for run in runs], atol=1e-12)
    for part in parts:
        np.testing.assert_allclose(values[f"{part}.new"], cached(part)[:, context:], atol=1e-12)


def token_choice(x: Array, logits: Array, weights: dict[str, Array], m: PublishedDecoder) -> Array:
    """Each row goes to the experts of its `top` largest logits, one after the other."""
    out = np.zeros_like(x)
    for row, scores in enumerate(logits):
        chosen = np.argsort(-scores)[: m.top]
        shares = np.exp(scores[chosen]) / np.exp(scores[chosen]).sum()
        for expert, share in zip(chosen, shares, strict=True):
            gate, up, down = (weights[f"layer0.ffn.expert{expert}.{p}.weight"] for p in ("gate", "up", "down"))
            hidden = x[row] @ gate
            out[row] += share * ((hidden / (1 + np.exp(-hidden)) * (x[row] @ up)) @ down)
    return out


def test_balanced_experts_equal_token_choice() -> None:
    """The router gets weights that send the rows round the experts."""
    graph, rng = prefill(TINY_EXPERTS), np.random.default_rng(3)
    weights = random_weights(graph, rng) | rotary_tables(TINY_EXPERTS, 0, ROWS)
    inputs = random_inputs(graph, rng)
    normed = compute_values(graph, inputs, weights)["layer0.ffn.norm"]
    wanted = rng.standard_normal((ROWS, 4)) / 4
    for row in range(ROWS):
        wanted[row, [row % 4, (row + 1) % 4]] += 3
    weights["layer0.ffn.router.weight"] = np.linalg.pinv(normed) @ wanted
    values = compute_values(graph, inputs, weights)
    gates = values["layer0.ffn.gates"]
    assert ((gates > 0).sum(axis=0) == 4).all() and ((gates > 0).sum(axis=1) == 2).all()
    expected = token_choice(normed, values["layer0.ffn.router"], weights, TINY_EXPERTS)
    np.testing.assert_allclose(values["layer0.ffn.combine"], expected, atol=1e-12)


def test_experts_take_their_share_of_the_rows() -> None:
    assert [expert_capacity(rows, 2, 8) for rows in (1, 4, 5, 512)] == [1, 1, 2, 128]
    gates = top_k(np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0], [0.0, -1.0, 5.0]]), 2)
    assert (gates > 0).tolist() == [[False, True, True], [True, True, False], [True, False, True]]
    np.testing.assert_allclose(gates.sum(axis=1), 1)
    assert picked_rows(np.array([[0.5], [0.1], [0.5], [0.5]]), 0, 2).tolist() == [0, 2]
    assert picked_rows(np.array([[0.5], [0.9], [0.5], [0.95]]), 0, 3).tolist() == [0, 1, 3]


def test_training_of_experts_and_convolutions_is_refused() -> None:
    for spec in (DecoderSpec("mixtral_8x7b", 1, training=True), VisionSpec("resnet50", training=True)):
        with pytest.raises(InputError, match=r"training of (combine|average_pool) is not supported"):
            build(spec)


def torch_resnet(x: torch.Tensor, weights: dict[str, Array], m: PublishedResnet) -> torch.Tensor:
    def convolution(x: torch.Tensor, name: str, kernel: int, stride: int = 1) -> torch.Tensor:
        weight = torch.tensor(weights[f"{name}.weight"]).reshape(kernel, kernel, x.shape[1], -1).permute(3, 2, 0, 1)
        return F.conv2d(x, weight, torch.tensor(weights[f"{name}.bias.weight"]), stride, kernel // 2)

    x = F.max_pool2d(F.relu(convolution(x, "stem", 7, 2)), 3, 2, 1)
    places = [(stage, block) for stage, count in enumerate(m.blocks) for block in range(count)]
    for index, (stage, block) in enumerate(places):
        stride, name = 2 if stage and not block else 1, f"block{index}"
        y = F.relu(convolution(x, f"{name}.reduce", 1))
        y = convolution(F.relu(convolution(y, f"{name}.middle", 3, stride)), f"{name}.expand", 1)
        x = F.relu(y + (x if block else convolution(x, f"{name}.shortcut", 1, stride)))
    pooled = x.mean(dim=(2, 3))
    return pooled @ torch.tensor(weights["classifier.weight"]) + torch.tensor(weights["classifier.bias.weight"])


def test_a_tiny_resnet_computes_as_in_torch() -> None:
    model, b, rng = PublishedResnet((1, 2), 4, 20, 7), GraphBuilder(), np.random.default_rng(4)
    b.store(resnet(b, model, model.layers), name="y")
    graph = b.build("resnet", "test")
    inputs, weights = random_inputs(graph, rng), random_weights(graph, rng)
    image = torch.tensor(inputs["image"].T.reshape(1, 3, 20, 20).copy())
    expected = torch_resnet(image, weights, model).numpy()
    np.testing.assert_allclose(compute_values(graph, inputs, weights)["y"], expected, atol=1e-10)


def test_a_tiny_vision_transformer_embeds_patches_and_trains() -> None:
    model, b, rng = PublishedVit(1, 8, 2, 12, 6, 2), GraphBuilder(), np.random.default_rng(5)
    b.store(vision_transformer(b, model, 1), name="y")
    graph = with_backward(b.build("vit", "test"))
    inputs, weights = random_inputs(graph, rng), random_weights(graph, rng)
    values = compute_values(graph, inputs, weights)
    assert values["y"].shape == (10, 8)
    pixels = inputs["image"].reshape(3, 2, 3, 2, 3).transpose(0, 2, 1, 3, 4).reshape(9, 12)
    patches = pixels @ weights["patch.weight"] + weights["patch.bias.weight"]
    expected = np.concatenate((weights["class.weight"], patches)) + weights["position.weight"]
    np.testing.assert_allclose(values["embedding"], expected, atol=1e-12)
    softmax = next(op for op in graph.ops if op.kind == OpKind.SOFTMAX)
    assert not softmax.attributes.causal
    assert sum(op.kind == OpKind.WEIGHT_GRAD for op in graph.ops) == 7
