"""Pages to test with, made without a search."""

from __future__ import annotations

from dataclasses import replace

from placer.config import load_fabric
from placer.fabric import Fabric
from placer.html.fabric_view import Frame
from placer.html.page import Page
from placer.html.placement import placement_sections
from placer.lowering import draw_netlist
from placer.netlist import Netlist
from placer.placement import random_sites
from placer.routing import route
from placer.simulation import simulate

HOSTILE = '</script><script>window.broken=1</script><img src=x onerror="window.broken=1">&amp;'


def random_page(netlist: Netlist, fabric: Fabric, num_frames: int = 3) -> Page:
    """Random placements; only the last one is simulated."""
    decisions = route(fabric, netlist, random_sites(fabric, netlist, num_frames, seed=0))
    frames = [Frame(f"placement {number}", decisions[number]) for number in range(num_frames)]
    measurement = simulate(fabric, netlist, decisions[num_frames - 1])[0]
    sections = placement_sections(fabric, netlist, measurement, frames)
    return Page(netlist.name, "random placements", "python -m x", {"seed": 0}, sections)


def small_page(num_frames: int = 3) -> Page:
    """A small product on the small fabric."""
    fabric = load_fabric("small")
    return random_page(draw_netlist(fabric, "mlp", 32, seed=0, index=0), fabric, num_frames)


def hostile_page() -> Page:
    """Everything that has a name has one that tries to break out."""
    fabric = load_fabric("small")
    netlist = draw_netlist(fabric, "mlp", 32, seed=0, index=0)
    netlist = replace(
        netlist,
        name=HOSTILE,
        units=tuple(replace(unit, name=f"{HOSTILE}{i}") for i, unit in enumerate(netlist.units)),
        flows=tuple(replace(flow, name=f"{HOSTILE}{i}") for i, flow in enumerate(netlist.flows)),
    )
    page = random_page(netlist, fabric)
    return replace(page, subtitle=HOSTILE, command=HOSTILE, config={HOSTILE: HOSTILE})


def large_page() -> Page:
    """As many frames as a search keeps, and a start and a result, on the large fabric."""
    fabric = load_fabric("large")
    return random_page(draw_netlist(fabric, "mha", 64, seed=0, index=0), fabric, num_frames=26)
