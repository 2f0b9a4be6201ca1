"""PyTorch modules that this project did not write become graphs that compute the same."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from placer.base import InputError
from placer.fabric import load_fabric
from placer.graph import OpKind
from placer.graph.importing import InputKind, NetworkChoice, import_network
from placer.graph.importing.from_torch import import_module
from placer.graph.importing.network import ImportedNetwork, require_agreement
from placer.graph.workloads import ModelSpec, build
from placer.netlist.lowering import lower_sections
from tests.placer.graph.importing.networks import (
    NETWORKS,
    OwnAttention,
    SmallGpt,
    Unsupported,
    encoder_layer,
    example,
    mlp,
)

pytestmark = pytest.mark.slow


def imported(name: str) -> tuple[ImportedNetwork, nn.Module, torch.Tensor]:
    make, shape, has_indices = NETWORKS[name]
    torch.manual_seed(0)
    module = make()
    return import_module(module, shape, has_indices, name), module, example(shape, has_indices)


def kinds(network: ImportedNetwork) -> Counter[OpKind]:
    return Counter(op.kind for op in network.graph.ops)


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_compute_what_pytorch_computes(name: str) -> None:
    network, module, x = imported(name)
    assert not module.training
    with torch.no_grad():
        expected = module(x).numpy()
    (found,) = network.run([x.numpy()])
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= 1e-4 * np.abs(expected).max()


def test_an_encoder_layer_has_the_ops_of_the_built_in_one() -> None:
    network, _, _ = imported("encoder")
    assert kinds(network) == {
        OpKind.LOAD: 1, OpKind.LINEAR: 6, OpKind.BIAS: 6, OpKind.SPLIT_HEADS: 3, OpKind.MATMUL: 2,
        OpKind.SCALE: 1, OpKind.SOFTMAX: 1, OpKind.MERGE_HEADS: 1, OpKind.ADD: 2,
        OpKind.LAYERNORM: 2, OpKind.RELU: 1, OpKind.STORE: 1,
    }  # fmt: skip
    weights = network.graph.weights
    assert weights["self_attn.in_proj_weight[32:64]"] == (32, 32)
    assert weights["norm1.gamma"] == (32,)


def test_an_encoder_layer_lowers_as_the_built_in_one() -> None:
    fabric, shape = load_fabric("large"), (1, 128, 768)
    module = nn.TransformerEncoderLayer(768, 12, 3072, activation="gelu", batch_first=True)
    graph = import_module(module, shape, False, "layer").graph
    built_in = build(ModelSpec("bert_base", layers=1, sequence=128, embedding=False))
    sizes = [
        [(s.samples, s.netlist.num_units, s.netlist.num_flows, s.netlist.bound_cycles) for s in one]
        for one in (lower_sections(fabric, graph), lower_sections(fabric, built_in))
    ]
    assert sizes[0] == sizes[1]


def test_a_gpt_is_causal_and_ties_its_weights() -> None:
    network, _, _ = imported("gpt")
    softmax = next(op for op in network.graph.ops if op.kind == OpKind.SOFTMAX)
    assert softmax.attributes.causal
    (table,) = (op for op in network.graph.ops if op.kind == OpKind.EMBEDDING)
    head = next(op for op in network.graph.ops if op.attributes.columns == 50)
    assert table.attributes.weight == head.attributes.weight
    gelu = next(op for op in network.graph.ops if op.kind == OpKind.GELU)
    assert gelu.attributes.tanh


def test_attention_by_hand_with_two_outputs() -> None:
    torch.manual_seed(0)
    network = import_module(OwnAttention(), (1, 8, 24), False, "own")
    assert next(op for op in network.graph.ops if op.kind == OpKind.SOFTMAX).attributes.causal
    assert list(network.outputs.values()) == [(1, 8, 24), (1, 24)]
    assert kinds(network)[OpKind.LINEAR] == 4  # query, key, value and the mean


def test_an_output_that_is_no_tensor_is_left_out() -> None:
    class Attention(nn.MultiheadAttention):
        def forward(self, x: torch.Tensor) -> Any:  # type: ignore[override]
            return super().forward(x, x, x, need_weights=False)

    network = import_module(Attention(16, 2, batch_first=True), (1, 4, 16), False, "attention")
    assert list(network.outputs.values()) == [(1, 4, 16)]


def test_all_unsupported_operators_are_listed_with_their_places() -> None:
    with pytest.raises(InputError) as error:
        import_module(Unsupported(), (1, 4, 8), False, "bad")
    message = str(error.value)
    assert "network 'bad': 2 operations are not supported" in message
    source = (Path(__file__).parent / "networks.py").read_text().splitlines()
    for name, code in (("aten.sin", "y = torch.sin(self.layer(x))"), ("aten.cumsum", "y = torch.cumsum(y, dim=1)")):
        line = next(i for i, text in enumerate(source, 1) if text.strip() == code)
        assert f"{name}: no such operation here; at networks.py:{line}, forward: {code}" in message


def test_a_known_operator_in_a_wrong_form_is_listed_behind_an_unknown_one() -> None:
    class Behind(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = torch.sort(torch.cumsum(x, 1))[0]  # two outputs, one of them whole numbers
            return nn.functional.adaptive_avg_pool1d(y, 3)  # of unequal parts

    with pytest.raises(InputError, match="network 'behind': 3 operations are not supported") as error:
        import_module(Behind(), (1, 4, 8), False, "behind")
    assert [line.split(":")[0].strip() for line in str(error.value).splitlines()[1:]] == [
        "aten.cumsum", "aten.sort", "aten.adaptive_avg_pool1d",
    ]  # fmt: skip


@pytest.mark.parametrize("shapes", [(4, 8), ((4, 8), (8, 4), (4, 4))])
def test_inputs_without_a_shape_are_named(shapes: Any) -> None:
    class Product(nn.Module):
        def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
            return left @ right

    for network in (Product(), lambda left, right: left @ right):
        with pytest.raises(InputError, match=r"takes 2 inputs \(left, right\), input_shape has [13]; write a shape"):
            import_network(NetworkChoice(network, {}, shapes))


def test_what_is_not_supported_in_many_places_is_told_once_for_each() -> None:
    class Many(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(40):
                x = torch.sin(x)
            return torch.cumsum(x, 0)

    with pytest.raises(InputError, match="network 'many': 41 operations are not supported") as error:
        import_module(Many(), (1, 4, 8), False, "many")
    one, two = str(error.value).splitlines()[1:]
    assert one.endswith("forward: x = torch.sin(x) (40 times)")
    assert two.startswith("  aten.cumsum: no such operation here; at test_from_torch.py:")


class Branches(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if x.sum() > 0 else -x  # depends on data


def test_the_place_of_what_export_cannot_follow_is_told() -> None:
    with pytest.raises(InputError, match=r"at test_from_torch.py:\d+, forward: return x if x.sum"):
        import_module(Branches(), (2, 4), False, "branches")


class MaskOfShape(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.inner(x)
        return hidden + 3 * torch.ones_like(hidden)


def test_tensors_made_by_the_shape_of_others_are_constants() -> None:
    network = import_module(MaskOfShape(), (2, 4), False, "mask")
    assert network.can_be_checked(), "it agreed with PyTorch"


def test_a_computed_weight_is_not_supported() -> None:
    class Computed(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.linear(x, x)

    with pytest.raises(InputError, match=r"aten.linear: a linear layer with a computed weight; write"):
        import_module(Computed(), (4, 8), False, "computed")


def test_a_large_network_is_not_checked(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr("placer.graph.importing.network.MAX_CHECKED_WEIGHTS", 10)
    import_module(mlp(), (5, 16), False, "large")
    assert "large: 808 weights are too many to check the import" in caplog.text


def test_a_batch_is_rows_but_not_for_attention() -> None:
    network = import_module(mlp(), (2, 3, 16), False, "batch")
    assert network.graph.tensors["input"].shape == (6, 16)
    with pytest.raises(InputError, match=r"a batch of 2; .* place one element: input_shape=\[1, 8, 32\]"):
        import_module(encoder_layer(), (2, 8, 32), False, "batch")


def choice(model: str, shape: tuple[int, ...] | None, **arguments: Any) -> NetworkChoice:
    return NetworkChoice(model, arguments, shape)


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (choice("no_such_module:f", (1, 2)), "No module named 'no_such_module'"),
        (choice("torch.nn:NoSuch", (1, 2)), "has no attribute 'NoSuch'"),
        (choice("torch.nn", (1, 2)), "write module:function"),
        (choice("torch.nn:Linear", (1, 2)), "TypeError: .*missing 2 required positional"),
        (choice("builtins:dict", (1, 2)), "makes a dict; needed is a torch.nn.Module"),
        (choice("torch.nn:ReLU", None), "set input_shape"),
        (choice("torch.nn:ReLU", (1, 0)), r"input_shape=\[1, 0\]: allowed are sizes from 1"),
        (choice("torch.nn:ReLU", (2**20, 2**20)), "at most 2147483648 elements"),
        (choice("torch.nn:Linear", (1, 5), in_features=4, out_features=4), "torch.export cannot"),
        (choice("net.onnx", (1, 5), in_features=4), "takes no model_arguments"),
    ],
)
def test_wrong_choices_are_refused(network: NetworkChoice, message: str) -> None:
    with pytest.raises(InputError, match=message):
        import_network(network)


def test_a_missing_module_has_no_place_in_the_user_s_code() -> None:
    with pytest.raises(InputError, match=r"No module named 'no_such_module'$"):
        import_network(NetworkChoice("no_such_module:make", {}, (1, 4)))


def test_a_cost_model_in_the_place_of_a_network_is_explained() -> None:
    with pytest.raises(InputError, match=r"cost=learned cost\.model_file=a/flow\.pt"):
        import_network(NetworkChoice("a/flow.pt", {}, None))


def test_a_choice_with_arguments_and_indices() -> None:
    arguments = {"in_features": 4, "out_features": 3}
    network = import_network(NetworkChoice("torch.nn:Linear", arguments, (1, 4)))
    assert network.graph.name == "Linear-1x4"
    where = f"{SmallGpt.__module__}:SmallGpt"
    network = import_network(NetworkChoice(where, {}, (1, 8), InputKind.INDICES))
    assert kinds(network)[OpKind.EMBEDDING] == 1


def test_a_live_module_class_or_function_is_imported() -> None:
    network = import_network(NetworkChoice(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), {}, (2, 4)))
    assert network.graph.name == "Sequential-2x4"
    arguments = {"in_features": 4, "out_features": 3}
    assert import_network(NetworkChoice(nn.Linear, arguments, (1, 4))).graph.name == "Linear-1x4"
    assert import_network(NetworkChoice(mlp, {}, (5, 16))).graph.name == "mlp-5x16"

    def gated(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x * torch.sigmoid(y)

    network = import_network(NetworkChoice(gated, {}, [[2, 4], [2, 4]]))
    assert network.graph.name == "gated-2x4-2x4"
    assert kinds(network) == {OpKind.LOAD: 2, OpKind.SIGMOID: 1, OpKind.MULTIPLY: 1, OpKind.STORE: 1}
    with pytest.raises(InputError, match=r"model=int: .*'int' object is not callable"):
        import_network(NetworkChoice(3, {}, (1, 4)))  # type: ignore[arg-type]


def test_tokens_and_numbers_are_two_kinds_of_inputs() -> None:
    class Conditioned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(9, 4)

        def forward(self, x: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
            return x + self.table(tokens)

    both = (InputKind.NUMBERS, InputKind.INDICES)
    network = import_network(NetworkChoice(Conditioned, {}, ((1, 3, 4), (1, 3)), both))
    assert kinds(network)[OpKind.EMBEDDING] == 1
    with pytest.raises(InputError, match=r"input_kind=\['numbers', 'indices'\] for 1 inputs"):
        import_network(NetworkChoice(Conditioned, {}, (1, 3, 4), both))
    with pytest.raises(InputError, match=r"takes 2 inputs \(x, tokens\), input_shape has 1"):
        import_network(NetworkChoice(Conditioned, {}, (1, 3, 4)))


def test_a_large_constant_is_refused_before_it_is_made() -> None:
    class Positions(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.arange(2**40).float().sum()

    with pytest.raises(InputError, match=r"aten.arange: constants of more than 134217728 numbers; at test_from_torch"):
        import_network(NetworkChoice(Positions, {}, (1, 4)))


def test_disagreement_is_found() -> None:
    network, module, x = imported("mlp")
    with torch.no_grad():
        expected = module(x).numpy()
    require_agreement(network, [x.numpy()], [expected])
    with pytest.raises(InputError, match="computes something else than the network: output 0"):
        require_agreement(network, [x.numpy()], [expected * 1.001])
    with pytest.raises(InputError, match="output 0 of the network is not finite"):
        require_agreement(network, [x.numpy()], [expected * np.nan])
