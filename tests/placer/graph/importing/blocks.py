"""Blocks of today's networks as users write them in plain PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional

Shapes = tuple[tuple[int, ...], ...]


class OwnRmsNorm(nn.Module):
    def __init__(self, width: int, epsilon: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(1 + 0.1 * torch.randn(width))
        self.epsilon = epsilon

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        variance = x.float().pow(2).mean(-1, keepdim=True)
        return self.weight * (x * torch.rsqrt(variance + self.epsilon)).type_as(x)


def rotate_half(x: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


def angles(rows: int, width: int) -> torch.Tensor:
    frequencies = 1.0 / (10000 ** (torch.arange(0, width, 2).float() / width))
    angle = torch.outer(torch.arange(rows).float(), frequencies)
    return torch.cat((angle, angle), dim=-1)


class LlamaBlock(nn.Module):
    """Rmsnorm, grouped-query attention with rotary embedding, a gated feed-forward part."""

    def __init__(self, norm: str = "own", repeat: str = "expand", angles_at: str = "buffers") -> None:
        super().__init__()
        self.heads, self.groups, self.width, self.repeat = 4, 2, 8, repeat
        make = OwnRmsNorm if norm == "own" else nn.RMSNorm
        self.norm1, self.norm2 = make(32), make(32)
        nn.init.normal_(self.norm1.weight)
        self.query = nn.Linear(32, 32, bias=False)
        self.key = nn.Linear(32, 16, bias=False)
        self.value = nn.Linear(32, 16, bias=False)
        self.output = nn.Linear(32, 32, bias=False)
        self.gate = nn.Linear(32, 48, bias=False)
        self.up = nn.Linear(32, 48, bias=False)
        self.down = nn.Linear(48, 32, bias=False)
        self.angles_at = angles_at
        self.register_buffer("cos", angles(6, 8).cos(), persistent=False)
        self.register_buffer("sin", angles(6, 8).sin(), persistent=False)

    def rotated(self, x: torch.Tensor) -> torch.Tensor:
        cos, sin = self.cos, self.sin
        if self.angles_at == "forward":
            angle = angles(x.shape[-2], x.shape[-1])
            cos, sin = angle.cos()[None, None], angle.sin()[None, None]
        return x * cos + rotate_half(x) * sin

    def repeated(self, x: torch.Tensor) -> torch.Tensor:
        times = self.heads // self.groups
        if self.repeat == "expand":
            batch, heads, rows, width = x.shape
            return x[:, :, None].expand(batch, heads, times, rows, width).reshape(batch, heads * times, rows, width)
        return x.repeat_interleave(times, dim=1)

    def attention(self, x: torch.Tensor) -> torch.Tensor:
        batch, rows, _ = x.shape
        query = self.rotated(self.query(x).view(batch, rows, self.heads, self.width).transpose(1, 2))
        key = self.rotated(self.key(x).view(batch, rows, self.groups, self.width).transpose(1, 2))
        value = self.value(x).view(batch, rows, self.groups, self.width).transpose(1, 2)
        if self.repeat == "sdpa":
            y = functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        elif self.repeat == "expand":
            key, value = self.repeated(key), self.repeated(value)
            y = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        else:
            key, value = self.repeated(key), self.repeated(value)
            scores = query @ key.transpose(2, 3) / math.sqrt(self.width)
            scores = scores + torch.full((rows, rows), float("-inf")).triu(1)
            y = functional.softmax(scores, dim=-1) @ value
        return self.output(y.transpose(1, 2).contiguous().view(batch, rows, -1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        y = self.norm2(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class BasicBlock(nn.Module):
    """Two convolutions with batch normalisation, and a shortcut that changes the size."""

    def __init__(self, channels: int = 4, width: int = 8, stride: int = 2) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.down = nn.Sequential(nn.Conv2d(channels, width, 1, stride, bias=False), nn.BatchNorm2d(width))
        with_statistics(self)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.relu(self.bn1(self.conv1(x)))
        return functional.relu(self.bn2(self.conv2(y)) + self.down(x))


class Bottleneck(nn.Module):
    """Convolutions 1, 3 and 1 wide, the middle one in groups."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(8, 4, 1, bias=False), nn.BatchNorm2d(4), nn.ReLU(inplace=True),
            nn.Conv2d(4, 4, 3, 1, 1, groups=2, bias=False), nn.BatchNorm2d(4), nn.ReLU(inplace=True),
            nn.Conv2d(4, 8, 1, bias=False), nn.BatchNorm2d(8),
        )  # fmt: skip
        with_statistics(self)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(x + self.body(x))


class SmallResnet(nn.Module):
    """Stem, pooling, blocks, mean over the image, classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 7, 2, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(inplace=True))
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.blocks = nn.Sequential(BasicBlock(4, 8, 2), Bottleneck())
        self.mean = nn.AdaptiveAvgPool2d((1, 1))
        self.head = nn.Linear(8, 5)
        with_statistics(self)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.mean(self.blocks(self.pool(self.stem(x))))
        logits: torch.Tensor = self.head(torch.flatten(x, 1))
        return logits


def with_statistics(module: nn.Module) -> None:
    """Give batch norms other numbers than those of a new network."""
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d | nn.BatchNorm1d):
            nn.init.normal_(part.running_mean)
            nn.init.uniform_(part.running_var, 0.5, 2)
            nn.init.normal_(part.weight)
            nn.init.normal_(part.bias)


class Separable(nn.Module):
    """A depthwise and a pointwise convolution, and a mean by hand."""

    def __init__(self, kernel: int = 3, stride: int = 1, dilation: int = 2) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(6, 6, kernel, stride, "same" if stride == 1 else 1, dilation, groups=6)
        self.norm = nn.BatchNorm2d(6)
        self.pointwise = nn.Conv2d(6, 4, 1)
        with_statistics(self)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.pointwise(functional.silu(self.norm(self.depthwise(x)))).mean((2, 3))


class PoolingOnly(nn.Module):
    """Pools of all kinds, and a normalisation that follows no convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(3)
        self.maximum = nn.MaxPool2d(2)
        self.average = nn.AvgPool2d(3, 1, 1)
        with_statistics(self)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.average(self.maximum(self.norm(x)))
        return functional.adaptive_avg_pool2d(y, (2, 2)).flatten(2).transpose(1, 2)


