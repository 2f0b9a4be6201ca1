"""Replayed traffic: both engines agree, cycles worked out by hand, laws, and deadlock freedom of a torus."""

from __future__ import annotations

from dataclasses import replace as changed
from itertools import pairwise, product

import networkx as nx
import numpy as np
import pytest

from placer.base import InputError
from placer.fabric import CoreSpec, Direction, DramSpec, Fabric, MemorySpec, NetworkSpec, load_fabric, network_route
from placer.fabric.fabric import LinkSpec, LocalSpec
from placer.simulation import Read, Script, Status, Step, What, build_traffic, replay
from placer.simulation.reference import replay_reference

ONE_WAY = (NetworkSpec("A", ("east", "south"), "xy"), NetworkSpec("B", ("west", "north"), "yx"))
CORES = CoreSpec(
    networks=ONE_WAY,
    torus=True,
    link_bytes_per_cycle=30.0,
    memory_bytes_per_cycle=64.0,
    inject_bytes_per_cycle=30.0,
    take_bytes_per_cycle=28.1,
    port_inject_bytes_per_cycle=23.2,
    port_take_bytes_per_cycle=24.0,
    controller_bytes_per_cycle=40.0,
    controllers=(((0, 0), (0, 1)), ((2, 2),)),
    sizes=(128, 1024),
    rates=(8.0, 30.0),
    issue_cycles=3,
    read_cycles=20,
    wait_cycles=10,
)
CHIP = Fabric(
    name="chip",
    columns=4,
    rows=3,
    vector_bytes=32,
    ports_per_side=0,
    link=LinkSpec(hop_cycles=3, channels=4, fifo_vectors=2),
    local=LocalSpec(vectors_per_cycle=1, hop_cycles=2),
    memory=MemorySpec(window_vectors=64, output_vectors=4),
    dram=DramSpec(latency_cycles=30, prefetch_vectors=8),
    cores=CORES,
)
# Whole rates, so that hand counts are short.
PLAIN = changed(CHIP, cores=changed(
    CORES, link_bytes_per_cycle=32.0, inject_bytes_per_cycle=32.0, take_bytes_per_cycle=32.0, sizes=(32,), rates=(32.0,)
))  # fmt: skip


def random_scripts(fabric: Fabric, rng: np.random.Generator, num: int, most_bytes: int = 600) -> list[Script]:
    """Return scripts of random reads, waits and gaps; some processors share a core."""
    assert fabric.cores is not None
    tiles = list(product(range(fabric.columns), range(fabric.rows)))
    scripts = []
    for _ in range(num):
        steps = [Step(int(rng.integers(0, 20)), What.MARK)]
        for _ in range(int(rng.integers(1, 6))):
            source = tiles[rng.integers(len(tiles))]
            network = int(rng.integers(len(fabric.cores.networks)))
            steps.append(Step(int(rng.integers(0, 30)), Read(network, source, int(rng.integers(1, most_bytes)))))
            if rng.random() < 0.4:
                steps.append(Step(int(rng.integers(0, 30)), What.WAIT))
        scripts.append(Script(tiles[rng.integers(len(tiles))], (*steps, Step(1, What.WAIT))))
    return scripts


