"""Small samples for tests: random netlists on fabric `small`, with labels from the simulator."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.dataset import Dataset, Metadata, NetlistSamples, Origin, Phase, merge
from costmodel.dataset.records import Labels
from costmodel.dataset.store import put_shard, shard_bytes
from placer.decision import Decisions, random_sites
from placer.decision.routing import RoutingMethod, route
from placer.fabric import Fabric, load_fabric
from placer.netlist import Netlist
from placer.simulation import Status, UnitTime, simulate_stack
from tests.placer.random_cases import random_netlist

METADATA = Metadata(config={"fabric": {"name": "small"}, "netlists": 3}, seed=7, code_version="1")


@cache
def small_fabric() -> Fabric:
    return load_fabric("small")


@cache
def random_samples(netlist_id: int, num_decisions: int = 3, *, seed: int = 0, family: str = "random") -> NetlistSamples:
    """Samples of a random netlist; the netlist depends on seed and family, not on its id."""
    netlist = _netlist(seed, family)
    sites = random_sites(small_fabric(), netlist, num_decisions, seed)
    method = list(RoutingMethod)[seed % len(RoutingMethod)]
    decisions = route(small_fabric(), netlist, sites, method=method)
    return NetlistSamples(
        netlist_id=netlist_id,
        origin=Origin((seed, 2**64 - 1), {"family": family, "sizes": [1, 2.5], "name": "täst"}, samples=3),
        fabric=small_fabric(),
        netlist=netlist,
        potential=0.5,
        decisions=decisions,
        labels=_labels(netlist, decisions),
        phase=tuple(list(Phase)[i % len(Phase)] for i in range(num_decisions)),
        search=tuple({"router": method.value, "steps": i} for i in range(num_decisions)),
        heuristic=np.random.default_rng(seed).random(num_decisions),
        failures=("deadlock: decision 3",) * (seed % 3),
    )


@cache
def _netlist(seed: int, family: str) -> Netlist:
    rng = np.random.default_rng(seed)
    netlist = random_netlist(rng, small_fabric(), deadlock_free=True)
    return replace(netlist, family=family)


def _labels(netlist: Netlist, decisions: Decisions) -> Labels:
    outcome = simulate_stack(small_fabric(), netlist, decisions)
    assert (outcome.status == Status.STEADY).all()
    counted = outcome.counted_cycles[:, None]
    width = small_fabric().topology.link_width
    share = (outcome.unit_time / counted[:, :, None]).astype(np.float32)
    return Labels(
        cycles_per_sample=outcome.cycles_per_sample,
        first_sample_cycles=outcome.first_sample_cycles,
        cycles_simulated=outcome.cycles_simulated,
        vector_hops=outcome.vector_hops,
        unit_busy=share[:, :, UnitTime.BUSY],
        unit_starved=share[:, :, UnitTime.STARVED],
        unit_blocked=share[:, :, UnitTime.BLOCKED],
        unit_port_wait=share[:, :, UnitTime.PORT_WAIT],
        busiest_link=(outcome.link_vectors / (counted * width)).max(axis=1).astype(np.float32),
        fidelity=np.ones(len(decisions), np.float32),
    )


def write_dataset(
    folder: Path, samples: list[NetlistSamples], metadata: Metadata = METADATA, shard_size: int = 2
) -> Dataset:
    """A complete dataset in `folder`."""
    shards = [samples[i : i + shard_size] for i in range(0, len(samples), shard_size)]
    for number, shard in enumerate(shards):
        put_shard(folder, number, shard_bytes(shard, metadata))
    merge(folder, len(shards), metadata)
    return Dataset.open(folder)


def assert_equal(left: Any, right: Any) -> None:
    """All fields equal, arrays also in type and shape."""
    for field in fields(left):
        ours, theirs = getattr(left, field.name), getattr(right, field.name)
        if isinstance(ours, Decisions | Labels):
            assert_equal(ours, theirs)
        elif isinstance(ours, np.ndarray):
            assert ours.dtype == theirs.dtype, field.name
            np.testing.assert_array_equal(ours, theirs, err_msg=field.name)
        else:
            assert ours == theirs, field.name
