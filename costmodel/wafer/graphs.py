"""Random kernel graphs of several families, for the dataset and for comparisons."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from placer.base import InputError
from placer.kernels.engines import arrange, best_rows
from placer.kernels.model import KernelGraph, Wafer, branched, depth_first_order, fully_connected, plain, resnet, unet
from placer.kernels.sizing import Problem

MAX_KERNELS = 64
MAX_DRAWS = 64  # of a graph that fits its wafer
MIN_KERNELS, MIN_BOUND = 5, 300  # kernels, and cycles: smaller ones do not fill a wafer
SIDES = (160, 633)  # of wafers, in tiles
WIRE_WEIGHTS = (1.0, 4.0, 10.0, 40.0)
ADAPTER_WEIGHTS = (0.0, 100.0, 400.0)

Draw = Callable[[np.random.Generator, Wafer], KernelGraph]


def _power(rng: np.random.Generator, low: int, high: int) -> int:
    """Draw a power of two from 2^low to 2^high."""
    return int(1 << rng.integers(low, high + 1))


def _counts(rng: np.random.Generator, stages: tuple[int, int], most: int) -> tuple[int, ...]:
    return tuple(rng.integers(1, most + 1, rng.integers(stages[0], stages[1] + 1)).tolist())


def _resnet(rng: np.random.Generator, wafer: Wafer) -> KernelGraph:
    return resnet(_counts(rng, (2, 4), 4), _power(rng, 5, 8), 8 * _power(rng, 1, 4), wafer=wafer)


def _resnet_convs(rng: np.random.Generator, wafer: Wafer) -> KernelGraph:
    blocks = _counts(rng, (2, 3), 3)
    return resnet(blocks, _power(rng, 5, 8), 8 * _power(rng, 1, 4), as_convs=True, wafer=wafer)


def _unet(rng: np.random.Generator, wafer: Wafer) -> KernelGraph:
    return unet(int(rng.integers(2, 5)), _power(rng, 6, 9), _power(rng, 4, 6), wafer)


def _fully_connected(rng: np.random.Generator, wafer: Wafer) -> KernelGraph:
    widths = 256 * rng.integers(1, 12, rng.integers(5, 25))
    return fully_connected(widths.tolist(), wafer)


def _plain(rng: np.random.Generator, wafer: Wafer) -> KernelGraph:
    return plain(_counts(rng, (2, 5), 3), _power(rng, 4, 7), _power(rng, 5, 8), wafer)


def _branched(rng: np.random.Generator, wafer: Wafer) -> KernelGraph:
    return branched(int(rng.integers(1, 7)), _power(rng, 4, 8), _power(rng, 3, 7), wafer)


FAMILIES: dict[str, Draw] = {
    "resnet": _resnet,
    "resnet_convs": _resnet_convs,
    "unet": _unet,
    "fully_connected": _fully_connected,
    "plain": _plain,
    "branched": _branched,
}


def draw_graph(family: str, rng: np.random.Generator) -> tuple[KernelGraph, dict[str, Any]]:
    """Return a graph of a family on a wafer of random size, and what was drawn."""
    if family not in FAMILIES:
        raise InputError(f"unknown family {family!r}; allowed: {', '.join(FAMILIES)}")
    side = int(rng.integers(SIDES[0], SIDES[1] + 1))
    shape = float(rng.choice((1.0, 1.0, 0.75)))  # every third wafer is no square
    wafer = Wafer(
        side, int(side * shape), wire_weight=float(rng.choice(WIRE_WEIGHTS)),
        adapter_weight=float(rng.choice(ADAPTER_WEIGHTS)),
    )  # fmt: skip
    while True:
        graph = FAMILIES[family](rng, wafer)
        if len(graph.kernels) <= MAX_KERNELS:
            name = f"{graph.name}_{wafer.width}x{wafer.height}"
            return replace(graph, name=name), {"family": family, "name": name}


def draw_fitting(family: str, rng: np.random.Generator, failures: list[str]) -> tuple[Problem, int, dict[str, Any]]:
    """Return a graph that fits, and the smallest of a few times (ticks) at which it has rows."""
    for _ in range(MAX_DRAWS):
        graph, spec = draw_graph(family, rng)
        try:
            problem = Problem(graph)
        except InputError as error:
            failures.append(f"does not fit: {graph.name}: {error}")
            continue
        if problem.num < MIN_KERNELS or problem.bound < MIN_BOUND * graph.time_scale:
            continue
        flow = arrange(problem.edges, np.array(depth_first_order(problem.num, graph.edges)))
        places = np.unique(np.searchsorted(problem.times, problem.bound * 1.08 ** np.arange(30)))
        for ticks in problem.times[places[places < len(problem.times)]].tolist():
            if best_rows(problem.shapes_at(ticks), flow) is not None:
                return problem, ticks, spec
        failures.append(f"has no rows: {graph.name}")
    raise InputError(f"none of {MAX_DRAWS} random {family} graphs fits its wafer: {failures[-1]}")
