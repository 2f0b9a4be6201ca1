"""Netlists as dicts, and back."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placer.base import InputError
from placer.netlist import Netlist
from tests.placer.lowered_cases import netlist_of
from tests.placer.random_cases import random_case


@given(st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_a_netlist_survives_json(seed: int) -> None:
    _, netlist, _ = random_case(seed)
    data = netlist.to_dict()
    assert Netlist.from_dict(data) == netlist
    again = Netlist.from_dict(json.loads(json.dumps(data)))
    assert again == netlist
    assert again.fingerprint == netlist.fingerprint


Change = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data.update(schema=2), "schema 2, needed 1"),
        (lambda data: data.pop("flows"), "needed .*flows"),
        (lambda data: data.update(name=7), "name is 7, needed str"),
        (lambda data: data.update(units={}), "units is {}, needed list"),
        (lambda data: data["units"].append("x"), "unit [0-9]+ is 'x', needed dict"),
        (lambda data: data["units"][0].pop("op"), "unit 0: has .*, needed .*op"),
        (lambda data: data["units"][0].update(kind=3), "unit 0: unknown kind 3"),
        (lambda data: data["units"][0].update(stage=True), "unit 0: stage is True, needed int"),
        (lambda data: data["units"][0].update(cycles=-1), "unit 0: cycles=-1, allowed 0 to"),
        (lambda data: data["flows"][0].update(tokens=1.5), "flow 0: tokens is 1.5, needed int"),
        (lambda data: data["flows"][0].update(targets=["a"]), "flow 0: target is 'a', needed int"),
        (lambda data: data["flows"][0].update(tokens=0), "tokens=0 is out of range"),
    ],
)
def test_what_is_no_netlist_is_refused(change: Change, message: str) -> None:
    data = json.loads(json.dumps(netlist_of("gemm", False).to_dict()))
    change(data)
    with pytest.raises(InputError, match=message):
        Netlist.from_dict(data)


@pytest.mark.parametrize("data", [None, [], "netlist", 1])
def test_only_dicts_are_netlists(data: object) -> None:
    with pytest.raises(InputError, match="needed dict"):
        Netlist.from_dict(data)
