"""Cycle-level simulation of decisions; docs/simulator.md says exactly what is simulated."""

from placer.simulation.engine import PRECISE_LIMITS, Limits
from placer.simulation.measurement import Measurement, Status, UnitTime
from placer.simulation.simulator import simulate, simulate_stack

__all__ = [
    "PRECISE_LIMITS",
    "Limits",
    "Measurement",
    "Status",
    "UnitTime",
    "simulate",
    "simulate_stack",
]
