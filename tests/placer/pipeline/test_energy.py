"""The energy of sections: an example by hand, what a decision moves, and what is told of it."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from placer.fabric import Energy, load_fabric, static_watts
from placer.pipeline import network_joules, network_time, section_joules, write_time
from placer.pipeline.energy import joules_text
from placer.pipeline.network_time import link_bytes, local_bytes, memory_bytes
from placer.pipeline.time_report import time_chapters, time_facts, time_to_dict
from placer.simulation import Limits, simulate
from tests.placer.hand_cases import compute, flow, memory, placed, port
from tests.placer.lowered_cases import netlist_of, random_decisions
from tests.placer.pipeline.test_network_time import run_with

TABLE = Energy(
    mac_pj=2.0, vector_pj=40.0, memory_byte_pj=1.5, link_byte_pj=1.0, local_byte_pj=0.25, dram_byte_pj=30.0,
    static_mw_per_mm2=10.0,
)  # fmt: skip
SMALL = replace(load_fabric("small"), energy=TABLE)


def test_an_example_by_hand() -> None:
    """Two alike sections of four samples, a batch of 10, weights of 1000 bytes."""
    run = run_with(
        repeats=2, macs=1000, vector_cycles=5, memory_bytes=640, link_bytes=320, local_bytes=128, dram_bytes=64,
        weight_bytes=1000,
    )  # fmt: skip
    time = network_time(SMALL, [run], 10)
    joules, watts = section_joules(time, time.sections[0]), static_watts(SMALL)
    assert joules is not None and watts is not None
    assert joules == pytest.approx(
        {
            "compute": 8 * (1000 * 2.0 + 5 * 40.0) * 1e-12,
            "memory": (8 * 640 + 200) * 1.5e-12,
            "links": 8 * (320 * 1.0 + 128 * 0.25) * 1e-12,
            "DRAM": (8 * 64 + 200) * 30e-12,
            "static": time.cycles_per_input * 1e-9 * watts,
        }
    )
    assert network_joules(network_time(SMALL, [run, run], 10)) is not None
    assert time.teraflops == pytest.approx(2 * 8000 / (time.cycles_per_input * 1e-9) / 1e12)


def test_what_a_decision_moves_by_hand() -> None:
    """A port in the west, a memory and a compute unit in the first row of 8 x 8 tiles."""
    fabric = load_fabric("small")
    units = (port(), memory(), compute(8))
    flows = (flow(0, 1, tokens=3), flow(1, 2, tokens=8))
    _, netlist, decision = placed(fabric, units, flows, [64, 1, 2])  # port at column 0, memory at 1, compute at 2
    assert memory_bytes(fabric, netlist) == (3 + 8) * 64
    assert link_bytes(fabric, netlist, decision) == (3 * 1 + 8 * 1) * 64
    assert local_bytes(fabric, netlist, decision) == (3 * 2 + 8 * 2) * 64


def test_links_move_what_the_simulation_counts() -> None:
    """Complete samples have passed all links, and not many more are on their way."""
    fabric, netlist = load_fabric("small"), netlist_of("mha", training=False)
    decision = random_decisions(netlist, 1, seed=0)
    measured = simulate(fabric, netlist, decision, Limits(warmup_samples=20, window_samples=12))[0]
    bytes_per_sample = link_bytes(fabric, netlist, decision) + local_bytes(fabric, netlist, decision)
    begun = measured.vector_hops * fabric.vector_bytes / bytes_per_sample
    assert measured.samples <= begun <= measured.samples + netlist.num_stages


@pytest.mark.parametrize("changes", [{"energy": None}, {"energy": None, "area": None}, {"clock_mhz": 0}])
def test_nothing_is_told_of_what_is_not_stated(changes: dict[str, int | None]) -> None:
    time = network_time(replace(SMALL, **changes), [run_with()], 1)  # type: ignore[arg-type]
    assert network_joules(time) is None
    assert "energy per input" not in time_facts(time)
    assert time_to_dict(time)["joules_per_input"] is None
    assert [chapter.heading for chapter in time_chapters(time, "net")][-1] == "Roofline"


def test_the_energy_is_told_everywhere(tmp_path: Path) -> None:
    time = network_time(SMALL, [run_with(), run_with(name="n.1", macs=7)], 8)
    told = time_to_dict(time)
    assert told["joules_per_input"] == pytest.approx(sum(told["joules"].values()))
    assert " W)" in time_facts(time)["energy per input"] and "TFLOP/s" in time_facts(time)["share of MAC peak"]
    assert time_chapters(time, "net")[-1].heading == "Energy"
    write_time(tmp_path, "small", time, "net")
    with (tmp_path / "time.small.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    columns = [name for name in rows[0] if name.endswith("joules_per_input")]
    assert sum(float(row[name]) for row in rows for name in columns) == pytest.approx(
        told["joules_per_input"], rel=1e-4
    )
    assert {path.name for path in tmp_path.glob("*.svg")} == {
        "time.small.svg",
        "roofline.small.svg",
        "energy.small.svg",
    }


@pytest.mark.parametrize(
    ("joules", "text"),
    [(2.5, "2.5 J"), (0.0123, "12.3 mJ"), (4e-6, "4 µJ"), (5e-10, "0.5 nJ"), (float("nan"), "not measured")],
)
def test_energies_have_a_unit_that_suits_them(joules: float, text: str) -> None:
    assert joules_text(joules) == text
