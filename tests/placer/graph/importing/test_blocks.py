"""Blocks of today's networks, from PyTorch and from ONNX files, compute what PyTorch computes."""

from __future__ import annotations

import warnings
from collections import Counter
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from placer.graph import OpKind
from placer.graph.importing.from_onnx import import_onnx
from placer.graph.importing.from_torch import import_module
from placer.graph.importing.network import ImportedNetwork
from tests.placer.graph.importing.blocks import BLOCKS, Shapes

# What must be in the graph: idioms as one op, and nothing that is left of them.
KINDS = {
    "llama": {OpKind.RMSNORM: 2, OpKind.ROTARY: 2, OpKind.REPEAT_HEADS: 2, OpKind.SILU: 1, OpKind.GAIN: 0},
    "llama_gqa": {OpKind.RMSNORM: 2, OpKind.ROTARY: 2, OpKind.REPEAT_HEADS: 2, OpKind.SIGMOID: 0},
    "decoder": {OpKind.SOFTMAX: 2, OpKind.LAYERNORM: 3, OpKind.LOAD: 2},
    "resnet": {OpKind.GAIN: 0, OpKind.MAX_POOL: 1, OpKind.AVERAGE_POOL: 1},
    "pools": {OpKind.GAIN: 1, OpKind.BIAS: 1},
    "separable": {OpKind.DEPTHWISE: 1, OpKind.GAIN: 0},
    "vit": {OpKind.CONCAT_ROWS: 1, OpKind.SLICE_ROWS: 1, OpKind.PATCHES: 0},
    "moe": {OpKind.TOP_K: 1, OpKind.MULTIPLY: 4},
    "moe_renormalised": {OpKind.TOP_K: 1, OpKind.SOFTMAX: 0},
    "moe_masks": {OpKind.TOP_K: 1},
    "moe_stacked": {OpKind.TOP_K: 1, OpKind.SUM_HEADS: 1},
    "moe_einsum": {OpKind.TOP_K: 1, OpKind.SUM_HEADS: 1},
}


def made(name: str) -> tuple[nn.Module, list[torch.Tensor]]:
    torch.manual_seed(1)
    block = BLOCKS[name]
    return block.make().eval(), [torch.randn(shape) for shape in block.shapes]


def require_same(network: ImportedNetwork, module: nn.Module, inputs: list[torch.Tensor]) -> None:
    with torch.no_grad():
        expected = module(*inputs).numpy()
    (found,) = network.run([x.numpy() for x in inputs])
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= 1e-4 * np.abs(expected).max()


def require_kinds(network: ImportedNetwork, name: str) -> None:
    kinds = Counter(op.kind for op in network.graph.ops)
    expected = KINDS.get(name, {})
    assert {kind: kinds[kind] for kind in expected} == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_of_pytorch_computes_the_same(name: str) -> None:
    module, inputs = made(name)
    network = import_module(module, BLOCKS[name].shapes, False, name)
    require_same(network, module, inputs)
    require_kinds(network, name)


def exported(path: Path, module: nn.Module, inputs: list[torch.Tensor], opset: int | None = None) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, tuple(inputs), path, dynamo=True, verbose=False, opset_version=opset)
    return path


@pytest.mark.slow
@pytest.mark.parametrize(("name", "opset"), list(zip(BLOCKS, cycle([None, 18]), strict=False)))  # both sets in turn
def test_a_block_in_an_onnx_file_computes_the_same(tmp_path: Path, name: str, opset: int | None) -> None:
    module, inputs = made(name)
    network = import_onnx(exported(tmp_path / "net.onnx", module, inputs, opset))
    require_same(network, module, inputs)
    require_kinds(network, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["llama_gqa", "decoder"])
def test_new_operator_sets_have_attention_and_rmsnorm(tmp_path: Path, name: str) -> None:
    module, inputs = made(name)
    network = import_onnx(exported(tmp_path / "net.onnx", module, inputs, 23))
    require_same(network, module, inputs)
    require_kinds(network, name)


def check(module: nn.Module, *shapes: tuple[int, ...]) -> Counter[OpKind]:
    """Import a module, compare, and return the kinds of its ops."""
    torch.manual_seed(0)
    network = import_module(module, shapes, False, "test")
    require_same(network, module, [torch.randn(shape) for shape in shapes])
    return Counter(op.kind for op in network.graph.ops)


def by(function: object) -> nn.Module:
    """Return a module that computes a function."""

    class Own(nn.Module):
        def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = function(*inputs)  # type: ignore[operator]
            return result

    return Own()


IMAGE: Shapes = ((1, 4, 7, 6),)


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(4, 6, (3, 2), (2, 1), (1, 0), (1, 2)),
        nn.Conv2d(4, 8, 3, padding="same", groups=2),
        nn.Conv2d(4, 8, 2, 2),
        nn.Conv2d(4, 8, 3, groups=4),
        nn.Conv2d(4, 4, 5, 2, 2, groups=4, bias=False),
        nn.Sequential(nn.Conv2d(4, 8, 3, 1, 1, groups=2), nn.BatchNorm2d(8).eval(), nn.ReLU()),
        nn.Sequential(nn.ReLU(), nn.Conv2d(4, 6, 2, 2)),
        nn.MaxPool2d(3, 2, 1, ceil_mode=True),
        nn.MaxPool2d(2, 1, dilation=2),
        nn.AvgPool2d(3, 2, 1, count_include_pad=False),
        nn.AvgPool2d((7, 2)),
        nn.AdaptiveAvgPool2d((1, 3)),
        nn.BatchNorm2d(4).eval(),
        nn.Sequential(nn.Conv2d(4, 4, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)),
        by(lambda x: x * torch.sigmoid(nn.functional.adaptive_avg_pool2d(x, 1)).relu()),
    ],
    ids=str,
)
def test_layers_on_images(layer: nn.Module) -> None:
    check(layer, *IMAGE)


