"""Decoders of today: rmsnorm, rotary positions, key heads that are shared, gates, and experts.

Prefill runs one sequence; every row attends to those before it. Decode runs one row of each of
several sequences of one length: a row is a sequence of its own, so each (row, head) is a head of a
single row (`rows_to_heads`), and its keys and values are those in a cache in DRAM and its own.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from placer.graph import Array, expert_capacity
from placer.graph.workloads.builder import GraphBuilder
from placer.graph.workloads.networks import DECODERS, DecoderSpec, PublishedDecoder


class _Positions(NamedTuple):
    """Where the rows stand: the tables of their angles, and how many positions are cached before."""

    cos: str
    sin: str
    context: int | None  # None: no cache, the rows are a sequence from its start


def add_decoder(b: GraphBuilder, spec: DecoderSpec) -> tuple[str, str]:
    """Add the model of a spec; returns its result and a name for the graph.

    The language model's head is left out, as with the other models.
    """
    model, layers = DECODERS[spec.model], spec.layers or DECODERS[spec.model].layers
    if spec.embedding:
        x = b.embedding(spec.rows, model.width, model.vocabulary, name="token")
    else:
        x = b.load((spec.rows, model.width), name="hidden")
    context = spec.context if spec.decode else None
    length = f"decode{spec.rows}-context{context}" if spec.decode else f"sequence{spec.rows}"
    y = decoder_layers(b, x, model, spec.rows, layers, context)
    return y, f"{spec.model}-layers{layers}-{length}"


def decoder_layers(
    b: GraphBuilder, x: str, model: PublishedDecoder, rows: int, layers: int, context: int | None = None
) -> str:
    """Add layers of a decoder of any dimensions and the last norm; with a context, one decode step."""
    table = (rows if context is None else 1, model.head_size)
    cos, sin = (b.constant(table, name=f"rotary.{part}") for part in ("cos", "sin"))
    positions = _Positions(cos, sin, context)
    for layer in range(layers):
        part = f"layer{layer}.attention"
        normed = b.rmsnorm(x, name=f"{part}.norm")
        x = b.add(x, _attention(b, normed, model, rows, positions, part), name=f"{part}.residual")
        part = f"layer{layer}.ffn"
        normed = b.rmsnorm(x, name=f"{part}.norm")
        branch = _experts(b, normed, model, rows, part) if model.experts else _gated(b, normed, model, part)
        x = b.add(x, branch, name=f"{part}.residual")
    return b.rmsnorm(x, name="final.norm")


def rotary_tables(model: PublishedDecoder, first: int, rows: int) -> dict[str, Array]:
    """Return the weights of the constants of `decoder_layers` for rows at positions from `first` on."""
    half = model.head_size // 2
    turns = model.rotary_base ** (-np.arange(half) / half)
    angles = np.tile(np.arange(first, first + rows)[:, None] * turns, 2)  # [rows, head_size]
    return {"rotary.cos.weight": np.cos(angles), "rotary.sin.weight": np.sin(angles)}


def _attention(b: GraphBuilder, x: str, model: PublishedDecoder, rows: int, at: _Positions, name: str) -> str:
    """Add attention up to and with the output projection."""
    is_step = at.context is not None

    def heads_of(part: str, heads: int) -> str:
        y = b.linear(x, heads * model.head_size, name=f"{name}.{part}")
        split = b.rows_to_heads if is_step else b.split_heads
        y = split(y, heads, name=f"{name}.{part}.heads")
        return y if part == "value" else b.rotary(y, at.cos, at.sin, name=f"{name}.{part}.rotary")

    def shared(part: str) -> str:
        y = heads_of(part, model.key_heads)
        if at.context is not None:
            cache = (rows * model.key_heads, at.context, model.head_size)
            b.store(y, name=f"{name}.{part}.new")
            y = b.concat_rows(b.load(cache, name=f"{name}.{part}.cache"), y, name=f"{name}.{part}.all")
        return b.repeat_heads(y, model.heads // model.key_heads, name=f"{name}.{part}.repeat")

    query, key, value = heads_of("query", model.heads), shared("key"), shared("value")
    scores = b.matmul(query, key, transpose_b=True, name=f"{name}.scores")
    scaled = b.scale(scores, 1 / math.sqrt(model.head_size), name=f"{name}.scale")
    probabilities = b.softmax(scaled, causal=not is_step, name=f"{name}.softmax")
    y = b.matmul(probabilities, value, name=f"{name}.context")
    merge = f"{name}.merge"
    y = b.heads_to_rows(y, model.heads, name=merge) if is_step else b.merge_heads(y, name=merge)
    return b.linear(y, model.width, name=f"{name}.output")


def _gated(b: GraphBuilder, x: str, model: PublishedDecoder, name: str) -> str:
    """Add width -> hidden -> width, the hidden numbers times the silu of a gate."""
    gate = b.silu(b.linear(x, model.hidden, name=f"{name}.gate"), name=f"{name}.silu")
    up = b.linear(x, model.hidden, name=f"{name}.up")
    return b.linear(b.multiply(gate, up, name=f"{name}.gated"), model.width, name=f"{name}.down")


def _experts(b: GraphBuilder, x: str, model: PublishedDecoder, rows: int, name: str) -> str:
    """Add a router and its experts, each of which takes an equal share of the rows (`placer.graph.routing`)."""
    logits = b.linear(x, model.experts, name=f"{name}.router")
    gates = b.top_k(logits, model.top, name=f"{name}.gates")
    capacity = expert_capacity(rows, model.top, model.experts)
    results = []
    for expert in range(model.experts):
        part = f"{name}.expert{expert}"
        own = b.dispatch(x, gates, expert, capacity, name=f"{part}.rows")
        results.append(_gated(b, own, model, part))
    return b.combine(gates, *results, name=f"{name}.combine")
