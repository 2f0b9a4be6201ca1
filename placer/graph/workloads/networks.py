"""Networks of today as published: decoders with gates and shared key heads, and networks for images."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from types import MappingProxyType

from placer.base import InputError

PREFILL_TOKENS = 512  # of one sequence, unless the user says otherwise
DECODE_SEQUENCES = 16  # decoded together, unless the user says otherwise
MAX_SEQUENCES = 4096  # decoded together


@dataclass(frozen=True, slots=True)
class PublishedDecoder:
    """Dimensions of a decoder with rmsnorm, rotary positions, shared key heads and gated feed-forward."""

    layers: int
    width: int
    heads: int
    key_heads: int  # heads of keys and values; each serves heads / key_heads heads of queries
    hidden: int  # width of the feed-forward part, or of each expert
    vocabulary: int
    positions: int  # longest sequence
    rotary_base: float  # longest wavelength of the rotary positions, over 2 pi
    experts: int = 0  # feed-forward parts of which the router chooses; 0: one part and no router
    top: int = 0  # experts that a row goes to

    @property
    def head_size(self) -> int:
        return self.width // self.heads


@dataclass(frozen=True, slots=True)
class PublishedVit:
    """Dimensions of a vision transformer: an image in patches, each a row, after one class row."""

    layers: int
    width: int
    heads: int
    hidden: int
    image: int  # pixels on each side
    patch: int  # pixels on each side

    @property
    def rows(self) -> int:
        return (self.image // self.patch) ** 2 + 1


@dataclass(frozen=True, slots=True)
class PublishedResnet:
    """Dimensions of a residual network of bottleneck blocks."""

    blocks: tuple[int, ...]  # of each stage; every stage but the first halves the image
    width: int  # channels inside the blocks of the first stage; doubles from stage to stage
    image: int  # pixels on each side
    classes: int
    expansion: int = 4  # channels between blocks over channels inside

    @property
    def layers(self) -> int:
        """Return the number of blocks: what `layers` selects from."""
        return sum(self.blocks)


# Llama 3: Grattafiori et al. 2024; Mixtral: Jiang et al. 2024. In each row: layers, width, heads,
# key_heads, hidden, vocabulary, positions, rotary_base, experts, top.
DECODERS = MappingProxyType(
    {
        "llama3_8b": PublishedDecoder(32, 4096, 32, 8, 14336, 128256, 8192, 500_000.0),
        "mixtral_8x7b": PublishedDecoder(32, 4096, 32, 8, 14336, 32000, 32768, 1_000_000.0, 8, 2),
    }
)

# ViT-L/16: Dosovitskiy et al. 2021; ResNet-50: He et al. 2016, with the stride in the 3x3 convolution.
VISION: MappingProxyType[str, PublishedVit | PublishedResnet] = MappingProxyType(
    {"vit_large": PublishedVit(24, 1024, 16, 4096, 224, 16), "resnet50": PublishedResnet((3, 4, 6, 3), 64, 224, 1000)}
)


@dataclass(frozen=True, slots=True)
class DecoderSpec:
    """A published decoder, or its first layers: one sequence from its start, or one step of several.

    With `decode` each of `sequence` sequences gets one row, which attends to `context` cached
    positions in DRAM and to itself; its key and value are stored for the next step.
    """

    model: str
    layers: int | None = None  # None: all published layers
    sequence: int | None = None  # tokens (None: 512), with decode sequences (None: 16): the rows
    embedding: bool = True  # False: start from hidden states in DRAM
    training: bool = False
    decode: bool = False  # one step with a cache in place of a whole sequence
    context: int = 2048  # decode: positions in the cache

    def __post_init__(self) -> None:
        _check_model(self.model, DECODERS)
        published = DECODERS[self.model]
        limits = {
            "layers": published.layers,
            "sequence": MAX_SEQUENCES if self.decode else published.positions,
            "context": published.positions - 1,
        }
        for name, limit in limits.items():
            _check_size(self.model, name, getattr(self, name), limit)
        if self.decode and self.training:
            raise InputError(f"{self.model}: decode=true and training=true: a decoder is trained on whole sequences")

    @property
    def rows(self) -> int:
        """Return the rows of all activations."""
        return self.sequence or (DECODE_SEQUENCES if self.decode else PREFILL_TOKENS)


@dataclass(frozen=True, slots=True)
class VisionSpec:
    """A published network for images, or its first layers (of a residual network: blocks), on one image."""

    model: str
    layers: int | None = None  # None: all published layers
    embedding: bool = True  # False (vit): start from hidden states in DRAM
    training: bool = False

    def __post_init__(self) -> None:
        _check_model(self.model, VISION)
        published = VISION[self.model]
        _check_size(self.model, "layers", self.layers, published.layers)
        if not self.embedding and isinstance(published, PublishedResnet):
            raise InputError(f"{self.model}: has no embedding to leave out")


def _check_model(model: str, known: Collection[str]) -> None:
    if model not in known:
        raise InputError(f"unknown model {model!r}; known models: {', '.join(known)}")


def _check_size(model: str, name: str, value: int | None, limit: int) -> None:
    if value is not None and not 1 <= value <= limit:
        raise InputError(f"{model}: {name}={value}; allowed 1 to {limit}")
