"""Features of netlists: documented columns, facts only."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from costmodel.encoding import FLOW_COLUMNS, MAX_STAGE, OPS, UNIT_COLUMNS, features, netlist_features
from placer.base import InputError
from placer.fabric import Fabric
from placer.netlist import Netlist
from tests.costmodel.cases import random_stack
from tests.placer.hand_cases import compute, flow, memory, placed, port
from tests.placer.lowered_cases import KINDS, netlist_of


def hand_made() -> Netlist:
    """Load -> product -> buffer and store."""
    units = [
        replace(port(), op="load", stage=0),
        replace(compute(20, cycles=40), op="matmul", stage=1),
        replace(memory(), op="buffer", stage=2, slots=3, bytes=100),
        replace(port(), op="store", stage=2),
    ]
    flows = [flow(0, 1, tokens=20), flow(1, 2, 3, tokens=10)]
    fabric = Fabric(name="hand", columns=4, rows=2)
    return placed(fabric, units, flows, [8, 0, 1, 11])[1]


def test_columns_of_units_by_hand() -> None:
    given = netlist_features(hand_made())
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
    given = netlist_features(hand_made())
    rows = [dict(zip(FLOW_COLUMNS, row, strict=True)) for row in given.flow.tolist()]
    assert rows[1] == pytest.approx(
        {
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
    given = netlist_features(netlist)
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


def test_features_come_from_the_netlist_alone() -> None:
    # No simulator, heuristic or demand is in reach of the module.
    modules = {getattr(value, "__module__", "") for value in vars(features).values()}
    known = {
        "placer.base.errors",
        "placer.fabric.fabric",
        "placer.netlist.flows",
        "placer.netlist.netlist",
        "placer.graph.ops",
    }
    assert {name for name in modules if str(name).startswith("placer")} <= known


def test_an_unknown_operation_is_refused() -> None:
    netlist = hand_made()
    units = (netlist.units[0], replace(netlist.units[1], op="convolution"), *netlist.units[2:])
    with pytest.raises(InputError, match=r"no operation 'convolution'; allowed: .*matmul"):
        netlist_features(replace(netlist, units=units))


def test_late_stages_share_the_last_embedding() -> None:
    netlist = hand_made()
    units = (*netlist.units[:3], replace(netlist.units[3], stage=500))
    assert netlist_features(replace(netlist, units=units)).unit_stage.tolist() == [0, 1, 2, 63]


def test_features_do_not_depend_on_names() -> None:
    _, netlist, _ = random_stack(4)
    renamed = replace(
        netlist,
        name="other",
        family="other",
        units=tuple(replace(unit, name=f"u{i}") for i, unit in enumerate(netlist.units)),
        flows=tuple(replace(one, name=f"f{i}") for i, one in enumerate(netlist.flows)),
    )
    one, two = netlist_features(netlist), netlist_features(renamed)
    for name in type(one).__slots__:
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
