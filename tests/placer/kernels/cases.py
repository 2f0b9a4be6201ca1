"""Small kernel graphs for tests, and where the public benchmarks lie if they are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from placer.kernels.generate import fully_connected, resnet, unet
from placer.kernels.graph import KernelGraph, Wafer

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
