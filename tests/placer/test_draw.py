"""Pictures show what they should, as PNG and as SVG."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.image import imread

from placer.config import load_fabric
from placer.decision import Decisions
from placer.draw import draw_placement, placement_figure
from placer.errors import InputError
from placer.fabric import Direction, Fabric, SiteKind
from placer.netlist import Flow, Netlist, Unit
from placer.simulation.measurement import Measurement, Status


@pytest.fixture(scope="module")
def fabric() -> Fabric:
    return load_fabric("small")


@pytest.fixture(scope="module")
def netlist() -> Netlist:
    work = {"firings": 8, "cycles": 8, "releases": 8, "depth_cycles": 6}
    units = (
        Unit("x", SiteKind.PORT, "load", 0),
        Unit("dense", SiteKind.COMPUTE, "matmul", 0, **work),
        Unit("dense.weights", SiteKind.MEMORY, "weights", 0, slots=1),
        Unit("dense.out", SiteKind.MEMORY, "buffer", 0, slots=2),
        Unit("gelu", SiteKind.COMPUTE, "gelu", 1, **work),
        Unit("gelu.back", SiteKind.COMPUTE, "gelu_grad", 2, **work),
        Unit("y", SiteKind.PORT, "store", 2),
    )
    ends = [(0, 1), (2, 1), (1, 3), (3, 4), (4, 5), (5, 6)]
    flows = tuple(Flow(f"flow{i}", a, (b,), 8) for i, (a, b) in enumerate(ends))
    return Netlist("toy", "mlp", "small", units, flows)


@pytest.fixture(scope="module")
def decisions(fabric: Fabric, netlist: Netlist) -> Decisions:
    """Two decisions: weights and buffer share a memory unit in the first, not in the second."""
    shared = _route_xy(fabric, netlist, [66, 18, 35, 35, 54, 4, 75])
    apart = _route_xy(fabric, netlist, [66, 18, 35, 33, 54, 4, 75])
    return Decisions.concatenate([shared, apart])


def _route_xy(fabric: Fabric, netlist: Netlist, sites: list[int]) -> Decisions:
    routes = [
        _xy_links(fabric, sites[flow.source], sites[flow.targets[0]]) for flow in netlist.flows
    ]
    return Decisions(
        sites=np.array([sites], np.int32),
        channels=np.zeros((1, netlist.num_flows), np.int32),
        route_start=np.cumsum([[0] + [len(route) for route in routes]], axis=1),
        links=np.array([link for route in routes for link in route], np.int32),
        parents=np.array([i - 1 for route in routes for i in range(len(route))], np.int32),
    )


def _xy_links(fabric: Fabric, source: int, target: int) -> list[int]:
    topology = fabric.topology
    row, column = divmod(int(topology.site_switch[source]), fabric.columns)
    goal_row, goal_column = divmod(int(topology.site_switch[target]), fabric.columns)
    links = [topology.inject_link(source)]
    while (row, column) != (goal_row, goal_column):
        if column != goal_column:
            heading = Direction.EAST if column < goal_column else Direction.WEST
        else:
            heading = Direction.SOUTH if row < goal_row else Direction.NORTH
        links.append(int(topology.mesh_link[row * fabric.columns + column, heading]))
        row, column = divmod(int(topology.link_target[links[-1]]), fabric.columns)
    return [*links, topology.eject_link(target)]


def _measurement(fabric: Fabric, netlist: Netlist, critical: str) -> Measurement:
    utilisation = np.zeros(fabric.topology.num_links)
    utilisation[5] = 0.75
    return Measurement(
        status=Status.STEADY,
        cycles_per_sample=12.5,
        bound_cycles=8,
        first_sample_cycles=100,
        cycles_simulated=1000,
        samples=50,
        vector_hops=2000,
        unit_time=np.zeros((netlist.num_units, 4)),
        link_utilisation=utilisation,
        critical=critical,
    )


def _texts(path: Path) -> list[str]:
    return [
        "".join(element.itertext()).strip()
        for element in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")
    ]


def test_png_is_a_picture_with_content(
    fabric: Fabric, netlist: Netlist, decisions: Decisions, tmp_path: Path
) -> None:
    draw_placement(fabric, netlist, decisions, tmp_path / "a.png")
    pixels = imread(tmp_path / "a.png")
    assert min(pixels.shape[:2]) > 500
    assert pixels[..., :3].std() > 0.05


def test_svg_has_units_legend_title_and_caption(
    fabric: Fabric, netlist: Netlist, decisions: Decisions, tmp_path: Path
) -> None:
    measurement = _measurement(fabric, netlist, "unit gelu is starved")
    path = tmp_path / "a.svg"
    draw_placement(fabric, netlist, decisions, path, measurement=measurement, title="my title")
    texts = _texts(path)
    assert {"M0", "G0", "G'0", "Ld0", "St0", "2x"} <= set(texts)
    legend = {
        "M  matmul (1)",
        "G'  gelu_grad (1)",
        "W  weights (1)",
        "B  buffer (1)",
        "empty memory",
    }
    assert legend <= set(texts)
    assert {"my title", "utilisation of links", "critical"} <= set(texts)
    caption = " ".join(texts)
    for part in ("unit gelu is starved", "12.5 cycles per sample", "bound 8", "throughput 0.640"):
        assert part in caption


def test_without_measurement_links_show_flows(
    fabric: Fabric, netlist: Netlist, decisions: Decisions, tmp_path: Path
) -> None:
    draw_placement(fabric, netlist, decisions, tmp_path / "a.svg", index=1)
    texts = _texts(tmp_path / "a.svg")
    assert "flows per link" in texts
    assert "critical" not in texts
    assert {"W0", "B0"} <= set(texts)  # decision 1 keeps them apart
    assert "2x" not in texts


@pytest.mark.parametrize(
    ("critical", "outlined"),
    [
        ("unit gelu is starved", 1),
        ("unit gelu.back is blocked", 1),  # not also "gelu", whose name is part of it
        ("DRAM channels are full", 0),
        ("gelus", 0),
    ],
)
def test_only_the_unit_that_is_named_is_outlined(
    fabric: Fabric, netlist: Netlist, decisions: Decisions, critical: str, outlined: int
) -> None:
    measurement = _measurement(fabric, netlist, critical)
    figure = placement_figure(fabric, netlist, decisions[0], measurement, "")
    thick = [patch for patch in figure.axes[0].patches if patch.get_linewidth() > 2]
    assert len(thick) == outlined


def test_same_input_same_bytes(
    fabric: Fabric, netlist: Netlist, decisions: Decisions, tmp_path: Path
) -> None:
    for name in ("a.svg", "b.svg"):
        draw_placement(fabric, netlist, decisions, tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_wrong_input_is_refused_and_leaves_no_file(
    fabric: Fabric, netlist: Netlist, decisions: Decisions, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=r"'\.pdf'; allowed \.png and \.svg"):
        draw_placement(fabric, netlist, decisions, tmp_path / "a.pdf")
    other = Netlist("other", "mlp", "small", netlist.units[:1], ())
    with pytest.raises(InputError, match="places 7 units, netlist 'other' has 1"):
        draw_placement(fabric, other, decisions, tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []
