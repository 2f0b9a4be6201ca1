"""Random netlists: different sizes, depths and shares of the fabric, for studies and datasets."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import numpy as np

from placer.base import DoesNotFitError
from placer.fabric import Fabric
from placer.graph.workloads import FAMILIES, FamilySpec, build, build_layer, sample_layer, sample_spec, with_backward
from placer.netlist import Netlist
from placer.netlist.lowering.lower import lower
from placer.netlist.lowering.rules import macs_for_cycles, plan_section
from placer.netlist.lowering.sections import lower_sections

SECTION = "section"  # a family of netlists, not of workloads: parts of random transformers
MAX_CYCLES = 2048  # per sample of such a part
CYCLES_RANGE = (0.6, 1.7)  # cycles per sample of a random netlist over those asked for
FILL_RANGE = (0.65, 0.95)  # share of the compute units that it may use


def draw_spec(fabric: Fabric, family: str, sample_cycles: int, rng: np.random.Generator) -> tuple[FamilySpec, float]:
    """Draw a workload for about `sample_cycles`, and the share of the fabric that it may fill."""
    low, high = CYCLES_RANGE
    cycles = round(sample_cycles * math.exp(rng.uniform(math.log(low), math.log(high))))
    fill = float(rng.uniform(*FILL_RANGE))
    budget = macs_for_cycles(fabric, cycles, fill)
    return sample_spec(family, budget, rng, sample_cycles=cycles), fill


def draw_netlist(fabric: Fabric, family: str, sample_cycles: int, seed: int, index: int) -> Netlist:
    """Draw netlist number `index` of a family."""
    rng = np.random.default_rng([seed, FAMILIES.index(family), index])
    spec, fill = draw_spec(fabric, family, sample_cycles, rng)
    graph = build(spec)
    return lower(fabric, graph, plan_section(fabric, graph, fill))


def draw_section(fabric: Fabric, rng: np.random.Generator) -> tuple[Netlist, dict[str, Any]]:
    """Draw a section of a random transformer layer; returns what the layer is like, too.

    Forward pass or training step. Only sections that are quick to simulate are drawn. Raises
    DoesNotFitError when the layer does not fit, or has no such section.
    """
    layer, sequence = sample_layer(rng)
    training, fill = bool(rng.integers(2)), float(rng.uniform(*FILL_RANGE))
    graph = build_layer(layer, sequence, SECTION)
    sections = lower_sections(fabric, with_backward(graph) if training else graph, fill)
    cycles = [section.netlist.bound_cycles for section in sections]
    short = {k: s.netlist for k, s in enumerate(sections) if cycles[k] <= MAX_CYCLES}
    if not short:
        raise DoesNotFitError(
            f"cycles per sample of any section of {graph.name!r}", min(cycles), MAX_CYCLES, "draw another layer"
        )
    chosen = int(rng.choice(list(short)))
    about = {"family": SECTION, **asdict(layer), "sequence": sequence, "training": training}
    return short[chosen], {**about, "fill": fill, "section": chosen}
