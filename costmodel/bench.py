"""Command: how fast are decisions encoded, batched and predicted? A table with versions.

Rates depend on the machine; compare columns of one run, not runs. All on one core.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from functools import partial
from importlib.metadata import version

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from costmodel.encoding import Encoded, NetlistFeatures, encode, netlist_features
from costmodel.encoding.batch import make_batch
from costmodel.encoding.graph_set import graph_set
from costmodel.networks import build_network
from costmodel.networks.flow import FlowConfig
from placer.bench import SAMPLE_CYCLES, seconds
from placer.config import load_fabric
from placer.decision import Decisions
from placer.fabric import Fabric
from placer.lowering import draw_netlist
from placer.netlist import Netlist
from placer.placement import random_sites
from placer.routing import RoutingMethod, route
from placer.workloads import FAMILIES

NUM_DECISIONS = 24  # per netlist, as a dataset has them
REPEATS = 7  # the best counts


def bench_decisions(fabric: Fabric, console: Console) -> None:
    """Decisions per second through each step, by family; features are counted with `encode`."""
    table = Table(
        "family", "units", "flows", "encode", "batch", "flow, forward",
        title=f"decisions per second on {fabric.name}, {NUM_DECISIONS} of a netlist, one core",
    )  # fmt: skip
    network = build_network(FlowConfig(), seed=0).eval()
    ids = np.arange(NUM_DECISIONS)
    for family in FAMILIES:
        netlist = draw_netlist(fabric, family, SAMPLE_CYCLES, seed=0, index=0)
        sites = random_sites(fabric, netlist, NUM_DECISIONS, seed=0)
        decisions = route(fabric, netlist, sites, method=RoutingMethod.MIXED)
        graphs = graph_set([_encode(fabric, netlist, decisions)])
        batch = make_batch(graphs, ids)
        steps: list[Callable[[], object]] = [
            partial(_encode, fabric, netlist, decisions),
            partial(make_batch, graphs, ids),
            partial(network, batch),
        ]
        with torch.inference_mode():
            rates = [NUM_DECISIONS / min(seconds(step) for _ in range(REPEATS)) for step in steps]
        table.add_row(
            family, str(netlist.num_units), str(netlist.num_flows), *(f"{r:.0f}" for r in rates)
        )
    console.print(table)


def _encode(
    fabric: Fabric, netlist: Netlist, decisions: Decisions
) -> tuple[NetlistFeatures, Encoded]:
    return netlist_features(netlist), encode(fabric, netlist, decisions)


def main() -> None:
    """Run the benchmark and print its table."""
    torch.set_num_threads(1)
    console = Console()
    versions = ", ".join(f"{name} {version(name)}" for name in ("numba", "torch", "dgl"))
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    console.print(f"{machine}, Python {platform.python_version()}, {versions}")
    bench_decisions(load_fabric("small"), console)


if __name__ == "__main__":
    main()
