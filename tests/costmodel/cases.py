"""Small inputs for tests of the cost model: netlists, stacks of decisions, their graphs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

from costmodel.dataset import Metadata, NetlistSamples, make_splits, write_splits
from costmodel.encoding import Batch, GraphSet, encode, graph_set, make_batch, netlist_features
from costmodel.model import Labelled, open_labelled
from costmodel.networks import FlowNetwork, NetworkConfig, build_network
from placer.decision import Decisions
from placer.decision.routing import RoutingMethod, route
from placer.fabric import Fabric, SiteKind
from placer.graph import OpKind
from placer.netlist import Netlist
from tests.costmodel.dataset.samples import random_samples, small_fabric, write_dataset
from tests.placer.random_cases import random_decision, random_fabric, random_netlist, random_placement

Case = tuple[Fabric, Netlist, Decisions]
COMPUTE_OPS = (OpKind.MATMUL, OpKind.SOFTMAX, OpKind.GELU, OpKind.ADD)


def named(netlist: Netlist, seed: int = 0) -> Netlist:
    """A random netlist with operations that features know."""
    rng = np.random.default_rng(seed)
    units = tuple(
        replace(unit, op=COMPUTE_OPS[rng.integers(len(COMPUTE_OPS))].value) if unit.kind == SiteKind.COMPUTE else unit
        for unit in netlist.units
    )
    return replace(netlist, units=units)


def random_stack(seed: int, fabric: Fabric | None = None) -> Case:
    """A random netlist on a random fabric with decisions of every router, random ones last."""
    rng = np.random.default_rng(seed)
    fabric = fabric or random_fabric(rng)
    netlist = named(random_netlist(rng, fabric), seed)
    sites = np.array([random_placement(rng, fabric, netlist) for _ in range(2)], np.int32)
    routed = [route(fabric, netlist, sites, method=m, seed=seed) for m in RoutingMethod]
    return fabric, netlist, Decisions.concatenate([*routed, random_decision(rng, fabric, netlist)])


def graphs_of(cases: Iterable[Case]) -> GraphSet:
    """Graphs without labels, one part per case."""
    return graph_set((netlist_features(f, n), encode(f, n, d)) for f, n, d in cases)


def batch_of(*cases: Case) -> Batch:
    """All decisions of some cases."""
    graphs = graphs_of(cases)
    return make_batch(graphs, np.arange(len(graphs)))


def network_of(config: NetworkConfig, batch: Batch, seed: int = 0) -> nn.Module:
    """A network whose weights are all at random, also those that start at 0."""
    network = build_network(config, seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weights in network.parameters():
            weights += 0.1 * torch.randn(weights.shape, generator=generator)
    if isinstance(network, FlowNetwork):
        network.fit_normaliser(batch.unit, batch.flow)
    return network


def labelled(folder: Path, num_netlists: int = 8, num_decisions: int = 4) -> Labelled:
    """A dataset of random netlists on fabric `small`; the last two netlists are equal."""
    metadata = Metadata(config={"fabric": asdict(small_fabric())}, seed=3, code_version="1")
    samples = [_known_samples(i, num_decisions, seed=min(i, num_netlists - 2)) for i in range(num_netlists)]
    dataset = write_dataset(folder / "dataset", samples, metadata)
    write_splits(dataset.folder, make_splits(dataset, num_folds=2))
    return open_labelled(dataset.folder, folder / "cache")


def _known_samples(netlist_id: int, num_decisions: int, seed: int) -> NetlistSamples:
    samples = random_samples(netlist_id, num_decisions, seed=seed, family="ab"[seed % 2])
    return replace(samples, netlist=named(samples.netlist, seed))
