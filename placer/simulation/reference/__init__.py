"""The second engine, in plain Python: the judge of the compiled one."""

from placer.simulation.reference.engine import simulate_reference
from placer.simulation.reference.replaying import replay_reference