class MixtureOfExperts(nn.Module):
    """Every expert works on every row; the gates of those not chosen are zero."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self.router = nn.Linear(16, 4, bias=False)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(16, 24), nn.GELU(), nn.Linear(24, 16)) for _ in range(4))
        self.form = form

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits = self.router(x)
        if self.form == "renormalised":
            gates, chosen = functional.softmax(logits, dim=-1).topk(2, dim=-1)
            gates = gates / gates.sum(dim=-1, keepdim=True)
        else:
            top, chosen = torch.topk(logits, 2, dim=-1)
            gates = functional.softmax(top, dim=-1)
        if self.form == "masks":
            parts = [
                (gates * (chosen == number)).sum(dim=-1, keepdim=True) * expert(x)
                for number, expert in enumerate(self.experts)
            ]
            return sum(parts[1:], parts[0])
        if self.form == "one_hot":
            matrix = (functional.one_hot(chosen, 4).to(x.dtype) * gates.unsqueeze(-1)).sum(dim=-2)
        else:
            matrix = torch.zeros_like(logits).scatter(-1, chosen, gates)
        if self.form == "stacked":
            results = torch.stack([expert(x) for expert in self.experts], dim=-2)
            return (matrix.unsqueeze(-1) * results).sum(dim=-2)
        y = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            y = y + matrix[..., number : number + 1] * expert(x)
        return y


class StackedExperts(nn.Module):
    """The weights of all experts in one tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(16, 4, bias=False)
        self.up = nn.Parameter(torch.randn(4, 16, 24) / 4)
        self.down = nn.Parameter(torch.randn(4, 24, 16) / 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits = self.router(x)
        top, chosen = logits.topk(2)
        gates = torch.zeros_like(logits).scatter_(-1, chosen, top.softmax(-1))
        hidden = functional.silu(torch.einsum("bsd,edh->besh", x, self.up))
        return torch.einsum("besd,bse->bsd", hidden @ self.down, gates)


class VitBlock(nn.Module):
    """A block in the style of timm: packed projection, layer scale."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(16), nn.LayerNorm(16)
        self.qkv = nn.Linear(16, 48)
        self.proj = nn.Linear(16, 16)
        self.gamma1, self.gamma2 = (nn.Parameter(torch.randn(16)) for _ in range(2))
        self.mlp = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, n, c = x.shape
        qkv = self.qkv(self.norm1(x)).reshape(b, n, 3, 4, c // 4).permute(2, 0, 3, 1, 4)
        query, key, value = qkv.unbind(0)
        y = functional.scaled_dot_product_attention(query, key, value)
        x = x + self.gamma1 * self.proj(y.transpose(1, 2).reshape(b, n, c))
        return x + self.gamma2 * self.mlp(self.norm2(x))


class Vit(nn.Module):
    """Patch embedding, class token, positions, a block, the class token's row."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 16, kernel_size=4, stride=4)
        self.token = nn.Parameter(torch.randn(1, 1, 16))
        self.positions = nn.Parameter(torch.randn(1, 10, 16))
        self.block = VitBlock()
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 5)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(x.shape[0], -1, -1), x), dim=1) + self.positions
        logits: torch.Tensor = self.head(self.norm(self.block(x))[:, 0])
        return logits


class Block(NamedTuple):
    """How to make a network, and the shapes of its inputs."""

    make: Callable[[], nn.Module]
    shapes: Shapes


BLOCKS = {
    "llama": Block(LlamaBlock, ((1, 6, 32),)),
    "llama_interleave": Block(lambda: LlamaBlock("torch", "interleave", "forward"), ((1, 6, 32),)),
    "llama_gqa": Block(lambda: LlamaBlock("torch", "sdpa"), ((1, 6, 32),)),
    "decoder": Block(
        lambda: nn.TransformerDecoderLayer(16, 2, 32, batch_first=True), ((1, 5, 16), (1, 7, 16))
    ),
    "basic": Block(BasicBlock, ((1, 4, 6, 6),)),
    "bottleneck": Block(Bottleneck, ((1, 8, 5, 5),)),
    "resnet": Block(SmallResnet, ((1, 3, 20, 20),)),
    "separable": Block(Separable, ((1, 6, 7, 6),)),
    "pools": Block(PoolingOnly, ((1, 3, 8, 8),)),
    "vit": Block(Vit, ((1, 3, 12, 12),)),
    "moe": Block(lambda: MixtureOfExperts("scatter"), ((1, 5, 16),)),
    "moe_renormalised": Block(lambda: MixtureOfExperts("renormalised"), ((1, 5, 16),)),
    "moe_one_hot": Block(lambda: MixtureOfExperts("one_hot"), ((1, 5, 16),)),
    "moe_masks": Block(lambda: MixtureOfExperts("masks"), ((1, 5, 16),)),
    "moe_stacked": Block(lambda: MixtureOfExperts("stacked"), ((1, 5, 16),)),
    "moe_einsum": Block(StackedExperts, ((1, 5, 16),)),
}  # fmt: skip
