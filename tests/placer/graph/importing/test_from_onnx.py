"""ONNX files: exported networks compute the same, foreign and damaged files are refused."""

from __future__ import annotations

import os
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from placer.base import InputError
from placer.graph import OpKind
from placer.graph.importing import NetworkChoice, import_network
from placer.graph.importing.from_onnx import import_onnx
from placer.graph.importing.from_torch import import_module
from tests.placer.graph.importing.networks import NETWORKS, example

FLOAT = TensorProto.FLOAT
RNG = np.random.default_rng(0)


def weight(name: str, *shape: int) -> TensorProto:
    return numpy_helper.from_array(RNG.standard_normal(shape).astype(np.float32), name)


def model_of(
    nodes: list[Any], weights: list[TensorProto], shape: tuple[int | str, ...] = (4, 8), opset: int = 20
) -> onnx.ModelProto:
    """A model that reads x and makes y."""
    graph = helper.make_graph(
        nodes, "test",
        [helper.make_tensor_value_info("x", FLOAT, shape)],
        [helper.make_tensor_value_info("y", FLOAT, None)],
        weights,
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def two_layers() -> onnx.ModelProto:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], name="first"),
        helper.make_node("Relu", ["h"], ["r"], name="relu"),
        helper.make_node("Gemm", ["r", "v", "b"], ["y"], name="second", transB=1),
    ]
    return model_of(nodes, [weight("w", 8, 16), weight("v", 5, 16), weight("b", 5)])


def saved(path: Path, model: onnx.ModelProto) -> Path:
    path.write_bytes(model.SerializeToString())
    return path


def test_two_layers(tmp_path: Path) -> None:
    network = import_onnx(saved(tmp_path / "net.onnx", two_layers()))
    assert network.graph.name == "net"
    kinds = [op.kind.value for op in network.graph.ops]
    assert kinds == ["load", "linear", "relu", "linear", "bias", "store"]
    x = RNG.standard_normal((4, 8))
    w, v, b = (network.weights[name] for name in ("w", "v", "b"))
    (y,) = network.run([x])
    np.testing.assert_allclose(y, np.maximum(x @ w, 0) @ v.T + b, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("opset", [None, 18])
@pytest.mark.parametrize("name", NETWORKS)
def test_exported_networks_compute_what_pytorch_computes(tmp_path: Path, name: str, opset: int | None) -> None:
    make, shape, has_indices = NETWORKS[name]
    torch.manual_seed(0)
    module, x, path = make().eval(), example(shape, has_indices), tmp_path / f"{name}.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, (x,), path, dynamo=True, verbose=False, opset_version=opset)
    network = import_onnx(path)
    (found,) = network.run([x.numpy()])
    with torch.no_grad():
        expected = module(x).numpy()
    assert np.abs(found - expected).max() <= 1e-4 * np.abs(expected).max()
    products = [op.kind for op in network.graph.ops if op.kind in (OpKind.LINEAR, OpKind.MATMUL)]
    direct = import_module(module, shape, has_indices, name).graph.ops
    assert products == [op.kind for op in direct if op.kind in (OpKind.LINEAR, OpKind.MATMUL)]


def test_open_sizes_need_an_input_shape(tmp_path: Path) -> None:
    model = model_of([helper.make_node("MatMul", ["x", "w"], ["y"])], [weight("w", 8, 2)],
                     ("batch", 8))  # fmt: skip
    path = str(saved(tmp_path / "net.onnx", model))
    with pytest.raises(InputError, match=r"has shape \['\?', 8\], input_shape is None; set"):
        import_network(NetworkChoice(path, {}, None))
    network = import_network(NetworkChoice(path, {}, (3, 8)))
    assert network.graph.tensors["input"].shape == (3, 8)
    for shape in ((3, 9), (3,), (2**30, 8)):
        with pytest.raises(InputError, match="set input_shape to sizes"):
            import_onnx(Path(path), shape)


def test_old_files_write_gelu_by_erf(tmp_path: Path) -> None:
    root, half, one = (
        numpy_helper.from_array(np.float32(v), n) for v, n in ((2**0.5, "root"), (0.5, "half"), (1.0, "one"))
    )
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Div", ["h", "root"], ["d"]),
        helper.make_node("Erf", ["d"], ["e"], name="erf"),
        helper.make_node("Add", ["e", "one"], ["g"]),
        helper.make_node("Mul", ["h", "g"], ["m"]),
        helper.make_node("Mul", ["m", "half"], ["y"]),
    ]
    path = saved(tmp_path / "n.onnx", model_of(nodes, [weight("w", 8, 4), root, half, one]))
    kinds = [op.kind.value for op in import_onnx(path).graph.ops]
    assert kinds == ["load", "linear", "gelu", "store"]
    nodes[3] = helper.make_node("Add", ["e", "half"], ["g"], name="wrong")
    saved(path, model_of(nodes, [weight("w", 8, 4), root, half, one]))
    with pytest.raises(InputError, match="Erf: no such operation here; at node 'erf'"):
        import_onnx(path)


