"""The parts that transformers and the dataset families have in common."""

from __future__ import annotations

import math

from placer.workloads.builder import GraphBuilder


def dense(b: GraphBuilder, x: str, columns: int, name: str, has_bias: bool = True) -> str:
    """Linear layer, with a bias if asked for."""
    y = b.linear(x, columns, name=name)
    return b.bias(y, name=f"{name}.bias") if has_bias else y


def feed_forward(b: GraphBuilder, x: str, width: int, hidden: int, name: str) -> str:
    """width -> hidden -> width with gelu between."""
    up = b.gelu(dense(b, x, hidden, f"{name}.up"), name=f"{name}.gelu")
    return dense(b, up, width, f"{name}.down")


def attention(
    b: GraphBuilder,
    x: str,
    width: int,
    heads: int,
    name: str,
    has_bias: bool = True,
    causal: bool = False,
) -> str:
    """Multi-head self-attention up to and with the output projection.

    GPT-2's fused projection to query, key and value is written as three: the same work.
    """

    def head_projection(part: str) -> str:
        projected = dense(b, x, width, f"{name}.{part}", has_bias)
        return b.split_heads(projected, heads, name=f"{name}.{part}.heads")

    query, key, value = (head_projection(part) for part in ("query", "key", "value"))
    scores = b.matmul(query, key, transpose_b=True, name=f"{name}.scores")
    scaled = b.scale(scores, 1 / math.sqrt(width // heads), name=f"{name}.scale")
    probabilities = b.softmax(scaled, causal=causal, name=f"{name}.softmax")
    context = b.matmul(probabilities, value, name=f"{name}.context")
    merged = b.merge_heads(context, name=f"{name}.merge")
    return dense(b, merged, width, f"{name}.output", has_bias)


def add_and_normalise(b: GraphBuilder, x: str, branch: str, name: str) -> str:
    """Residual add, then layernorm."""
    return b.layernorm(b.add(x, branch, name=f"{name}.residual"), name=f"{name}.norm")