@pytest.mark.parametrize("layer", [nn.Conv1d(4, 6, 3, 2, 1), nn.MaxPool1d(2), nn.AvgPool1d(3, 1, 1)], ids=str)
def test_layers_on_rows_of_pixels(layer: nn.Module) -> None:
    check(layer, (1, 4, 9))


def rotated_neighbours(x: torch.Tensor) -> torch.Tensor:
    """Turn pairs as the first Llama did, by complex numbers."""
    angle = torch.outer(torch.arange(x.shape[1]).float(), 0.5 ** torch.arange(x.shape[3] // 2))
    turn = torch.polar(torch.ones_like(angle), angle).view(1, x.shape[1], 1, -1)
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turn).flatten(3)


IDIOMS = {
    "gelu": (lambda x: 0.5 * x * (1 + torch.erf(x / 2**0.5)), OpKind.GELU),
    "gelu by tanh": (
        lambda x: 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3))), OpKind.GELU),
    "silu": (lambda x: x * torch.sigmoid(x), OpKind.SILU),
    "silu by exp": (lambda x: x / (1 + torch.exp(-x)), OpKind.SILU),
    "softmax": (lambda x: (x - x.amax(-1, True)).exp() / (x - x.amax(-1, True)).exp().sum(-1, True), OpKind.SOFTMAX),
    "rmsnorm": (lambda x: x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-3), OpKind.RMSNORM),
    "rmsnorm of heads": (
        lambda x: x.view(1, 4, 2, 4) * torch.rsqrt(x.view(1, 4, 2, 4).pow(2).mean(-1, keepdim=True) + 1e-3),
        OpKind.RMSNORM),
    "rmsnorm with a gain": (
        lambda x: x * (torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * torch.arange(1.0, 9.0)),
        OpKind.RMSNORM),
    "layernorm": (
        lambda x: (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, unbiased=False, keepdim=True) + 1e-4)
        * torch.arange(1.0, 9.0) + 0.5,
        OpKind.LAYERNORM),
    "top 1": (
        lambda x: torch.zeros_like(x).scatter(-1, x.argmax(-1, keepdim=True), 1.0), OpKind.TOP_K),
    "hidden logits": (
        lambda x: x.masked_fill(x < x.topk(3, -1).values[..., -1:], float("-inf")).softmax(-1), OpKind.TOP_K),
}  # fmt: skip


@pytest.mark.parametrize("name", IDIOMS)
def test_idioms_become_one_op(name: str) -> None:
    function, kind = IDIOMS[name]
    kinds = check(by(function), (1, 4, 8))
    assert kinds[kind] == 1
    views = (OpKind.SPLIT_HEADS, OpKind.MERGE_HEADS, OpKind.LOAD, OpKind.STORE)
    assert set(kinds) <= {kind, *views}


def rotated_by_steps(x: torch.Tensor) -> torch.Tensor:
    """Turn the same pairs by slices with steps."""
    angle = torch.outer(torch.arange(x.shape[1]).float(), 0.5 ** torch.arange(x.shape[3] // 2))[None, :, None]
    even, odd = x[..., ::2], x[..., 1::2]
    pairs = (even * angle.cos() - odd * angle.sin(), even * angle.sin() + odd * angle.cos())
    return torch.stack(pairs, dim=-1).flatten(3)


@pytest.mark.parametrize("function", [rotated_neighbours, rotated_by_steps])
def test_rotary_positions_of_neighbours_are_two_products(function: object) -> None:
    kinds = check(by(function), (1, 6, 2, 8))
    assert kinds[OpKind.MULTIPLY] == 2


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x * y[:, :, :1],
        lambda x, y: x[:, :, None] * y[:, :, :, None].transpose(2, 3),
        lambda x, y: torch.tanh(x) * torch.sigmoid(y) - x / torch.arange(1.0, 5.0)[:, None],
        lambda x, y: torch.einsum("bij,bkj->bik", x, y),
        lambda x, y: torch.stack([x, y], dim=1).sum(1),
        lambda x, y: torch.cat([x, y, x[:, :1]], dim=1).mean(1),
        lambda x, y: torch.cat([x, y], dim=-1)[..., 4:12] + 0 * x,
        lambda x, y: (x.view(1, 4, 2, 4)[..., 2:] * torch.arange(2.0)).flatten(2),
        lambda x, y: (x.view(1, 4, 2, 4) * torch.arange(16.0).view(4, 1, 4)).sum(2),
    ],
)
def test_sums_and_products_of_two_inputs(function: object) -> None:
    check(by(function), (1, 4, 8), (1, 4, 8))
