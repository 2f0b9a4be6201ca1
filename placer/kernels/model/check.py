"""The independent judge of a layout: is it legal, and what does it cost?

Written from the problem statement with exact fractions; shares no code with the engines.
"""

from __future__ import annotations

from collections import abc
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from placer.base import InputError
from placer.kernels.model.graph import Conv, Kernel, KernelGraph, KernelType, Wafer
from placer.kernels.model.layout import Execution, KernelLayout, Placed


class IllegalLayoutError(InputError):
    """A layout that breaks the rules of the problem; the message lists its faults."""


OutRule = Literal["c_n", "min(c,k)"]
OutRules = abc.Mapping[KernelType, OutRule]  # how a kernel of each type hands over its channels
DEFAULT_OUT_RULES: OutRules = {"conv": "c_n", "dblock": "c_n", "cblock": "c_n"}


@dataclass(frozen=True, slots=True)
class Performance:
    """The "performance cuboid" of a kernel with its memory per tile."""

    height: int
    width: int
    time: Fraction
    memory: Fraction


@dataclass(frozen=True, slots=True)
class Score:
    """What a layout costs; `total` is what is minimised."""

    slowest: Fraction  # deltaT
    wire_length: Fraction
    adapters: int
    total: float
    total_without_adapters: float
    utilisation: float  # tiles used / tiles


@dataclass(frozen=True, slots=True)
class Mapping:
    """A legal layout with its score; with its throughput where a cost chooses by it."""

    layout: KernelLayout
    score: Score
    throughput: float | None = None  # simulated, normalised, in (0, 1]
    predicted: float | None = None  # the same as the cost sees it

    def describe(self) -> str:
        """Return one line with the score and what it is made of."""
        score = self.score
        throughput = "" if self.throughput is None else f"throughput {self.throughput:.4f}, "
        return (
            f"{throughput}best score {score.total:,.1f} (deltaT {float(score.slowest):,.10g}, "
            f"wires {float(score.wire_length):,.1f}, adapters {score.adapters})"
        )


@dataclass(frozen=True, slots=True)
class Part:
    """What one wafer holds."""

    wafer: int  # place in the chain, from 0
    graph: KernelGraph
    mapping: Mapping
    bound: Fraction  # of its time

    @property
    def cycles_per_sample(self) -> float | None:
        """Return what was simulated, None where the score chose, and no cost."""
        simulated = self.mapping.throughput
        return None if simulated is None else float(self.bound) / simulated