def test_all_unsupported_operators_are_listed(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Sin", ["x"], ["a"], name="one"),
        helper.make_node("Relu", ["a"], ["b"], name="two"),
        helper.make_node("Frobnicate", ["b"], ["c"], name="three", domain="my.own"),
        helper.make_node("Mul", ["x", "x"], ["d"], name="four"),
        helper.make_node("Add", ["c", "d"], ["y"], name="five"),
    ]
    path = saved(tmp_path / "net.onnx", model_of(nodes, []))
    with pytest.raises(InputError, match="2 operations are not supported") as error:
        import_onnx(path)
    assert str(error.value).splitlines()[1:] == [
        "  Sin: no such operation here; at node 'one'",
        "  my.own.Frobnicate: no such operation here; at node 'three'",
    ]


def test_a_known_operator_in_a_wrong_form_is_listed_behind_an_unknown_one(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Sin", ["x"], ["a"], name="one"),
        helper.make_node("Gemm", ["a", "w"], ["y"], name="two", alpha=0.5),
    ]
    path = saved(tmp_path / "net.onnx", model_of(nodes, [weight("w", 8, 8)]))
    with pytest.raises(InputError, match="2 operations are not supported") as error:
        import_onnx(path)
    assert "Gemm: a product with transA or alpha; at node 'two'" in str(error.value)


def test_the_content_of_a_file_is_enough(tmp_path: Path) -> None:
    path = saved(tmp_path / "network.onnx", two_layers())
    by_name, by_content = (import_network(NetworkChoice(model, {}, None)) for model in (path, path.read_bytes()))
    assert by_name.graph == by_content.graph
    with pytest.raises(InputError, match="lies in another file; give the ONNX file by its name"):
        import_network(NetworkChoice(with_external("w.bin").SerializeToString(), {}, None))


def test_constants_are_folded_but_not_without_limit(tmp_path: Path) -> None:
    sizes = numpy_helper.from_array(np.array([2**14, 2**14], np.int64), "sizes")
    nodes = [
        helper.make_node("ConstantOfShape", ["sizes"], ["huge"], name="bomb"),
        helper.make_node("Add", ["x", "huge"], ["y"]),
    ]
    path = saved(tmp_path / "net.onnx", model_of(nodes, [sizes]))
    with pytest.raises(InputError, match="constants of more than 134217728 numbers; at node 'bomb"):
        import_onnx(path)


@pytest.mark.parametrize(
    ("kind", "attributes"),
    [("Relu", {}), ("ReduceMean", {}), ("Add", {}), ("LayerNormalization", {"axis": 0}), ("Expand", {})],
)
def test_a_huge_dimension_takes_no_memory(tmp_path: Path, kind: str, attributes: dict[str, Any]) -> None:
    extra = {"Add": ["b"], "LayerNormalization": ["b"], "Expand": ["sizes"]}.get(kind, [])
    sizes = numpy_helper.from_array(np.array([10**9, 1, 1], np.int64), "sizes")
    node = helper.make_node(kind, ["x", *extra], ["y"], **attributes)
    path = saved(tmp_path / "net.onnx", model_of([node], [weight("b", 1), sizes], (1, 10**9)))
    with pytest.raises(InputError, match="sizes from 1 to 16777216"):
        import_onnx(path)
    path = saved(tmp_path / "net.onnx", model_of([node], [weight("b", 1), sizes], (2**24, 100)))
    tracemalloc.start()
    try:
        import_onnx(path)
    except InputError as error:
        assert "16777216" in str(error) or "numbers" in str(error) or "repeating" in str(error)
    assert tracemalloc.get_traced_memory()[1] < 2**28
    tracemalloc.stop()


