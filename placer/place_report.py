"""What `python -m placer.place` prints and writes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Column, Table

from placer.annealing import AnnealResult
from placer.annealing.multistart import StartResult
from placer.command import file_name, finite
from placer.decision_file import save_decision
from placer.draw import draw_placement
from placer.draw_curve import curve_csv, draw_curve
from placer.files import make_folder, write_atomic
from placer.html.searched import placing_page
from placer.placing import Figures, PlaceConfig, PlacedSection

RESULT_SCHEMA = 1
NUM_REASONS = 3  # for refused moves, listed in the summary


def show(config: PlaceConfig, placed: Sequence[PlacedSection], console: Console) -> None:
    """Print a summary of each section, and of all of them together."""
    for section in placed:
        _show_section(config, section, console)
    if len(placed) > 1:
        _show_model(placed, console)


def _show_section(config: PlaceConfig, placed: PlacedSection, console: Console) -> None:
    netlist, best = placed.section.netlist, placed.search.best
    console.rule(f"{netlist.name} on {config.fabric.name}")
    table = Table("", Column("start", justify="right"), Column("result", justify="right"))
    start, result = placed.start, placed.result
    for name, one, two in (
        ("simulated throughput", start.measurement.throughput, result.measurement.throughput),
        (f"predicted ({config.cost.name})", start.predicted, result.predicted),
        ("energy", start.energy, result.energy),
    ):
        table.add_row(name, f"{one:.4f}", f"{two:.4f}")
    one, two = start.measurement.cycles_per_sample, result.measurement.cycles_per_sample
    table.add_row("cycles per sample", f"{one:.1f}", f"{two:.1f}")
    statuses = [figures.measurement.status.name.lower() for figures in (start, result)]
    table.add_row("simulation", *statuses)
    console.print(table)
    facts = Table.grid(padding=(0, 2))
    search = best.result
    facts.add_row("search", f"{_status(placed)} after {search.seconds:.1f} s")
    facts.add_row("moves", f"{search.moves:,} ({search.moves_per_second:,.0f} per second)")
    facts.add_row("refused", _reasons(search))
    facts.add_row("routes", placed.routing.value.replace("_", " "))
    facts.add_row("bottleneck", result.measurement.critical)
    if config.starts > 1:
        energies = ", ".join(f"{s.number}: {s.result.energy:.4f}" for s in placed.search.starts)
        facts.add_row("energies by start", f"{energies}; best: {best.number}")
    console.print(facts)
    if result.measurement.throughput < start.measurement.throughput:
        console.print(
            "warning: the cost model prefers the result, the simulation prefers the start: this "
            "model misleads the search"
        )


def _status(placed: PlacedSection) -> str:
    status = placed.search.best.result.status.value
    return f"interrupted ({status})" if placed.search.is_interrupted else status


def _reasons(search: AnnealResult) -> str:
    """The usual reasons why moves did not happen, as shares of all moves."""
    often = sorted(search.refused.items(), key=lambda item: -item[1])[:NUM_REASONS]
    shares = (
        f"{name.replace('_', ' ')} {count / max(1, search.moves):.0%}"
        for name, count in often
        if count
    )
    return ", ".join(shares) or "none"


def _show_model(placed: Sequence[PlacedSection], console: Console) -> None:
    numbers = ("alike", "samples", "start", "result", "cycles in all")
    table = Table(
        Column("section", overflow="fold"),
        *(Column(name, no_wrap=True, justify="right") for name in numbers),
        caption="start, result: simulated throughput",
    )
    for one in placed:
        table.add_row(
            one.section.netlist.name, str(one.section.repeats), str(one.section.samples),
            f"{one.start.measurement.throughput:.3f}", f"{one.result.measurement.throughput:.3f}",
            f"{one.cycles_per_input:,.0f}",
        )  # fmt: skip
    console.print(table)
    if not placed[-1].is_interrupted:
        total = sum(section.cycles_per_input for section in placed)
        console.print(f"model: {total:,.0f} cycles per input")


def write(config: PlaceConfig, placed: Sequence[PlacedSection], command: str) -> None:
    """Write a result, and a decision, a curve, pictures and a page per section."""
    make_folder(config.output)
    for section in placed:
        _write_section(config, section, command)
    is_interrupted = placed[-1].is_interrupted
    cycles = float("nan") if is_interrupted else sum(one.cycles_per_input for one in placed)
    summary = {
        "schema": RESULT_SCHEMA,
        "fabric": config.fabric.name,
        "seed": config.seed,
        "cost": config.cost.name,
        "is_interrupted": is_interrupted,
        "cycles_per_input": finite(cycles),
        "sections": [_section_to_dict(section) for section in placed],
        "config": asdict(config),
    }
    path = config.output / file_name(f"result.{config.fabric.name}.json")
    write_atomic(path, json.dumps(summary, indent=1, default=_plain) + "\n")


def _write_section(config: PlaceConfig, placed: PlacedSection, command: str) -> None:
    fabric, netlist = config.fabric, placed.section.netlist
    stem = config.output / file_name(f"{netlist.name}.{fabric.name}")
    save_decision(Path(f"{stem}.decision.json"), fabric, netlist, placed.decision)
    curve = placed.search.best.result.curve
    write_atomic(Path(f"{stem}.curve.csv"), curve_csv(curve))
    for suffix in ("png", "svg"):
        draw_placement(
            fabric, netlist, placed.decision, Path(f"{stem}.{suffix}"),
            measurement=placed.result.measurement, title=netlist.name,
        )  # fmt: skip
        draw_curve(curve, Path(f"{stem}.curve.{suffix}"), netlist.name)
    page = placing_page(config, placed, command).to_html(is_interrupted=placed.is_interrupted)
    write_atomic(Path(f"{stem}.html"), page)


def _plain(value: Any) -> str:
    return str(value.value if isinstance(value, Enum) else value)


def _section_to_dict(placed: PlacedSection) -> dict[str, Any]:
    section, search = placed.section, placed.search
    best = search.best.result
    return {
        "netlist": section.netlist.name,
        "fingerprint": section.netlist.fingerprint,
        "repeats": section.repeats,
        "samples": section.samples,
        "status": best.status.value,
        "is_interrupted": search.is_interrupted,
        "energy": placed.result.energy,
        "routing": placed.routing.value,
        "bound_cycles": section.netlist.bound_cycles,
        "start": _figures_to_dict(placed.start),
        "result": _figures_to_dict(placed.result),
        "moves": best.moves,
        "seconds": round(best.seconds, 3),
        "moves_per_second": round(best.moves_per_second, 1),
        "accepted": best.accepted,
        "refused": best.refused,
        "best_start": search.best.number,
        "starts": [_start_to_dict(start) for start in search.starts],
    }


def _figures_to_dict(figures: Figures) -> dict[str, Any]:
    measured = figures.measurement
    return {
        "energy": figures.energy,
        "predicted_throughput": figures.predicted,
        "simulation": measured.status.name.lower(),
        "cycles_per_sample": finite(measured.cycles_per_sample),
        "throughput": finite(measured.throughput),
        "critical": measured.critical,
    }


def _start_to_dict(start: StartResult) -> dict[str, Any]:
    result = start.result
    return {
        "number": start.number,
        "energy": result.energy,
        "status": result.status.value,
        "moves": result.moves,
        "seconds": round(result.seconds, 3),
    }
