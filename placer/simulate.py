"""Command: lower a workload, place it, simulate it, and show where the time goes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig
from rich.console import Console
from rich.progress import track
from rich.table import Column, Table

from placer.check import check
from placer.command import command_line, file_name, finite, make_console
from placer.config import run_command, to_dataclass
from placer.decision import Decisions
from placer.decision_file import load_decision, save_decision
from placer.draw import draw_placement
from placer.errors import InputError
from placer.fabric import Fabric, SiteKind
from placer.files import make_folder, require_folder, write_atomic
from placer.graph import DataflowGraph
from placer.graph_file import load_graph
from placer.html.fabric_view import Frame
from placer.html.page import Page
from placer.html.placement import placement_sections
from placer.importing import InputKind, NetworkChoice, import_network
from placer.lowering import Section, lower_sections, macs_for_cycles
from placer.lowering.groups import is_compute
from placer.netlist import Netlist
from placer.placement import random_sites
from placer.routing import RoutingMethod, route
from placer.simulation import Measurement, Status, UnitTime, simulate
from placer.workloads import WorkloadConfig, build, resolve

RESULT_SCHEMA = 1
NUM_STALLS = 5  # units listed in the summary


@dataclass(frozen=True, slots=True)
class SimulateConfig:
    """What `conf/simulate.yaml` holds."""

    fabric: Fabric
    workload: WorkloadConfig
    graph: Path | None
    placement: str
    routing: RoutingMethod
    fill: float
    sample_cycles: int
    seed: int
    output: Path
    model: str | None = None
    model_arguments: dict[str, Any] | None = None
    input_shape: tuple[int, ...] | None = None
    input_kind: InputKind = InputKind.NUMBERS

    def __post_init__(self) -> None:
        if self.model is not None and self.graph is not None:
            raise InputError(f"model={self.model} and graph={self.graph}: set one of them")
        if not 0 < self.fill <= 1:
            raise InputError(f"fill={self.fill} is out of range; allowed: above 0 up to 1")
        for name, value, least in (
            ("seed", self.seed, 0),
            ("sample_cycles", self.sample_cycles, 1),
        ):
            if value < least:
                raise InputError(f"{name}={value} is out of range; allowed: {least} or more")


@dataclass(frozen=True, slots=True)
class SectionResult:
    """One section, placed and simulated."""

    section: Section
    decision: Decisions
    measurement: Measurement

    @property
    def cycles_per_input(self) -> float:
        """Cycles per input of the graph that all sections of this kind take."""
        section = self.section
        return section.repeats * section.samples * self.measurement.cycles_per_sample


def run(config: SimulateConfig) -> list[SectionResult]:
    """Simulate every distinct section of the configured graph."""
    fabric = config.fabric
    sections = lower_sections(fabric, make_graph(config), config.fill)
    if config.placement != "random" and len(sections) > 1:
        raise InputError(
            f"placement={config.placement}: the graph has {len(sections)} sections, a decision "
            "file places one; use placement=random"
        )
    results = []
    for section in track(sections, "simulating", disable=len(sections) == 1, transient=True):
        decision = _place(config, section.netlist)
        check(fabric, section.netlist, decision)
        measurement = simulate(fabric, section.netlist, decision)[0]
        results.append(SectionResult(section, decision, measurement))
    return results


def make_graph(config: SimulateConfig) -> DataflowGraph:
    """The imported network, the graph of the file, or the workload at a size that suits."""
    if config.model is not None:
        choice = NetworkChoice(
            config.model, config.model_arguments or {}, config.input_shape, config.input_kind
        )
        return import_network(choice).graph
    if config.graph is not None:
        graph = load_graph(config.graph)
        if not any(is_compute(op) for op in graph.ops):
            raise InputError(
                f"graph file {config.graph}: graph {graph.name!r}: nothing to compute, "
                "it only moves data"
            )
        return graph
    budget = macs_for_cycles(config.fabric, config.sample_cycles, config.fill)
    rng = np.random.default_rng(config.seed)
    return build(resolve(config.workload, budget, rng, config.sample_cycles))


def _place(config: SimulateConfig, netlist: Netlist) -> Decisions:
    if config.placement == "random":
        sites = random_sites(config.fabric, netlist, 1, config.seed)
        return route(config.fabric, netlist, sites, method=config.routing, seed=config.seed)
    return load_decision(Path(config.placement), config.fabric, netlist)


def show(config: SimulateConfig, results: list[SectionResult], console: Console) -> None:
    """Print a summary of each section, and of all of them together."""
    for result in results:
        _show_section(config.fabric, result, console)
    if len(results) > 1:
        _show_model(results, console)


def _show_section(fabric: Fabric, result: SectionResult, console: Console) -> None:
    netlist, measured = result.section.netlist, result.measurement
    console.rule(f"{netlist.name} on {fabric.name}")
    facts = Table.grid(padding=(0, 2))
    facts.add_row("status", measured.status.name.lower())
    facts.add_row(
        "netlist",
        f"{netlist.num_units} units, {netlist.num_flows} flows, {netlist.num_stages} stages",
    )
    facts.add_row("cycles per sample", f"{measured.cycles_per_sample:.1f}")
    facts.add_row("bound", f"{measured.bound_cycles} (work of the slowest unit)")
    facts.add_row("normalised throughput", f"{measured.throughput:.3f}")
    facts.add_row("first sample after", f"{measured.first_sample_cycles} cycles")
    facts.add_row("critical resource", measured.critical)
    console.print(facts)
    stalls = Table(
        Column("unit", overflow="fold"),
        "op",
        "busy",
        "starved",
        "blocked",
        "port wait",
        title="compute units that wait most",
    )
    for unit in _idlest(netlist, measured)[:NUM_STALLS]:
        shares = [f"{share:.0%}" for share in measured.unit_time[unit]]
        stalls.add_row(netlist.units[unit].name, netlist.units[unit].op, *shares)
    console.print(stalls)


def _idlest(netlist: Netlist, measured: Measurement) -> list[int]:
    """Compute units, those that are busy least first."""
    compute = [u for u, unit in enumerate(netlist.units) if unit.kind == SiteKind.COMPUTE]
    return sorted(compute, key=lambda unit: float(measured.unit_time[unit, UnitTime.BUSY]))


def _show_model(results: list[SectionResult], console: Console) -> None:
    # The numbers keep their width; on a narrow terminal a long name goes on in the next line.
    numbers = ("alike", "samples", "cycles/sample", "throughput", "cycles in all")
    table = Table(
        Column("section", overflow="fold"),
        *(Column(name, no_wrap=True) for name in numbers),
    )
    for result in results:
        section, measured = result.section, result.measurement
        table.add_row(
            section.netlist.name, str(section.repeats), str(section.samples),
            f"{measured.cycles_per_sample:.0f}", f"{measured.throughput:.3f}",
            f"{result.cycles_per_input:,.0f}",
        )  # fmt: skip
    console.print(table)
    console.print(f"model: {_cycles_per_input(results):,.0f} cycles per input")


def _cycles_per_input(results: list[SectionResult]) -> float:
    return sum(result.cycles_per_input for result in results)


def write(config: SimulateConfig, results: list[SectionResult], command: str) -> None:
    """Write a result; a decision, pictures and a page per section; the fabric is in every name."""
    fabric = config.fabric
    make_folder(config.output)
    for result in results:
        netlist = result.section.netlist
        stem = file_name(f"{netlist.name}.{fabric.name}")
        path = config.output / f"{stem}.decision.json"
        save_decision(path, fabric, netlist, result.decision)
        for suffix in ("png", "svg"):
            draw_placement(
                fabric, netlist, result.decision, config.output / f"{stem}.{suffix}",
                measurement=result.measurement, title=netlist.name,
            )  # fmt: skip
        write_atomic(config.output / f"{stem}.html", _page(config, result, command).to_html())
    summary = {
        "schema": RESULT_SCHEMA,
        "fabric": fabric.name,
        "seed": config.seed,
        "placement": config.placement,
        "routing": str(config.routing.value),
        "cycles_per_input": finite(_cycles_per_input(results)),
        "sections": [_to_dict(result) for result in results],
    }
    path = config.output / file_name(f"result.{fabric.name}.json")
    write_atomic(path, json.dumps(summary, indent=1) + "\n")


def _page(config: SimulateConfig, result: SectionResult, command: str) -> Page:
    fabric, netlist, measured = config.fabric, result.section.netlist, result.measurement
    frame = Frame(f"placement: {config.placement}", result.decision)
    sections = placement_sections(fabric, netlist, measured, [frame])
    title, subtitle = f"{netlist.name} on {fabric.name}", f"Simulated, seed {config.seed}"
    return Page(title, subtitle, command, asdict(config), sections)


def _to_dict(result: SectionResult) -> dict[str, Any]:
    netlist, measured = result.section.netlist, result.measurement
    names = [unit.name for unit in netlist.units]
    kinds = [kind.name.lower() for kind in UnitTime]
    return {
        "netlist": netlist.name,
        "fingerprint": netlist.fingerprint,
        "repeats": result.section.repeats,
        "samples": result.section.samples,
        "status": measured.status.name.lower(),
        "cycles_per_sample": finite(measured.cycles_per_sample),
        "bound_cycles": measured.bound_cycles,
        "throughput": finite(measured.throughput),
        "first_sample_cycles": measured.first_sample_cycles,
        "cycles_simulated": measured.cycles_simulated,
        "critical": measured.critical,
        "unit_time": {
            name: dict(zip(kinds, map(float, shares), strict=True))
            for name, shares in zip(names, measured.unit_time.round(4), strict=True)
        },
        "link_utilisation": measured.link_utilisation.round(4).tolist(),
    }


def main(config: DictConfig) -> None:
    """Entry point: config -> results -> screen and files."""
    settings = to_dataclass(SimulateConfig, config)
    require_folder(settings.output)
    results = run(settings)
    # First, so that a closed pipe cannot lose the results.
    write(settings, results, command_line("placer.simulate"))
    console = make_console()
    show(settings, results, console)
    console.print(f"written to {settings.output}")
    if any(result.measurement.status != Status.STEADY for result in results):
        console.print("warning: not every section reached a steady state", style="bold red")


if __name__ == "__main__":
    run_command(main, "simulate")
