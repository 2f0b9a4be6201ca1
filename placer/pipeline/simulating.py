"""Lower a workload, place it at random or as a file says, and simulate it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from placer.base import InputError
from placer.decision import Decisions, check, random_sites
from placer.decision.routing import RoutingMethod, load_decision, route
from placer.netlist import Netlist
from placer.netlist.lowering import Section
from placer.pipeline.source import SectionResult, Source, section_stem
from placer.simulation import simulate


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulateConfig(Source):
    """What `conf/simulate.yaml` holds."""

    placement: str
    beside: Path | None = None
    routing: RoutingMethod


@dataclass(frozen=True, slots=True)
class SimulatedSection(SectionResult):
    """One section, placed as asked for and simulated, and another placement of it."""

    beside: SectionResult | None = None


def simulate_sections(
    config: SimulateConfig,
    sections: Sequence[Section],
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[SimulatedSection]:
    """Simulate every section of the configured graph; `on_progress` is told of (finished, all)."""
    _require_places(config, sections)
    results: list[SimulatedSection] = []
    for section in sections:
        on_progress(len(results), len(sections))
        beside = None
        if config.beside is not None:
            beside = _simulated(config, section, _load(config, config.beside, section.netlist))
        one = _simulated(config, section, _place(config, section.netlist))
        results.append(SimulatedSection(section, one.decision, one.measurement, beside))
    return results


def _require_places(config: SimulateConfig, sections: Sequence[Section]) -> None:
    """Find out before the first simulation that a file cannot place several sections."""
    given = {"placement": None if config.placement == "random" else Path(config.placement), "beside": config.beside}
    for setting, path in given.items():
        if path is not None and len(sections) > 1 and not path.is_dir():
            raise InputError(
                f"{setting}={path}: the graph has {len(sections)} sections, a decision file places one; "
                "name a folder with a file for each, or use placement=random"
            )


def _simulated(config: SimulateConfig, section: Section, decision: Decisions) -> SectionResult:
    check(config.fabric, section.netlist, decision)
    return SectionResult(section, decision, simulate(config.fabric, section.netlist, decision)[0])


def _place(config: SimulateConfig, netlist: Netlist) -> Decisions:
    if config.placement == "random":
        sites = random_sites(config.fabric, netlist, 1, config.seed)
        return route(config.fabric, netlist, sites, method=config.routing, seed=config.seed)
    return _load(config, Path(config.placement), netlist)


def _load(config: SimulateConfig, path: Path, netlist: Netlist) -> Decisions:
    """Read a decision file, or that of the netlist in a folder of results."""
    if path.is_dir():
        path = path / f"{section_stem(config.fabric, netlist)}.decision.json"
    return load_decision(path, config.fabric, netlist)
