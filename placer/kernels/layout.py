"""What a mapping is: execution arguments, position and rotation of every kernel."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Execution:
    """How the loops of a kernel are unrolled over tiles."""

    image_height: int  # h, shared by all convolutions of the kernel
    image_width: int  # w
    channels_in: tuple[int, ...]  # c of each convolution
    channels_out: tuple[int, ...]  # k of each convolution


@dataclass(frozen=True, slots=True)
class Placed:
    """A kernel on the wafer; (x, y) is its lower left tile."""

    execution: Execution
    x: int
    y: int
    is_rotated: bool  # R90: height and width change places


@dataclass(frozen=True, slots=True)
class Layout:
    """One `Placed` for every kernel of a graph, in the graph's order."""

    kernels: tuple[Placed, ...]
