"""Random networks of the kinds that are published, for datasets; none has published dimensions.

Families: one transformer layer (encoder or decoder, forward or training), decoder layers of today
(rmsnorm, rotary positions, shared key heads, gated feed-forward), and residual blocks of convolutions.
One layer of a published network can be taken too, to test what was learned from the others.
"""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

import numpy as np

from placer.base import InputError
from placer.graph import DataflowGraph
from placer.graph.workloads.backward import with_backward
from placer.graph.workloads.build import build, build_layer
from placer.graph.workloads.builder import GraphBuilder
from placer.graph.workloads.decoders import decoder_layers
from placer.graph.workloads.networks import VISION, PublishedDecoder, PublishedResnet
from placer.graph.workloads.sizing import GRANULE, WorkloadConfig, resolve
from placer.graph.workloads.specs import MODELS, NETWORKS, PublishedModel
from placer.graph.workloads.vision import resnet

SECTION, DECODER, CONVOLUTION = "section", "decoder", "convolution"
NETWORK_FAMILIES = (SECTION, DECODER, CONVOLUTION)  # what is cut into sections, and one of them taken
HEAD_SIZES, MAX_HEADS = (32, 48, 64, 80, 96), 16  # of a transformer layer
DECODER_HEAD_SIZES, MAX_KEY_HEADS, MAX_SHARED = (16, 32, 48, 64, 96, 128), 6, 4  # of a decoder of today
MAX_DECODER_WIDTH = 2048
HIDDEN_STEP = 32  # hidden widths of decoders are multiples
CHANNELS = (16, 24, 32, 40, 48, 80, 96)  # of the inner convolutions of the first blocks
SIDES = (16, 20, 24, 32, 40, 48, 64)  # pixels of an image
_NUMBER_TAG = 0xD2A4  # keeps the seeds of networks with a number apart from those of datasets


def sample_network(family: str, rng: np.random.Generator) -> tuple[DataflowGraph, dict[str, Any]]:
    """Draw a network of one of `NETWORK_FAMILIES`, or one layer of a published one; returns what it is like, too."""
    if family in NETWORKS:
        return _published(family, rng)
    if family == SECTION:
        return _transformer(rng)
    return _decoder(rng) if family == DECODER else _convolutions(rng)


def _published(family: str, rng: np.random.Generator) -> tuple[DataflowGraph, dict[str, Any]]:
    """Return one layer of a published network, as published; of transformers, forward or training."""
    training = family in MODELS and bool(rng.integers(2))
    layers = None if family in VISION else 1
    spec = resolve(WorkloadConfig(family, layers=layers, embedding=family not in MODELS, training=training), 0, rng)
    return build(spec), {"layers": layers, "training": training}


def random_network(config: WorkloadConfig) -> DataflowGraph:
    """Return random network number `draw` of one of `NETWORK_FAMILIES`. Raises InputError for any other setting."""
    usual = WorkloadConfig(config.family, draw=config.draw)
    for item in fields(config):
        if getattr(config, item.name) != getattr(usual, item.name):
            value = getattr(config, item.name)
            raise InputError(f"workload {config.family}: {item.name}={value} is set, but all sizes are drawn; set draw")
    if config.draw < 0:
        raise InputError(f"workload {config.family}: draw={config.draw}; allowed 0 or more")
    return sample_network(config.family, np.random.default_rng([config.draw, _NUMBER_TAG]))[0]


def sample_layer(rng: np.random.Generator) -> tuple[PublishedModel, int]:
    """Draw the dimensions of a transformer layer, and the length of its sequence."""
    while True:
        head_size, heads = int(rng.choice(HEAD_SIZES)), int(rng.integers(2, MAX_HEADS + 1))
        width, sequence = head_size * heads, GRANULE * int(rng.integers(4, 33))
        hidden, is_decoder = width * int(rng.integers(2, 5)), bool(rng.integers(2))
        if not is_published(width, heads):
            return PublishedModel(1, width, heads, hidden, 1, sequence, 0, is_decoder), sequence


def is_published(width: int, heads: int) -> bool:
    """Tell whether some published transformer has this width and so many heads."""
    known = {(getattr(model, "width", 0), getattr(model, "heads", 0)) for model in NETWORKS.values()}
    return (width, heads) in known


def _transformer(rng: np.random.Generator) -> tuple[DataflowGraph, dict[str, Any]]:
    layer, sequence = sample_layer(rng)
    training = bool(rng.integers(2))
    graph = build_layer(layer, sequence, SECTION)
    about = {**asdict(layer), "sequence": sequence, "training": training}
    return with_backward(graph) if training else graph, about


def _decoder(rng: np.random.Generator) -> tuple[DataflowGraph, dict[str, Any]]:
    """Draw one or two layers of a decoder, forward or training."""
    model, sequence = _decoder_size(rng), GRANULE * int(rng.integers(4, 49))
    layers, training = int(rng.integers(1, 3)), bool(rng.random() < 0.3)
    b = GraphBuilder()
    y = decoder_layers(b, b.load((sequence, model.width), name="hidden"), model, sequence, layers)
    b.store(y, name="y")
    graph = b.build(f"{DECODER}-{sequence}x{model.width}x{model.hidden}-heads{model.heads}", DECODER)
    about = {**asdict(model), "layers": layers, "sequence": sequence, "training": training}
    return with_backward(graph) if training else graph, about


def _decoder_size(rng: np.random.Generator) -> PublishedDecoder:
    while True:
        head_size, key_heads = int(rng.choice(DECODER_HEAD_SIZES)), int(rng.integers(1, MAX_KEY_HEADS + 1))
        heads = key_heads * int(rng.integers(1, MAX_SHARED + 1))
        width = head_size * heads
        hidden = HIDDEN_STEP * max(1, round(width * rng.uniform(1.5, 4) / HIDDEN_STEP))
        if width <= MAX_DECODER_WIDTH and not is_published(width, heads):
            return PublishedDecoder(1, width, heads, key_heads, hidden, 1, 8192, 10_000.0)


def _convolutions(rng: np.random.Generator) -> tuple[DataflowGraph, dict[str, Any]]:
    """Draw the first blocks of a residual network, forward only."""
    stages = tuple(int(rng.integers(1, 3)) for _ in range(int(rng.integers(1, 4))))
    model = PublishedResnet(
        stages, int(rng.choice(CHANNELS)), 2 * int(rng.choice(SIDES)), GRANULE * int(rng.integers(2, 17)),
        int(rng.choice([2, 3, 4])),
    )  # fmt: skip
    b = GraphBuilder()
    b.store(resnet(b, model, model.layers), name="y")
    graph = b.build(f"{CONVOLUTION}-{model.image}x{model.width}-blocks{model.layers}", CONVOLUTION)
    return graph, asdict(model)
