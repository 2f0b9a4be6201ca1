"""A network as a user may bring it: one encoder layer of a small transformer, plain PyTorch."""

from __future__ import annotations

import torch
from torch import nn


class Encoder(nn.Module):
    """Self-attention and a feed-forward layer, each with residual and normalisation."""

    def __init__(self, width: int = 64, heads: int = 4, hidden: int = 256) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.feed_forward = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        attended, _ = self.attention(x, x, x, need_weights=False)
        x = self.norm1(x + attended)
        return self.norm2(x + self.feed_forward(x))
