"""Networks as users write them, from the modules of torch.nn alone."""

from __future__ import annotations

import torch
from torch import nn


class SmallVit(nn.Module):
    """Patches, a class token, positions, encoder layers, a head on the class token."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 32, kernel_size=4, stride=4)
        self.class_token = nn.Parameter(torch.randn(1, 1, 32))
        self.positions = nn.Parameter(torch.randn(1, 17, 32))
        layer = nn.TransformerEncoderLayer(32, 4, 64, activation="gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(32, eps=1e-3)
        self.head = nn.Linear(32, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], dim=1) + self.positions
        logits: torch.Tensor = self.head(self.norm(self.encoder(x))[:, 0])
        return logits


class SmallGpt(nn.Module):
    """Token and position embeddings, a causal block, a head that shares the tokens' table."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(50, 32)
        self.positions = nn.Embedding(16, 32)
        self.norm1 = nn.LayerNorm(32)
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)
        self.norm2 = nn.LayerNorm(32)
        self.up = nn.Linear(32, 64)
        self.gelu = nn.GELU(approximate="tanh")
        self.down = nn.Linear(64, 32)
        self.head = nn.Linear(32, 50, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        length = tokens.shape[1]
        x = self.tokens(tokens) + self.positions(torch.arange(length))
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        y = self.norm1(x)
        x = x + self.attention(y, y, y, attn_mask=mask, need_weights=False)[0]
        x = x + self.down(self.gelu(self.up(self.norm2(x))))
        logits: torch.Tensor = self.head(x)
        return logits


class OwnAttention(nn.Module):
    """Attention by hand: packed projection, mask by masked_fill, mean over the rows."""

    def __init__(self) -> None:
        super().__init__()
        self.packed = nn.Linear(24, 72, bias=False)
        self.register_buffer("mask", torch.ones(8, 8).tril(), persistent=False)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        query, key, value = (part.view(1, 8, 3, 8).transpose(1, 2) for part in self.packed(x).split(24, dim=2))
        scores = query @ key.transpose(-2, -1) / 8**0.5
        scores = scores.masked_fill(self.mask == 0, float("-inf")).softmax(-1)
        y = (scores @ value).transpose(1, 2).reshape(1, 8, 24)
        y = x - 2 * y + 1.5
        return y.relu_(), y.mean(dim=1)


class Unsupported(nn.Module):
    """Two operators that have no place on the fabric, and some that follow them."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.sin(self.layer(x))
        y = torch.cumsum(y, dim=1)
        result: torch.Tensor = self.layer(y * torch.sigmoid(x))
        return result


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(32, 8))


def encoder_layer() -> nn.Module:
    return nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)


# How to make a network, the shape of its input, and whether that holds indices.
NETWORKS = {
    "mlp": (mlp, (5, 16), False),
    "encoder": (encoder_layer, (1, 8, 32), False),
    "vit": (SmallVit, (1, 3, 16, 16), False),
    "gpt": (SmallGpt, (1, 8), True),
}


def example(shape: tuple[int, ...], has_indices: bool, seed: int = 1) -> torch.Tensor:
    torch.manual_seed(seed)
    return torch.randint(50, shape) if has_indices else torch.randn(shape)