def test_a_tensor_that_is_repeated_very_often_takes_no_memory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    sizes = numpy_helper.from_array(np.array([2**26, 4, 8], np.int64), "sizes")
    zero = numpy_helper.from_array(np.int64(0), "zero")
    nodes = [helper.make_node("Expand", ["x", "sizes"], ["e"]), helper.make_node("Gather", ["e", "zero"], ["y"])]
    tracemalloc.start()
    network = import_onnx(saved(tmp_path / "net.onnx", model_of(nodes, [sizes, zero])))
    assert tracemalloc.get_traced_memory()[1] < 2**28
    tracemalloc.stop()
    assert "are too many to check" in caplog.text
    x = RNG.standard_normal((4, 8))
    np.testing.assert_array_equal(network.run([x])[0], x)


def test_huge_padding_is_refused(tmp_path: Path) -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[2**14] * 4, strides=[2**14] * 2)
    path = saved(tmp_path / "net.onnx", model_of([node], [weight("w", 2, 1, 3, 3)], (1, 1, 4, 4)))
    with pytest.raises(InputError, match="Conv: padding of more than 4096 pixels"):
        import_onnx(path)


HUGE = numpy_helper.from_array(np.array([10**8], np.int64), "huge")
LONG = numpy_helper.from_array(np.array([2**20], np.int64), "long")
ZEROS = numpy_helper.from_array(np.zeros(1, np.int64))


@pytest.mark.parametrize(
    ("nodes", "says"),
    [
        ([helper.make_node("LayerNormalization", ["x", "b"], ["y"], axis=-(10**8))], "axis=-100000000; allowed"),
        ([helper.make_node("Split", ["x"], ["y", "z"], num_outputs=10**7)], "num_outputs=10000000; allowed"),
        ([helper.make_node("Concat", ["x"], ["y"], axis=10**8)], "axis=100000000; allowed"),
        (
            [
                helper.make_node("ConstantOfShape", ["long"], ["z"], value=ZEROS),
                helper.make_node("Reshape", ["x", "z"], ["y"]),
            ],
            "sizes of 1048576 dimensions",
        ),
    ],
)
def test_huge_numbers_are_refused_before_anything_is_evaluated(tmp_path: Path, nodes: list[Any], says: str) -> None:
    path = saved(tmp_path / "net.onnx", model_of(nodes, [weight("b", 8), LONG]))
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=says):
            import_onnx(path)
        assert tracemalloc.get_traced_memory()[1] < 2**28
    finally:
        tracemalloc.stop()


def test_what_no_output_needs_is_not_evaluated(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("ConstantOfShape", ["huge"], ["unused"], value=ZEROS),
        helper.make_node("Relu", ["x"], ["y"]),
    ]
    path = saved(tmp_path / "net.onnx", model_of(nodes, [HUGE]))
    tracemalloc.start()
    try:
        assert [op.kind.value for op in import_onnx(path).graph.ops] == ["load", "relu", "store"]
        assert tracemalloc.get_traced_memory()[1] < 2**28
    finally:
        tracemalloc.stop()


