"""From a spec to its dataflow graph."""

from __future__ import annotations

from placer.graph import DataflowGraph
from placer.workloads.backward import with_backward
from placer.workloads.blocks import add_and_normalise, attention, dense, feed_forward
from placer.workloads.builder import GraphBuilder
from placer.workloads.specs import (
    MODELS,
    FfnSpec,
    GemmSpec,
    MhaSpec,
    MlpSpec,
    ModelSpec,
    PublishedModel,
    Spec,
)


def build(spec: Spec) -> DataflowGraph:
    """The graph of any spec, with the backward pass if the spec asks for training."""
    match spec:
        case GemmSpec():
            graph = build_gemm(spec)
        case MlpSpec():
            graph = build_mlp(spec)
        case FfnSpec():
            graph = build_ffn(spec)
        case MhaSpec():
            graph = build_mha(spec)
        case ModelSpec():
            graph = build_model(spec)
    return with_backward(graph) if spec.training else graph


def build_gemm(spec: GemmSpec) -> DataflowGraph:
    b = GraphBuilder()
    x = b.load((spec.rows, spec.width), name="x")
    b.store(b.linear(x, spec.columns, name="product"), name="y")
    return b.build(f"gemm-{spec.rows}x{spec.width}x{spec.columns}", "gemm")


def build_mlp(spec: MlpSpec) -> DataflowGraph:
    b = GraphBuilder()
    x = b.load((spec.rows, spec.width), name="x")
    for layer in range(spec.depth):
        x = dense(b, x, spec.width, f"layer{layer}")
        if layer < spec.depth - 1:
            x = b.relu(x, name=f"layer{layer}.relu")
    b.store(x, name="y")
    return b.build(f"mlp-{spec.rows}x{spec.width}-depth{spec.depth}", "mlp")


def build_ffn(spec: FfnSpec) -> DataflowGraph:
    b = GraphBuilder()
    x = b.load((spec.rows, spec.width), name="x")
    branch = feed_forward(b, x, spec.width, spec.hidden, "ffn")
    b.store(add_and_normalise(b, x, branch, "ffn"), name="y")
    return b.build(f"ffn-{spec.rows}x{spec.width}x{spec.hidden}", "ffn")


def build_mha(spec: MhaSpec) -> DataflowGraph:
    b = GraphBuilder()
    x = b.load((spec.rows, spec.width), name="x")
    branch = attention(b, x, spec.width, spec.heads, "mha", has_bias=False)
    b.store(add_and_normalise(b, x, branch, "mha"), name="y")
    return b.build(f"mha-{spec.rows}x{spec.width}-heads{spec.heads}", "mha")


def build_model(spec: ModelSpec) -> DataflowGraph:
    """Embedding (or hidden states from DRAM), layers, and for decoders the last layernorm.

    The heads on top (language model, classifier) are left out: they depend on the task.
    """
    model, layers = MODELS[spec.model], spec.layers or MODELS[spec.model].layers
    b = GraphBuilder()
    if spec.embedding:
        x = _embedding(b, model, spec.sequence)
    else:
        x = b.load((spec.sequence, model.width), name="hidden")
    b.store(_layers(b, x, model, layers), name="y")
    return b.build(f"{spec.model}-layers{layers}-sequence{spec.sequence}", spec.model)


def build_layer(model: PublishedModel, sequence: int, family: str) -> DataflowGraph:
    """One layer of a transformer of any dimensions, from hidden states in DRAM."""
    b = GraphBuilder()
    x = b.load((sequence, model.width), name="hidden")
    b.store(_layers(b, x, model, 1), name="y")
    return b.build(f"{family}-{sequence}x{model.width}x{model.hidden}-heads{model.heads}", family)


def _layers(b: GraphBuilder, x: str, model: PublishedModel, layers: int) -> str:
    add_layer = _decoder_layer if model.is_decoder else _encoder_layer
    for layer in range(layers):
        x = add_layer(b, x, model, f"layer{layer}")
    return b.layernorm(x, name="final.norm") if model.is_decoder else x


def _embedding(b: GraphBuilder, model: PublishedModel, sequence: int) -> str:
    """Sum of token, position and (BERT) segment embeddings; BERT normalises the sum."""
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


def _decoder_layer(b: GraphBuilder, x: str, model: PublishedModel, name: str) -> str:
    part = f"{name}.attention"
    normed = b.layernorm(x, name=f"{part}.norm")
    branch = attention(b, normed, model.width, model.heads, part, causal=True)
    x = b.add(x, branch, name=f"{part}.residual")
    part = f"{name}.ffn"
    normed = b.layernorm(x, name=f"{part}.norm")
    branch = feed_forward(b, normed, model.width, model.hidden, part)
    return b.add(x, branch, name=f"{part}.residual")
