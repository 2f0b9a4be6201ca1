"""What is mapped: convolution kernels, alone or in blocks, and the tensors between them.

Problem and formulas: the ISPD 2020 contest on wafer-scale placement (James et al., ISPD 2020).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import lcm
from typing import Literal

from placer.base import InputError

KernelType = Literal["conv", "dblock", "cblock"]
KERNEL_TYPES: tuple[KernelType, ...] = ("conv", "dblock", "cblock")
PORT_TYPES = ("input", "output")  # take no area and are not placed
MAX_SIDE = 2048  # of a wafer, in tiles: tables grow with its square


@dataclass(frozen=True, slots=True)
class Conv:
    """A convolution: image H x W, window R x S, C channels in, K out, stride T (equal to U)."""

    height: int  # H
    width: int  # W
    window_height: int  # R
    window_width: int  # S
    channels_in: int  # C
    channels_out: int  # K
    stride: int  # T


@dataclass(frozen=True, slots=True)
class Kernel:
    """A node that is placed. Convolutions of a block share the unrolling of the image."""

    node_id: int
    name: str
    type: KernelType
    convs: tuple[Conv, ...]
    features: int = 0  # f of a block


@dataclass(frozen=True, slots=True)
class Port:
    """A node where tensors come in or leave."""

    node_id: int
    name: str
    type: str  # of PORT_TYPES
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Wafer:
    """The grid of tiles, and what a mapping is judged by."""

    width: int = 633
    height: int = 633
    memory_limit: int = 24576  # per tile, in the unit of the kernel model
    time_weight: float = 1.0  # of the slowest kernel
    wire_weight: float = 1.0  # of a tile of wire
    adapter_weight: float = 0.0  # of an adapter

    def __post_init__(self) -> None:
        for name in ("width", "height"):
            if not 1 <= getattr(self, name) <= MAX_SIDE:
                raise InputError(f"wafer {name}={getattr(self, name)} is out of range; allowed: 1 to {MAX_SIDE} tiles")


@dataclass(frozen=True, slots=True)
class KernelGraph:
    """Kernels, and edges between them as pairs of indices into `kernels`."""

    name: str
    kernels: tuple[Kernel, ...]
    edges: tuple[tuple[int, int], ...]
    wafer: Wafer
    ports: tuple[Port, ...] = ()
    port_edges: tuple[tuple[int, int], ...] = field(default=(), repr=False)  # pairs of node ids

    @property
    def time_scale(self) -> int:
        """Return the ticks per unit of time: R S / T^2 may be a fraction, ticks are whole."""
        return lcm(*(conv.stride**2 for kernel in self.kernels for conv in kernel.convs))

    def resized(self, width: int, height: int) -> KernelGraph:
        """Return the same graph on a wafer of another size."""
        return replace(self, wafer=replace(self.wafer, width=width, height=height))


def block_convs(kind: KernelType, height: int, width: int, features: int) -> tuple[Conv, ...]:
    """Return the convolutions of a dblock or cblock of the contest.

    Raises InputError when sizes are not divisible as the block needs it.
    """
    if features % 4 or (kind == "cblock" and (height % 2 or width % 2)):
        raise InputError(
            f"{kind} f={features} h={height} w={width}: f must be a multiple of 4"
            + (", h and w even" if kind == "cblock" else "")
        )
    quarter, half = features // 4, features // 2
    if kind == "dblock":
        return (
            Conv(height, width, 1, 1, features, quarter, 1),
            Conv(height, width, 3, 3, quarter, quarter, 1),
            Conv(height, width, 1, 1, quarter, features, 1),
        )
    return (
        Conv(height, width, 1, 1, half, quarter, 1),
        Conv(height, width, 3, 3, quarter, quarter, 2),
        Conv(height // 2, width // 2, 1, 1, quarter, features, 1),
        Conv(height, width, 1, 1, half, features, 2),
    )


def depth_first_order(num: int, edges: tuple[tuple[int, int], ...]) -> list[int]:
    """Return a topological order that follows each path as far as it can.

    A kernel comes as soon as all before it have come; of several, the one that was reached last.
    Raises InputError that names the kernels of a cycle.
    """
    successors: list[list[int]] = [[] for _ in range(num)]
    waiting = [0] * num
    for source, target in edges:
        successors[source].append(target)
        waiting[target] += 1
    ready = [node for node in reversed(range(num)) if waiting[node] == 0]
    order = []
    while ready:
        node = ready.pop()
        order.append(node)
        for target in reversed(successors[node]):
            waiting[target] -= 1
            if waiting[target] == 0:
                ready.append(target)
    if len(order) < num:
        stuck = sorted(set(range(num)) - set(order))
        raise InputError(f"cycle among kernels {stuck[:8]}")
    return order


def breadth_first_order(num: int, edges: tuple[tuple[int, int], ...]) -> list[int]:
    """Return kernels by their distance from the start of the graph (the longest path counts)."""
    order, level = depth_first_order(num, edges), [0] * num
    place = {node: i for i, node in enumerate(order)}
    for source, target in sorted(edges, key=lambda edge: place[edge[0]]):
        level[target] = max(level[target], level[source] + 1)
    return sorted(order, key=lambda node: level[node])


def subgraph(graph: KernelGraph, kernels: Sequence[int], wafer: Wafer) -> KernelGraph:
    """Return some kernels of a graph with the edges between them, on a wafer of their own."""
    place = {kernel: i for i, kernel in enumerate(kernels)}
    edges = tuple((place[u], place[v]) for u, v in graph.edges if u in place and v in place)
    return KernelGraph(graph.name, tuple(graph.kernels[i] for i in kernels), edges, wafer)