def test_a_small_file_with_large_tensors_is_not_evaluated(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = saved(tmp_path / "net.onnx", model_of([helper.make_node("Relu", ["x"], ["y"])], [], (1, 2**23, 8)))
    tracemalloc.start()
    try:
        import_onnx(path)
        assert tracemalloc.get_traced_memory()[1] < 2**28
    finally:
        tracemalloc.stop()
    assert "too many to check the import" in caplog.text


def test_windows_that_are_not_those_of_the_weight_are_refused(tmp_path: Path) -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"], kernel_shape=[9000, 3])
    path = saved(tmp_path / "net.onnx", model_of([node], [weight("w", 2, 1, 3, 3)], (1, 1, 4, 4)))
    with pytest.raises(InputError, match=r"kernel_shape \[9000, 3\] with a weight of \[2, 1, 3, 3\]"):
        import_onnx(path)


def test_several_inputs_have_a_shape_each(tmp_path: Path) -> None:
    model = model_of([helper.make_node("Mul", ["x", "z"], ["y"])], [], (4, "n"))
    model.graph.input.append(helper.make_tensor_value_info("z", FLOAT, (4, 1)))
    path = saved(tmp_path / "net.onnx", model)
    network = import_network(NetworkChoice(path, {}, ((4, 8), (4, 1))))
    x, z = RNG.standard_normal((4, 8)), RNG.standard_normal((4, 1))
    np.testing.assert_allclose(network.run([x, z])[0], x * z)
    with pytest.raises(InputError, match=r"2 inputs \['x', 'z'\]; input_shape has 1, needed are"):
        import_onnx(path, (4, 8))


def test_a_long_table_of_positions_is_folded(tmp_path: Path) -> None:
    rows = numpy_helper.from_array(np.arange(256), "rows")
    nodes = [
        helper.make_node("Gather", ["table", "rows"], ["positions"]),
        helper.make_node("Add", ["x", "positions"], ["y"]),
    ]
    model = model_of(nodes, [weight("table", 1024, 768), rows], shape=(256, 768))
    network = import_onnx(saved(tmp_path / "net.onnx", model))
    assert network.can_be_checked(), "it agreed with the file"


def test_a_weight_that_is_no_number_does_not_hang_the_import(tmp_path: Path) -> None:
    model = two_layers()
    array = numpy_helper.to_array(model.graph.initializer[0]).copy()
    array[0, 0] = np.nan
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(array, "w"))
    with pytest.raises(InputError, match="output 0 of the network is not finite"):
        import_onnx(saved(tmp_path / "net.onnx", model))


def test_weights_beside_the_file_are_read(tmp_path: Path) -> None:
    model = two_layers()
    expected = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    onnx.save(
        model, tmp_path / "net.onnx", save_as_external_data=True, location="net.data",
        size_threshold=0,
    )  # fmt: skip
    assert (tmp_path / "net.data").is_file()
    network = import_onnx(tmp_path / "net.onnx")
    for name, array in expected.items():
        np.testing.assert_array_equal(network.weights[name], array)


def with_external(location: str, **entries: int) -> onnx.ModelProto:
    model = two_layers()
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    return model


@pytest.mark.parametrize(
    "location", ["../secret", "{root}/secret", "link", "folder", "", "a\0b", "x" * 5000, "/dev/zero"]
)
def test_files_outside_of_the_folder_are_not_read(tmp_path: Path, location: str) -> None:
    (tmp_path / "secret").write_bytes(bytes(8 * 16 * 4))
    inside = tmp_path / "models"
    (inside / "folder").mkdir(parents=True)
    os.symlink(tmp_path / "secret", inside / "link")
    model = with_external(location.format(root=tmp_path))
    with pytest.raises(InputError, match="there is no such file in the folder of the model"):
        import_onnx(saved(inside / "net.onnx", model))


@pytest.mark.parametrize("entries", [{"offset": 100}, {"length": 4}, {"offset": -4}, {"offset": 10**30}])
def test_wrong_places_in_a_weight_file_are_refused(tmp_path: Path, entries: dict[str, int]) -> None:
    (tmp_path / "data").write_bytes(bytes(8 * 16 * 4))
    path = saved(tmp_path / "net.onnx", with_external("data", **entries))
    with pytest.raises(InputError, match="weight 'w' needs 512 bytes"):
        import_onnx(path)


def huge_weight(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].dims[:] = [2**40, 2**40]


def short_weight(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].raw_data = b"1234"


def negative_weight(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].dims[:] = [-8, -16]


def old_opset(model: onnx.ModelProto) -> None:
    model.opset_import[0].version = 9


def no_inputs(model: onnx.ModelProto) -> None:
    del model.graph.input[:]


