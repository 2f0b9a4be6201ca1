"""Pictures show what they should, as PNG and as SVG."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.colors import same_color, to_rgb
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.patches import Circle, Rectangle

from placer.base import InputError
from placer.decision import Decisions
from placer.fabric import Direction, Fabric, SiteKind, load_fabric
from placer.netlist import Flow, Netlist, Unit
from placer.show import draw_placement
from placer.show.draw import placement_figure
from placer.show.draw_style import CRITICAL_COLOUR
from placer.simulation import CriticalResource, Measurement, ResourceKind, Status, find_critical

pytestmark = pytest.mark.slow


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
    routes = [_xy_links(fabric, sites[flow.source], sites[flow.targets[0]]) for flow in netlist.flows]
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


BUSIEST_LINK = 5


def _measurement(
    fabric: Fabric, netlist: Netlist, critical: str, status: Status = Status.STEADY, cycles_per_sample: float = 12.5
) -> Measurement:
    utilisation = np.zeros(fabric.topology.num_links)
    utilisation[BUSIEST_LINK] = 0.75
    return Measurement(
        status=status,
        cycles_per_sample=cycles_per_sample,
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


def test_png_is_a_picture_with_content(fabric: Fabric, netlist: Netlist, decisions: Decisions, tmp_path: Path) -> None:
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
    legend = {"M  matmul (1)", "G'  gelu_grad (1)", "W  weights (1)", "B  buffer (1)", "empty memory"}
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


class Framed:
    """Centres of what a figure shows in the colour of the critical resource, by what it is."""

    def __init__(self, figure: Figure) -> None:
        axes = figure.axes[0]
        red = [p for p in axes.patches if same_color(p.get_edgecolor(), CRITICAL_COLOUR)]
        boxes = [p for p in red if isinstance(p, Rectangle)]
        self.circles = [p.center for p in red if isinstance(p, Circle)]
        self.sites = [p.get_center() for p in boxes if p.get_fill()]
        self.arrows = [p.get_center() for p in boxes if not p.get_fill()]
        self.num_local_lines = sum(
            len(lines.get_segments())
            for lines in axes.collections
            if isinstance(lines, LineCollection)
            and same_color(lines.get_colors(), np.array([[*to_rgb(CRITICAL_COLOUR), 1.0]]))
        )

    @property
    def counts(self) -> tuple[int, int, int, int]:
        return len(self.circles), len(self.sites), len(self.arrows), self.num_local_lines


MESH_LINK = 7  # not the busiest one


@pytest.mark.parametrize(
    ("kind", "resource_id", "counts"),
    [
        (ResourceKind.UNIT, 4, (0, 1, 0, 0)),
        (ResourceKind.READ_PORT, 35, (1, 0, 0, 0)),
        (ResourceKind.WRITE_PORT, 35, (1, 0, 0, 0)),
        (ResourceKind.LINK, MESH_LINK, (0, 0, 1, 0)),
        (ResourceKind.DRAM, 0, (0, 2, 0, 0)),  # both ports in use
    ],
)
def test_the_critical_resource_is_framed_and_nothing_else(
    fabric: Fabric,
    netlist: Netlist,
    decisions: Decisions,
    monkeypatch: pytest.MonkeyPatch,
    kind: ResourceKind,
    resource_id: int,
    counts: tuple[int, int, int, int],
) -> None:
    framed = _framed(fabric, netlist, decisions[0], monkeypatch, kind, resource_id)
    assert framed.counts == counts


def _framed(
    fabric: Fabric,
    netlist: Netlist,
    decision: Decisions,
    monkeypatch: pytest.MonkeyPatch,
    kind: ResourceKind,
    resource_id: int,
) -> Framed:
    """What is framed when the given resource is the critical one."""
    critical = CriticalResource(kind, resource_id, "words")
    monkeypatch.setattr("placer.show.draw.find_critical", lambda *args: critical)
    measurement = _measurement(fabric, netlist, "words")
    return Framed(placement_figure(fabric, netlist, decision, measurement, ""))


def test_a_critical_mesh_link_is_framed_where_it_is(
    fabric: Fabric, netlist: Netlist, decisions: Decisions, monkeypatch: pytest.MonkeyPatch
) -> None:
    framed = _framed(fabric, netlist, decisions[0], monkeypatch, ResourceKind.LINK, MESH_LINK)
    ends = fabric.topology.link_source[MESH_LINK], fabric.topology.link_target[MESH_LINK]
    middle = np.mean([divmod(int(end), fabric.columns)[::-1] for end in ends], axis=0)
    [centre] = framed.arrows
    assert np.abs(np.array(centre) - middle).max() < 0.1  # beside the line between the switches


def test_a_critical_local_link_is_a_line_to_its_unit(
    fabric: Fabric, netlist: Netlist, decisions: Decisions, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = fabric.topology.eject_link(18)
    framed = _framed(fabric, netlist, decisions[0], monkeypatch, ResourceKind.LINK, link)
    assert framed.counts == (0, 0, 0, 1)


def test_a_critical_flow_is_framed_along_its_way(
    fabric: Fabric, netlist: Netlist, decisions: Decisions, monkeypatch: pytest.MonkeyPatch
) -> None:
    framed = _framed(fabric, netlist, decisions[0], monkeypatch, ResourceKind.FLOW, 4)
    links, _ = decisions[0].route(4)
    num_mesh = int((links < fabric.topology.num_mesh_links).sum())
    assert framed.counts == (0, 0, num_mesh, 2)


def test_the_picture_frames_what_the_demand_says(fabric: Fabric, netlist: Netlist, decisions: Decisions) -> None:
    critical = find_critical(fabric, netlist, decisions[0], 12.5)
    assert critical.kind == ResourceKind.FLOW
    measurement = _measurement(fabric, netlist, critical.sentence)
    framed = Framed(placement_figure(fabric, netlist, decisions[0], measurement, ""))
    links, _ = decisions[0].route(critical.resource_id)
    assert len(framed.arrows) + framed.num_local_lines == len(links)


@pytest.mark.parametrize(
    "unfinished", [{"status": Status.DEADLOCK}, {"status": Status.CAP, "cycles_per_sample": float("nan")}]
)
def test_without_a_period_nothing_is_framed(
    fabric: Fabric, netlist: Netlist, decisions: Decisions, unfinished: dict[str, Any]
) -> None:
    measurement = _measurement(fabric, netlist, "deadlock: gelu waits for gelu", **unfinished)
    figure = placement_figure(fabric, netlist, decisions[0], measurement, "")
    assert Framed(figure).counts == (0, 0, 0, 0)
    assert "critical" not in [text.get_text() for text in figure.legends[0].get_texts()]


def test_same_input_same_bytes(fabric: Fabric, netlist: Netlist, decisions: Decisions, tmp_path: Path) -> None:
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
