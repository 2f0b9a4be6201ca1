"""Encoding of decisions: against plain Python, and laws of what it keeps and what it forgets."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.encoding import Encoded, encode
from placer.base import InputError
from placer.decision import Decisions
from placer.decision.routing import RoutingMethod, demand_of
from placer.fabric import Fabric
from placer.netlist import Netlist
from tests.costmodel.cases import random_stack
from tests.placer.hand_cases import compute, flow, memory, placed
from tests.placer.lowered_cases import SMALL, netlist_of, random_decisions


@dataclass
class Plain:
    """One encoded decision in dicts and lists; numbers are positions in the dicts."""

    end_hops: list[int] = field(default_factory=list)
    switches: dict[int, None] = field(default_factory=dict)
    visits: list[tuple[int, tuple[int, int], tuple[int, int] | None]] = field(default_factory=list)
    lanes: dict[tuple[int, int], None] = field(default_factory=dict)  # (link, channel)
    users: dict[int, set[int]] = field(default_factory=dict)  # link -> flows


def plain_encode(fabric: Fabric, netlist: Netlist, decision: Decisions) -> Plain:
    topology, plain = fabric.topology, Plain()
    for flow_id, one in enumerate(netlist.flows):
        links, parents = (column.tolist() for column in decision.route(flow_id))
        channel = int(decision.channels[0, flow_id])
        for link, parent in zip(links, parents, strict=True):
            before = None if parent < 0 else (links[parent], channel)
            plain.visits.append((flow_id, (link, channel), before))
            plain.lanes[link, channel] = None
            plain.users.setdefault(link, set()).add(flow_id)
            for switch in (int(topology.link_source[link]), int(topology.link_target[link])):
                if switch >= 0:
                    plain.switches[switch] = None
        for target in one.targets:
            node = links.index(topology.eject_link(int(decision.sites[0, target])))
            path = []
            while node >= 0:
                path.append(links[node])
                node = parents[node]
            plain.end_hops.append(sum(link < topology.num_mesh_links for link in path))
    for site in decision.sites[0]:
        plain.switches[int(topology.site_switch[site])] = None
    return plain


def assert_encoded_as(plain: Plain, encoded: Encoded, fabric: Fabric, decision: Decisions) -> None:
    topology = fabric.topology
    lane_of = {lane: number for number, lane in enumerate(plain.lanes)}
    link_of = {link: number for number, link in enumerate(plain.users)}
    switch_of = {switch: number for number, switch in enumerate(plain.switches)} | {-1: -1}
    first_eject = topology.eject_link(0)
    kinds = [0 if link < topology.num_mesh_links else 1 if link < first_eject else 2 for link, _ in plain.lanes]
    tree_hops = [
        sum(link < topology.num_mesh_links for f, (link, _), _ in plain.visits if f == flow_id)
        for flow_id in range(decision.channels.shape[1])
    ]
    expected: dict[str, list[Any]] = {
        "end_hops": [plain.end_hops],
        "unit_switch": [[switch_of[int(topology.site_switch[s])] for s in decision.sites[0]]],
        "num_switches": [len(plain.switches)],
        "visit_start": [0, len(plain.visits)],
        "visit_flow": [flow_id for flow_id, _, _ in plain.visits],
        "visit_lane": [lane_of[lane] for _, lane, _ in plain.visits],
        "visit_before": [-1 if b is None else lane_of[b] for _, _, b in plain.visits],
        "lane_start": [0, len(plain.lanes)],
        "lane_kind": kinds,
        "lane_link": [link_of[link] for link, _ in plain.lanes],
        "link_start": [0, len(plain.users)],
        "link_from": [switch_of[int(topology.link_source[link])] for link in plain.users],
        "link_to": [switch_of[int(topology.link_target[link])] for link in plain.users],
        "link_flows": [len(users) for users in plain.users.values()],
        "link_hops": [sum(tree_hops[f] for f in users) for users in plain.users.values()],
    }
    assert expected.keys() == set(Encoded.__slots__) - {"log_rules"}
    for name, values in expected.items():
        assert getattr(encoded, name).tolist() == values, name


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1))
def test_random_decisions_are_encoded_as_plain_python_does_it(seed: int) -> None:
    fabric, netlist, decisions = random_stack(seed)
    for d in range(len(decisions)):
        plain = plain_encode(fabric, netlist, decisions[d])
        assert_encoded_as(plain, encode(fabric, netlist, decisions[d]), fabric, decisions[d])


@pytest.mark.parametrize("method", RoutingMethod)
def test_workloads_are_encoded_as_plain_python_does_it(method: RoutingMethod) -> None:
    netlist = netlist_of("mha", True)
    assert any(len(one.targets) > 1 for one in netlist.flows)
    decisions = random_decisions(netlist, 1, seed=1, method=method)
    plain = plain_encode(SMALL, netlist, decisions)
    assert_encoded_as(plain, encode(SMALL, netlist, decisions), SMALL, decisions)


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1))
def test_a_stack_is_encoded_decision_by_decision(seed: int) -> None:
    fabric, netlist, decisions = random_stack(seed)
    together = encode(fabric, netlist, decisions)
    singles = [encode(fabric, netlist, decisions[d]) for d in range(len(decisions))]
    assert len(together) == len(singles)
    for name in Encoded.__slots__:
        parts = [getattr(single, name) for single in singles]
        if name.endswith("_start"):
            expected = np.cumsum([0] + [part[-1] for part in parts])
        else:
            expected = np.concatenate(parts)
        np.testing.assert_array_equal(getattr(together, name), expected, err_msg=name)


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1))
def test_the_farthest_end_of_a_flow_agrees_with_its_demand(seed: int) -> None:
    fabric, netlist, decisions = random_stack(seed)
    encoded = encode(fabric, netlist, decisions)
    first_end = np.cumsum([0] + [len(one.targets) for one in netlist.flows])[:-1]
    for d in range(len(decisions)):
        hops = np.maximum.reduceat(encoded.end_hops[d], first_end)
        assert hops.tolist() == demand_of(fabric, netlist, decisions[d]).flow_hops.tolist()


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1))
def test_visits_of_a_flow_form_a_tree_from_its_source_to_its_targets(seed: int) -> None:
    fabric, netlist, decisions = random_stack(seed)
    for d in range(len(decisions)):
        encoded = encode(fabric, netlist, decisions[d])
        kind_of = encoded.lane_kind
        for flow_id, one in enumerate(netlist.flows):
            mine = encoded.visit_flow == flow_id
            lanes, before = encoded.visit_lane[mine].tolist(), encoded.visit_before[mine].tolist()
            assert len(set(lanes)) == len(lanes)
            assert [kind_of[lane] for lane in lanes].count(1) == 1
            assert before[0] == -1 and kind_of[lanes[0]] == 1
            for k in range(1, len(lanes)):
                assert before[k] in lanes[:k]
            leaves = set(lanes) - set(before)
            assert all(kind_of[lane] == 2 for lane in leaves)
            assert len(leaves) == len({decisions[d].sites[0, t] for t in one.targets})


def test_a_decision_worked_out_by_hand() -> None:
    # Sites 0 .. 3 are the tiles of the upper row, compute and memory in turn.
    fabric = Fabric(name="hand", columns=4, rows=2)
    units = [compute(9), memory(), compute(9)]
    flows = [flow(0, 1, 2, tokens=5), flow(1, 2, tokens=9)]
    encoded = encode(*placed(fabric, units, flows, [0, 1, 2]))
    # Flow 0: in, one hop, out to the memory, one more hop, out; flow 1: in, the same hop, out.
    assert encoded.end_hops.tolist() == [[1, 2, 1]]
    assert encoded.visit_flow.tolist() == [0, 0, 0, 0, 0, 1, 1, 1]
    assert encoded.num_switches.tolist() == [3]
    assert encoded.unit_switch.tolist() == [[0, 1, 2]]
    kind = dict(zip(encoded.visit_lane.tolist(), encoded.lane_kind.tolist(), strict=False))
    assert sorted(kind.values()) == [0, 0, 1, 1, 2, 2]
    shared = [k for k, flows in enumerate(encoded.link_flows) if flows == 2]
    assert len(shared) == 2  # the second hop, and the way out to the last unit
    assert encoded.link_hops[shared].tolist() == [2 + 1, 2 + 1]


def test_a_unit_without_flows_has_a_switch_too() -> None:
    fabric = Fabric(name="hand", columns=4, rows=2)
    units = [compute(9), memory(), compute(9)]
    encoded = encode(*placed(fabric, units, [flow(0, 1, tokens=5)], [0, 1, 7]))
    assert encoded.unit_switch.tolist() == [[0, 1, 2]]
    assert encoded.num_switches.tolist() == [3]


def test_no_decisions_are_encoded_to_nothing() -> None:
    fabric, netlist, decisions = random_stack(0)
    none = replace(
        decisions, sites=decisions.sites[:0], channels=decisions.channels[:0], route_start=decisions.route_start[:0]
    )
    encoded = encode(fabric, netlist, none)
    assert len(encoded) == 0
    assert encoded.visit_start.tolist() == [0]


def test_decisions_that_do_not_fit_are_refused() -> None:
    fabric, netlist, decisions = random_stack(1)
    links, parents = decisions.links, decisions.parents
    wrong: dict[str, dict[str, Any]] = {
        "has no site": {"sites": decisions.sites + fabric.topology.num_sites},
        "sites have shape": {"sites": decisions.sites[:, 1:]},
        "has 0 to": {"links": links + fabric.topology.num_links},
        "channels must lie": {"channels": decisions.channels + fabric.link.channels},
        "parents stand before children": {"parents": np.where(parents < 0, parents, 10**6)},
        "no earlier node of its route": {"parents": np.full_like(parents, -1)},
        "does not reach its target": {"sites": np.roll(decisions.sites, 1, axis=0)},
    }
    for message, changes in wrong.items():
        with pytest.raises(InputError, match=message):
            encode(fabric, netlist, replace(decisions, **changes))
