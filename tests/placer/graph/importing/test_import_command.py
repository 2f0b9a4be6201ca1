"""`python -m placer.place model=...`: from a user's network to placed and simulated sections."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from placer.base import InputError
from placer.base.config import compose_config, run_command
from placer.place import main as place
from placer.simulate import main as simulate

pytestmark = pytest.mark.slow

QUICK = "effort=0.02"
USER_CODE = """
import torch

class Network(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = torch.nn.Linear(width, width)

    def forward(self, x):
        return torch.sin(self.layer(x)) if self.layer.in_features == 8 else self.layer(x).relu()

def make_model(width=32):
    return Network(width)

class Lookup(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(20, 16)
        self.projection = torch.nn.Linear(8, 16)

    def forward(self, features, tokens):
        return self.projection(features) + self.table(tokens)

class Unknown(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)
        self.other = torch.nn.Linear(8, 8)

    def forward(self, x):
        x = torch.sin(self.layer(x))
        x = torch.nn.functional.elu(self.other(x))
        return torch.cumsum(x, 1)
"""


@pytest.fixture(autouse=True)
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("placer.pipeline.report.draw_placement", "placer.pipeline.report.draw_curve"):
        monkeypatch.setattr(name, lambda *args, **options: None)


@pytest.fixture
def user_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "users_network.py").write_text(USER_CODE)
    monkeypatch.syspath_prepend(tmp_path)
    return "users_network"


def run(command: Any, name: str, *arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        run_command(command, name, arguments)
    assert isinstance(stop.value.code, int)
    return stop.value.code


def result_of(folder: Path, fabric: str = "small") -> dict[str, Any]:
    result: dict[str, Any] = json.loads((folder / f"result.{fabric}.json").read_text())
    return result


def onnx_file(path: Path) -> Path:
    weight = numpy_helper.from_array(np.eye(32, dtype=np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 32, 32))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    path.write_bytes(model.SerializeToString())
    return path


def test_an_onnx_file_is_placed_and_simulated(tmp_path: Path) -> None:
    path = onnx_file(tmp_path / "net.onnx")
    assert run(place, "place", f"model={path}", QUICK, f"output={tmp_path}") == 0
    result = result_of(tmp_path)
    (section,) = result["sections"]
    assert (section["netlist"], section["result"]["simulation"]) == ("net", "steady")
    assert result["config"]["model"] == str(path)
    assert (tmp_path / "net.small.decision.json").is_file()
    assert run(simulate, "simulate", f"model={path}", f"output={tmp_path / 's'}") == 0
    assert result_of(tmp_path / "s")["sections"][0]["status"] == "steady"


def test_a_function_of_the_user_is_called_with_arguments(tmp_path: Path, user_module: str) -> None:
    model = (f"model={user_module}:make_model", "model_arguments={width: 16}")
    options = ("input_shape=[1,32,16]", QUICK, f"output={tmp_path}")
    assert run(place, "place", *model, *options) == 0
    result = result_of(tmp_path)
    assert result["sections"][0]["netlist"] == "make_model-1x32x16"


def test_the_place_in_the_users_code_is_told(
    tmp_path: Path, user_module: str, capsys: pytest.CaptureFixture[str]
) -> None:
    model = (f"model={user_module}:make_model", "model_arguments={width: 8}")
    assert run(place, "place", *model, "input_shape=[4,8]", f"output={tmp_path / 'out'}") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: network 'make_model-4x8': 1 operations are not supported")
    assert "aten.sin: no such operation here; at users_network.py:10, forward: return" in err
    assert not (tmp_path / "out").exists()


def test_all_unknown_operations_are_told_at_once(
    tmp_path: Path, user_module: str, capsys: pytest.CaptureFixture[str]
) -> None:
    model = (f"model={user_module}:Unknown", "input_shape=[4,8]")
    for command, name in ((place, "place"), (simulate, "simulate")):
        assert run(command, name, *model, f"output={tmp_path / 'out'}") == 2
        out, err = capsys.readouterr()
        first, *lines = err.splitlines()
        assert out == ""
        assert first.startswith("error: network 'Unknown-4x8': 3 operations are not supported (docs/import.md lists")
        places = [(line.split(":")[0].strip(), line.partition("; at ")[2]) for line in lines]
        assert places == [
            ("aten.sin", "users_network.py:31, forward: x = torch.sin(self.layer(x))"),
            ("aten.elu", "users_network.py:32, forward: x = torch.nn.functional.elu(self.other(x))"),
            ("aten.cumsum", "users_network.py:33, forward: return torch.cumsum(x, 1)"),
        ]
        assert not (tmp_path / "out").exists()


def test_a_network_of_several_inputs_is_placed(tmp_path: Path, user_module: str) -> None:
    model = (f"model={user_module}:Lookup", "input_shape=[[1,16,8],[1,16]]", "input_kind=[numbers,indices]")
    assert run(place, "place", *model, QUICK, f"output={tmp_path}") == 0
    result = result_of(tmp_path)
    assert result["sections"][0]["netlist"] == "Lookup-1x16x8-1x16"
    assert result["config"]["input_shape"] == [[1, 16, 8], [1, 16]]
    assert result["config"]["input_kind"] == ["numbers", "indices"]


def test_one_kind_is_that_of_all_inputs(tmp_path: Path) -> None:
    arguments = "{d_model: 16, nhead: 2, dim_feedforward: 32, batch_first: true}"
    model = ("model=torch.nn:TransformerDecoderLayer", f"model_arguments={arguments}")
    assert run(simulate, "simulate", *model, "input_shape=[[1,5,16],[1,7,16]]", f"output={tmp_path}") == 0
    assert {section["status"] for section in result_of(tmp_path)["sections"]} == {"steady"}


def test_an_unmodified_encoder_layer_goes_through_in_sections(tmp_path: Path) -> None:
    """The same as with width 768 on `large`, but smaller."""
    arguments = "{d_model: 32, nhead: 2, dim_feedforward: 64, batch_first: true}"
    model = ("model=torch.nn:TransformerEncoderLayer", f"model_arguments={arguments}")
    fabric = ("fabric.columns=4", "fabric.rows=4", "max_moves=200")
    options = ("input_shape=[1,32,32]", f"output={tmp_path}")
    assert run(place, "place", *model, *fabric, *options) == 0
    result = result_of(tmp_path)
    assert len(result["sections"]) > 1
    assert {section["result"]["simulation"] for section in result["sections"]} == {"steady"}
    assert result["cycles_per_input"] > 0
    assert len(list(tmp_path.glob("*.decision.json"))) == len(result["sections"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["model=torch.nn:ReLU"], "set input_shape, for example [1,128,768]"),
        (["model=nothing.onnx"], "cannot read nothing.onnx: No such file"),
        (["model=a.onnx", "graph=b.json"], "model=a.onnx and graph=b.json: set one of them"),
        (["model=a.onnx", "input_shape=3"], "input_shape=3 has the wrong type"),
        (["model=a.onnx", "input_shape=[0]"], "input_shape=[0]: allowed are sizes from 1"),
        (["model=a.onnx", "input_shape=[[1,2],[0]]"], "input_shape=[0]: allowed are sizes from 1"),
        (["model=a.onnx", "input_shape=[[1,2],3]"], "input_shape=[[1, 2], 3] has the wrong type; expected"),
        (["model=a.onnx", "input_kind=text"], "input_kind='text' is no choice; allowed: indices"),
        (["model=a.onnx", "input_kind=[numbers,text]"], "input_kind[1]='text' is no choice; allowed: indices"),
        (
            ["model=torch.nn:ReLU", "input_shape=[4,8]", "input_kind=[numbers,indices]"],
            "input_kind=['numbers', 'indices'] for 1 inputs",
        ),
        (
            ["model=torch.nn:ReLU", "input_shape=[[4,8],[4,8]]"],
            "takes 1 inputs (input), input_shape has 2; write a shape for each, in this order: input_shape=[[4,8]]",
        ),
        (["model.a=1"], "model"),
    ],
)
def test_wrong_settings_are_one_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert run(place, "place", *arguments, f"output={tmp_path / 'out'}") == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert message in err
    assert not (tmp_path / "out").exists()


def test_a_field_called_like_a_group_is_a_field_where_there_is_no_such_choice() -> None:
    assert compose_config("place", ["model=package.module:name", "seed=3"]).model.endswith(":name")
    assert compose_config("train", ["model=guha"]).model.name == "guha"
    with pytest.raises(InputError, match="unknown choice model=foo"):
        compose_config("train", ["model=foo"])
