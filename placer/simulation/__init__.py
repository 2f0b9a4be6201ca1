"""Cycle-level simulation of decisions; docs/simulator.md says exactly what is simulated."""

from placer.simulation.engine import Limits
from placer.simulation.measurement import Measurement, Status, UnitTime
from placer.simulation.simulator import simulate, simulate_stack

__all__ = ["Limits", "Measurement", "Status", "UnitTime", "simulate", "simulate_stack"]
