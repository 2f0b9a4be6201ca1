"""Networks for images: a vision transformer and residual networks of convolutions.

An image is a matrix [height * width, channels]. Batch norm is folded, as it is before inference: its
factors are part of the weights, its offsets are the bias of each convolution.
"""

from __future__ import annotations

from placer.graph import Window
from placer.graph.workloads.builder import GraphBuilder
from placer.graph.workloads.networks import PublishedResnet, PublishedVit

COLOURS = 3  # channels of an image


def patch_embedding(b: GraphBuilder, model: PublishedVit) -> str:
    """Add the rows of a vision transformer: the class row, then one per patch, plus their positions."""
    size, patch = (model.image, model.image), (model.patch, model.patch)
    image = b.load((model.image**2, COLOURS), name="image")
    patches = b.convolution(image, model.width, Window(size, patch, patch), name="patch")
    patches = b.bias(patches, name="patch.bias")
    rows = b.concat_rows(b.constant((1, model.width), name="class"), patches, name="class_and_patches")
    return b.add(rows, b.constant((model.rows, model.width), name="position"), name="embedding")


def resnet(b: GraphBuilder, model: PublishedResnet, blocks: int) -> str:
    """Add the stem and the first blocks; behind the last published block, the classifier."""
    side = model.image
    x = b.load((side**2, COLOURS), name="image")
    x, side = _convolution(b, x, side, model.width, 7, 2, "stem")
    window = Window((side, side), (3, 3), (2, 2), (1, 1, 1, 1))
    x, side = b.max_pool(b.relu(x, name="stem.relu"), window, name="stem.pool"), window.output[0]
    for index, (stage, block) in enumerate(_places(model)[:blocks]):
        stride = 2 if stage and not block else 1
        x, side = _bottleneck(b, x, side, model, stage, stride, block == 0, f"block{index}")
    if blocks < model.layers:
        return x
    pooled = b.average_pool(x, Window((side, side), (side, side)), name="pool")
    return b.bias(b.linear(pooled, model.classes, name="classifier"), name="classifier.bias")


def _places(model: PublishedResnet) -> list[tuple[int, int]]:
    """Return stage and number within it of each block."""
    return [(stage, block) for stage, count in enumerate(model.blocks) for block in range(count)]


def _bottleneck(
    b: GraphBuilder, x: str, side: int, model: PublishedResnet, stage: int, stride: int, is_first: bool, name: str
) -> tuple[str, int]:
    """Add 1x1, 3x3 and 1x1 convolutions beside a shortcut, which is projected where the shape changes."""
    inner = model.width * 2**stage
    y, _ = _convolution(b, x, side, inner, 1, 1, f"{name}.reduce")
    y = b.relu(y, name=f"{name}.reduce.relu")
    y, out = _convolution(b, y, side, inner, 3, stride, f"{name}.middle")
    y = b.relu(y, name=f"{name}.middle.relu")
    y, _ = _convolution(b, y, out, inner * model.expansion, 1, 1, f"{name}.expand")
    if is_first:
        x, _ = _convolution(b, x, side, inner * model.expansion, 1, stride, f"{name}.shortcut")
    return b.relu(b.add(x, y, name=f"{name}.residual"), name=f"{name}.relu"), out


def _convolution(
    b: GraphBuilder, x: str, side: int, channels: int, kernel: int, stride: int, name: str
) -> tuple[str, int]:
    """Add a square convolution, centred, and its bias; returns also the side of the image that it makes."""
    edge = kernel // 2
    window = Window((side, side), (kernel, kernel), (stride, stride), (edge, edge, edge, edge))
    y = b.convolution(x, channels, window, name=name)
    return b.bias(y, name=f"{name}.bias"), window.output[0]
