"""Cycle-level simulation of decisions; docs/simulator.md says exactly what is simulated."""

from placer.simulation.critical import CriticalResource, ResourceKind, find_critical, link_name
from placer.simulation.engine import (
    LONG_SAMPLE_CYCLES,
    LONG_SAMPLE_LIMITS,
    PRECISE_LIMITS,
    Limits,
    Outcome,
    label_limits,
)
from placer.simulation.measurement import Measurement, Status, UnitTime
from placer.simulation.short import ShortLimits, ShortRun, short_machine, simulate_short
from placer.simulation.simulator import replay, simulate, simulate_stack
from placer.simulation.traffic import Read, Replay, Script, Step, Tile, Traffic, What, build_traffic
