"""Kernel graphs of the network families that the contest's benchmarks come from.

Functions of families give a graph with the contest's wafer; `PRESETS` names one of each family in
the sizes of the benchmarks, and small ones for trials.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from placer.base import InputError
from placer.kernels.model.files import load_kgraph
from placer.kernels.model.graph import Conv, Kernel, KernelGraph, KernelType, Port, Wafer, block_convs


class _Builder:
    """Collects nodes; ids count from 0, the input port being 0."""

    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        self._name, self._shape = name, shape
        self.kernels: list[Kernel] = []
        self.edges: list[tuple[int, int]] = []

    def add(self, kind: KernelType, convs: tuple[Conv, ...], sources: Sequence[int], features: int = 0) -> int:
        """Append a kernel that reads from `sources`; returns its index."""
        index = len(self.kernels)
        node_id = index + 1
        self.kernels.append(Kernel(node_id, f"k{node_id}", kind, convs, features))
        self.edges += [(source, index) for source in sources]
        return index

    def conv(self, size: int, window: int, channels: tuple[int, int], *sources: int) -> int:
        """Append a convolution on a square image with stride 1."""
        return self.add("conv", (Conv(size, size, window, window, *channels, 1),), sources)

    def build(self, wafer: Wafer) -> KernelGraph:
        last = len(self.kernels)
        output = self.kernels[-1].convs[-1]
        ports = (
            Port(0, "k0", "input", self._shape),
            Port(last + 1, f"k{last + 1}", "output", (output.height, output.channels_out)),
        )
        port_edges = ((0, 1), (last, last + 1))
        return KernelGraph(self._name, tuple(self.kernels), tuple(self.edges), wafer, ports, port_edges)


def resnet(
    blocks: Sequence[int] = (3, 4, 6, 3),
    features: int = 256,
    size: int = 112,
    as_convs: bool = False,
    wafer: Wafer | None = None,
) -> KernelGraph:
    """Build a ResNet: in each stage a cblock that halves the image, then dblocks; features double.

    With `as_convs`, every convolution of a block is a kernel of its own, with the skips as edges.
    """
    kind = "convs" if as_convs else "blocks"
    builder = _Builder(f"resnet_{'-'.join(map(str, blocks))}_{features}_{kind}", (size, size))
    previous: tuple[int, ...] = ()
    for num in blocks:
        for i in range(num):
            convs = block_convs("dblock" if i else "cblock", size, size, features)
            if as_convs:
                previous = (_unfold(builder, convs, previous),)
            else:
                previous = (builder.add("dblock" if i else "cblock", convs, previous, features),)
            if i == 0:
                size //= 2
        features *= 2
    return builder.build(wafer or Wafer())


def _unfold(builder: _Builder, convs: tuple[Conv, ...], previous: tuple[int, ...]) -> int:
    """Add the convolutions of a block one by one; returns the one that the next block reads."""
    first = builder.add("conv", convs[:1], previous)
    middle = builder.add("conv", convs[1:2], (first,))
    if len(convs) == 3:
        return builder.add("conv", convs[2:], (middle, first))
    side = builder.add("conv", convs[3:], (first,))
    return builder.add("conv", convs[2:3], (middle, side))


def unet(levels: int = 4, size: int = 512, features: int = 64, wafer: Wafer | None = None) -> KernelGraph:
    """Build a U-Net: two convolutions per level on the way down and up, a skip across each."""
    builder = _Builder(f"unet_{levels}_{size}_{features}", (size, size, 1))
    last, channels = builder.conv(size, 3, (1, features)), features
    skips = []
    for level in range(levels):
        if level:
            last = builder.conv(size, 3, (channels, channels), last)
        last = builder.conv(size, 3, (channels, 2 * channels), last)
        skips.append(last)
        size, channels = size // 2, 2 * channels
    for _ in range(2):
        last = builder.conv(size, 3, (channels, channels), last)
    for skip in reversed(skips):
        last = builder.conv(size, 2, (channels, channels), last)
        size *= 2
        last = builder.conv(size, 3, (channels, channels // 2), last, skip)
        channels //= 2
        last = builder.conv(size, 3, (channels, channels), last)
    builder.conv(size, 1, (channels, 2), last)
    return builder.build(wafer or Wafer())


def fully_connected(widths: Sequence[int], wafer: Wafer | None = None) -> KernelGraph:
    """Build a chain of matrix products: convolutions on an image of one point."""
    builder = _Builder(f"fcnet_{len(widths) - 1}", (1, 1, widths[0]))
    sources: tuple[int, ...] = ()
    for pair in pairwise(widths):
        sources = (builder.add("conv", (Conv(1, 1, 1, 1, *pair, 1),), sources),)
    return builder.build(wafer or Wafer())


def plain(
    stages: Sequence[int] = (2, 2, 3, 3), features: int = 64, size: int = 64, wafer: Wafer | None = None
) -> KernelGraph:
    """Build a chain of 3 x 3 convolutions as in VGG; stages halve the image, double the features.

    Pooling takes no kernel.
    """
    builder = _Builder(f"plain_{'-'.join(map(str, stages))}_{features}", (size, size, 3))
    sources: tuple[int, ...] = ()
    channels = 3
    for num in stages:
        for _ in range(num):
            sources = (builder.conv(size, 3, (channels, features), *sources),)
            channels = features
        size, features = max(1, size // 2), 2 * features
    return builder.build(wafer or Wafer())


def branched(modules: int = 3, features: int = 64, size: int = 32, wafer: Wafer | None = None) -> KernelGraph:
    """Build modules as in Inception: windows of 1, 3 and 5 side by side, joined by a conv."""
    builder = _Builder(f"branched_{modules}_{features}_{size}", (size, size, 3))
    last = builder.conv(size, 3, (3, features))
    for _ in range(modules):
        half = max(1, features // 2)
        ends = [builder.conv(size, 1, (features, features), last)]
        for window in (3, 5):
            squeezed = builder.conv(size, 1, (features, half), last)
            ends.append(builder.conv(size, window, (half, features), squeezed))
        last = builder.conv(size, 1, (3 * features, features), *ends)
    return builder.build(wafer or Wafer())


_BALANCED = Wafer(wire_weight=10, adapter_weight=100)
_WIRED = Wafer(wire_weight=40, adapter_weight=400)
_STACK = (1024, *(2048,) * 13, *(2816,) * 12, 1024)
_LARGE = (4, 6, 10, 5)

PRESETS: dict[str, Callable[[], KernelGraph]] = {
    "resnet50": resnet,
    "resnet50_wired": lambda: resnet(wafer=_BALANCED),
    "resnet50_convs": lambda: resnet(as_convs=True),
    "resnet50_convs_wired": lambda: resnet(as_convs=True, wafer=_BALANCED),
    "resnet75": lambda: resnet(_LARGE, wafer=Wafer(wire_weight=4)),
    "resnet75_wired": lambda: resnet(_LARGE, wafer=_WIRED),
    "resnet75_convs": lambda: resnet(_LARGE, as_convs=True, wafer=Wafer(wire_weight=4)),
    "resnet75_convs_wired": lambda: resnet(_LARGE, as_convs=True, wafer=_WIRED),
    "doubled": lambda: resnet((6, 8, 12, 6)),
    "doubled_convs": lambda: resnet((6, 8, 12, 6), as_convs=True),
    "lean": lambda: resnet(features=16, wafer=Wafer(wire_weight=4)),
    "lean_convs_wired": lambda: resnet(features=16, as_convs=True, wafer=_WIRED),
    "unet": lambda: unet(wafer=Wafer(wire_weight=4)),
    "unet_wired": lambda: unet(wafer=Wafer(wire_weight=400, adapter_weight=400)),
    "fcnet": lambda: fully_connected(_STACK, Wafer(wire_weight=4)),
    "fcnet_wired": lambda: fully_connected(_STACK, _WIRED),
    "tiny": lambda: resnet((2, 2), 64, 16, wafer=Wafer(100, 100)),
    "tiny_convs": lambda: resnet((2, 2), 64, 16, True, Wafer(100, 100, adapter_weight=5)),
}


def load_or_generate(path: Path | None, preset: str) -> KernelGraph:
    """Return the graph of a file, or of a preset if no file is named."""
    return generate(preset) if path is None else load_kgraph(path)


def generate(preset: str) -> KernelGraph:
    """Return the graph of a preset, named after it. Raises InputError for an unknown name."""
    if preset not in PRESETS:
        raise InputError(f"unknown preset {preset!r}; allowed: {', '.join(PRESETS)}")
    return replace(PRESETS[preset](), name=preset)
