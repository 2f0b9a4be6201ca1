"""Command: how fast are lowering, the simulator, the router and the annealer? Tables with versions.

Rates depend on the machine; compare columns of one run, not runs. The time to compile is measured
in a process of its own with an empty cache.
"""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console

from placer.annealing import AnnealOptions, Schedule, Start, anneal
from placer.base import Cell, FloatArray, IntArray, Table, make_console, make_folder, png, write_atomic
from placer.cost import HeuristicCost
from placer.decision import Decisions, random_sites
from placer.decision.routing import RoutingMethod, route
from placer.fabric import Fabric, SiteKind, load_fabric
from placer.graph.workloads import FAMILIES, ModelSpec, WorkloadConfig, build, default_spec, resolve
from placer.netlist import Netlist
from placer.netlist.lowering import (
    default_plan,
    draw_netlist,
    lower,
    lower_plan,
    lower_sections,
    macs_for_cycles,
    plan_section,
)
from placer.simulation import Limits, Outcome, ShortLimits, label_limits, simulate_short, simulate_stack
from placer.simulation.reference import simulate_reference
from placer.study import improve

SAMPLE_CYCLES = 32
NUM_PLACEMENTS = 16  # per netlist: half random, half improved
NUM_REPEATS = 5  # of lowering
NETWORKS = (
    WorkloadConfig("bert_large", layers=1, training=True),
    WorkloadConfig("bert_large", training=True),
    WorkloadConfig("gpt2_xl"),
    WorkloadConfig("llama3_8b"),
)
SECTION_MODELS = ("bert_large", "gpt2_xl")
# M hops/s of the engine of commit 132fc66 by number of the section: the same netlists, placements and results, one
# core of an EPYC (Zen 5) that others used too, by processor time.
HOPS_BEFORE = {
    "bert_large": (25.1, 23.2, 24.4, 26.0, 24.4, 23.6),
    "gpt2_xl": (24.5, 25.5, 22.9, 24.2, 24.3, 24.9, 24.2),
}
SECTION_STEPS = 20_000  # of local search
ANNEALED_MOVES = 3e6  # about, from hot to cold
ANNEALED_SECTIONS = (  # side of the fabric, network, number of the section, k moves/s of commit bcac04e
    (8, "gpt2_xl", 6, 1561),
    (8, "bert_large", 3, 1347),
    (16, "gpt2_xl", 4, 384),
    (32, "bert_large", 0, 276),
    (32, "bert_large", 2, 129),
    (64, "bert_large", 0, 102),
    (64, "gpt2_xl", 0, 71),
    (64, "gpt2_xl", 1, 16),
    (64, "gpt2_xl", 2, 5),
)
BEFORE_MACHINE = "EPYC (Zen 5), one core"
FABRIC_SIDES = (8, 16, 32, 64)
FILLING_MODEL = "gpt2_xl"  # its first section is simulated on fabrics of all sides
SIZED_CYCLES = 4_000  # of a simulation there
PICTURE = Path("data/bench/cycle_cost.png")


