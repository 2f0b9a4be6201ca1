"""The front door for Python: what may be handed over, and what comes back."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import placer
from placer.base import InputError
from placer.decision import Decisions
from placer.door.given import graph_of, shapes_of
from placer.graph import DataflowGraph, to_json
from placer.graph.importing import InputKind
from placer.graph.workloads import FfnSpec, MlpSpec, build
from placer.netlist import Netlist
from tests import ROOT

SPEC = FfnSpec(rows=16, width=16, hidden=32)
SHORT = ("max_moves=200", "pool=1", "finalists=0")


def quick(network: object = SPEC, **more: object) -> placer.Placement:
    given = {"fabric": "small", "cost": "rules", "seconds": None, "settings": SHORT} | more
    return placer.place(network, **given)


def test_a_placement_tells_its_figures_and_draws_itself() -> None:
    result = quick()
    section = result.sections[0]
    assert result.share_of_bound == pytest.approx(section.measurement.throughput)
    assert result.predicted == pytest.approx(section.result.predicted)
    assert result.interval is None, "rules do not tell how far off they are"
    assert result.cycles == result.time.cycles_per_input
    assert result.bottleneck == section.measurement.critical
    assert f"{result.share_of_bound:.3f}" in str(result)
    html = result._repr_html_()
    assert "predicted by rules" in html
    assert 'src="data:image/png;base64,' in html


def test_the_same_seed_gives_the_same_placement() -> None:
    first, again, other = quick(), quick(), quick(seed=1)
    sites = [result.sections[0].decision.sites for result in (first, again, other)]
    assert (sites[0] == sites[1]).all()
    assert (sites[0] != sites[2]).any()


@pytest.mark.slow
def test_what_is_saved_can_be_simulated_and_started_from(tmp_path: Path) -> None:
    result = quick()
    folder = result.save(tmp_path / "run")
    assert (folder / "result.small.json").exists()
    (decision,) = folder.glob("*.decision.json")
    again = placer.simulate(SPEC, fabric="small", placement=decision)
    assert (again.sections[0].decision.sites == result.sections[0].decision.sites).all()
    warm = quick(warm_start=decision)
    assert warm.predicted >= 0.99 * result.predicted
    page = result.page(tmp_path / "pages/net.html").read_text(encoding="utf-8")
    assert "placer.place(" in page


@pytest.mark.slow
def test_a_network_of_several_sections_has_a_page_for_each(tmp_path: Path) -> None:
    network = MlpSpec(rows=16, width=96, depth=40)
    result = placer.simulate(network, fabric="small")
    assert len(result.sections) > 1
    path = result.page(tmp_path / "net.html")
    others = sorted(tmp_path.glob("net.*.html"))
    assert len(others) == len(result.sections)
    assert all(other.name in path.read_text(encoding="utf-8") for other in others)
    weights = [one.run.cycles_per_sample * one.run.samples * one.run.repeats for one in result.time.sections]
    shares = [one.measurement.throughput for one in result.sections]
    assert result.share_of_bound == pytest.approx(np.average(shares, weights=weights))


def test_graphs_come_in_many_forms(tmp_path: Path) -> None:
    graph = build(SPEC)
    path = tmp_path / "ffn.json"
    path.write_text(to_json(graph))
    for given in (graph, SPEC, path, str(path)):
        found = graph_of(given, None)
        assert isinstance(found, DataflowGraph)
        assert found.name == graph.name
    with pytest.raises(InputError, match="unknown network 'mhaa'; write a file"):
        placer.place("mhaa", fabric="small")


@pytest.mark.parametrize(
    ("inputs", "shapes", "kinds"),
    [
        (None, None, InputKind.NUMBERS),
        ((1, 4, 8), (1, 4, 8), InputKind.NUMBERS),
        ([(1, 4), (4, 2)], [(1, 4), (4, 2)], InputKind.NUMBERS),
        (np.zeros((2, 3)), [(2, 3)], [InputKind.NUMBERS]),
        (np.zeros(5, np.int64), [(5,)], [InputKind.INDICES]),
        ([np.zeros((2, 3)), (3, 4)], [(2, 3), (3, 4)], [InputKind.NUMBERS] * 2),
    ],
)
def test_inputs_are_shapes_or_examples(inputs: object, shapes: object, kinds: object) -> None:
    assert shapes_of(inputs) == (shapes, kinds)


def test_messages_call_inputs_by_their_name_in_python() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(InputError, match="set inputs, for example"):
        graph_of(torch.nn.Linear(4, 4), None)
    with pytest.raises(InputError, match=r"takes 2 inputs \(input1, input2\), inputs has 1"):
        graph_of(torch.nn.Bilinear(4, 4, 4), (3, 4))


def test_a_fabric_may_be_a_file_or_an_object(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("defaults: [small, _self_]\nname: mine\nlink: {hop_cycles: 3}\n")
    fabric = placer.load_fabric(file)
    assert (fabric.name, fabric.link.hop_cycles, fabric.columns) == ("mine", 3, 8)
    for given in (file, str(file), fabric):
        assert placer.simulate(SPEC, fabric=given).fabric == fabric
    with pytest.raises(InputError, match="there is no such file"):
        placer.simulate(SPEC, fabric=tmp_path / "none.yaml")
    with pytest.raises(InputError, match=r"unknown fabric 'smal'; did you mean 'small'\?"):
        placer.simulate(SPEC, fabric="smal")


class WireLength:
    """Likes short routes, and says how sure it is."""

    def score(self, netlist: Netlist, decisions: Decisions) -> np.ndarray:
        links = np.diff(decisions.route_start[:, [0, -1]], axis=1)[:, 0]
        return 1 / (1 + links)


@pytest.mark.slow
def test_any_cost_model_can_be_handed_over(tmp_path: Path) -> None:
    result = quick(cost=WireLength())
    start, end = result.sections[0].start, result.sections[0].result
    assert end.predicted > start.predicted, "routes became shorter"
    assert "predicted by WireLength" in str(result)
    assert '"cost": "WireLength"' in (result.save(tmp_path) / "result.small.json").read_text()


def test_a_module_of_a_command_is_a_function_too() -> None:
    import placer.place as command

    assert placer.place is command
    assert command.main.__module__ == "placer.place"
    parameters = inspect.signature(placer.place).parameters
    assert [*parameters][:3] == ["network", "inputs", "fabric"]
    assert {"place", "simulate", "LearnedCost", "CostModel", "Fabric"} <= set(dir(placer))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        placer.nothing  # noqa: B018


@pytest.mark.slow
def test_the_import_takes_no_time_and_no_torch() -> None:
    program = "import sys, placer; print(*({'torch', 'numba.core.dispatcher', 'matplotlib'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "torch" not in done.stdout
    assert "matplotlib" not in done.stdout


@pytest.mark.slow
def test_a_network_is_compiled(tmp_path: Path) -> None:
    result = placer.compile(SPEC, fabric="small", cost="rules", seconds=1, settings=("workers=1", "max_rounds=1"))
    assert result.cycles == result.compiled.cycles_per_input
    assert "times as fast as the first result" in str(result)
    folder = result.save(tmp_path / "compiled")
    assert (folder / "compiled.json").exists()
    assert "placer.compile(" in (folder / "compiled.html").read_text(encoding="utf-8")
