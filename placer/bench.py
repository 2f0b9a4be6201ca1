"""Command: how fast are the simulator, the router and the annealer? Tables with versions.

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
from collections.abc import Callable
from functools import partial
from importlib.metadata import version

import numpy as np
from rich.console import Console
from rich.table import Table

from placer.annealing import AnnealOptions, Start, anneal
from placer.config import load_fabric
from placer.decision import Decisions
from placer.fabric import Fabric
from placer.heuristic import HeuristicCost
from placer.lowering import draw_netlist, lower, macs_for_cycles
from placer.netlist import Netlist
from placer.placement import random_sites
from placer.routing import RoutingMethod, route
from placer.simulation import Limits, simulate_stack
from placer.simulation.reference import simulate_reference
from placer.study.local_search import improve
from placer.workloads import FAMILIES, build, default_spec

SAMPLE_CYCLES = 32
NUM_PLACEMENTS = 16  # per netlist: half random, half improved


def seconds(work: Callable[[], object]) -> float:
    """CPU seconds of one call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def bench_decisions(fabric: Fabric, netlist: Netlist) -> Decisions:
    """Random and improved placements, as a dataset has them."""
    sites = random_sites(fabric, netlist, NUM_PLACEMENTS, seed=0)
    for k in range(NUM_PLACEMENTS // 2, NUM_PLACEMENTS):
        sites[k] = improve(fabric, netlist, sites[k], 300 * 2 ** (k - NUM_PLACEMENTS // 2), k)
    return route(fabric, netlist, sites)


def bench_simulator(fabric: Fabric, console: Console) -> None:
    """Time per labelled decision, vector hops and active-link cycles per second, by family."""
    table = Table(
        "family", "units", "flows", "ms per decision", "cycles", "M hops/s", "M link-cycles/s",
        title=f"simulator on {fabric.name}, one core",
    )  # fmt: skip
    times, hops, links = [], 0.0, 0.0
    for family in FAMILIES:
        netlist = draw_netlist(fabric, family, SAMPLE_CYCLES, seed=0, index=0)
        decisions = bench_decisions(fabric, netlist)
        simulate_stack(fabric, netlist, decisions[0])
        each = []
        cycles, moved, active = 0.0, 0.0, 0.0
        for d in range(len(decisions)):
            start = time.process_time()
            outcome = simulate_stack(fabric, netlist, decisions[d])
            each.append(time.process_time() - start)
            cycles += outcome.cycles_simulated[0]
            moved += outcome.vector_hops[0]
            active += outcome.cycles_simulated[0] * len(np.unique(decisions[d].links))
        spent = sum(each)
        times += each
        hops, links = hops + moved, links + active
        table.add_row(
            family, str(netlist.num_units), str(netlist.num_flows),
            f"{1e3 * float(np.median(each)):.1f}", f"{cycles / len(each):.0f}",
            f"{moved / spent / 1e6:.1f}", f"{active / spent / 1e6:.0f}",
        )  # fmt: skip
    total = sum(times)
    table.add_row(
        "all", "", "", f"{1e3 * float(np.median(times)):.1f}", "",
        f"{hops / total / 1e6:.1f}", f"{links / total / 1e6:.0f}",
    )  # fmt: skip
    console.print(table)


def bench_engines(fabric: Fabric, console: Console) -> None:
    """Compiled against plain engine on one decision."""
    budget = macs_for_cycles(fabric, 40)
    netlist = lower(fabric, build(default_spec("ffn", budget)))
    decision = route(fabric, netlist, random_sites(fabric, netlist, 1, seed=0))
    limits = Limits(max_cycles=600)
    simulate_stack(fabric, netlist, decision, limits)
    compiled = min(
        seconds(lambda: simulate_stack(fabric, netlist, decision, limits)) for _ in range(5)
    )
    plain = seconds(
        lambda: simulate_reference(
            fabric, netlist, decision, warmup_samples=limits.warmup_samples,
            window_samples=limits.window_samples, tolerance=limits.tolerance,
            max_cycles=limits.max_cycles, max_samples=limits.max_samples,
        )
    )  # fmt: skip
    console.print(f"compiled engine: {plain / compiled:.0f} times the plain one ({netlist.name})")


def bench_routing(fabric: Fabric, console: Console) -> None:
    """Time per routed decision."""
    netlist = draw_netlist(fabric, "mha", SAMPLE_CYCLES, seed=0, index=0)
    sites = random_sites(fabric, netlist, 64, seed=0)
    table = Table("method", "us per decision", title=f"routing {netlist.name} on {fabric.name}")
    for method in RoutingMethod:
        route(fabric, netlist, sites[:1], method=method)
        spent = seconds(partial(route, fabric, netlist, sites, method=method))
        table.add_row(method.value, f"{1e6 * spent / len(sites):.0f}")
    console.print(table)


def bench_annealer(fabric: Fabric, console: Console) -> None:
    """Moves per second with the heuristic over a whole anneal, from hot to cold."""
    table = Table(
        "family", "units", "flows", "moves", "k moves/s", title=f"annealing on {fabric.name}"
    )
    for family in FAMILIES:
        netlist = draw_netlist(fabric, family, SAMPLE_CYCLES, seed=0, index=0)
        is_allowed = np.ones((netlist.num_units, fabric.topology.num_sites), np.bool_)
        turns = np.zeros(netlist.num_flows, np.int32)
        start = Start(random_sites(fabric, netlist, 1, seed=0)[0], turns, is_allowed)
        cost = HeuristicCost(fabric)
        anneal(fabric, netlist, cost, start, AnnealOptions(max_moves=100), seed=0)
        begin = time.process_time()
        result = anneal(fabric, netlist, cost, start, AnnealOptions(effort=1), seed=0)
        spent = time.process_time() - begin
        table.add_row(
            family, str(netlist.num_units), str(netlist.num_flows), str(result.moves),
            f"{result.moves / spent / 1e3:.0f}",
        )  # fmt: skip
    console.print(table)


def bench_compile(console: Console) -> None:
    """Time to the first label in a fresh process, without and with a cache of compiled code."""
    code = (
        "import time; start = time.perf_counter()\n"
        "from placer.bench import first_label\n"
        "first_label(); print(time.perf_counter() - start)"
    )
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        spent = [
            float(
                subprocess.run(
                    [sys.executable, "-c", code], env=environment, check=True, capture_output=True
                ).stdout
            )
            for _ in range(2)
        ]
    console.print(
        f"first label in a fresh process: {spent[0]:.0f} s, with warm cache {spent[1]:.1f} s"
    )


def first_label() -> None:
    """Lower, place, route and simulate once on the small fabric."""
    fabric = load_fabric("small")
    netlist = lower(fabric, build(default_spec("gemm", macs_for_cycles(fabric, 120))))
    simulate_stack(
        fabric, netlist, route(fabric, netlist, random_sites(fabric, netlist, 1, seed=0))
    )


def main() -> None:
    """Run all benchmarks and print the tables."""
    console = Console()
    versions = ", ".join(f"{name} {version(name)}" for name in ("numba", "numpy"))
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    console.print(f"{machine}, Python {platform.python_version()}, {versions}")
    bench_simulator(load_fabric("small"), console)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    bench_simulator(load_fabric("large"), console)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    console.print(f"memory for the decisions on large: {grown:.0f} MB more at the peak")
    bench_engines(load_fabric("small"), console)
    bench_routing(load_fabric("small"), console)
    bench_annealer(load_fabric("small"), console)
    bench_compile(console)


if __name__ == "__main__":
    main()
