"""The hardware: a grid of compute units, memory units, memory ports, switches and links."""

from placer.fabric.draw import HELD_OUT, HELD_OUT_SEED, draw_fabric
from placer.fabric.fabric import Direction, DramSpec, Fabric, MemorySpec, SiteKind, Topology
from placer.fabric.load import fabric_of, load_fabric
from placer.fabric.trips import nearest_hops, round_trip_cycles, window_vectors