def conv_performance(conv: Conv, h: int, w: int, c: int, k: int) -> Performance:
    """Return height h w (c + 1), width 3 k; time and memory as in the contest's kernel model."""
    window = conv.window_height * conv.window_width
    steps = -(-conv.height // h) * -(-conv.width // w)
    steps *= -(-conv.channels_in // c) * -(-conv.channels_out // k)
    weights = Fraction(conv.channels_in * conv.channels_out * window, c * k)
    rows = Fraction(conv.height + conv.window_height - 1, h)
    columns = Fraction(conv.width + conv.window_width - 1, w)
    image = columns * rows * Fraction(conv.channels_out, k)
    return Performance(h * w * (c + 1), 3 * k, Fraction(steps * window, conv.stride**2), weights + image)


def kernel_performance(kernel: Kernel, execution: Execution) -> Performance:
    """Return, of a block, the largest height, time and memory, and the sum of widths."""
    h, w = execution.image_height, execution.image_width
    loops = zip(kernel.convs, execution.channels_in, execution.channels_out, strict=True)
    parts = [conv_performance(conv, h, w, c, k) for conv, c, k in loops]
    return Performance(
        max(part.height for part in parts),
        sum(part.width for part in parts),
        max(part.time for part in parts),
        max(part.memory for part in parts),
    )


def extents(kernel: Kernel, placed: Placed) -> tuple[int, int]:
    """Return the tiles along x and y."""
    performance = kernel_performance(kernel, placed.execution)
    if placed.is_rotated:
        return performance.height, performance.width
    return performance.width, performance.height


def find_faults(graph: KernelGraph, layout: KernelLayout) -> list[str]:
    """Return everything that makes a layout illegal, in words; empty for a legal one."""
    if len(layout) != len(graph.kernels):
        return [f"{len(layout)} placements for {len(graph.kernels)} kernels"]
    faults = []
    boxes = []
    for kernel, placed in zip(graph.kernels, layout, strict=True):
        found = _argument_faults(kernel, placed) or _place_faults(kernel, placed, graph.wafer)
        faults += [f"{kernel.name}: {fault}" for fault in found]
        if not found:
            boxes.append((kernel.name, placed.x, placed.y, *extents(kernel, placed)))
    for j, (name, x, y, width, height) in enumerate(boxes):
        for other, left, low, wide, high in boxes[:j]:
            if x < left + wide and left < x + width and y < low + high and low < y + height:
                faults.append(f"{other} and {name} overlap")
    return faults


def _argument_faults(kernel: Kernel, placed: Placed) -> list[str]:
    """Return numbers that are missing, not whole or out of range; without any, judge the rest."""
    execution, convs = placed.execution, kernel.convs
    if {len(execution.channels_in), len(execution.channels_out)} != {len(convs)}:
        return [f"c and k are not given for each of {len(convs)} convolutions"]
    limited = [("h", execution.image_height, convs[0].height), ("w", execution.image_width, convs[0].width)]
    for i, conv in enumerate(convs):
        limited.append((f"c{i + 1}", execution.channels_in[i], conv.channels_in))
        limited.append((f"k{i + 1}", execution.channels_out[i], conv.channels_out))
    numbers = [(name, value) for name, value, _ in limited] + [("x", placed.x), ("y", placed.y)]
    faults = [f"{name}={value!r} is no whole number" for name, value in numbers if type(value) is not int]
    if faults:
        return faults
    return [f"{name}={value} is outside 1..{most}" for name, value, most in limited if not 1 <= value <= most]


def _place_faults(kernel: Kernel, placed: Placed, wafer: Wafer) -> list[str]:
    faults = []
    memory = kernel_performance(kernel, placed.execution).memory
    if memory > wafer.memory_limit:
        faults.append(f"memory {float(memory):.1f} exceeds {wafer.memory_limit}")
    width, height = extents(kernel, placed)
    if placed.x < 0 or placed.x + width > wafer.width:
        faults.append(f"columns {placed.x}..{placed.x + width} leave 0..{wafer.width}")
    if placed.y < 0 or placed.y + height > wafer.height:
        faults.append(f"rows {placed.y}..{placed.y + height} leave 0..{wafer.height}")
    return faults


def adapter_cost(graph: KernelGraph, layout: KernelLayout, rules: OutRules = DEFAULT_OUT_RULES) -> int:
    """Return the sum over edges u -> v of [h_u != h_v] + [w_u != w_v] + [out_u != in_v].

    in_v is c of the first convolution of v; out_u is c of the last one of u, or min(c, k) of it.
    """
    total = 0
    for source, target in graph.edges:
        u, v = layout[source].execution, layout[target].execution
        out = u.channels_in[-1]
        if rules[graph.kernels[source].type] == "min(c,k)":
            out = min(out, u.channels_out[-1])
        total += u.image_height != v.image_height
        total += u.image_width != v.image_width
        total += out != v.channels_in[0]
    return total


def judge(graph: KernelGraph, layout: KernelLayout, rules: OutRules = DEFAULT_OUT_RULES) -> Score:
    """Return the score of a legal layout. Raises IllegalLayoutError for another."""
    faults = find_faults(graph, layout)
    if faults:
        raise IllegalLayoutError("illegal layout: " + "; ".join(faults[:5]))
    pairs = list(zip(graph.kernels, layout, strict=True))
    performances = [kernel_performance(kernel, placed.execution) for kernel, placed in pairs]
    slowest = max(performance.time for performance in performances)
    centres = []
    for kernel, placed in pairs:
        width, height = extents(kernel, placed)
        centres.append((placed.x + Fraction(width, 2), placed.y + Fraction(height, 2)))
    wire = sum((abs(centres[u][0] - centres[v][0]) + abs(centres[u][1] - centres[v][1])) for u, v in graph.edges)
    adapters = adapter_cost(graph, layout, rules)
    wafer = graph.wafer
    plain = wafer.time_weight * float(slowest) + wafer.wire_weight * float(wire)
    used = sum(performance.height * performance.width for performance in performances)
    share, total = used / (wafer.width * wafer.height), plain + wafer.adapter_weight * adapters
    return Score(slowest, Fraction(wire), adapters, total, plain, share)
