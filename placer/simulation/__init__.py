"""Cycle-level simulation of decisions; docs/simulator.md says exactly what is simulated."""

from placer.simulation.engine import LONG_SAMPLE_LIMITS, PRECISE_LIMITS, Limits, label_limits
from placer.simulation.measurement import Measurement, Status, UnitTime
from placer.simulation.simulator import simulate, simulate_stack

__all__ = [
    "LONG_SAMPLE_LIMITS",
    "PRECISE_LIMITS",
    "Limits",
    "Measurement",
    "Status",
    "UnitTime",
    "label_limits",
    "simulate",
    "simulate_stack",
]
