"""What `python -m placer.simulate` and `python -m placer.place` print and write."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, astuple, fields
from pathlib import Path
from typing import Any, Literal, TypeVar

from rich.console import Console
from rich.table import Column
from rich.table import Table as ScreenTable

from placer.annealing import AnnealResult, Round
from placer.base import Table, file_name, finite, make_folder, plain, write_atomic
from placer.decision.routing import save_decision
from placer.fabric import Fabric, SiteKind
from placer.netlist import Netlist, full_bound
from placer.pipeline.energy import section_joules
from placer.pipeline.network_time import NetworkTime, time_of
from placer.pipeline.page import placing_page, simulated_page, total_page
from placer.pipeline.placing import INTERVAL, Judged, PlaceConfig, PlacedSection
from placer.pipeline.simulating import SimulateConfig, SimulatedSection
from placer.pipeline.source import Lowered, SectionResult, Source, section_stem
from placer.pipeline.time_report import (
    joules_to_dict,
    section_time_to_dict,
    time_chapters,
    time_facts,
    time_table,
    time_to_dict,
    write_time,
)
from placer.show import draw_curve, draw_placement
from placer.show.html import Chapter
from placer.simulation import Measurement, UnitTime
from placer.simulation.recording import MAX_SPANS, write_timeline

log = logging.getLogger(__name__)

RESULT_SCHEMA = 2
NUM_STALLS = 5  # units listed in the summary
NUM_REASONS = 3  # for refused moves, listed in the summary

R = TypeVar("R", bound=SectionResult)


def show_simulated(config: SimulateConfig, results: Sequence[SimulatedSection], console: Console) -> None:
    """Print a summary of each section, and of all of them together."""
    for result in results:
        _show_simulated(config.fabric, result, console)
    if len(results) > 1:
        columns = {
            "cycles/sample": lambda result: f"{result.measurement.cycles_per_sample:.0f}",
            "throughput": lambda result: f"{result.measurement.throughput:.3f}",
        }
        _show_model(results, columns, console)
    _show_time(time_of(config.fabric, results, config.batch), console)


def _show_simulated(fabric: Fabric, result: SimulatedSection, console: Console) -> None:
    netlist, measured = result.section.netlist, result.measurement
    console.rule(f"{netlist.name} on {fabric.name}")
    full = full_bound(fabric, netlist)
    size = f"{netlist.num_units} units, {netlist.num_flows} flows, {netlist.num_stages} stages"
    facts = {
        "status": measured.status.name.lower(),
        "netlist": size,
        "cycles per sample": f"{measured.cycles_per_sample:.1f}",
        "bound": f"{measured.bound_cycles} (work of the slowest unit)",
        "full bound": f"{full.cycles:.0f} ({full.resource})",
        "normalised throughput": f"{measured.throughput:.3f}",
        "first sample after": f"{measured.first_sample_cycles} cycles",
        "critical resource": measured.critical,
    }
    if result.beside is not None:
        other = result.beside.measurement
        facts["beside"] = f"{other.cycles_per_sample:.1f} cycles per sample, throughput {other.throughput:.3f}"
    console.print(_grid(facts))
    stalls = ScreenTable(
        Column("unit", overflow="fold"), "op", "busy", "starved", "blocked", "port wait",
        title="compute units that wait most",
    )  # fmt: skip
    for unit in _idlest(netlist, measured)[:NUM_STALLS]:
        shares = [f"{share:.0%}" for share in measured.unit_time[unit]]
        stalls.add_row(netlist.units[unit].name, netlist.units[unit].op, *shares)
    console.print(stalls)


def _grid(facts: dict[str, str]) -> ScreenTable:
    grid = ScreenTable.grid(padding=(0, 2))
    for name, fact in facts.items():
        grid.add_row(name, fact)
    return grid


def _idlest(netlist: Netlist, measured: Measurement) -> list[int]:
    """Return the compute units, those that are busy least first."""
    compute = [u for u, unit in enumerate(netlist.units) if unit.kind == SiteKind.COMPUTE]
    return sorted(compute, key=lambda unit: float(measured.unit_time[unit, UnitTime.BUSY]))


def show_placed(config: PlaceConfig, placed: Sequence[PlacedSection], console: Console) -> None:
    """Print a summary of each section, and of all of them together."""
    for section in placed:
        _show_placed(config, section, console)
    if len(placed) > 1:
        columns = {
            "start": lambda one: f"{one.start.measurement.throughput:.3f}",
            "result": lambda one: f"{one.measurement.throughput:.3f}",
        }
        caption = "start, result: simulated throughput"
        _show_model(placed, columns, console, caption)
    if not placed[-1].is_interrupted:
        _show_time(time_of(config.fabric, placed, config.batch), console)


def _show_placed(config: PlaceConfig, placed: PlacedSection, console: Console) -> None:
    best, start, result = placed.search.best, placed.start, placed.result
    console.rule(f"{placed.section.netlist.name} on {config.fabric.name}")
    table = ScreenTable("", Column("start", justify="right"), Column("result", justify="right"))
    rows: dict[str, Callable[[Judged], str]] = {
        "simulated throughput": lambda one: f"{one.measurement.throughput:.4f}",
        f"predicted ({config.cost.name})": lambda one: f"{one.predicted:.4f}",
        f"{INTERVAL:.0%} interval": _interval,
        "energy": lambda one: f"{one.energy:.4f}",
        "cycles per sample": lambda one: f"{one.measurement.cycles_per_sample:.1f}",
        "simulation": lambda one: one.measurement.status.name.lower(),
    }
    if result.interval is None:
        del rows[f"{INTERVAL:.0%} interval"]
    for name, tell in rows.items():
        table.add_row(name, tell(start), tell(result))
    console.print(table)
    search, status = best.result, best.result.status.value
    status = f"interrupted ({status})" if placed.search.is_interrupted else status
    facts = {
        "search": f"{status} after {placed.seconds:.1f} s, everything counted",
        "moves": f"{search.moves:,} ({search.moves_per_second:,.0f} per second)",
        "refused": _reasons(search),
        "routes": placed.routing.value.replace("_", " "),
        "bottleneck": result.measurement.critical,
    }
    if config.starts > 1:
        energies = ", ".join(f"{s.number}: {s.result.energy:.4f}" for s in placed.search.starts)
        facts["energies by start"] = f"{energies}; best: {best.number}"
    console.print(_grid(facts))
    if result.measurement.throughput < start.measurement.throughput:
        console.print(
            "warning: the cost model prefers the result, the simulation prefers the start: this "
            "model misleads the search"
        )


def _interval(judged: Judged) -> str:
    return "" if judged.interval is None else "{:.3f} to {:.3f}".format(*judged.interval)


def _reasons(search: AnnealResult) -> str:
    """Return the usual reasons why moves did not happen, as shares of all moves."""
    often = sorted(search.refused.items(), key=lambda item: -item[1])[:NUM_REASONS]
    shares = (f"{name.replace('_', ' ')} {count / max(1, search.moves):.0%}" for name, count in often if count)
    return ", ".join(shares) or "none"


def _show_model(
    results: Sequence[R], columns: dict[str, Callable[[R], str]], console: Console, caption: str | None = None
) -> None:
    """Print a row for each section; a caption goes with numbers to the right."""
    # The numbers keep their width; on a narrow terminal a long name goes on in the next line.
    justify: Literal["left", "right"] = "left" if caption is None else "right"
    names = ("alike", "samples", *columns)
    numbers = [Column(name, no_wrap=True, justify=justify) for name in names]
    table = ScreenTable(Column("section", overflow="fold"), *numbers, caption=caption)
    for result in results:
        section = result.section
        table.add_row(
            section.netlist.name, str(section.repeats), str(section.samples),
            *(tell(result) for tell in columns.values()),
        )  # fmt: skip
    console.print(table)


def _show_time(time: NetworkTime, console: Console) -> None:
    """Print the time of the whole network, and where it goes by section if there are several."""
    if len(time.sections) > 1:
        console.print(time_table(time).screen())
    console.print(_grid(time_facts(time)))


def write_plan(config: Source, lowered: Lowered) -> None:
    """Write the plan of the network: `plan=FILE` builds the same netlists again."""
    make_folder(config.output)
    write_atomic(config.output / file_name(f"plan.{config.fabric.name}.json"), lowered.plan.to_json())


def write_simulated(config: SimulateConfig, results: Sequence[SimulatedSection], command: str) -> None:
    """Write a result; a decision, pictures and a page per section; the fabric is in every name."""
    make_folder(config.output)
    time = time_of(config.fabric, results, config.batch)
    more = _write_time(config, results, time, command)
    for result in results:
        _write_section(config, result, simulated_page(config, result, command, more).to_html())
    head = {"placement": config.placement, "beside": config.beside, "routing": config.routing}
    _write_summary(config, head, time, map(_simulated_to_dict, results))


def write_placed(config: PlaceConfig, placed: Sequence[PlacedSection], command: str) -> None:
    """Write a result, and a decision, a curve, pictures and a page per section."""
    make_folder(config.output)
    is_interrupted = placed[-1].is_interrupted
    time = None if is_interrupted else time_of(config.fabric, placed, config.batch)
    more = [] if time is None else _write_time(config, placed, time, command)
    for one in placed:
        page = placing_page(config, one, command, more).to_html(is_interrupted=one.is_interrupted)
        stem = _write_section(config, one, page)
        curve = one.search.best.result.curve
        rows = [[str(value) for value in astuple(point)] for point in curve]
        table = Table([field.name for field in fields(Round)], rows)
        write_atomic(f"{stem}.curve.csv", table.csv())
        for suffix in ("png", "svg"):
            draw_curve(curve, Path(f"{stem}.curve.{suffix}"), one.section.netlist.name)
    head = {"cost": config.cost.name, "is_interrupted": is_interrupted}
    _write_summary(config, head, time, map(_placed_to_dict, placed), {"config": asdict(config)})


def run_name(config: PlaceConfig, lowered: Lowered) -> str:
    """Return how a run of this placement is listed."""
    name = lowered.sections[0].netlist.name
    network = name if len(lowered.sections) == 1 else name.rpartition(".")[0]
    return f"{network} on {config.fabric.name} by {config.cost.name}, seed {config.seed}"


def placed_metrics(config: PlaceConfig, placed: Sequence[PlacedSection]) -> dict[str, float]:
    """Return the figures of a placement: of the whole network if all of it was placed, and of each section."""
    found = {} if placed[-1].is_interrupted else time_to_dict(time_of(config.fabric, placed, config.batch))
    metrics = {name: value for name, value in found.items() if isinstance(value, int | float)}
    for number, one in enumerate(placed):
        metrics[f"section{number}_throughput"] = one.measurement.throughput
        metrics[f"section{number}_predicted"] = one.result.predicted
        metrics[f"section{number}_search_seconds"] = one.seconds
    return metrics


def written_files(config: PlaceConfig, lowered: Lowered) -> list[Path]:
    """Return the result, the plan and the decisions that were written."""
    fabric = config.fabric
    names = [file_name(f"{kind}.{fabric.name}.json") for kind in ("result", "plan")]
    names += [f"{section_stem(fabric, section.netlist)}.decision.json" for section in lowered.sections]
    return [path for name in names if (path := config.output / name).exists()]


def _write_time(config: Source, results: Sequence[SectionResult], time: NetworkTime, command: str) -> list[Chapter]:
    """Write values and pictures of the whole time, and a page of several sections.

    Return the chapters about it for the page of an only section.
    """
    fabric, netlists = config.fabric, [result.section.netlist for result in results]
    name = netlists[0].name if len(results) == 1 else netlists[0].name.rpartition(".")[0]
    write_time(config.output, file_name(fabric.name), time, name)
    if len(results) == 1:
        return time_chapters(time, name)
    pages = {netlist.name: f"{section_stem(fabric, netlist)}.html" for netlist in netlists}
    page = total_page(config, time, name, pages, command).to_html()
    write_atomic(config.output / file_name(f"total.{fabric.name}.html"), page)
    return []


def _write_section(config: Source, result: SectionResult, page: str) -> Path:
    fabric, netlist = config.fabric, result.section.netlist
    stem = config.output / section_stem(fabric, netlist)
    save_decision(Path(f"{stem}.decision.json"), fabric, netlist, result.decision)
    for suffix in ("png", "svg"):
        draw_placement(
            fabric, netlist, result.decision, Path(f"{stem}.{suffix}"),
            measurement=result.measurement, title=netlist.name,
        )  # fmt: skip
    write_atomic(f"{stem}.html", page)
    write_timelines(config, [result])
    return stem


def write_timelines(config: Source, results: Sequence[SectionResult]) -> None:
    """Write the timeline of every section, if any samples are to be recorded."""
    fabric = config.fabric
    for result in results if config.timeline else ():
        netlist = result.section.netlist
        path = config.output / f"timeline.{section_stem(fabric, netlist)}.json.gz"
        recording = write_timeline(path, fabric, netlist, result.decision, config.timeline)
        if recording.is_cut:
            cycles = recording.end - recording.begin
            log.warning("%s: more to tell than %d spans, so it ends after %d cycles", path.name, MAX_SPANS, cycles)


def _write_summary(
    config: Source,
    head: dict[str, Any],
    time: NetworkTime | None,
    sections: Iterable[dict[str, Any]],
    more: dict[str, Any] | None = None,
) -> None:
    told = list(sections)
    if time is not None:
        told = [
            entry | {"time": section_time_to_dict(section), "joules": joules_to_dict(section_joules(time, section))}
            for entry, section in zip(told, time.sections, strict=True)
        ]
    summary = {
        "schema": RESULT_SCHEMA,
        "fabric": config.fabric.name,
        "seed": config.seed,
        **head,
        **time_to_dict(time),
        "sections": told,
        **(more or {}),
    }
    path = config.output / file_name(f"result.{config.fabric.name}.json")
    write_atomic(path, json.dumps(summary, indent=1, default=plain) + "\n")


def _section_to_dict(result: SectionResult) -> dict[str, Any]:
    section = result.section
    return {
        "netlist": section.netlist.name,
        "fingerprint": section.netlist.fingerprint,
        "repeats": section.repeats,
        "samples": section.samples,
    }


def _simulated_to_dict(result: SimulatedSection) -> dict[str, Any]:
    beside = {} if result.beside is None else {"beside": _measured_to_dict(result.beside)}
    return _section_to_dict(result) | _measured_to_dict(result) | beside


def _measured_to_dict(result: SectionResult) -> dict[str, Any]:
    netlist, measured = result.section.netlist, result.measurement
    kinds = [kind.name.lower() for kind in UnitTime]
    return {
        "status": measured.status.name.lower(),
        "cycles_per_sample": finite(measured.cycles_per_sample),
        "bound_cycles": measured.bound_cycles,
        "throughput": finite(measured.throughput),
        "first_sample_cycles": measured.first_sample_cycles,
        "cycles_simulated": measured.cycles_simulated,
        "critical": measured.critical,
        "unit_time": {
            unit.name: dict(zip(kinds, map(float, shares), strict=True))
            for unit, shares in zip(netlist.units, measured.unit_time.round(4), strict=True)
        },
        "link_utilisation": measured.link_utilisation.round(4).tolist(),
    }


def _placed_to_dict(placed: PlacedSection) -> dict[str, Any]:
    search, best = placed.search, placed.search.best.result
    return _section_to_dict(placed) | {
        "status": best.status,
        "is_interrupted": search.is_interrupted,
        "energy": placed.result.energy,
        "routing": placed.routing,
        "bound_cycles": placed.section.netlist.bound_cycles,
        "start": _judged_to_dict(placed.start),
        "result": _judged_to_dict(placed.result),
        "moves": best.moves,
        "search_seconds": round(placed.seconds, 3),  # pool, walks and simulations of finalists
        "seconds": round(best.seconds, 3),  # of the best walk
        "moves_per_second": round(best.moves_per_second, 1),
        "accepted": best.accepted,
        "refused": best.refused,
        "best_start": search.best.number,
        "starts": [
            {
                "number": start.number,
                "energy": start.result.energy,
                "status": start.result.status,
                "moves": start.result.moves,
                "seconds": round(start.result.seconds, 3),
            }
            for start in search.starts
        ],
    }


def _judged_to_dict(judged: Judged) -> dict[str, Any]:
    measured = judged.measurement
    return {
        "energy": judged.energy,
        "predicted_throughput": judged.predicted,
        "predicted_interval": judged.interval,
        "simulation": measured.status.name.lower(),
        "cycles_per_sample": finite(measured.cycles_per_sample),
        "throughput": finite(measured.throughput),
        "critical": measured.critical,
    }
