"""The graph checks what it is given, knows its work, and survives its file format."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placer.base import InputError
from placer.graph import DataflowGraph, Op, OpAttributes, OpKind, load_graph
from placer.graph.graph_file import from_json, to_json
from placer.graph.workloads import build
from placer.graph.workloads.builder import GraphBuilder
from placer.graph.workloads.specs import FfnSpec, GemmSpec, MhaSpec, MlpSpec, Spec

SPECS: list[Spec] = [
    GemmSpec(16, 32, 48),
    MlpSpec(16, 32, 3, training=True),
    FfnSpec(16, 32, 64, training=True),
    MhaSpec(16, 32, 2),
    MhaSpec(32, 48, 3, training=True),
]


def two_layers() -> DataflowGraph:
    b = GraphBuilder()
    x = b.load((4, 3), name="x")
    hidden = b.relu(b.linear(x, 5, name="up"), name="hidden")
    b.store(b.linear(hidden, 2, name="down"), name="y")
    return b.build("two-layers", "mlp")


def test_shapes_weights_and_work_of_a_graph_by_hand() -> None:
    graph = two_layers()
    assert [op.name for op in graph.ops] == ["x", "up", "hidden", "down", "y"]
    assert [graph.tensors[op.name].shape for op in graph.ops] == [(4, 3), (4, 5), (4, 5), (4, 2), (4, 2)]
    assert graph.weights == {"up.weight": (3, 5), "down.weight": (5, 2)}
    assert [graph.macs(op) for op in graph.ops] == [0, 4 * 3 * 5, 0, 4 * 5 * 2, 0]
    assert [graph.elements(op) for op in graph.ops] == [12, 20, 20, 8, 8]
    assert graph.total_macs == 100
    assert [op.name for op in graph.consumers["hidden"]] == ["down"]


def test_work_of_products_with_heads_and_transposes() -> None:
    b = GraphBuilder()
    left, right = b.load((3, 4, 5)), b.load((3, 7, 4))
    product = b.matmul(left, right, transpose_a=True, transpose_b=True, name="product")
    b.store(product)
    b.add_op(OpKind.WEIGHT_GRAD, left, left, name="gradient", weight="w")
    graph = b.build("products", "test")
    ops = {op.name: op for op in graph.ops}
    assert graph.tensors["product"].shape == (3, 5, 7)
    assert graph.macs(ops["product"]) == 3 * 5 * 7 * 4
    assert graph.tensors["gradient"].shape == (5, 5)
    assert graph.macs(ops["gradient"]) == 5 * 5 * (3 * 4)


def test_weights_and_work_of_a_stack_of_products() -> None:
    b = GraphBuilder()
    x = b.split_heads(b.load((4, 15)), 3)
    y = b.linear(x, 7, "product", stacked=True)
    b.store(b.linear(y, 5, "back", "product.weight", transposed_weight=True, stacked=True))
    graph = b.build("stack", "test")
    assert graph.weights == {"product.weight": (3, 5, 7)}
    assert graph.total_macs == 2 * 3 * 4 * 5 * 7


def test_a_constant_is_a_weight_that_is_read_as_a_tensor() -> None:
    b = GraphBuilder()
    table = b.constant((4, 6), weight="table")
    b.store(b.add(table, b.constant((4, 6), weight="table")))
    graph = b.build("table", "test")
    assert graph.weights == {"table": (4, 6)} and graph.tensors[table].shape == (4, 6)
    assert from_json(to_json(graph)) == graph


def test_a_tensor_with_heads() -> None:
    graph = build(MhaSpec(16, 32, 2))
    scores = graph.tensors["mha.scores"]
    assert (scores.heads, scores.rows, scores.columns, scores.elements) == (2, 16, 16, 512)
    assert graph.tensors["x"].heads == 1


ShapeCase = tuple[Callable[[GraphBuilder], str], str]

BAD_SHAPES: dict[str, ShapeCase] = {
    "add": (lambda b: b.add(b.load((2, 3)), b.load((3, 2)), "bad"), "[2, 3], [3, 2]"),
    "matmul": (lambda b: b.matmul(b.load((2, 3)), b.load((2, 3)), name="bad"), "columns of the"),
    "matmul_heads": (lambda b: b.matmul(b.load((2, 3, 3)), b.load((4, 3, 3)), name="bad"), "equal heads"),
    "matmul_rank": (lambda b: b.matmul(b.load((3, 3)), b.load((2, 3, 3)), name="bad"), "rank"),
    "split_heads": (lambda b: b.split_heads(b.load((2, 6)), 4, "bad"), "heads=4"),
    "merge_heads": (lambda b: b.merge_heads(b.load((2, 6)), "bad"), "[heads, rows, columns]"),
    "concat": (lambda b: b.concat(b.load((2, 6)), b.load((3, 6)), name="bad"), "but the last"),
    "slice": (lambda b: b.slice(b.load((2, 6)), 4, 7, "bad"), "stop=7 <= 6"),
    "empty_slice": (lambda b: b.slice(b.load((2, 6)), 4, 4, "bad"), "start=4 < stop=4"),
    "softmax": (lambda b: b.softmax(b.load((2, 6)), True, "bad"), "as many rows as columns"),
    "multiply": (lambda b: b.multiply(b.load((2, 6)), b.load((1, 6)), "bad"), "or 1 column"),
    "multiply_heads": (lambda b: b.multiply(b.load((2, 6)), b.load((3, 2, 6)), "bad"), "one matrix for all heads"),
    "rotary_odd": (lambda b: b.rotary(b.load((2, 5)), b.load((2, 5)), b.load((2, 5)), name="bad"), "d even"),
    "rotary_rows": (lambda b: b.rotary(b.load((2, 4)), b.load((2, 4)), b.load((1, 4)), name="bad"), "[rows, d]"),
    "stacked": (lambda b: b.linear(b.load((2, 4)), 3, "bad", stacked=True), "[heads, rows, columns]"),
    "repeat_heads": (lambda b: b.repeat_heads(b.load((2, 4)), 3, "bad"), "[heads, rows, columns]"),
    "sum_heads": (lambda b: b.sum_heads(b.load((4, 2, 2)), 3, "bad"), "multiple of repeats=3"),
    "concat_rows": (lambda b: b.concat_rows(b.load((2, 6)), b.load((2, 5)), name="bad"), "heads and columns"),
    "slice_rows": (lambda b: b.slice_rows(b.load((2, 6)), 1, 3, "bad"), "stop=3 <= 2 rows"),
    "rows_to_heads": (lambda b: b.rows_to_heads(b.load((2, 6)), 4, "bad"), "multiple of heads=4"),
    "heads_to_rows": (lambda b: b.heads_to_rows(b.load((6, 2, 3)), 3, "bad"), "[rows * heads, 1, columns]"),
    "top_k": (lambda b: b.top_k(b.load((2, 6)), 7, "bad"), "top=7 <= experts"),
    "dispatch": (lambda b: b.dispatch(b.load((3, 6)), b.load((3, 2)), 2, 1, "bad"), "expert=2 < experts"),
    "capacity": (lambda b: b.dispatch(b.load((3, 6)), b.load((3, 2)), 1, 4, "bad"), "capacity=4 <= rows"),
    "combine": (lambda b: b.combine(b.load((3, 2)), b.load((2, 6)), name="bad"), "for each expert"),
    "columns": (lambda b: b.linear(b.load((2, 6)), -1, "bad"), "sizes from 1"),
    "load_rank": (lambda b: b.load((2, 3, 4, 5), "bad"), "rank 2 or 3"),
    "load_zero": (lambda b: b.load((2, 0), "bad"), "sizes from 1"),
    "load_huge": (lambda b: b.load((2**16, 2**16), "bad"), "at most 2147483648"),
    "weight_huge": (lambda b: b.linear(b.load((1, 2**20)), 2**20, "bad"), "at most 2147483648"),
    "embedding": (
        lambda b: b.add_op(OpKind.EMBEDDING, name="bad", shape=(2, 3, 4), weight="w", table_rows=9),
        "[rows, columns]",
    ),
}


@pytest.mark.parametrize("case", BAD_SHAPES)
def test_shapes_that_do_not_fit_name_the_op_and_the_rule(case: str) -> None:
    make, rule = BAD_SHAPES[case]
    builder = GraphBuilder()
    builder.store(make(builder))
    with pytest.raises(InputError) as caught:
        builder.build("bad", "test")
    assert "'bad'" in str(caught.value)
    assert rule in str(caught.value)


LOAD = Op("x", OpKind.LOAD, (), OpAttributes(shape=(2, 2)))
STORE = Op("y", OpKind.STORE, ("x",))


@pytest.mark.parametrize(
    ("ops", "message"),
    [
        ((LOAD, LOAD, STORE), r"more than once: \['x'\]"),
        ((LOAD, Op("y", OpKind.STORE, ("z",))), "reads 'z', which no op makes"),
        ((LOAD, STORE, Op("again", OpKind.STORE, ("y",))), "reads 'y', which no op makes"),
        ((LOAD, STORE, Op("lost", OpKind.RELU, ("x",))), "nobody reads .* 'lost'"),
        ((), "no input"),
        ((LOAD,), "no output"),
        (
            (LOAD, Op("g", OpKind.WEIGHT_GRAD, ("x", "x"), OpAttributes(weight="w")), Op("y", OpKind.STORE, ("g",))),
            "weight_grad 'g' cannot be read",
        ),
    ],
)
def test_malformed_graphs_are_refused(ops: tuple[Op, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        DataflowGraph("bad", "test", ops)


def test_a_cycle_is_named_in_the_way_of_the_data() -> None:
    ops = (
        LOAD,
        Op("a", OpKind.ADD, ("x", "c")),
        Op("b", OpKind.RELU, ("a",)),
        Op("c", OpKind.RELU, ("b",)),
        Op("d", OpKind.RELU, ("c",)),
        Op("y", OpKind.STORE, ("d",)),
    )
    with pytest.raises(InputError, match="cycle a -> b -> c -> a;"):
        DataflowGraph("round", "test", ops)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Op("a", "conv", ("x",)),  # type: ignore[arg-type]
            "unknown kind 'conv'; known kinds: load",
        ),
        (lambda: Op("", OpKind.RELU, ("x",)), "printable"),
        (lambda: Op("a\n", OpKind.RELU, ("x",)), "printable"),
        (lambda: Op("a", OpKind.ADD, ("x",)), "add takes 2 input tensors, got 1"),
        (lambda: Op("a", OpKind.CONCAT, ("x",)), "two or more"),
        (lambda: Op("a", OpKind.LINEAR, ("x",), OpAttributes(weight="w")), "needs .* 'columns'"),
        (lambda: Op("a", OpKind.RELU, ("x",), OpAttributes(heads=2)), "no attribute 'heads'"),
        (lambda: Op("a", OpKind.SCALE, ("x",), OpAttributes(factor=float("nan"))), "finite"),
        (lambda: DataflowGraph("", "test", (LOAD, STORE)), "printable"),
    ],
)
def test_malformed_ops_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_ops_that_share_a_weight_must_agree_on_its_shape() -> None:
    b = GraphBuilder()
    x = b.load((4, 6))
    y = b.linear(x, 3, weight="shared")
    b.store(b.linear(y, 6, weight="shared", transposed_weight=True))
    assert b.build("tied", "test").weights == {"shared": (6, 3)}
    b.store(b.linear(y, 6, weight="shared", name="bad"))
    with pytest.raises(InputError, match=r"'bad' takes weight 'shared' to have shape \[3, 6\]"):
        b.build("tied", "test")


@given(st.randoms(use_true_random=False), st.sampled_from(SPECS))
@settings(max_examples=40, deadline=None)
def test_any_order_of_ops_becomes_a_topological_one(random: Any, spec: Spec) -> None:
    graph = build(spec)
    ops = list(graph.ops)
    random.shuffle(ops)
    again = DataflowGraph(graph.name, graph.family, tuple(ops))
    seen: set[str] = set()
    for op in again.ops:
        assert seen.issuperset(op.inputs)
        seen.add(op.name)
    assert again.tensors == graph.tensors
    assert again.total_macs == graph.total_macs


def test_a_topological_order_stays_as_given() -> None:
    graph = build(MhaSpec(16, 32, 2, training=True))
    assert DataflowGraph(graph.name, graph.family, graph.ops).ops == graph.ops


@pytest.mark.parametrize("spec", SPECS)
def test_files_and_pickles_give_the_graph_back(spec: Spec) -> None:
    graph = build(spec)
    assert from_json(to_json(graph)) == graph
    assert pickle.loads(pickle.dumps(graph)) == graph


FFN_TEXT = to_json(build(FfnSpec(16, 32, 64, training=True)))


def document() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(FFN_TEXT)
    return data


def test_shapes_in_a_file_are_optional_but_must_agree() -> None:
    data = document()
    for op in data["ops"]:
        if op["kind"] != "load":
            del op["shape"]
    assert from_json(json.dumps(data)) == build(FfnSpec(16, 32, 64, training=True))
    data["ops"][1]["shape"] = [16, 65]
    with pytest.raises(InputError, match=r"\[16, 65\]; should be \[16, 64\]"):
        from_json(json.dumps(data))


def _change(path: list[Any], value: Any) -> str:
    data = document()
    place: Any = data
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return json.dumps(data)


def _without(path: list[Any], key: str) -> str:
    data = document()
    place: Any = data
    for step in path:
        place = place[step]
    del place[key]
    return json.dumps(data)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("1" * 5_000, "not valid JSON"),
        ("[]", "expected an object, got list"),
        (_change(["schema"], 2), "schema 2; this version reads 1"),
        (_change(["schema"], True), "schema must be int, got True"),
        (_change(["ops"], {}), "ops must be list"),
        (_change(["ops", 1], 7), "op 1: expected an object, got int"),
        (_change(["ops", 1, "kind"], "conv"), "op 1: unknown kind 'conv'"),
        (_change(["ops", 1, "colour"], 1), r"unknown fields \['colour'\]"),
        (_change(["ops", 1, "attributes", "columns"], 64.0), "columns must be int, got 64.0"),
        (_change(["ops", 1, "attributes", "columns"], True), "columns must be int, got True"),
        (_change(["ops", 1, "attributes", "image"], 3), "image must be list, got 3"),
        (_change(["ops", 1, "attributes", "image"], [3, 2.5]), "image must be int, got 2.5"),
        (_change(["ops", 1, "attributes", "image"], [3, 2]), "linear has no attribute 'image'"),
        (_change(["ops", 0, "shape"], [2**20, 2**20]), "at most 2147483648 elements"),
        (_change(["ops", 0, "shape"], []), "load needs the attribute 'shape'"),
        (_change(["ops", 0, "name"], "\ud800"), "printable"),
        (_without(["ops", 1, "attributes"], "columns"), "linear needs the attribute 'columns'"),
        (_without(["ops", 1], "kind"), r"missing fields \['kind'\]"),
        (_without([], "family"), r"missing fields \['family'\]"),
    ],
)
def test_bad_files_are_refused_with_the_reason(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        from_json(text)
    path = tmp_path / "graph.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message) as refused:
        load_graph(path)
    assert str(refused.value).startswith(f"graph file {path}: ")


def test_a_graph_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    path.write_text(FFN_TEXT, encoding="utf-8")
    assert load_graph(path) == from_json(FFN_TEXT)
    with pytest.raises(InputError, match=f"cannot read {tmp_path / 'none.json'}: "):
        load_graph(tmp_path / "none.json")


@given(st.data())
@settings(max_examples=50, deadline=None)
def test_truncated_files_are_refused(data: st.DataObject) -> None:
    text = to_json(two_layers())
    with pytest.raises(InputError):
        from_json(text[: data.draw(st.integers(0, len(text) - 1))])


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)


ODD_VALUES = st.sampled_from([0, -1, 2**40, 10**400, "x", "relu", "weight_grad", "up"])


def _paths(value: Any, prefix: tuple[Any, ...] = ()) -> list[list[Any]]:
    """Ways to all values inside a JSON document."""
    items: list[tuple[Any, Any]] = []
    if isinstance(value, dict | list):
        items = list(value.items() if isinstance(value, dict) else enumerate(value))
    inner = [path for key, child in items for path in _paths(child, (*prefix, key))]
    return [list(prefix), *inner] if prefix else inner


@pytest.mark.slow
@given(st.sampled_from(_paths(document())), JSON_VALUES | ODD_VALUES)
@settings(max_examples=100, deadline=None)
def test_a_changed_file_is_read_or_refused_but_never_crashes(path: list[Any], value: Any) -> None:
    try:
        graph = from_json(_change(path, value))
    except InputError:
        return
    assert from_json(to_json(graph)) == graph


@given(JSON_VALUES.map(json.dumps) | st.text())
@settings(max_examples=100, deadline=None)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        from_json(text)
