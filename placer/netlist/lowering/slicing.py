"""Products whose weights are too large for the chip: their columns are made by several sections."""

from __future__ import annotations

from placer.fabric import Fabric
from placer.graph import DataflowGraph

Slices = tuple[tuple[str, int], ...]


def choose_slices(fabric: Fabric, graph: DataflowGraph) -> Slices:
    return ()


def sliced(graph: DataflowGraph, slices: Slices) -> DataflowGraph:
    return graph
