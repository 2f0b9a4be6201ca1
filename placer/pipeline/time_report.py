"""The whole time of a network as it is told: facts, tables, values for files, pictures, chapters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from placer.base import Cell, Table, finite, write_atomic
from placer.pipeline.energy import ENERGY_PARTS, joules_text, network_joules, section_joules
from placer.pipeline.network_time import PARTS, NetworkTime, SectionTime
from placer.show import Bar, RoofPoint, roofline_figure, save_figure, time_figure
from placer.show.html import Chapter, Link, PageTable, Text, picture_of

PART_NAMES = {
    "bound": "compute",
    "data": "data",
    "congestion": "congestion",
    "fill": "filling",
    "weights": "weights",
    "switch": "switching",
}
RESOURCE_NAMES = {  # of `SectionRun.limit`
    "unit": "compute units",
    "link": "links",
    "flow": "round trips of flows",
    "read port": "read ports",
    "write port": "write ports",
    "dram": "DRAM",
}
EXPLANATION = (
    "A section runs until the whole batch has passed it. Compute: the work of its slowest compute unit. "
    "Data: what memory ports, DRAM and flows need beyond that, wherever it is placed (the full bound). "
    "Congestion: what the simulated period is longer than both. "
    "Filling: the first sample until the pipeline keeps its pace. "
    "Weights: those that could not be loaded under the section before. Switching: reconfiguration."
)
_TOLD = (  # of a network in a JSON file, null when its time is not known
    "cycles_per_input", "milliseconds_per_input", "inputs_per_second", "share_of_peak", "teraflops", "joules_per_input",
)  # fmt: skip
ENERGY_EXPLANATION = (
    "By the energy table of the fabric, which is stated and not measured. Compute: multiply-accumulates and other "
    "operations. Memory: bytes read and written. Links: bytes from switch to switch, and between units and switches. "
    "DRAM: loads, stores and weights. Static: what the fabric takes while it works or waits."
)


def time_facts(time: NetworkTime) -> dict[str, str]:
    """Return what to say about a network in a few lines."""
    milliseconds, rate = time.milliseconds_per_input, time.inputs_per_second
    facts = {"cycles per input": f"{time.cycles_per_input:,.0f} (batch of {time.batch})"}
    if milliseconds is not None and rate is not None:
        facts["time per input"] = (
            f"{duration_text(milliseconds)} at {time.fabric.clock_mhz} MHz ({_rate_text(rate)} inputs per second)"
        )
    flops = time.teraflops
    of_flops = "" if flops is None else f" ({flops:,.3g} TFLOP/s, two for each multiply-accumulate)"
    facts["share of MAC peak"] = f"{time.share_of_peak:.1%}{of_flops}"
    facts["where the time goes"] = ", ".join(
        f"{PART_NAMES[part]} {time.part(part) / time.cycles_per_input:.1%}" for part in PARTS
    )
    held_up = _congestion(time)
    if held_up:
        facts["most needed in congestion"] = held_up
    joules = network_joules(time)
    if joules is not None and rate is not None:
        total = sum(joules.values())
        facts["energy per input"] = f"{joules_text(total)} by the fabric's table ({total * rate:,.3g} W)"
        facts["where the energy goes"] = ", ".join(f"{part} {value / total:.1%}" for part, value in joules.items())
    return facts


def duration_text(milliseconds: float) -> str:
    """Return a time in milliseconds, or in microseconds where that says more."""
    return f"{milliseconds:,.4g} ms" if milliseconds >= 0.01 else f"{1000 * milliseconds:,.4g} µs"


def _rate_text(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:,.3g}"


def _congestion(time: NetworkTime) -> str:
    """Return the share of the time that congestion costs, by the resource that is needed most."""
    shares: dict[str, float] = {}
    for section in time.sections:
        name = RESOURCE_NAMES.get(section.run.limit, section.run.limit)
        shares[name] = shares.get(name, 0.0) + section.congestion / time.cycles_per_input
    often = sorted(shares.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {share:.1%}" for name, share in often if share >= 0.0005)


def time_table(time: NetworkTime) -> Table:
    """Return a row per section: where its time goes, as shares of it, and its cycles."""
    header = ["#", *PART_NAMES.values(), "cycles per input"]
    rows: list[list[Cell]] = [
        [number, *_shares(section), f"{section.cycles_per_input:,.0f}"] for number, section in enumerate(time.sections)
    ]
    return Table(header, rows, title="where the time goes")


def _shares(section: SectionTime) -> list[str]:
    return [f"{getattr(section, part) / section.cycles_per_input:.1%}" for part in PARTS]


def values_table(time: NetworkTime) -> Table:
    """Return every value of each section, for a CSV file: the data of both pictures."""
    rows = [section_values(section) | _joules_values(time, section) for section in time.sections]
    return Table(["section", *rows[0]], [[number, *row.values()] for number, row in enumerate(rows)], name="time")


def _joules_values(time: NetworkTime, section: SectionTime) -> dict[str, Cell]:
    joules = section_joules(time, section) or {}
    return {f"{part.lower()}_joules_per_input": value for part, value in joules.items()}


def section_values(section: SectionTime) -> dict[str, Cell]:
    """Return what is known about the time of a section: cycles are per input, of all alike ones."""
    return {
        **asdict(section.run),
        **{f"{part}_cycles_per_input": getattr(section, part) for part in PARTS},
        "cycles_per_input": section.cycles_per_input,
        "weight_bytes_ahead": section.weight_bytes_ahead,
        "macs_per_byte": section.macs_per_byte,
        "macs_per_cycle": section.macs_per_cycle,
        "whole_macs_per_cycle": section.whole_macs_per_cycle,
    }


def time_to_dict(time: NetworkTime | None) -> dict[str, Any]:
    """Return the time for a JSON file; without one, because sections are missing, all is null."""
    if time is None:
        return dict.fromkeys(_TOLD)
    milliseconds, rate, flops = time.milliseconds_per_input, time.inputs_per_second, time.teraflops
    joules = network_joules(time)
    return {
        "batch": time.batch,
        "cycles_per_input": finite(time.cycles_per_input),
        "milliseconds_per_input": None if milliseconds is None else finite(milliseconds),
        "inputs_per_second": None if rate is None else finite(rate),
        "share_of_peak": finite(time.share_of_peak),
        "teraflops": None if flops is None else finite(flops),
        "joules_per_input": None if joules is None else finite(sum(joules.values())),
        "time": {part: finite(time.part(part)) for part in PARTS},
        "joules": joules_to_dict(joules),
    }


def joules_to_dict(joules: dict[str, float] | None) -> dict[str, float | None] | None:
    """Return where the energy goes, in joules per input, for a JSON file."""
    return None if joules is None else {part.lower(): finite(value) for part, value in joules.items()}


def section_time_to_dict(section: SectionTime) -> dict[str, float | None]:
    """Return where the time of a section goes, in cycles per input, for a JSON file."""
    return {part: finite(getattr(section, part)) for part in (*PARTS, "cycles_per_input")}


def time_figures(time: NetworkTime, name: str) -> dict[str, Figure]:
    """Return the pictures of a network by the name of their file: bars of time and energy, and roofline."""
    milliseconds = time.milliseconds_per_input
    of_time = "" if milliseconds is None else f", {duration_text(milliseconds)}"
    title = f"{name}: {time.cycles_per_input:,.0f} cycles{of_time} per input, {time.share_of_peak:.0%} of the MAC peak"
    bars = [
        Bar(_label(number, section), tuple(getattr(section, part) for part in PARTS))
        for number, section in enumerate(time.sections)
    ]
    points = [_point(number, section) for number, section in enumerate(time.sections)]
    fabric = time.fabric
    figures = {
        "time": time_figure(bars, list(PART_NAMES.values()), title, f"cycles per input, batch of {time.batch}"),
        "roofline": roofline_figure(
            points, fabric.peak_macs_per_cycle, fabric.dram_bytes_per_cycle,
            f"{name}: sections under the roofs of {fabric.name}, batch of {time.batch}",
        ),
    }  # fmt: skip
    joules = network_joules(time)
    if joules is not None:
        figures["energy"] = _energy_figure(time, name, sum(joules.values()))
    return figures


def _energy_figure(time: NetworkTime, name: str, total: float) -> Figure:
    bars = []
    for number, section in enumerate(time.sections):
        joules = section_joules(time, section) or {}
        bars.append(Bar(_label(number, section), tuple(1e6 * joules[part] for part in ENERGY_PARTS)))
    title = f"{name}: {joules_text(total)} per input by the table of {time.fabric.name}"
    return time_figure(bars, ENERGY_PARTS, title, f"µJ per input, batch of {time.batch}")


def _label(number: int, section: SectionTime) -> str:
    run = section.run
    ops = run.first_op if run.first_op == run.last_op else f"{run.first_op} .. {run.last_op}"
    return f"{number}: {ops}" + (f"  x {run.repeats}" if run.repeats > 1 else "")


def _point(number: int, section: SectionTime) -> RoofPoint:
    return RoofPoint(
        str(number), section.macs_per_byte, section.macs_per_cycle, section.whole_macs_per_cycle, limit_of(section)
    )


def limit_of(section: SectionTime) -> str:
    """Say what limits a section: the largest part of its time, and the resource behind it."""
    largest = max(PARTS, key=lambda part: float(getattr(section, part)))
    if largest in ("fill", "weights", "switch"):
        return PART_NAMES[largest]
    resource = RESOURCE_NAMES.get(section.run.limit, section.run.limit)
    if largest == "data":
        return f"data ({section.run.full_bound_resource})"
    if largest == "congestion":
        return f"congestion ({resource})"
    return resource if section.run.limit == "unit" else f"compute units, then {resource}"


def time_chapters(time: NetworkTime, name: str, pages: Mapping[str, str] | None = None) -> list[Chapter]:
    """Return what a page says of the whole time; `pages` are those of the sections, by netlist."""
    facts = [[key, value] for key, value in time_facts(time).items()]
    figures = time_figures(time, name)
    bars = picture_of(figures["time"], "Time by section, by where it goes; the table below tells the same")
    roof = picture_of(
        figures["roofline"], "Sections under the roofs of compute and DRAM; the table below tells the same"
    )
    chapters = [
        Chapter("The whole time", [PageTable("The network", ["", "value"], facts), Text(EXPLANATION), bars]),
        Chapter("Sections", [_sections(time, pages or {})]),
        Chapter("Roofline", [roof, _roofline(time)]),
    ]
    if "energy" in figures:
        picture = picture_of(figures["energy"], "Energy by section, by where it goes; the table below tells the same")
        chapters.append(Chapter("Energy", [Text(ENERGY_EXPLANATION), picture, _energy(time)]))
    return chapters


def _energy(time: NetworkTime) -> PageTable:
    header = ["section", "ops", "per input", *ENERGY_PARTS]
    rows = []
    for number, section in enumerate(time.sections):
        joules = section_joules(time, section) or {}
        total = sum(joules.values())
        shares = [f"{value / total:.1%}" for value in joules.values()]
        rows.append([str(number), _label(number, section).partition(": ")[2], joules_text(total), *shares])
    return PageTable("Energy of the sections", header, rows)


def _sections(time: NetworkTime, pages: Mapping[str, str]) -> PageTable:
    header = ["section", "ops", "alike", "samples", *PART_NAMES.values(), "cycles per input"]
    rows = [
        [
            _link(number, section, pages), _label(number, section).partition(": ")[2], section.run.repeats,
            section.run.samples, *_shares(section), f"{section.cycles_per_input:,.0f}",
        ]
        for number, section in enumerate(time.sections)
    ]  # fmt: skip
    return PageTable("Where the time of each section goes", header, rows)


def _link(number: int, section: SectionTime, pages: Mapping[str, str]) -> str | Link:
    page = pages.get(section.run.name)
    return str(number) if page is None else Link(f"{number}: {section.run.name}", page)


def _roofline(time: NetworkTime) -> PageTable:
    header = ["section", "MACs per byte", "MACs per cycle", "of the peak", "with all", "limited by", "most needed"]
    peak = time.fabric.peak_macs_per_cycle
    rows = [
        [
            str(number), f"{section.macs_per_byte:,.1f}", f"{section.macs_per_cycle:,.0f}",
            f"{section.macs_per_cycle / peak:.1%}", f"{section.whole_macs_per_cycle:,.0f}",
            limit_of(section), RESOURCE_NAMES.get(section.run.limit, section.run.limit),
        ]
        for number, section in enumerate(time.sections)
    ]  # fmt: skip
    return PageTable("Rates of the sections; with all: filling, weights and switching too", header, rows)


def write_time(folder: Path, stem: str, time: NetworkTime, name: str) -> None:
    """Write the pictures and their values: `<kind>.<stem>.png`, `.svg` and `time.<stem>.csv`."""
    write_atomic(folder / f"time.{stem}.csv", values_table(time).csv())
    for kind, figure in time_figures(time, name).items():
        for suffix in ("png", "svg"):
            save_figure(figure, folder / f"{kind}.{stem}.{suffix}", kind)
