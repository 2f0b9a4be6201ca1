"""Workloads have the sizes that were asked for, the published ones, or a clear refusal."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from placer.base import InputError
from placer.graph import DataflowGraph, OpKind
from placer.graph.workloads import (
    DECODERS,
    FAMILIES,
    MODELS,
    NETWORK_FAMILIES,
    NETWORKS,
    VISION,
    DecoderSpec,
    FamilySpec,
    ModelSpec,
    VisionSpec,
    WorkloadConfig,
    build,
    default_spec,
    random_network,
    resolve,
    sample_spec,
    with_backward,
)
from placer.graph.workloads.builder import GraphBuilder
from placer.graph.workloads.specs import FfnSpec, GemmSpec, MhaSpec, MlpSpec, Spec, forward_macs
from tests import ROOT

CONF = ROOT / "conf" / "workload"
FAMILY_SPECS: list[FamilySpec] = [GemmSpec(32, 48, 64), MlpSpec(32, 48, 5), FfnSpec(32, 48, 160), MhaSpec(48, 64, 4)]


def kinds(graph: DataflowGraph) -> list[str]:
    return [str(op.kind) for op in graph.ops]


def num_parameters(graph: DataflowGraph) -> int:
    return sum(math.prod(shape) for shape in graph.weights.values())


def test_families_have_the_ops_of_their_definition() -> None:
    assert kinds(build(GemmSpec(16, 16, 16))) == ["load", "linear", "store"]
    layer = ["linear", "bias"]
    assert kinds(build(MlpSpec(16, 16, 2))) == ["load", *layer, "relu", *layer, "store"]
    block = [*layer, "gelu", *layer, "add", "layernorm"]
    assert kinds(build(FfnSpec(16, 16, 32))) == ["load", *block, "store"]
    projections = ["linear", "split_heads"] * 3
    attention = ["matmul", "scale", "softmax", "matmul", "merge_heads", "linear"]
    expected = ["load", *projections, *attention, "add", "layernorm", "store"]
    assert kinds(build(MhaSpec(16, 32, 2))) == expected


@pytest.mark.parametrize("spec", FAMILY_SPECS)
def test_closed_form_of_the_work_agrees_with_the_graph(spec: FamilySpec) -> None:
    assert forward_macs(spec) == build(spec).total_macs


@pytest.mark.parametrize(
    ("model", "parameters"),
    [  # as published, without BERT's pooler (width x width + width)
        ("bert_base", 109_482_240 - 590_592),
        ("bert_large", 335_141_888 - 1_049_600),
        ("gpt2", 124_439_808),
        ("gpt2_xl", 1_557_611_200),
    ],
)
def test_models_have_the_published_number_of_parameters(model: str, parameters: int) -> None:
    assert num_parameters(build(ModelSpec(model))) == parameters


@pytest.mark.parametrize("model", MODELS)
def test_parts_of_a_model(model: str) -> None:
    published = MODELS[model]
    whole = build(ModelSpec(model, sequence=64))
    one = build(ModelSpec(model, layers=1, sequence=64, embedding=False))
    assert whole.total_macs == published.layers * one.total_macs
    assert whole.family == one.family == model
    count = Counter(op.kind for op in one.ops)
    assert count[OpKind.LOAD] == 1 and count[OpKind.EMBEDDING] == 0
    assert count[OpKind.LAYERNORM] == (3 if published.is_decoder else 2)
    softmax = next(op for op in one.ops if op.kind == OpKind.SOFTMAX)
    assert softmax.attributes.causal == published.is_decoder
    assert one.tensors[softmax.name].shape == (published.heads, 64, 64)


@pytest.mark.parametrize("spec", [*FAMILY_SPECS, ModelSpec("gpt2", layers=2), ModelSpec("bert_base", layers=2)])
def test_training_appends_the_backward_pass(spec: Spec) -> None:
    forward, graph = build(spec), build(replace(spec, training=True))
    assert graph.ops[: len(forward.ops)] == forward.ops
    linears = [op.attributes.weight for op in forward.ops if op.kind == OpKind.LINEAR]
    gradients = [op.attributes.weight for op in graph.ops if op.kind == OpKind.WEIGHT_GRAD]
    assert sorted(gradients) == sorted(linears)
    assert graph.weights == forward.weights
    # One product per input gradient and weight gradient, but no gradient of the graph's input.
    assert 2 * forward.total_macs <= graph.total_macs <= 3 * forward.total_macs


def test_no_gradient_is_made_before_the_first_linear_op() -> None:
    b = GraphBuilder()
    x = b.layernorm(b.scale(b.load((4, 6)), 2.0), name="front")
    b.store(b.linear(x, 3, name="product"))
    added = kinds(with_backward(b.build("front", "test")))[5:]
    assert sorted(added) == ["load", "weight_grad"]


def test_nothing_to_train_is_refused() -> None:
    b = GraphBuilder()
    b.store(b.relu(b.load((2, 2))))
    with pytest.raises(InputError, match="no linear op"):
        with_backward(b.build("plain", "test"))
    with pytest.raises(InputError, match="gradient ops already"):
        with_backward(build(GemmSpec(2, 2, 2, training=True)))


def sizes(spec: FamilySpec) -> list[int]:
    return [v for k, v in asdict(spec).items() if k in ("rows", "width", "columns", "hidden")]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("budget", [200_000, 600_000, 1_000_000, 1_600_000, 8_000_000, 10**9])
def test_default_spec_meets_the_budget(family: str, budget: int) -> None:
    spec = default_spec(family, budget)
    assert spec == default_spec(family, budget)
    assert 0.85 <= forward_macs(spec) / budget <= 1.15
    assert all(size % 8 == 0 and 8 <= size <= 2048 for size in sizes(spec))


@given(st.sampled_from(FAMILIES), st.integers(600_000, 9_000_000), st.integers(0, 2**32))
@settings(max_examples=150, deadline=None)
def test_random_specs_meet_the_budget(family: str, budget: int, seed: int) -> None:
    spec = sample_spec(family, budget, np.random.default_rng(seed))
    assert spec == sample_spec(family, budget, np.random.default_rng(seed))
    assert 0.7 <= forward_macs(spec) / budget <= 1.3
    limit = 512 if 1.3 * budget <= 4_000_000 else 2048  # rows are fitted to 0.7 to 1.3 of it
    assert all(size % 8 == 0 and 8 <= size <= limit for size in sizes(spec))
    assert max(sizes(spec)) <= 8 * min(sizes(spec))
    if isinstance(spec, MhaSpec):
        assert 1 <= spec.heads <= 8 and spec.width % (8 * spec.heads) == 0
    if isinstance(spec, MlpSpec):
        assert 2 <= spec.depth <= 6


def inner_lengths(spec: FamilySpec) -> list[int]:
    """Lengths of the sums of all products in the forward pass."""
    graph = build(spec)
    lefts = [op.inputs[0] for op in graph.ops if op.kind in (OpKind.LINEAR, OpKind.MATMUL)]
    return [graph.tensors[left].columns for left in lefts]


@given(st.sampled_from(FAMILIES), st.integers(20, 400), st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_random_specs_for_short_samples_have_short_sums(family: str, sample_cycles: int, seed: int) -> None:
    budget = 2600 * sample_cycles  # the work of `small` in these cycles
    spec = sample_spec(family, budget, np.random.default_rng(seed), sample_cycles=sample_cycles)
    share = forward_macs(spec) / budget
    assert 0.7 <= share <= 1.3
    assert max(inner_lengths(spec)) <= 1.3 * share * sample_cycles


@pytest.mark.parametrize("family", FAMILIES)
def test_random_specs_differ(family: str) -> None:
    rng = np.random.default_rng(1)
    budgets = rng.integers(600_000, 1_600_000, size=100)
    assert len({sample_spec(family, int(budget), rng) for budget in budgets}) >= 30


@pytest.mark.slow
@given(
    st.sampled_from(FAMILIES),
    st.integers(1, 10**8),
    st.dictionaries(st.sampled_from(["rows", "width", "columns", "depth", "hidden", "heads"]), st.integers(-2, 2000)),
    st.booleans(),
)
@settings(max_examples=100, deadline=None)
def test_given_sizes_win_or_are_refused(family: str, budget: int, chosen: dict[str, Any], random: bool) -> None:
    config = WorkloadConfig(family, random=random, **chosen)
    try:
        spec = resolve(config, budget, np.random.default_rng(0))
    except InputError:
        return
    assert {name: getattr(spec, name) for name in chosen} == chosen


def test_the_sizes_that_are_not_given_still_meet_the_budget() -> None:
    cases: dict[str, dict[str, int]] = {"mha": {"heads": 5}, "mlp": {"depth": 3}, "gemm": {"rows": 64}}
    for family, chosen in cases.items():
        spec = default_spec(family, 1_000_000, chosen)
        assert 0.8 <= forward_macs(spec) / 1_000_000 <= 1.25
        random = sample_spec(family, 1_000_000, np.random.default_rng(3), chosen)
        assert 0.7 <= forward_macs(random) / 1_000_000 <= 1.3


def test_training_gets_a_third_of_the_budget_forward() -> None:
    rng = np.random.default_rng(0)
    for family in FAMILIES:
        spec = resolve(WorkloadConfig(family, training=True), 3_000_000, rng)
        assert spec == replace(default_spec(family, 1_000_000), training=True)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (WorkloadConfig("cnn"), "unknown workload family 'cnn'; known: gemm, .*, gpt2_xl, .*, resnet50"),
        (WorkloadConfig("gemm", heads=2), "heads=2 is set, .* it has: rows, width, columns"),
        (WorkloadConfig("gemm", embedding=False), "no embedding"),
        (WorkloadConfig("gemm", rows=0), "rows=0; allowed 1 to"),
        (WorkloadConfig("gemm", rows=2**40), "rows=1099511627776; allowed 1 to"),
        (WorkloadConfig("mha", width=48, heads=5), "width=48 is no multiple of heads=5"),
        (WorkloadConfig("bert_base", rows=2), "rows=2 is set, .* it has: layers, sequence"),
        (WorkloadConfig("bert_base", random=True), "random=true"),
        (WorkloadConfig("bert_base", layers=13), "layers=13; allowed 1 to 12"),
        (WorkloadConfig("gpt2", sequence=1025), "sequence=1025; allowed 1 to 1024"),
        (WorkloadConfig("gpt2", layers=0), "layers=0; allowed 1 to 12"),
        (WorkloadConfig("gpt2", decode=True), "decode=true, which only these have: llama3_8b, mixtral_8x7b"),
        (WorkloadConfig("gpt2", context=8), "context=8 is set, .* it has: layers, sequence"),
        (WorkloadConfig("llama3_8b", sequence=8193), "sequence=8193; allowed 1 to 8192"),
        (WorkloadConfig("llama3_8b", decode=True, sequence=4097), "sequence=4097; allowed 1 to 4096"),
        (WorkloadConfig("llama3_8b", decode=True, context=8192), "context=8192; allowed 1 to 8191"),
        (WorkloadConfig("llama3_8b", decode=True, training=True), "trained on whole sequences"),
        (WorkloadConfig("vit_large", sequence=3), "sequence=3 is set, .* it has: layers"),
        (WorkloadConfig("resnet50", layers=17), "layers=17; allowed 1 to 16"),
        (WorkloadConfig("resnet50", embedding=False), "no embedding"),
    ],
)
def test_configurations_that_make_no_sense(config: WorkloadConfig, message: str) -> None:
    with pytest.raises(InputError, match=message):
        resolve(config, 1_000_000, np.random.default_rng(0))


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(InputError, match="known families: gemm, mlp, ffn, mha"):
        default_spec("gpt2", 1_000_000)
    with pytest.raises(InputError, match="0 MACs"):
        default_spec("gemm", 0)
    with pytest.raises(InputError, match="has no field 'depth'"):
        default_spec("gemm", 1_000_000, {"depth": 2})
    with pytest.raises(InputError, match="known models: bert_base"):
        ModelSpec("bert")
    with pytest.raises(InputError, match="known models: llama3_8b"):
        DecoderSpec("llama")
    with pytest.raises(InputError, match="known models: vit_large"):
        VisionSpec("vit")
    with pytest.raises(InputError, match="width=0"):
        GemmSpec(16, 0, 16)


def test_there_is_one_configuration_file_per_workload() -> None:
    assert {path.stem for path in CONF.glob("*.yaml")} == {*FAMILIES, *NETWORKS, *NETWORK_FAMILIES}


def spec_of_defaults(name: str) -> Spec:
    if name in DECODERS:
        return DecoderSpec(name)
    if name in VISION:
        return VisionSpec(name)
    return ModelSpec(name) if name in MODELS else default_spec(name, 1_000_000)


@pytest.mark.parametrize("name", [*FAMILIES, *NETWORKS])
def test_configuration_files_mean_the_defaults(name: str) -> None:
    text = (CONF / f"{name}.yaml").read_text()
    config = WorkloadConfig(**yaml.safe_load(text))
    spec = resolve(config, 1_000_000, np.random.default_rng(0))
    assert spec == spec_of_defaults(name)
    assert all("#" in line for line in text.splitlines() if line)


@pytest.mark.parametrize("family", NETWORK_FAMILIES)
def test_a_random_network_has_a_number(family: str) -> None:
    config = WorkloadConfig(**yaml.safe_load((CONF / f"{family}.yaml").read_text()))
    first, again, other = (random_network(replace(config, draw=number)) for number in (3, 3, 4))
    assert first.ops == again.ops
    assert first.ops != other.ops


def test_settings_that_would_change_nothing_are_refused() -> None:
    with pytest.raises(InputError, match="decoder: layers=2 is set, but all sizes are drawn"):
        random_network(WorkloadConfig("decoder", layers=2))
    with pytest.raises(InputError, match="draw=-1; allowed 0 or more"):
        random_network(WorkloadConfig("decoder", draw=-1))
    with pytest.raises(InputError, match="draw=2, which only random networks have"):
        resolve(WorkloadConfig("mha", draw=2), 1_000_000, np.random.default_rng(0))
