"""The energy of a network by the table of its fabric, in joules per input.

Counted is what a sample does: multiply-accumulates, cycles of other operations, bytes through the ports
of memories, over links and through DRAM; per batch the loading of weights (DRAM and the write into
memory); and what the fabric takes all the time. The table is stated and not measured
(`conf/fabric/parts/base.yaml`), so compare designs and placements by it, not chips.
"""

from __future__ import annotations

import math

from placer.fabric import static_watts
from placer.pipeline.network_time import NetworkTime, SectionTime

ENERGY_PARTS = ("compute", "memory", "links", "DRAM", "static")


def section_joules(time: NetworkTime, section: SectionTime) -> dict[str, float] | None:
    """Return the joules per input of all alike sections, by part; None when table or clock are not stated."""
    fabric, run = time.fabric, section.run
    energy, watts = fabric.energy, static_watts(fabric)
    if energy is None or watts is None or not fabric.clock_mhz:
        return None
    samples, weights = run.repeats * run.samples, run.repeats * run.weight_bytes / time.batch
    picojoules = {
        "compute": samples * (run.macs * energy.mac_pj + run.vector_cycles * energy.vector_pj),
        "memory": (samples * run.memory_bytes + weights) * energy.memory_byte_pj,
        "links": samples * (run.link_bytes * energy.link_byte_pj + run.local_bytes * energy.local_byte_pj),
        "DRAM": (samples * run.dram_bytes + weights) * energy.dram_byte_pj,
    }
    seconds = section.cycles_per_input / (fabric.clock_mhz * 1e6)
    return {part: value * 1e-12 for part, value in picojoules.items()} | {"static": seconds * watts}


def network_joules(time: NetworkTime) -> dict[str, float] | None:
    """Return the joules per input of a network, by part; None when table or clock are not stated."""
    sections = [section_joules(time, section) for section in time.sections]
    known = [joules for joules in sections if joules is not None]
    if not known:
        return None
    return {part: sum(joules[part] for joules in known) for part in ENERGY_PARTS}


def joules_text(joules: float) -> str:
    """Return an energy with a unit that suits it."""
    if math.isnan(joules):
        return "not measured"
    for size, unit in ((1.0, "J"), (1e-3, "mJ"), (1e-6, "µJ")):
        if joules >= size:
            return f"{joules / size:,.3g} {unit}"
    return f"{joules / 1e-9:,.3g} nJ"
