"""What a workload is: one small set of dimensions per family, and the published models.

Networks of today, in their own specs, are in `networks`.

A sample (see docs/simulator.md) is one pass of `rows` rows through the graph.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from types import MappingProxyType

from placer.base import InputError
from placer.graph.workloads.networks import DECODERS, VISION, DecoderSpec, VisionSpec

FAMILIES = ("gemm", "mlp", "ffn", "mha")


@dataclass(frozen=True, slots=True)
class PublishedModel:
    """Dimensions of a transformer as published."""

    layers: int
    width: int
    heads: int
    hidden: int  # width of the feed-forward part
    vocabulary: int
    positions: int  # longest sequence
    segments: int  # segment (sentence) embeddings, 0 for none
    is_decoder: bool  # causal attention, layernorm before each part and after the last layer


# BERT: Devlin et al. 2019; GPT-2: Radford et al. 2019, released weights. In each row:
# layers, width, heads, hidden, vocabulary, positions, segments, is_decoder.
MODELS = MappingProxyType(
    {
        "bert_base": PublishedModel(12, 768, 12, 3072, 30522, 512, 2, False),
        "bert_large": PublishedModel(24, 1024, 16, 4096, 30522, 512, 2, False),
        "gpt2": PublishedModel(12, 768, 12, 3072, 50257, 1024, 0, True),
        "gpt2_xl": PublishedModel(48, 1600, 25, 6400, 50257, 1024, 0, True),
    }
)


class _Sizes:
    """What all families have in common: sizes of 1 or more."""

    __slots__: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if name != "training" and value < 1:
                raise InputError(f"{type(self).__name__}: {name}={value}; must be 1 or more")


@dataclass(frozen=True, slots=True)
class GemmSpec(_Sizes):
    """x[rows, width] times a resident weight[width, columns]."""

    rows: int
    width: int
    columns: int
    training: bool = False


@dataclass(frozen=True, slots=True)
class MlpSpec(_Sizes):
    """`depth` linear layers of width x width, each with bias, relu between them."""

    rows: int
    width: int
    depth: int
    training: bool = False


@dataclass(frozen=True, slots=True)
class FfnSpec(_Sizes):
    """Feed-forward block of a transformer: width -> hidden -> width, residual, layernorm."""

    rows: int
    width: int
    hidden: int
    training: bool = False


@dataclass(frozen=True, slots=True)
class MhaSpec(_Sizes):
    """Multi-head self-attention over `rows` positions, residual, layernorm."""

    rows: int
    width: int
    heads: int
    training: bool = False

    def __post_init__(self) -> None:
        _Sizes.__post_init__(self)
        if self.width % self.heads:
            raise InputError(
                f"mha: width={self.width} is no multiple of heads={self.heads}; "
                "each head needs an equal part of the width"
            )


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A published model, or its first layers, on one sequence."""

    model: str
    layers: int | None = None  # None: all published layers
    sequence: int = 128  # tokens, the rows of all activations
    embedding: bool = True  # False: start from hidden states in DRAM
    training: bool = False

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            raise InputError(f"unknown model {self.model!r}; known models: {', '.join(MODELS)}")
        published = MODELS[self.model]
        limits = {"layers": published.layers, "sequence": published.positions}
        for name, limit in limits.items():
            value = getattr(self, name)
            if value is not None and not 1 <= value <= limit:
                raise InputError(f"{self.model}: {name}={value}; allowed 1 to {limit}")


FamilySpec = GemmSpec | MlpSpec | FfnSpec | MhaSpec
NetworkSpec = ModelSpec | DecoderSpec | VisionSpec
Spec = FamilySpec | NetworkSpec

# All published networks by name; each has `layers`.
NETWORKS = MappingProxyType({**MODELS, **DECODERS, **VISION})

SPEC_TYPES: MappingProxyType[str, type[FamilySpec]] = MappingProxyType(
    dict(zip(FAMILIES, (GemmSpec, MlpSpec, FfnSpec, MhaSpec), strict=True))
)


def dimension_names(family: str) -> tuple[str, ...]:
    """Return the fields of a family's spec that are sizes."""
    return tuple(item.name for item in fields(SPEC_TYPES[family]) if item.name != "training")


def forward_macs(spec: FamilySpec) -> int:
    """Return the multiply-accumulates of the forward pass, without building the graph."""
    match spec:
        case GemmSpec(rows, width, columns):
            return rows * width * columns
        case MlpSpec(rows, width, depth):
            return rows * width * width * depth
        case FfnSpec(rows, width, hidden):
            return 2 * rows * width * hidden
        case MhaSpec(rows, width):
            return 4 * rows * width * width + 2 * rows * rows * width
