"""Small kernel graphs for tests, and where the public benchmarks lie if they are there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from placer.kernels.model import KernelGraph, KernelLayout, Wafer, from_json, fully_connected, resnet, subgraph, unet

PUBLIC = Path(__file__).resolve().parents[4] / "shared/data/ispd2020"
needs_public_graphs = pytest.mark.skipif(not PUBLIC.is_dir(), reason="no public benchmarks here")


def small_graphs() -> dict[str, KernelGraph]:
    """One of each family, on grids of other sizes and shapes."""
    wired = Wafer(90, 70, wire_weight=2, adapter_weight=3)
    return {
        "blocks": resnet((2, 1), 32, 8, wafer=wired),
        "convs": resnet((1, 1), 32, 8, as_convs=True, wafer=Wafer(60, 90, wire_weight=5)),
        "unet": unet(1, 16, 8, wafer=Wafer(80, 80, wire_weight=4, adapter_weight=10)),
        "chain": fully_connected((64, 32, 64, 16), Wafer(40, 50)),
    }


def written_wafers(graph: KernelGraph, path: Path) -> Iterator[tuple[KernelGraph, KernelLayout, dict[str, Any]]]:
    """What each wafer holds, its layout and its throughput, from the JSON file of the mapper."""
    text = path.read_text()
    for number, wafer in enumerate(json.loads(text)["wafers"]):
        names = {kernel["name"] for kernel in wafer["kernels"]}
        own = [i for i, kernel in enumerate(graph.kernels) if kernel.name in names]
        part = subgraph(graph, own, Wafer(**wafer["wafer"]))
        yield part, from_json(part, text, number), wafer["throughput"]
