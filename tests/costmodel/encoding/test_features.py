"""Features of netlists: documented columns, facts only."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from costmodel.encoding import FLOW_COLUMNS, MAX_STAGE, OPS, UNIT_COLUMNS, features, netlist_features
from placer.base import InputError
from placer.fabric import Fabric, load_fabric
from placer.netlist import Netlist
from tests.costmodel.cases import random_stack
from tests.placer.hand_cases import compute, flow, memory, placed, port
from tests.placer.lowered_cases import KINDS, netlist_of

HAND = Fabric(name="hand", columns=4, rows=2)


def hand_made() -> Netlist:
    """Load -> product -> buffer and store."""
    units = [
        replace(port(), op="load", stage=0),
        replace(compute(20, cycles=40), op="matmul", stage=1),
        replace(memory(), op="buffer", stage=2, slots=3, bytes=100),
        replace(port(), op="store", stage=2),
    ]
    flows = [flow(0, 1, tokens=20), flow(1, 2, 3, tokens=10)]
    return placed(HAND, units, flows, [8, 0, 1, 11])[1]


def test_columns_of_units_by_hand() -> None:
    given = netlist_features(HAND, hand_made())
    rows = [dict(zip(UNIT_COLUMNS, row, strict=True)) for row in given.unit.tolist()]
    product, buffer = rows[1], rows[2]
    assert [name for name in UNIT_COLUMNS[:3] if product[name]] == ["is_compute"]
    assert [name for name in UNIT_COLUMNS[:3] if buffer[name]] == ["is_memory"]
    assert [name for name in UNIT_COLUMNS[:3] if rows[3][name]] == ["is_port"]
    assert product == pytest.approx(
        product
        | {
            "waits_for_operands": 0,
            "stage_share": 1 / 3,
            "log_inputs": math.log(2),
            "log_outputs": math.log(2),
            "work": 1,
            "log_work": math.log(41 / 40),
            "log_firings": math.log(21),
            "slots": 0,
            "log_bound": math.log(40),
        }
    )
    assert (buffer["slots"], buffer["log_bytes"]) == (3, pytest.approx(math.log(101)))
    assert [OPS[op] for op in given.unit_op] == ["load", "matmul", "buffer", "store"]
    assert given.unit_stage.tolist() == [0, 1, 2, 2]


def test_columns_of_flows_by_hand() -> None:
    given = netlist_features(HAND, hand_made())
    rows = [dict(zip(FLOW_COLUMNS, row, strict=True)) for row in given.flow.tolist()]
    assert rows[1] == pytest.approx(
        rows[1]
        | {
            "log_targets": math.log(2),
            "from_compute": 1,
            "from_memory": 0,
            "from_port": 0,
            "stage_distance": 1,
            "load": 10 / 40,
            "log_load": math.log(10 / 40),
            "log_tokens": math.log(10),
            "read_cycles": 1,
            "log_bound": math.log(40),
        }
    )
    assert given.flow_source.tolist() == [0, 1]
    assert given.end_flow.tolist() == [0, 1, 1]
    assert given.end_unit.tolist() == [1, 2, 3]


@pytest.mark.parametrize(("family", "training"), KINDS)
def test_every_workload_has_features(family: str, training: bool) -> None:
    netlist = netlist_of(family, training)
    given = netlist_features(load_fabric(netlist.fabric), netlist)
    assert given.unit.shape == (netlist.num_units, len(UNIT_COLUMNS))
    assert given.flow.shape == (netlist.num_flows, len(FLOW_COLUMNS))
    assert np.isfinite(given.unit).all() and np.isfinite(given.flow).all()
    assert (given.unit_op >= 0).all() and (given.unit_op < len(OPS)).all()
    assert (given.unit_stage >= 0).all() and (given.unit_stage <= MAX_STAGE).all()


def test_names_of_columns_are_different_and_tell_of_no_time() -> None:
    for columns in (UNIT_COLUMNS, FLOW_COLUMNS, OPS):
        assert len(set(columns)) == len(columns)
    predicted = ("throughput", "latency", "time", "period", "interval", "wait_", "stall")
    assert not [c for c in UNIT_COLUMNS + FLOW_COLUMNS if any(word in c for word in predicted)]


def test_columns_of_the_hardware_by_hand() -> None:
    """A window of a memory has 16 vectors, a hop takes 4 cycles there and back, a vector of DRAM a cycle."""
    given = netlist_features(HAND, hand_made())
    units = [dict(zip(UNIT_COLUMNS, row, strict=True)) for row in given.unit.tolist()]
    flows = [dict(zip(FLOW_COLUMNS, row, strict=True)) for row in given.flow.tolist()]
    assert units[0]["dram_load"] == pytest.approx((20 + 10) / (4 * 40))  # loads and stores, by four channels
    assert units[0]["reads"] == pytest.approx(20 / 40) and units[2]["writes"] == pytest.approx(10 / 40)
    assert units[2]["log_delay"] == pytest.approx(math.log(7 / 40))
    assert units[2]["capacity_share"] == pytest.approx(100 / 524288)
    assert [unit["site_share"] for unit in units] == pytest.approx([2 / 16, 1 / 4, 1 / 16, 2 / 16])
    assert flows[1]["log_need"] == pytest.approx(math.log(10 / 40 / 16))
    assert flows[1]["log_windows"] == pytest.approx(math.log(10 / 16))
    assert (flows[1]["link_load"], flows[1]["local_load"]) == pytest.approx((10 / 40, 10 / 80))
    assert flows[1]["log_hop"] == pytest.approx(math.log(4 / 40))
    assert given.hardware[0, :2].tolist() == [3, 8]  # cycles of a round trip: 3 + 8 hops


@pytest.mark.parametrize(
    "change", ["link.hop_cycles=5", "memory.window_vectors=9", "dram.burst_cycles=9", "link.channels=4", "rows=9"]
)
def test_every_constant_shows(change: str) -> None:
    netlist = netlist_of("ffn", False)
    one, other = (netlist_features(load_fabric("small", changes), netlist) for changes in ([], [change]))
    assert any((getattr(one, name) != getattr(other, name)).any() for name in ("unit", "flow", "hardware"))


def test_features_come_from_the_netlist_and_the_fabric_alone() -> None:
    # No simulator, heuristic or demand is in reach of the module.
    modules = {getattr(value, "__module__", "") for value in vars(features).values()}
    known = {
        "placer.base.errors",
        "placer.fabric.fabric",
        "placer.fabric.topology",
        "placer.fabric.trips",
        "placer.netlist.flows",
        "placer.netlist.netlist",
        "placer.graph.ops",
    }
    assert {name for name in modules if str(name).startswith("placer")} <= known


def test_an_unknown_operation_is_refused() -> None:
    netlist = hand_made()
    units = (netlist.units[0], replace(netlist.units[1], op="convolution"), *netlist.units[2:])
    with pytest.raises(InputError, match=r"no operation 'convolution'; allowed: .*matmul"):
        netlist_features(HAND, replace(netlist, units=units))


def test_late_stages_share_the_last_embedding() -> None:
    netlist = hand_made()
    units = (*netlist.units[:3], replace(netlist.units[3], stage=500))
    assert netlist_features(HAND, replace(netlist, units=units)).unit_stage.tolist() == [0, 1, 2, 63]


def test_features_do_not_depend_on_names() -> None:
    fabric, netlist, _ = random_stack(4)
    renamed = replace(
        netlist,
        name="other",
        family="other",
        units=tuple(replace(unit, name=f"u{i}") for i, unit in enumerate(netlist.units)),
        flows=tuple(replace(one, name=f"f{i}") for i, one in enumerate(netlist.flows)),
    )
    one, two = netlist_features(fabric, netlist), netlist_features(fabric, renamed)
    for name in type(one).__slots__:
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
