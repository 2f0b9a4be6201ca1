"""The hardware: a grid of compute units, memory units, memory ports, switches and links, or of cores."""

from placer.fabric.cores import FULL_PACE, CoreSpec, NetworkSpec, core_site, network_route, pace_of
from placer.fabric.draw import HELD_OUT, HELD_OUT_SEED, draw_fabric
from placer.fabric.fabric import NOT_SIMULATED, PRODUCT, DramSpec, Fabric, MemorySpec
from placer.fabric.load import fabric_of, load_fabric
from placer.fabric.physical import Area, Energy, area_mm2, static_watts
from placer.fabric.topology import Direction, SiteKind, Topology
from placer.fabric.trips import nearest_hops, round_trip_cycles, window_vectors
