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
from placer.pipeline.source import SectionResult, Source
from placer.simulation import simulate


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulateConfig(Source):
    """What `conf/simulate.yaml` holds."""

    placement: str
    routing: RoutingMethod


def simulate_sections(
    config: SimulateConfig,
    sections: Sequence[Section],
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[SectionResult]:
    """Simulate every section of the configured graph; `on_progress` is told of (finished, all)."""
    if config.placement != "random" and len(sections) > 1:
        raise InputError(
            f"placement={config.placement}: the graph has {len(sections)} sections, a decision "
            "file places one; use placement=random"
        )
    results: list[SectionResult] = []
    for section in sections:
        on_progress(len(results), len(sections))
        decision = _place(config, section.netlist)
        check(config.fabric, section.netlist, decision)
        measurement = simulate(config.fabric, section.netlist, decision)[0]
        results.append(SectionResult(section, decision, measurement))
    return results


def _place(config: SimulateConfig, netlist: Netlist) -> Decisions:
    if config.placement == "random":
        sites = random_sites(config.fabric, netlist, 1, config.seed)
        return route(config.fabric, netlist, sites, method=config.routing, seed=config.seed)
    return load_decision(Path(config.placement), config.fabric, netlist)