def unknown_tensor(model: onnx.ModelProto) -> None:
    model.graph.node[0].input[0] = "nowhere"


def no_output(model: onnx.ModelProto) -> None:
    del model.graph.output[:]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (huge_weight, r"weight 'w' has shape \[1099511627776, 1099511627776\]; allowed are sizes"),
        (negative_weight, r"weight 'w' has shape \[-8, -16\]"),
        (short_weight, "weight 'w' is malformed"),
        (old_opset, "operator set 9; supported: 13 to"),
        (no_inputs, r"0 inputs \[\]; input_shape has none, needed are 1 to 64 inputs"),
        (unknown_tensor, r"MatMul: malformed \(LookupError: no tensor 'nowhere'\); at node 'first'"),
        (no_output, "no input; a graph needs a load"),
    ],
)
def test_damaged_models_are_refused(tmp_path: Path, damage: Callable[[onnx.ModelProto], None], message: str) -> None:
    model = two_layers()
    damage(model)
    with pytest.raises(InputError, match=message):
        import_onnx(saved(tmp_path / "net.onnx", model))


def test_what_is_no_onnx_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read .*none\.onnx: No such file"):
        import_onnx(tmp_path / "none.onnx")
    path = tmp_path / "net.onnx"
    for content in (b"", b"hello", two_layers().SerializeToString()[:-50]):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"ONNX file .*net\.onnx"):
            import_onnx(path)


GOOD = two_layers().SerializeToString()


@given(st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), max_size=6),
       st.integers(0, len(GOOD)))  # fmt: skip
@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_changed_bytes_give_a_network_or_a_clear_message(
    tmp_path: Path, changes: list[tuple[int, int]], length: int
) -> None:
    content = bytearray(GOOD)
    for place, value in changes:
        content[place] = value
    path = tmp_path / "net.onnx"
    path.write_bytes(content if len(changes) % 2 else content[:length])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of numbers that became huge
        try:
            import_onnx(path)
        except InputError as error:
            assert str(error)


OPERATORS = st.sampled_from(
    ["Reshape", "Transpose", "Slice", "Gather", "Split", "Squeeze", "Unsqueeze", "Concat", "Conv",
     "ReduceMean", "Softmax", "LayerNormalization", "Expand", "Gemm", "MatMul", "Where", "Range",
     "ConstantOfShape", "Flatten", "Cast", "Shape", "Erf", "Mul", "TopK", "MaxPool", "AveragePool",
     "BatchNormalization", "Einsum", "ReduceSum", "Pow", "OneHot", "ScatterElements", "Tanh", "Add"]
)  # fmt: skip
NAMES = st.sampled_from(["x", "a", "b", "numbers", "w", "scalar", ""])
ATTRIBUTES = st.dictionaries(
    st.sampled_from(
        ["axis", "axes", "perm", "keepdims", "to", "num_outputs", "start", "strides", "kernel_shape", "pads", "group"]
    ),
    st.one_of(st.integers(-3, 9), st.lists(st.integers(-3, 9), min_size=1, max_size=4)),
    max_size=2,
)


@pytest.mark.slow
@given(st.lists(st.tuples(OPERATORS, st.lists(NAMES, max_size=4), ATTRIBUTES), max_size=4),
       st.lists(st.integers(-4, 2**40), max_size=4))  # fmt: skip
@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_nodes_give_a_network_or_a_clear_message(
    tmp_path: Path, nodes: list[tuple[str, list[str], dict[str, Any]]], numbers: list[int]
) -> None:
    entries = [
        helper.make_node(kind, inputs, ["ab"[number % 2]], **attributes)
        for number, (kind, inputs, attributes) in enumerate(nodes)
    ]
    entries.append(helper.make_node("Relu", ["ab"[len(nodes) % 2 - 1]], ["y"]))
    weights = [
        numpy_helper.from_array(np.array(numbers, np.int64), "numbers"),
        weight("w", 8, 8),
        numpy_helper.from_array(np.int64(1), "scalar"),
    ]
    path = saved(tmp_path / "net.onnx", model_of(entries, weights, (1, 4, 8)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            import_onnx(path)
        except InputError as error:
            assert str(error)
