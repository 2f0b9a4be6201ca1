"""Area and power by the tables of a fabric, by hand, and tables that nothing can have."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from placer.base import InputError
from placer.fabric import Area, Energy, Fabric, area_mm2, draw_fabric, fabric_of, load_fabric, static_watts
from placer.netlist.plan import fabric_key

AREA = Area(
    mac_mm2=1.0, memory_byte_mm2=0.5, queue_byte_mm2=0.25, compute_queues=3, switch_byte_mm2=2.0, link_byte_mm2=0.125,
    port_mm2=7.0, dram_byte_mm2=0.5,
)  # fmt: skip
ENERGY = Energy(1.0, 1.0, 1.0, 1.0, 1.0, 1.0, static_mw_per_mm2=10.0)


def test_the_area_of_a_fabric_by_hand() -> None:
    """2 x 2 tiles: two compute units, two memory units, four switches, eight links, four ports."""
    fabric = Fabric("tiny", columns=2, rows=2, vector_bytes=4, area=AREA, energy=ENERGY)
    queue = 4 * 0.25  # of one vector
    areas = area_mm2(fabric)
    assert areas == {
        "compute units": 2 * (96 * 1.0 + 3 * (32 + 8) * queue),
        "memory units": 2 * (524288 * 0.5 + 4 * (16 + 8) * queue),
        "switches": 4 * 4 * 2.0,
        "links": 8 * (4 * 0.125 + 2 * (2 + 4) * queue),
        "ports": 4 * (7.0 + 4 * (16 + 128) * queue),
        "DRAM interface": 4 * 8 / 8 * 4 * 0.5,
    }
    assert static_watts(fabric) == pytest.approx(sum(areas.values()) * 10.0 / 1000)


def test_presets_state_both_and_cores_neither() -> None:
    areas = area_mm2(load_fabric("plasticine"))
    assert areas is not None
    assert 100 < sum(areas.values()) < 300  # published without DRAM of this rate, with half the memory: 113 mm^2
    assert area_mm2(load_fabric("wormhole")) is None and static_watts(load_fabric("wormhole")) is None


@pytest.mark.parametrize(
    "override", ["columns=10", "link.vectors_per_cycle=2", "compute.window_vectors=64", "dram.channels=32"]
)
def test_more_of_anything_takes_more_area(override: str) -> None:
    small, more = area_mm2(load_fabric("small")), area_mm2(load_fabric("small", [override]))
    assert small is not None and more is not None
    assert all(more[kind] >= small[kind] for kind in small) and sum(more.values()) > sum(small.values())


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("area.mac_mm2=-1", r"fabric 'small': area.mac_mm2=-1.* is out of range; allowed 0 to"),
        ("energy.mac_pj=.inf", r"energy.mac_pj=.*inf"),
        ("area=null", "energy without area"),
    ],
)
def test_tables_that_nothing_can_have_are_refused(override: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_fabric("small", [override])


def test_they_are_no_part_of_the_hardware() -> None:
    fabric = load_fabric("small")
    bare = replace(fabric, area=None, energy=None)
    assert fabric_key(fabric) == fabric_key(bare)
    old = {name: value for name, value in asdict(fabric).items() if name not in ("area", "energy")}
    assert fabric_of(old) == bare and fabric_of(asdict(fabric)) == fabric
    assert draw_fabric(1, 0).area is None  # not stated