@pytest.mark.parametrize("seed", range(12))
def test_both_engines_agree(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fabric = CHIP
    if seed % 3 == 1:  # both directions, one channel before and behind the date lines
        networks = (NetworkSpec("A", ("east", "west", "north", "south"), "yx"),)
        fabric = changed(CHIP, cores=changed(CORES, networks=networks), link=changed(CHIP.link, channels=2))
    elif seed % 3 == 2:  # no torus, few credits
        networks = (NetworkSpec("A", ("east", "west", "north", "south"), "xy"),) * 1
        fabric = changed(
            CHIP, cores=changed(CORES, networks=networks, torus=False), memory=changed(CHIP.memory, window_vectors=5)
        )
    traffic = build_traffic(fabric, random_scripts(fabric, rng, num=14))
    compiled, plain = replay(fabric, traffic, 50_000), replay_reference(fabric, traffic, 50_000)
    assert compiled.status == plain.status == Status.STEADY
    assert compiled.cycles == plain.cycles
    assert compiled.step_at.tolist() == plain.step_at.tolist()
    assert compiled.link_vectors.tolist() == plain.link_vectors.tolist()


def _wait_ends(fabric: Fabric, *reads: Read, core: tuple[int, int] = (1, 1)) -> int:
    script = Script(core, (*(Step(0, read) for read in reads), Step(0, What.WAIT)))
    result = replay(fabric, build_traffic(fabric, [script]))
    assert result.status == Status.STEADY
    return int(result.step_at[-1])


def test_a_lone_read_takes_its_latency_and_a_cycle_per_vector() -> None:
    # issue 3 + read 20 until the first vector is written; 9 more follow; the wait ends one cycle later.
    assert _wait_ends(PLAIN, Read(0, (1, 1), 320)) == 3 + 20 + 9 + 1
    # Network A leads east and south only: request and data go once around the row of 4 tiles.
    assert _wait_ends(PLAIN, Read(0, (2, 1), 320)) == 3 + 20 + 4 * 3 + 9 + 1
    # Once around the row and the column, in both networks.
    for network in (0, 1):
        assert _wait_ends(PLAIN, Read(network, (2, 0), 320)) == 3 + 20 + (4 + 3) * 3 + 9 + 1


def test_an_empty_wait_takes_its_least_time() -> None:
    script = Script((1, 1), (Step(5, What.MARK), Step(7, What.WAIT), Step(2, What.MARK)))
    result = replay(PLAIN, build_traffic(PLAIN, [script]))
    assert result.step_at.tolist() == [5, 5 + 7 + 10, 5 + 7 + 10 + 2]


def test_rates_follow_size_gate_and_controller() -> None:
    num_bytes = 32 * 400
    rate = {  # bytes per cycle of long reads
        "link": _long_rate(CHIP, num_bytes, (2, 1)),
        "port": _long_rate(CHIP, num_bytes, (0, 1)),
    }
    assert rate["link"] == pytest.approx(28.1, rel=0.02)  # what a core takes
    assert rate["port"] == pytest.approx(23.2, rel=0.02)
    slow = changed(CHIP, cores=changed(CORES, link_bytes_per_cycle=20.0))
    assert _long_rate(slow, num_bytes, (2, 1)) == pytest.approx(20.0, rel=0.02)
    by_size = changed(CHIP, cores=changed(CORES, sizes=(128, 100_000), rates=(8.0, 8.0)))
    assert _long_rate(by_size, num_bytes, (2, 1)) == pytest.approx(8.0, rel=0.02)


def _long_rate(fabric: Fabric, num_bytes: int, source: tuple[int, int]) -> float:
    short, long = (_wait_ends(fabric, Read(0, source, n * num_bytes)) for n in (1, 2))
    return num_bytes / (long - short)


def test_a_controller_is_shared_by_its_ports() -> None:
    # Both ports of the first controller, over different networks to different cores.
    reads = [((1, 0), Read(0, (0, 0), 32 * 800)), ((1, 1), Read(1, (0, 1), 32 * 800))]
    scripts = [Script(core, (Step(0, read), Step(0, What.WAIT))) for core, read in reads]
    both = replay(CHIP, build_traffic(CHIP, scripts)).cycles
    alone = max(replay(CHIP, build_traffic(CHIP, [script])).cycles for script in scripts)
    assert both / alone == pytest.approx(2 * 23.2 / 40.0, rel=0.03)


def test_nothing_is_lost_and_waits_never_end_early() -> None:
    rng = np.random.default_rng(5)
    scripts = random_scripts(CHIP, rng, num=30, most_bytes=2000)
    traffic = build_traffic(CHIP, scripts)
    result = replay(CHIP, traffic)
    tokens = sum(flow.tokens for flow in traffic.netlist.flows)
    topology = CHIP.topology
    assert result.link_vectors[topology.inject_link(0) : topology.eject_link(0)].sum() == tokens
    assert result.link_vectors[topology.eject_link(0) :].sum() == tokens
    for k in range(traffic.num_scripts):
        first, end = traffic.step_start[k], traffic.step_start[k + 1]
        at, gap = result.step_at[first:end], traffic.step_gap[first:end]
        assert (np.diff(at) >= gap[1:]).all() and at[0] == gap[0]
        asked = 0
        for position in range(int(first), int(end)):
            what = int(traffic.step_what[position])
            if what >= 0:
                flow = traffic.netlist.flows[what]
                least = int(traffic.request_cycles[what]) + flow.tokens
                asked = max(asked, int(result.step_at[position]) + least)
            elif what == What.WAIT:
                assert result.step_at[position] > asked


def _dependencies(fabric: Fabric, has_date_lines: bool) -> nx.DiGraph:
    """Return which FIFO waits for room in which other one, over all routes of all networks."""
    assert fabric.cores is not None
    topology, graph = fabric.topology, nx.DiGraph()
    tiles = list(product(range(fabric.columns), range(fabric.rows)))
    for network, source, target in product(range(len(fabric.cores.networks)), tiles, tiles):
        links = network_route(fabric, network, source, target)
        shifts = topology.date_line_shifts(links, list(range(-1, len(links) - 1)))
        shifts = shifts if has_date_lines else [0] * len(links)
        fifos = list(zip(links, shifts, strict=True))[:-1]  # an eject link always has room behind it
        graph.add_edges_from(pairwise(fifos))
    return graph


@pytest.mark.parametrize("fabric", [CHIP, load_fabric("wormhole")], ids=["chip", "wormhole"])
def test_a_torus_has_no_cycle_of_fifos_that_wait_for_each_other(fabric: Fabric) -> None:
    assert nx.is_directed_acyclic_graph(_dependencies(fabric, has_date_lines=True))
    assert not nx.is_directed_acyclic_graph(_dependencies(fabric, has_date_lines=False))


def test_rings_full_of_traffic_do_not_block() -> None:
    # Every core of a ring reads from the one before it: data goes almost once around, FIFOs are short.
    fabric = changed(CHIP, link=changed(CHIP.link, channels=2, fifo_vectors=1), columns=6)
    scripts = []
    for x, y in product(range(6), range(3)):
        read = Step(0, Read(0, ((x + 1) % 6, (y + 1) % 3), 4000))
        scripts.append(Script((x, y), (read, read, read, Step(0, What.WAIT))))
    assert replay(fabric, build_traffic(fabric, scripts)).status == Status.STEADY


def test_routes_follow_the_order_and_directions_of_their_network() -> None:
    topology = CHIP.topology
    for network, (first, second) in enumerate([("EAST", "SOUTH"), ("NORTH", "WEST")]):
        links = network_route(CHIP, network, (1, 1), (0, 0))[1:-1]
        directions = [Direction(topology.link_direction[link]).name for link in links]
        steps = {"EAST": 3, "SOUTH": 2, "NORTH": 1, "WEST": 1}
        assert directions == [first] * steps[first] + [second] * steps[second]


def test_bad_traffic_is_refused() -> None:
    with pytest.raises(InputError, match="outside of the grid"):
        build_traffic(CHIP, [Script((9, 9), (Step(0, Read(0, (0, 0), 32)),))])
    with pytest.raises(InputError, match="no cores"):
        build_traffic(load_fabric("small"), [])
    with pytest.raises(InputError, match="unknown network 'C'"):
        CORES.network("C")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"networks": ()}, "networks"),
        ({"link_bytes_per_cycle": 0.0}, "link_bytes_per_cycle"),
        ({"link_bytes_per_cycle": 33.0}, "link_bytes_per_cycle"),
        ({"sizes": (128,)}, "sizes"),
        ({"rates": (8.0, 99.0)}, "rates"),
        ({"controllers": (((0, 0),), ((0, 0),))}, "named twice"),
        ({"issue_cycles": 0}, "issue_cycles"),
    ],
)
def test_cores_that_make_no_sense_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        changed(CHIP, cores=changed(CORES, **change))  # type: ignore[arg-type]
