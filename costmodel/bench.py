"""Command: how fast are decisions encoded, batched and predicted? Tables with versions.

Rates depend on the machine; compare columns of one run, not runs. On one core, if not said
otherwise.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import partial
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from rich.console import Console

from costmodel.encoding import Encoded, NetlistFeatures, encode, graph_set, make_batch, netlist_features
from costmodel.inference import LearnedSearch, predict_encoded
from costmodel.model import SHIPPED, open_model
from costmodel.networks import FlowConfig, FlowNetwork, build_network
from placer.annealing import AnnealOptions, Counts, MoveMix, Refusal, Start, anneal, random_start, start_of
from placer.base import Cell, Table, make_console, make_folder, png, write_atomic
from placer.bench import SAMPLE_CYCLES, seconds
from placer.cost import HeuristicCost
from placer.decision import Decisions, allowed_sites, random_sites
from placer.decision.routing import RoutingMethod, route
from placer.fabric import Fabric, load_fabric
from placer.graph.workloads import FAMILIES, ModelSpec, build
from placer.netlist import Netlist
from placer.netlist.lowering import draw_netlist, lower_sections

PICTURE = Path("data/bench/score_time.png")
NUM_DECISIONS = 24  # per netlist, as a dataset has them
REPEATS = 7  # the best counts
SEARCH_MOVES = 200_000  # of the search with the heuristic that comes before
NUM_MOVES, TEMPERATURE, REACH = 2_000, 0.003, 4  # of the search with the model
# Scores per second in a search, one core, before there were students: commit bcac04e, two cores of an AMD EPYC
# with AVX-512, shared with others, by CPU time.
BEFORE = {
    "gemm": 5371, "mlp": 4483, "ffn": 5453, "mha": 4501,
    "bert_large-layers1-sequence128.0": 1047, "bert_large-layers1-sequence128.1": 505,
    "bert_large-layers1-sequence128.2": 968, "bert_large-layers1-sequence128.3": 1203,
    "bert_large-layers1-sequence128.4": 1154, "bert_large-layers1-sequence128.5": 741,
}  # fmt: skip

Rows = list[tuple[Cell, ...]]


def bench_decisions(fabric: Fabric, console: Console) -> None:
    """Print decisions per second through each step, by family; `encode` includes features."""
    network, ids, rows = _network(), np.arange(NUM_DECISIONS), Rows()
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
        rows.append((family, *_size(netlist), *(f"{rate:.0f}" for rate in rates)))
    header = ("family", "units", "flows", "encode", "batch", "flow, forward")
    title = f"decisions per second on {fabric.name}, {NUM_DECISIONS} of a netlist, one core"
    console.print(Table(header, rows, title).screen())


def bench_scores(fabric: Fabric, console: Console, workers: Executor) -> None:
    """Print scores per second, one decision at a time: by DGL, compiled, in a search, in two.

    A search accepts as its model says, so it must be a trained one.
    """
    (network, student), rows = _taught(), Rows()
    for family in FAMILIES:
        netlist = draw_netlist(fabric, family, SAMPLE_CYCLES, seed=0, index=0)
        start, decisions = _improved(fabric, netlist)
        features, encoded = _encode(fabric, netlist, decisions)
        batch = make_batch(graph_set([(features, encoded)]), np.arange(1))
        predict_encoded([network], features, encoded)
        with torch.inference_mode():
            by_dgl = 1 / min(seconds(partial(network, batch)) for _ in range(REPEATS))
        whole = partial(predict_encoded, [network], features, encoded)
        compiled = NUM_DECISIONS / min(seconds(whole) for _ in range(REPEATS))
        alone = _search_rate(fabric, netlist, network, None, start)
        search = _search_rate(fabric, netlist, network, student, start)
        two = _rate_of_two(workers, fabric, netlist, network, student, start)
        rates = (by_dgl, compiled, BEFORE[family], alone, search, search / by_dgl, two)
        rows.append((family, *_size(netlist), *(f"{rate:.0f}" for rate in rates)))
    header = (
        "family", "units", "flows", "DGL, forward", "compiled", "search, before", "model alone",
        "with student", "search / DGL", "two searches",
    )  # fmt: skip
    title = f"scores per second of the model in the box on {fabric.name}, one at a time, one core; the last on two"
    console.print(Table(header, rows, title).screen())


def bench_sizes(console: Console) -> Figure:
    """Print and draw the time per score in a search by size, up to sections of BERT large."""
    (network, student), rows, points = _taught(), Rows(), []
    fabrics = [load_fabric(name) for name in ("small", "plasticine", "large")]
    cases = [
        (fabric, draw_netlist(fabric, family, SAMPLE_CYCLES, seed=0, index=0))
        for fabric in fabrics
        for family in FAMILIES
    ]
    graph = build(ModelSpec("bert_large", layers=1))
    cases += [(fabrics[-1], section.netlist) for section in lower_sections(fabrics[-1], graph)]
    for fabric, netlist in cases:
        start, decisions = _improved(fabric, netlist)
        rate = _search_rate(fabric, netlist, network, None, start)
        taught = _search_rate(fabric, netlist, network, student, start)
        num_visits = len(decisions[0].links)
        times = (rate, taught, 1e6 / rate, 1e9 / rate / num_visits)
        name, told = f"{netlist.name}, {fabric.name}", (f"{each:.0f}" for each in times)
        rows.append((name, *_size(netlist), num_visits, str(BEFORE.get(netlist.name, "")), *told))
        points.append((num_visits, 1e6 / rate))
    header = (
        "netlist", "units", "flows", "visits", "before", "scores/s", "with student", "us per score",
        "ns per visit",
    )  # fmt: skip
    console.print(Table(header, rows, "score in a search by size, one core").screen())
    return draw_sizes(points)


def draw_sizes(points: list[tuple[int, float]]) -> Figure:
    """Draw the time per score against visits of links, with a line of equal time per visit."""
    visits, times = np.array(points).T
    figure = Figure(figsize=(5, 3.4), layout="constrained")
    axes = figure.subplots()
    axes.scatter(visits, times, color="#0077BB", s=18)
    ends = np.array([visits.min(), visits.max()])
    axes.plot(ends, ends * np.median(times / visits), color="#000000", lw=0.8, ls=":")
    axes.set(xscale="log", yscale="log", xlabel="links on all routes", ylabel="microseconds per score")
    return figure


def _network() -> FlowNetwork:
    network = build_network(FlowConfig(), seed=0).eval()
    assert isinstance(network, FlowNetwork)
    return network


def _size(netlist: Netlist) -> tuple[int, int]:
    return netlist.num_units, netlist.num_flows


def _improved(fabric: Fabric, netlist: Netlist) -> tuple[Start, Decisions]:
    """Return where a search with the model begins, and NUM_DECISIONS copies of it."""
    is_allowed = allowed_sites(fabric, netlist, None)
    first = random_start(fabric, netlist, is_allowed, 0)
    options = AnnealOptions(max_moves=SEARCH_MOVES)
    found = anneal(fabric, netlist, HeuristicCost(fabric), first, options, seed=0).decision
    return start_of(fabric, found, is_allowed), Decisions.concatenate([found] * NUM_DECISIONS)


def _taught() -> tuple[FlowNetwork, FlowNetwork]:
    """Return the networks of the model in the box and of its student."""
    model = open_model(SHIPPED)
    assert isinstance(model.network, FlowNetwork) and model.student is not None
    return model.network.eval(), model.student.eval()


def _search_rate(
    fabric: Fabric, netlist: Netlist, network: FlowNetwork, student: FlowNetwork | None, start: Start
) -> float:
    """Return moves that are scored per second of CPU time in a search with the settings of `cost=learned`."""
    students = [] if student is None else [student]
    search = LearnedSearch([network], fabric, netlist, start, MoveMix().cumulated(), seed=0, students=students)
    search.run(100, TEMPERATURE, REACH, Counts())
    counts = Counts()
    begin = time.process_time()
    search.run(NUM_MOVES, TEMPERATURE, REACH, counts)
    spent = time.process_time() - begin
    return float((counts.accepted.sum() + counts.refused[:, Refusal.COST].sum()) / spent)


def _rate_of_two(workers: Executor, *case: object) -> float:
    """Return predictions per second in two searches; the first round loads compiled code."""
    for _ in range(2):
        rates = list(workers.map(_search_rate, *([part] * 2 for part in case)))
    return sum(rates)


def _encode(fabric: Fabric, netlist: Netlist, decisions: Decisions) -> tuple[NetlistFeatures, Encoded]:
    return netlist_features(fabric, netlist), encode(fabric, netlist, decisions)


def main() -> None:
    """Run the benchmark and print its table."""
    torch.set_num_threads(1)
    console = make_console()
    versions = ", ".join(f"{name} {version(name)}" for name in ("numba", "torch", "dgl"))
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    console.print(f"{machine}, Python {platform.python_version()}, {versions}")
    bench_decisions(load_fabric("small"), console)
    with ProcessPoolExecutor(2, get_context("spawn")) as workers:
        bench_scores(load_fabric("small"), console, workers)
    figure = bench_sizes(console)
    make_folder(PICTURE.parent)
    write_atomic(PICTURE, png(figure))
    console.print(f"drawn to {PICTURE}")


if __name__ == "__main__":
    main()
