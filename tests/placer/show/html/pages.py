"""Pages to test with, made without a search or with a short one."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from placer.base.config import compose_config, to_dataclass
from placer.decision import random_sites
from placer.decision.routing import route
from placer.fabric import Fabric, load_fabric
from placer.kernels.engines import Search, map_kernels
from placer.kernels.model import Part, generate
from placer.kernels.report import layout_page
from placer.kernels.sizing import Problem
from placer.netlist import Netlist
from placer.netlist.lowering import draw_netlist
from placer.pipeline import PlaceConfig, SearchProgress, place_sections
from placer.pipeline.page import placing_page
from placer.show.html import Frame, Page, placement_sections
from placer.simulation import simulate
from placer.stencil.model import INPUTS, Objective, contest_score
from placer.stencil.search import Clock, map_volume
from placer.stencil.show import draw_volume, solution_page
from placer.streaming.mappers import FrontPoint, map_program, mapping_page
from placer.streaming.model import Device, MapOptions, Program, load_program
from tests import ROOT

FFT = ROOT / "data/inputs/streaming/fft.json"
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


def two_placements_page() -> Page:
    """Two random placements of a netlist, beside each other."""
    fabric = load_fabric("small")
    netlist = draw_netlist(fabric, "mlp", 32, seed=0, index=0)
    decisions = route(fabric, netlist, random_sites(fabric, netlist, 2, seed=0))
    first, second = simulate(fabric, netlist, decisions)
    beside = Frame("model", decisions[1], second)
    sections = placement_sections(fabric, netlist, first, [Frame("rules", decisions[0])], beside)
    return Page(netlist.name, "two placements", "python -m x", {"seed": 0}, sections)


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


def searched_page() -> Page:
    """What `python -m placer.place` writes, of a short search."""
    given = ["workload=gemm", "max_moves=2000"]
    config = to_dataclass(PlaceConfig, compose_config("place", given))
    with SearchProgress(config.to_options(), config.starts) as progress:
        (placed,) = place_sections(config, config.lowered().sections, progress)
    return placing_page(config, placed, "python -m placer.place workload=gemm")


def kernels_page(folder: Path) -> Page:
    """A small graph of kernels, one of them with a hostile name."""
    graph = generate("tiny")
    graph = replace(graph, kernels=(replace(graph.kernels[0], name=HOSTILE), *graph.kernels[1:]))
    problem = Problem(graph)
    mapping = map_kernels(Search(problem, 0.2, seed=0), "strips")
    return layout_page([Part(0, graph, mapping, Fraction(problem.bound))], {}, "python -m x")


def streaming_page(folder: Path) -> Page:
    """The FFT by list scheduling, with a hostile op and a second initiation interval."""
    fft = load_program(FFT)
    first = replace(fft.instructions[0], ops=(HOSTILE,))
    program = Program(HOSTILE, (first, *fft.instructions[1:]), fft.edges)
    result = map_program(program, Device(), MapOptions("list", 0.0, 0), values=False)
    return mapping_page(result, [FrontPoint(1, None, None, HOSTILE)], "python -m x", {})


def stencil_page(folder: Path, objective: Objective = contest_score) -> Page:
    """A flat volume; its fabric is large enough that parts have several processing elements."""
    problem = INPUTS["circle"]()
    mapping = map_volume(problem, Clock(0.01, problem.num_pes), seed=0)
    picture = draw_volume(problem, mapping.netlist, "circle")
    return solution_page(HOSTILE, problem, mapping, objective, picture, "python -m x", {})
