"""What holds for every network: order, place and company of decisions do not matter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.encoding import (
    FABRIC_FEATURES,
    FLOW_COLUMNS,
    MAX_STAGE,
    NUM_STALLS,
    OPS,
    UNIT_COLUMNS,
    Batch,
    make_batch,
)
from costmodel.networks import (
    FlowConfig,
    NetworkConfig,
    Output,
    Pooling,
    build_network,
    describe_network,
    network_config,
)
from costmodel.networks.guha import GuhaConfig
from costmodel.wafer import WAFER_FEATURES
from placer.base import InputError
from placer.decision import Decisions
from placer.netlist import Netlist
from tests.costmodel.cases import Case, batch_of, graphs_of, network_of, random_stack
from tests.placer.random_cases import random_fabric
from tests.placer.simulation.test_symmetry import Place, moved

FLOW = FlowConfig(width=8, lane_width=8, rounds=2)
GUHA = GuhaConfig(width=8, rounds=2, embedding=4)
FLOW_VARIANTS = [
    FLOW,
    replace(FLOW, node_embedding=False),
    replace(FLOW, edge_embedding=False),
    replace(FLOW, annotations=False),
    replace(FLOW, lanes=False),
    replace(FLOW, stalls=False),
    replace(FLOW, pooling=Pooling.MEAN),
    replace(FLOW, pooling=Pooling.MAX),
    replace(FLOW, rounds=0),
    replace(FLOW, rounds=0, lanes=False),
]
GUHA_VARIANTS = [
    GUHA,
    replace(GUHA, node_embedding=False),
    replace(GUHA, edge_embedding=False),
    replace(GUHA, rounds=1),
]
VARIANTS: list[NetworkConfig] = [*FLOW_VARIANTS, *GUHA_VARIANTS]


def name_of(config: NetworkConfig) -> str:
    """What differs from the whole network."""
    whole = FLOW if isinstance(config, FlowConfig) else GUHA
    changed = [n for n in config.__slots__ if getattr(config, n) != getattr(whole, n)]
    values = [f"{n}={getattr(config, n)}" for n in changed]
    return " ".join([describe_network(config)["kind"], *values])


each_network = pytest.mark.parametrize("config", VARIANTS, ids=name_of)


@pytest.fixture(scope="module")
def batch() -> Batch:
    return batch_of(*(random_stack(seed) for seed in range(4)))


def assert_alike(one: Output, two: Output) -> None:
    torch.testing.assert_close(one.log_throughput, two.log_throughput, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(one.log_sigma, two.log_sigma, rtol=1e-5, atol=1e-5)


def differ(one: Output, two: Output) -> bool:
    return not torch.allclose(one.log_sigma, two.log_sigma, rtol=1e-4, atol=1e-5)


def relabelled(rng: np.random.Generator, case: Case) -> tuple[Case, np.ndarray]:
    """The same with units, flows and targets in another order; and the order of the units."""
    fabric, netlist, decisions = case
    units, flows = rng.permutation(netlist.num_units), rng.permutation(netlist.num_flows)
    new_unit = np.argsort(units)
    other = Netlist(
        netlist.name,
        netlist.family,
        netlist.fabric,
        tuple(netlist.units[i] for i in units),
        tuple(
            replace(
                netlist.flows[i],
                source=int(new_unit[netlist.flows[i].source]),
                targets=tuple(int(new_unit[target]) for target in rng.permutation(netlist.flows[i].targets)),
            )
            for i in flows
        ),
    )
    singles = []
    for d in range(len(decisions)):
        routes = [decisions.route(int(i), d) for i in flows]
        singles.append(
            Decisions(
                sites=decisions.sites[d : d + 1, units],
                channels=decisions.channels[d : d + 1, flows],
                route_start=np.cumsum([0] + [len(links) for links, _ in routes])[None],
                links=np.concatenate([links for links, _ in routes]),
                parents=np.concatenate([parents for _, parents in routes]),
            )
        )
    return (fabric, other, Decisions.concatenate(singles)), units


@each_network
def test_relabelling_units_and_flows_changes_nothing(config: NetworkConfig) -> None:
    rng = np.random.default_rng(5)
    case = random_stack(5)
    other, units = relabelled(rng, case)
    one, two = batch_of(case), batch_of(other)
    network = network_of(config, one).eval()
    before, after = network(one), network(two)
    assert_alike(before, after)
    if before.stalls is not None:
        rows = (torch.arange(len(one))[:, None] * len(units) + torch.from_numpy(units)).ravel()
        torch.testing.assert_close(after.stalls, before.stalls[rows], rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@settings(max_examples=10)
@given(st.integers(0, 2**32 - 1), st.sampled_from([FLOW, GUHA]))
def test_mirrored_and_turned_decisions_get_the_same_prediction(seed: int, config: NetworkConfig) -> None:
    # With odd numbers of rows and columns a mirror image has the same kinds of tiles.
    fabric = replace(random_fabric(np.random.default_rng(seed)), rows=3, columns=5, ports_per_side=3)
    _, netlist, decisions = random_stack(seed, fabric)
    moves: list[Callable[[Place], Place]] = [
        lambda place: (place[0], 4 - place[1]),
        lambda place: (2 - place[0], place[1]),
        lambda place: (2 - place[0], 4 - place[1]),
    ]
    batch = batch_of((fabric, netlist, decisions))
    network = network_of(config, batch).eval()
    expected = network(batch)
    for move in moves:
        other = moved(fabric.topology, decisions, move)
        assert_alike(network(batch_of((fabric, netlist, other))), expected)


@pytest.mark.slow
@each_network
def test_a_batch_is_predicted_like_its_decisions_one_by_one(config: NetworkConfig) -> None:
    graphs = graphs_of(random_stack(seed) for seed in range(3))
    ids = np.random.default_rng(0).permutation(len(graphs))[:9]
    whole = make_batch(graphs, ids)
    network = network_of(config, whole).eval()
    together = network(whole)
    single = [network(make_batch(graphs, np.array([i]))) for i in ids]
    assert_alike(
        together,
        Output(
            torch.cat([output.log_throughput for output in single]),
            torch.cat([output.log_sigma for output in single]),
            None,
        ),
    )
    assert together.log_sigma.std() > 1e-4  # it is not the same for all


@each_network
def test_predictions_are_legal(config: NetworkConfig, batch: Batch) -> None:
    for seed in range(3):
        output = network_of(config, batch, seed)(batch)
        throughput = torch.exp(output.log_throughput.double())
        assert output.log_throughput.shape == output.log_sigma.shape == (len(batch),)
        assert ((throughput > 0) & (throughput < 1)).all()
        assert torch.isfinite(output.log_sigma).all()
        if isinstance(config, FlowConfig) and config.stalls:
            assert output.stalls is not None
            assert output.stalls.shape == (len(batch.unit), NUM_STALLS)
        else:
            assert output.stalls is None


# What has no gradient when something is left out: its weights meet zeros only.
IDLE: dict[str, tuple[str, ...]] = {
    "node_embedding": ("op.", "stage."),
    "edge_embedding": ("hops.weight", "lane.weight"),
    "lanes": ("lane.",),
}


@each_network
def test_every_weight_learns_but_those_of_what_is_left_out(config: NetworkConfig, batch: Batch) -> None:
    network = network_of(config, batch)
    output = network(batch)
    loss = output.log_throughput.sum() + output.log_sigma.sum()
    if output.stalls is not None:
        loss = loss + output.stalls.square().sum()
    loss.backward()
    idle = {name for name, weights in network.named_parameters() if weights.grad is None or not weights.grad.any()}
    left_out = [words for name, words in IDLE.items() if not getattr(config, name, True)]
    allowed = tuple(word for words in left_out for word in words)
    assert not [name for name in idle if not any(word in name for word in allowed)]
    assert all(torch.isfinite(w.grad).all() for w in network.parameters() if w.grad is not None)


def _other_annotations(batch: Batch) -> dict[str, Any]:
    unit, flow = batch.unit.clone(), batch.flow.clone()
    unit += 1 - torch.tensor(FABRIC_FEATURES.is_fact(UNIT_COLUMNS))
    flow += 1 - torch.tensor(FABRIC_FEATURES.is_fact(FLOW_COLUMNS))
    return {"unit": unit, "flow": flow}


def _other_tokens(batch: Batch) -> dict[str, Any]:
    flow = batch.flow.clone()
    flow[:, FLOW_COLUMNS.index("log_tokens")] += 1
    return {"flow": flow}


def _other_names(batch: Batch) -> dict[str, Any]:
    stage = (batch.unit_stage + 7) % MAX_STAGE
    return {"unit_op": (batch.unit_op + 3) % len(OPS), "unit_stage": stage}


def _other_edges(batch: Batch) -> dict[str, Any]:
    hops = {"end_hops": batch.end_hops + 3, "lane_kind": (batch.lane_kind + 1) % 3}
    return hops | {"link_flows": batch.link_flows + 1, "link_hops": batch.link_hops + 9}


def _other_routes(batch: Batch) -> dict[str, Any]:
    return {"visit_lane": batch.visit_lane.flip(0), "lane_link": batch.lane_link.flip(0)}


SWITCHES = [
    (FLOW, "annotations", _other_annotations),
    (FLOW, "node_embedding", _other_names),
    (FLOW, "edge_embedding", _other_edges),
    (FLOW, "lanes", _other_routes),
    (GUHA, "node_embedding", _other_names),
    (GUHA, "edge_embedding", _other_edges),
]


@pytest.mark.parametrize(("config", "switch", "change"), SWITCHES)
def test_what_is_switched_off_is_not_seen(
    config: NetworkConfig, switch: str, change: Callable[[Batch], dict[str, Any]], batch: Batch
) -> None:
    other = replace(batch, **change(batch))
    seen = network_of(config, batch)
    assert differ(seen(batch), seen(other))
    off: dict[str, Any] = {switch: False}
    blind = network_of(replace(config, **off), batch)
    one, two = blind(batch), blind(other)
    assert torch.equal(one.log_throughput, two.log_throughput)
    assert torch.equal(one.log_sigma, two.log_sigma)


def test_tokens_are_seen_without_annotations(batch: Batch) -> None:
    network = network_of(replace(FLOW, annotations=False), batch)
    one, two = network(batch), network(replace(batch, **_other_tokens(batch)))
    assert not torch.equal(one.log_throughput, two.log_throughput)


def test_guha_does_not_see_annotations(batch: Batch) -> None:
    network = network_of(GUHA, batch)
    one, two = network(batch), network(replace(batch, **_other_annotations(batch)))
    assert torch.equal(one.log_throughput, two.log_throughput)


def test_sigma_does_not_teach_the_rest(batch: Batch) -> None:
    for config in (FLOW, GUHA):
        network = network_of(config, batch)
        network(batch).log_sigma.sum().backward()
        learning = {name for name, w in network.named_parameters() if w.grad is not None}
        assert learning and all("sigma" in name for name in learning)


def test_a_netlist_with_one_flow_can_be_normalised() -> None:
    network = build_network(FLOW, seed=0)
    rows = batch_of(random_stack(0))
    network.fit_normaliser(rows.unit[:1], rows.flow[:1])
    assert torch.isfinite(network(rows).log_throughput).all()


def test_weights_depend_on_the_seed_alone() -> None:
    torch.manual_seed(1)
    one = build_network(FLOW, seed=4).state_dict()
    state = torch.random.get_rng_state()
    torch.manual_seed(2)
    two, three = build_network(FLOW, seed=4).state_dict(), build_network(FLOW, seed=5).state_dict()
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert any(not torch.equal(one[name], three[name]) for name in one)
    torch.manual_seed(1)
    assert torch.equal(state, torch.random.get_rng_state())


@each_network
def test_a_configuration_survives_its_description(config: NetworkConfig) -> None:
    assert network_config(describe_network(config)) == config


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "transformer"}, "unknown network 'transformer'; known: flow, guha"),
        ({"kind": None}, "unknown network None"),
        ({"width": 2}, "model.width=2; allowed 4 to 512"),
        ({"rounds": 99}, "model.rounds=99"),
        ({"width": "8"}, "width='8' is of a wrong kind"),
        ({"width": True}, "width=True is of a wrong kind"),
        ({"lanes": 1}, "lanes=1 is of a wrong kind"),
        ({"pooling": "median"}, "'median' is not a valid Pooling"),
        ({"colour": "red"}, "network: has .*'colour'.*, needed "),
    ],
)
def test_other_descriptions_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        network_config(describe_network(FLOW) | changes)


def test_a_description_with_a_missing_key_is_refused_unless_it_is_new() -> None:
    description = describe_network(FLOW)
    del description["rules"], description["trust"]
    assert network_config(description) == FLOW and not FLOW.rules
    del description["pooling"]
    with pytest.raises(InputError, match=r"needed .*'pooling'"):
        network_config(description)


def test_trust_needs_rules() -> None:
    with pytest.raises(InputError, match=r"model\.trust=true needs model\.rules=true"):
        replace(FLOW, trust=True)


def test_there_are_no_rules_for_mappings_to_a_wafer() -> None:
    with pytest.raises(InputError, match="no rules for"):
        build_network(replace(FLOW, rules=True), 0, WAFER_FEATURES)
