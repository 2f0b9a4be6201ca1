"""The front door for Python: `import placer`, then `placer.place(network, inputs=...)` (docs/python.md)."""

from placer.door.doing import compile, place, simulate
from placer.door.result import Compilation, NetworkResult, Placement, Simulation