def seconds(work: Callable[[], object]) -> float:
    """Return the CPU seconds of one call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def bench_decisions(fabric: Fabric, netlist: Netlist) -> Decisions:
    """Return random and improved placements, as a dataset has them."""
    sites = random_sites(fabric, netlist, NUM_PLACEMENTS, seed=0)
    for k in range(NUM_PLACEMENTS // 2, NUM_PLACEMENTS):
        sites[k] = improve(fabric, netlist, sites[k], 300 * 2 ** (k - NUM_PLACEMENTS // 2), k)
    return route(fabric, netlist, sites)


def bench_simulator(fabric: Fabric, console: Console) -> None:
    """Time a labelled decision of each family, its vector hops and its active-link cycles."""
    rows: list[list[Cell]] = []
    parts = []
    for family in FAMILIES:
        netlist = draw_netlist(fabric, family, SAMPLE_CYCLES, seed=0, index=0)
        parts.append(_simulated(fabric, netlist))
        cycles = f"{parts[-1][:, 1].mean():.0f}"
        rows.append([family, netlist.num_units, netlist.num_flows, *_rates(parts[-1], cycles)])
    rows.append(["all", "", "", *_rates(np.concatenate(parts), "")])
    header = ["family", "units", "flows", "ms per decision", "cycles", "M hops/s"]
    title = f"simulator on {fabric.name}, one core"
    console.print(Table([*header, "M link-cycles/s"], rows, title).screen())


def _simulated(fabric: Fabric, netlist: Netlist) -> FloatArray:
    """Return seconds, cycles, vector hops and active-link cycles of each decision."""
    decisions = bench_decisions(fabric, netlist)
    simulate_stack(fabric, netlist, decisions[0])
    rows = []
    for d in range(len(decisions)):
        start = time.process_time()
        outcome = simulate_stack(fabric, netlist, decisions[d])
        spent, cycles = time.process_time() - start, outcome.cycles_simulated[0]
        num_links = len(np.unique(decisions[d].links))
        rows.append((spent, cycles, outcome.vector_hops[0], cycles * num_links))
    return np.array(rows, np.float64)


def _rates(measured: FloatArray, cycles: str) -> list[str]:
    spent, _, hops, links = measured.sum(axis=0)
    median = 1e3 * float(np.median(measured[:, 0]))
    return [f"{median:.1f}", cycles, f"{hops / spent / 1e6:.1f}", f"{links / spent / 1e6:.0f}"]


def bench_lowering(fabric: Fabric, console: Console) -> None:
    """Time the plan of one section by rules, and the netlist that is built from it."""
    rows: list[list[Cell]] = []
    for family in FAMILIES:
        graph = build(default_spec(family, macs_for_cycles(fabric, SAMPLE_CYCLES)))
        plan = plan_section(fabric, graph)
        netlist = lower(fabric, graph, plan)
        times = [
            _milliseconds(partial(plan_section, fabric, graph)),
            _milliseconds(partial(lower, fabric, graph, plan)),
        ]
        rows.append([family, netlist.num_units, netlist.num_flows, *(f"{some:.1f}" for some in times)])
    header = ["family", "units", "flows", "plan ms", "netlist ms"]
    title = f"lowering on {fabric.name}, median of {NUM_REPEATS}"
    console.print(Table(header, rows, title).screen())


def bench_networks(fabric: Fabric, console: Console) -> None:
    """Time the default plans of whole networks, and the netlists of their distinct sections."""
    rows: list[list[Cell]] = []
    for workload in NETWORKS:
        graph = build(resolve(workload, 1, np.random.default_rng(0)))
        plan = default_plan(fabric, graph)
        times = [
            _milliseconds(partial(default_plan, fabric, graph)),
            _milliseconds(partial(lower_plan, fabric, graph, plan)),
        ]
        layers = "all" if workload.layers is None else str(workload.layers)
        name = f"{workload.family} {'training' if workload.training else 'forward'}"
        count = f"{len(plan.layouts)} ({len(plan.sections)})"
        rows.append([name, layers, len(graph.ops), count, *(f"{some:.0f}" for some in times)])
    header = ["network", "layers", "ops", "sections", "plan ms", "netlists ms"]
    title = f"lowering networks on {fabric.name}, median of {NUM_REPEATS}; sections: distinct (all)"
    console.print(Table(header, rows, title).screen())


def _milliseconds(work: Callable[[], object]) -> float:
    """Return the median of several calls."""
    return 1e3 * float(np.median([seconds(work) for _ in range(NUM_REPEATS)]))


def bench_sections(fabric: Fabric, console: Console, models: Sequence[str] = SECTION_MODELS) -> None:
    """Time a label of every section of large networks, one layer each, on an improved placement."""
    rows: list[list[Cell]] = []
    for model in models:
        sections = lower_sections(fabric, build(ModelSpec(model, 1)))
        for section, before in zip(sections, HOPS_BEFORE[model], strict=False):
            netlist = section.netlist
            sites = random_sites(fabric, netlist, 1, seed=0)
            sites[0] = improve(fabric, netlist, sites[0], SECTION_STEPS, 0)
            decision = route(fabric, netlist, sites)
            outcome, spent, megabytes = _labelled(fabric, netlist, decision)
            rate = outcome.vector_hops[0] / spent / 1e6
            simulate_short(fabric, netlist, decision, ShortLimits(least=0.01, most=0.01))
            start = time.process_time()
            short = simulate_short(fabric, netlist, decision)
            briefly = time.process_time() - start
            error = short.cycles_per_sample[0] / outcome.cycles_per_sample[0] - 1
            facts: list[Cell] = [netlist.name, netlist.num_flows, int(outcome.cycles_simulated[0])]
            rates = [f"{spent:.2f}", f"{megabytes:.0f}", f"{rate:.1f}", f"{before:.1f}", f"{rate / before:.1f}"]
            rows.append([*facts, *rates, f"{briefly:.2f}", f"{spent / briefly:.1f}", f"{error:+.1%}"])
    header = ["section", "flows", "cycles", "s per label", "peak MB", "M hops/s", "of 132fc66", "ratio"]
    title = f"labels of sections on {fabric.name}, one core; 132fc66: on {BEFORE_MACHINE}"
    console.print(Table([*header, "s per short label", "full / short", "error"], rows, title).screen())


def _labelled(fabric: Fabric, netlist: Netlist, decision: Decisions) -> tuple[Outcome, float, float]:
    """Return the label of a decision, its CPU seconds, and the peak MB of its arrays, from a run that is cut short."""
    limits = label_limits(netlist.bound_cycles)
    start = time.process_time()
    outcome = simulate_stack(fabric, netlist, decision, limits)
    spent = time.process_time() - start
    tracemalloc.start()
    simulate_stack(fabric, netlist, decision, limits._replace(max_cycles=1))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return outcome, spent, peak / 2**20


def bench_fabric_size(fabric: Fabric, console: Console, sides: Sequence[int] = FABRIC_SIDES) -> Figure:
    """Time a cycle on larger and larger fabrics: of a small netlist in their corner, and of sections that fill them."""
    small = lower(fabric, build(default_spec("ffn", macs_for_cycles(fabric, 40))))
    rows: list[list[Cell]] = []
    points: dict[str, list[float]] = {"the same netlist in a corner": [], f"{FILLING_MODEL}, cut for the fabric": []}
    for side in sides:
        larger = replace(fabric, columns=side, rows=side)
        section = lower_sections(larger, build(ModelSpec(FILLING_MODEL, 1)))[0].netlist
        all_sites = (corner_sites(fabric, larger, small), random_sites(larger, section, 1, seed=0)[0])
        for (name, found), netlist, sites in zip(points.items(), (small, section), all_sites, strict=True):
            decision = route(larger, netlist, sites[None, :])
            work = partial(simulate_stack, larger, netlist, decision, Limits(max_cycles=SIZED_CYCLES))
            outcome = work()
            cycles, hops = int(outcome.cycles_simulated[0]), int(outcome.vector_hops[0])
            spent = min(seconds(work) for _ in range(3))
            found.append(1e6 * spent / cycles)
            rates = [f"{hops / cycles:.1f}", f"{found[-1]:.2f}", f"{1e9 * spent / hops:.0f}"]
            rows.append([f"{side} x {side}", name, netlist.num_flows, *rates])
    header = ["fabric", "netlist", "flows", "hops per cycle", "us per cycle", "ns per hop"]
    console.print(Table(header, rows, f"cost of a simulated cycle, setup included, {SIZED_CYCLES} cycles").screen())
    return draw_cycle_cost(sides, points)


def draw_cycle_cost(sides: Sequence[int], points: dict[str, list[float]]) -> Figure:
    """Draw the time per simulated cycle against the tiles of the fabric."""
    figure = Figure(figsize=(5, 3.4), layout="constrained")
    axes = figure.subplots()
    for (name, found), colour in zip(points.items(), ("#0077BB", "#CC3311"), strict=True):
        axes.plot(np.square(sides), found, color=colour, marker="o", ms=4, lw=1, label=name)
    axes.set(xscale="log", yscale="log", xlabel="tiles of the fabric", ylabel="microseconds per simulated cycle")
    axes.legend(frameon=False)
    return figure


def corner_sites(fabric: Fabric, larger: Fabric, netlist: Netlist) -> IntArray:
    """Return random tiles of a fabric as sites of a larger one, and the first ports on the left."""
    tiles = random_sites(fabric, netlist, 1, seed=0)[0]
    is_port = np.array([unit.kind == SiteKind.PORT for unit in netlist.units])
    sites: IntArray = tiles // fabric.columns * larger.columns + tiles % fabric.columns
    sites[is_port] = larger.topology.num_switches + np.arange(is_port.sum()) // fabric.dram.max_streams
    return sites


def bench_engines(fabric: Fabric, console: Console) -> None:
    """Compare the compiled with the plain engine on one decision."""
    netlist = lower(fabric, build(default_spec("ffn", macs_for_cycles(fabric, 40))))
    decision = route(fabric, netlist, random_sites(fabric, netlist, 1, seed=0))
    limits = Limits(max_cycles=600)
    simulate_stack(fabric, netlist, decision, limits)
    compiled = min(seconds(lambda: simulate_stack(fabric, netlist, decision, limits)) for _ in range(5))
    plain = seconds(
        lambda: simulate_reference(
            fabric, netlist, decision, warmup_samples=limits.warmup_samples,
            window_samples=limits.window_samples, tolerance=limits.tolerance,
            max_cycles=limits.max_cycles, max_samples=limits.max_samples,
        )
    )  # fmt: skip
    console.print(f"compiled engine: {plain / compiled:.0f} times the plain one ({netlist.name})")


def bench_routing(fabric: Fabric, console: Console) -> None:
    """Time a routed decision."""
    netlist = draw_netlist(fabric, "mha", SAMPLE_CYCLES, seed=0, index=0)
    sites = random_sites(fabric, netlist, 64, seed=0)
    rows = []
    for method in RoutingMethod:
        route(fabric, netlist, sites[:1], method=method)
        spent = seconds(partial(route, fabric, netlist, sites, method=method))
        rows.append([method.value, f"{1e6 * spent / len(sites):.0f}"])
    title = f"routing {netlist.name} on {fabric.name}"
    console.print(Table(["method", "us per decision"], rows, title).screen())


def bench_annealer(fabric: Fabric, console: Console) -> None:
    """Count moves per second with the heuristic over a whole anneal, from hot to cold."""
    rows: list[list[Cell]] = []
    for family in FAMILIES:
        netlist = draw_netlist(fabric, family, SAMPLE_CYCLES, seed=0, index=0)
        rows.append([family, *_annealed(fabric, netlist, 1.0)])
    header = ["family", "units", "flows", "targets", "moves", "k moves/s"]
    console.print(Table(header, rows, f"annealing on {fabric.name}").screen())


def bench_annealer_size(fabric: Fabric, console: Console) -> None:
    """Count moves per second on larger and larger netlists, beside those of the annealer of commit bcac04e."""
    rows: list[list[Cell]] = []
    for side, model, number, before in ANNEALED_SECTIONS:
        larger = replace(fabric, columns=side, rows=side)
        netlist = lower_sections(larger, build(ModelSpec(model, 1)))[number].netlist
        effort = min(1.0, ANNEALED_MOVES / (150 * Schedule().round_moves(netlist.num_units, 1.0)))
        row = _annealed(larger, netlist, effort)
        rows.append([f"{side} x {side}", f"{model} {number}", *row, before])
    header = ["fabric", "section", "units", "flows", "targets", "moves", "k moves/s", f"before, on {BEFORE_MACHINE}"]
    console.print(Table(header, rows, "annealing of sections, about three million moves from hot to cold").screen())


def _annealed(fabric: Fabric, netlist: Netlist, effort: float) -> list[Cell]:
    """Anneal a netlist with the rules; return its units, flows, mean targets of a flow, moves and moves per second."""
    is_allowed = np.ones((netlist.num_units, fabric.topology.num_sites), np.bool_)
    turns = np.zeros(netlist.num_flows, np.int32)
    start = Start(random_sites(fabric, netlist, 1, seed=0)[0], turns, is_allowed)
    cost = HeuristicCost(fabric)
    anneal(fabric, netlist, cost, start, AnnealOptions(max_moves=100), seed=0)
    begin = time.process_time()
    result = anneal(fabric, netlist, cost, start, AnnealOptions(effort=effort), seed=0)
    rate = result.moves / (time.process_time() - begin)
    targets = np.mean([len(flow.targets) for flow in netlist.flows])
    return [netlist.num_units, netlist.num_flows, f"{targets:.1f}", result.moves, f"{rate / 1e3:.0f}"]


def bench_compile(console: Console) -> None:
    """Time the first label of a fresh process in CPU seconds, without and with a cache of compiled code."""
    code = "import time\nfrom placer.bench import first_label\nfirst_label(); print(time.process_time())"
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        run = partial(
            subprocess.run, [sys.executable, "-c", code], env=environment, check=True,
            capture_output=True,
        )  # fmt: skip
        spent = [float(run().stdout) for _ in range(2)]
    console.print(f"first label in a fresh process: {spent[0]:.0f} s of CPU time, with warm cache {spent[1]:.1f} s")


def first_label() -> None:
    """Lower, place, route and simulate once on the small fabric."""
    fabric = load_fabric("small")
    netlist = lower(fabric, build(default_spec("gemm", macs_for_cycles(fabric, 120))))
    simulate_stack(fabric, netlist, route(fabric, netlist, random_sites(fabric, netlist, 1, seed=0)))


def main() -> None:
    """Run all benchmarks and print the tables."""
    console = make_console()
    versions = ", ".join(f"{name} {version(name)}" for name in ("numba", "numpy"))
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    console.print(f"{machine}, Python {platform.python_version()}, {versions}")
    bench_lowering(load_fabric("small"), console)
    bench_lowering(load_fabric("large"), console)
    bench_networks(load_fabric("large"), console)
    bench_simulator(load_fabric("small"), console)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    bench_simulator(load_fabric("large"), console)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    console.print(f"memory for the decisions on large: {grown:.0f} MB more at the peak")
    bench_sections(load_fabric("large"), console)
    make_folder(PICTURE.parent)
    write_atomic(PICTURE, png(bench_fabric_size(load_fabric("small"), console)))
    console.print(f"drawn to {PICTURE}")
    bench_engines(load_fabric("small"), console)
    bench_routing(load_fabric("small"), console)
    bench_annealer(load_fabric("small"), console)
    bench_annealer_size(load_fabric("large"), console)
    bench_compile(console)


if __name__ == "__main__":
    main()
