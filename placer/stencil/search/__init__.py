"""The mapper, in the order of its work.

A `pyramid` holds statistics of the heat; a `plan` says which sampling to try; a `partition` is a
`tree` of blocks that `moves` split and merge; `search` is the sequence of steps that looks for the
best one. Its `netlist` gets `places`, with short wires where they matter. `mapper` does
all of it within the time of a `clock`.
"""

from placer.stencil.search.clock import Clock
from placer.stencil.search.mapper import Mapping, map_volume, warm_up
from placer.stencil.search.netlist import Netlist
from placer.stencil.search.plan import accuracy_ceiling
