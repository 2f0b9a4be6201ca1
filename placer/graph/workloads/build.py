"""From a spec to its dataflow graph, by way of the parts that transformers are made of."""

from __future__ import annotations

import math

from placer.graph import DataflowGraph
from placer.graph.workloads.backward import with_backward
from placer.graph.workloads.builder import GraphBuilder
from placer.graph.workloads.decoders import add_decoder
from placer.graph.workloads.networks import VISION, DecoderSpec, PublishedResnet, PublishedVit, VisionSpec
from placer.graph.workloads.specs import (
    MODELS,
    FamilySpec,
    FfnSpec,
    GemmSpec,
    MhaSpec,
    MlpSpec,
    ModelSpec,
    PublishedModel,
    Spec,
)
from placer.graph.workloads.vision import patch_embedding, resnet


def build(spec: Spec) -> DataflowGraph:
    """Build the graph of any spec, with the backward pass if the spec asks for training."""
    b = GraphBuilder()
    match spec:
        case ModelSpec():
            y, name = _add_model(b, spec)
        case DecoderSpec():
            y, name = add_decoder(b, spec)
        case VisionSpec():
            y, name = _add_vision(b, spec)
        case _:
            y, name = _add_family(b, b.load((spec.rows, spec.width), name="x"), spec)
    family = name.partition("-")[0]
    b.store(y, name="y")
    graph = b.build(name, family)
    return with_backward(graph) if spec.training else graph


def _add_family(b: GraphBuilder, x: str, spec: FamilySpec) -> tuple[str, str]:
    """Add the ops of a family behind its input; returns the result and a name for the graph."""
    size = f"{spec.rows}x{spec.width}"
    match spec:
        case GemmSpec():
            return b.linear(x, spec.columns, name="product"), f"gemm-{size}x{spec.columns}"
        case MlpSpec():
            for layer in range(spec.depth):
                x = dense(b, x, spec.width, f"layer{layer}")
                if layer < spec.depth - 1:
                    x = b.relu(x, name=f"layer{layer}.relu")
            return x, f"mlp-{size}-depth{spec.depth}"
        case FfnSpec():
            branch = feed_forward(b, x, spec.width, spec.hidden, "ffn")
            return add_and_normalise(b, x, branch, "ffn"), f"ffn-{size}x{spec.hidden}"
        case MhaSpec():
            branch = attention(b, x, spec.width, spec.heads, "mha", has_bias=False)
            return add_and_normalise(b, x, branch, "mha"), f"mha-{size}-heads{spec.heads}"


def _add_model(b: GraphBuilder, spec: ModelSpec) -> tuple[str, str]:
    """Add the embedding (or load hidden states), the layers, and for decoders a last layernorm.

    The heads on top (language model, classifier) are left out: they depend on the task.
    """
    model, layers = MODELS[spec.model], spec.layers or MODELS[spec.model].layers
    if spec.embedding:
        x = _embedding(b, model, spec.sequence)
    else:
        x = b.load((spec.sequence, model.width), name="hidden")
    name = f"{spec.model}-layers{layers}-sequence{spec.sequence}"
    return _layers(b, x, model, layers), name


def _add_vision(b: GraphBuilder, spec: VisionSpec) -> tuple[str, str]:
    """Add a network for images; a vision transformer ends in a layernorm, its classifier is left out."""
    model, layers = VISION[spec.model], spec.layers or VISION[spec.model].layers
    if isinstance(model, PublishedResnet):
        return resnet(b, model, layers), f"{spec.model}-blocks{layers}"
    name = f"{spec.model}-layers{layers}"
    return vision_transformer(b, model, layers, spec.embedding), name


def vision_transformer(b: GraphBuilder, model: PublishedVit, layers: int, embedding: bool = True) -> str:
    """Add a vision transformer of any dimensions, from an image or from hidden states."""
    x = patch_embedding(b, model) if embedding else b.load((model.rows, model.width), name="hidden")
    for layer in range(layers):
        x = _norm_first_layer(b, x, model, f"layer{layer}", causal=False)
    return b.layernorm(x, name="final.norm")


def build_layer(model: PublishedModel, sequence: int, family: str) -> DataflowGraph:
    """Build one layer of a transformer of any dimensions, from hidden states in DRAM."""
    b = GraphBuilder()
    x = b.load((sequence, model.width), name="hidden")
    b.store(_layers(b, x, model, 1), name="y")
    return b.build(f"{family}-{sequence}x{model.width}x{model.hidden}-heads{model.heads}", family)


def _layers(b: GraphBuilder, x: str, model: PublishedModel, layers: int) -> str:
    for layer in range(layers):
        if model.is_decoder:
            x = _norm_first_layer(b, x, model, f"layer{layer}", causal=True)
        else:
            x = _encoder_layer(b, x, model, f"layer{layer}")
    return b.layernorm(x, name="final.norm") if model.is_decoder else x


def _embedding(b: GraphBuilder, model: PublishedModel, sequence: int) -> str:
    """Add up token, position and (BERT) segment embeddings; BERT normalises the sum."""
    x = b.embedding(sequence, model.width, model.vocabulary, name="token")
    position = b.embedding(sequence, model.width, model.positions, name="position")
    x = b.add(x, position, name="token_and_position")
    if model.segments:
        segment = b.embedding(sequence, model.width, model.segments, name="segment")
        x = b.layernorm(b.add(x, segment, name="embedding"), name="embedding.norm")
    return x


def _encoder_layer(b: GraphBuilder, x: str, model: PublishedModel, name: str) -> str:
    branch = attention(b, x, model.width, model.heads, f"{name}.attention")
    x = add_and_normalise(b, x, branch, f"{name}.attention")
    branch = feed_forward(b, x, model.width, model.hidden, f"{name}.ffn")
    return add_and_normalise(b, x, branch, f"{name}.ffn")


def _norm_first_layer(b: GraphBuilder, x: str, model: PublishedModel | PublishedVit, name: str, causal: bool) -> str:
    part = f"{name}.attention"
    normed = b.layernorm(x, name=f"{part}.norm")
    branch = attention(b, normed, model.width, model.heads, part, causal=causal)
    x = b.add(x, branch, name=f"{part}.residual")
    part = f"{name}.ffn"
    normed = b.layernorm(x, name=f"{part}.norm")
    branch = feed_forward(b, normed, model.width, model.hidden, part)
    return b.add(x, branch, name=f"{part}.residual")


def dense(b: GraphBuilder, x: str, columns: int, name: str, has_bias: bool = True) -> str:
    """Add a linear layer, with a bias if asked for."""
    y = b.linear(x, columns, name=name)
    return b.bias(y, name=f"{name}.bias") if has_bias else y


def feed_forward(b: GraphBuilder, x: str, width: int, hidden: int, name: str) -> str:
    """Add width -> hidden -> width with gelu between."""
    up = b.gelu(dense(b, x, hidden, f"{name}.up"), name=f"{name}.gelu")
    return dense(b, up, width, f"{name}.down")


def attention(
    b: GraphBuilder, x: str, width: int, heads: int, name: str, has_bias: bool = True, causal: bool = False
) -> str:
    """Add multi-head self-attention up to and with the output projection.

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
    """Add the branch to its input, then a layernorm."""
    return b.layernorm(b.add(x, branch, name=f"{name}.residual"), name=f"{name}.norm")
