"""Ten things that a new user comes for, each through public doors alone: `import placer`, and commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import placer
from placer.base.config import run_command

pytestmark = pytest.mark.slow

# A search that is long enough to be one, and the same on every machine.
SHORT = ("max_moves=300", "pool=1", "finalists=0")
# Training in seconds: few netlists, a small network, one epoch, nothing tracked.
TINY_DATA = ("size=demo", "size.netlists_per_family=3", "size.decisions=8", "families=[gemm,ffn]", "workers=1")
TINY_TRAINING = (
    "trainer.max_epochs=1", "trainer.threads=1", "trainer.graphs_per_batch=2", "trainer.decisions_per_graph=4",
    "trainer.validation_share=0.4",
)  # fmt: skip
TINY_MODEL = ("model.width=8", "model.lane_width=8", "model.rounds=1", "student.steps=0", "potential.max_epochs=0")


def place(network: object, inputs: object = None, **more: object) -> placer.Placement:
    given = {"fabric": "small", "cost": "rules", "seconds": None, "settings": SHORT} | more
    return placer.place(network, inputs, **given)


def command(main: Callable[..., None], name: str, *arguments: str) -> None:
    with pytest.raises(SystemExit) as stop:
        run_command(main, name, arguments)
    assert stop.value.code == 0


def test_place_my_torch_model_with_the_learned_model(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    network = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.GELU(), torch.nn.Linear(64, 16))
    result = place(network, torch.zeros(24, 16), cost="learned")
    low, high = result.interval
    assert 0 < low < result.predicted < high <= 1
    assert 0 < result.share_of_bound <= 1
    assert result.milliseconds > 0
    assert result.page(tmp_path / "net.html").stat().st_size > 10_000


def test_place_my_onnx_file(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    helper, float_ = onnx.helper, onnx.TensorProto.FLOAT
    rng = np.random.default_rng(0)
    weights = [
        onnx.numpy_helper.from_array(rng.normal(size=shape).astype(np.float32), name)
        for name, shape in (("w1", (16, 32)), ("w2", (32, 16)))
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"]), helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "w2"], ["y"]),
    ]  # fmt: skip
    ends = [helper.make_tensor_value_info(name, float_, [24, 16]) for name in "xy"]
    graph = helper.make_graph(nodes, "two_layers", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    path = tmp_path / "two_layers.onnx"
    onnx.save(model, path)
    from_file, from_bytes = place(path), place(path.read_bytes())
    assert from_file.name == "two_layers"
    assert from_file.cycles == from_bytes.cycles


def test_describe_my_own_fabric(tmp_path: Path) -> None:
    slow = tmp_path / "slow_links.yaml"
    slow.write_text("defaults: [small, _self_]\nname: slow_links\nlink: {hop_cycles: 8}\n")
    usual, mine = (placer.simulate("ffn", fabric=fabric) for fabric in ("small", slow))
    assert mine.fabric.name == "slow_links"
    assert mine.share_of_bound < usual.share_of_bound


def test_bring_my_own_cost_model() -> None:
    class ShortWires:
        def score(self, netlist: object, decisions: object) -> np.ndarray:
            links = np.diff(decisions.route_start[:, [0, -1]], axis=1)[:, 0]
            return 1 / (1 + links)

    result = place("gemm", cost=ShortWires())
    assert result.sections[0].result.predicted > result.sections[0].start.predicted


def test_keep_some_units_where_i_want_them(tmp_path: Path) -> None:
    free = place("gemm")
    netlist = free.sections[0].section.netlist
    unit = next(number for number, unit in enumerate(netlist.units) if unit.op == "linear")
    name, kind = netlist.units[unit].name, netlist.units[unit].kind
    topology = free.fabric.topology
    site = next(s for s in np.flatnonzero(topology.site_kind == kind) if s != free.sections[0].decision.sites[0, unit])
    file = tmp_path / "mine.yaml"
    file.write_text(json.dumps({"schema": 1, "fixed": {name: int(site)}}))
    held = place("gemm", constraints=file)
    assert held.sections[0].decision.sites[0, unit] == site


def test_start_from_a_placement_that_i_have(tmp_path: Path) -> None:
    first = place("gemm")
    (decision,) = first.save(tmp_path).glob("*.decision.json")
    second = place("gemm", warm_start=decision, seed=1)
    assert second.sections[0].start.predicted == pytest.approx(first.predicted)
    assert second.predicted >= first.predicted


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from costmodel.dataset.__main__ import main

    folder = tmp_path_factory.mktemp("tasks")
    command(main, "dataset", *TINY_DATA, f"output={folder / 'data'}")
    return folder


def test_train_a_model_on_my_own_data_and_place_with_it(dataset: Path) -> None:
    from costmodel.train import main

    places = (f"data={dataset / 'data'}", f"cache={dataset / 'cache'}", f"output={dataset / 'mine'}")
    command(main, "train", *TINY_TRAINING, *TINY_MODEL, *places, "tracking.uri=null")
    cost = placer.LearnedCost.load(dataset / "mine/flow.pt")
    result = place("gemm", cost=cost, fabric=cost.fabric)
    assert 0 < result.predicted < 1


def test_tune_the_model_in_the_box_on_my_own_labels(dataset: Path) -> None:
    from costmodel.adapt import main

    output = dataset / "tuned"
    command(
        main, "adapt", *TINY_TRAINING, "model_file=shipped", f"data={dataset / 'data'}", f"cache={dataset / 'cache'}",
        f"output={output}", "tuned=[1.0]", "scratch=[]", "seeds=[0]", "student.steps=0",
    )  # fmt: skip
    assert "tuned_100" in (output / "adapt.md").read_text()
    cost = placer.LearnedCost.load(output / "tuned_100.pt")
    assert cost.models[0].origin["start"] is not None, "it went on from the shipped weights"


def test_compare_two_placements_of_one_network() -> None:
    at_random, searched = placer.simulate("mha", fabric="small"), place("mha")
    assert searched.name == at_random.name
    assert searched.cycles < at_random.cycles
    assert searched.time.part("congestion") < at_random.time.part("congestion")


def test_learn_what_holds_my_network_back() -> None:
    result = placer.simulate("mha", fabric="small")
    assert "link" in result.bottleneck or "unit" in result.bottleneck
    parts = {name: result.time.part(name) for name in ("bound", "congestion", "switch")}
    assert parts["congestion"] > parts["bound"], "a random placement is held back by its traffic"
    busy = result.slowest.measurement.link_utilisation
    assert 0.5 < busy.max() <= 1
