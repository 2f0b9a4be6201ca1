"""The whole time of a network: laws of the formula, an example by hand, and what is told of it."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placer.base.config import compose_config, to_dataclass
from placer.fabric import Fabric, load_fabric
from placer.netlist import Netlist
from placer.pipeline import PARTS, NetworkTime, SectionRun, SimulateConfig, network_time, simulate_sections, time_of
from placer.pipeline.network_time import dram_bytes
from placer.pipeline.time_report import limit_of, time_facts, time_figures, time_to_dict, values_table, write_time
from tests.placer.hand_cases import compute, flow, memory, port

SMALL = load_fabric("small")  # 16 channels of 8 vectors in 8 cycles: 16 vectors or 1024 bytes per cycle
RATE = 1024


def run_with(**changes: Any) -> SectionRun:
    run = SectionRun(
        name="n.0", first_op="a", last_op="b", repeats=1, samples=4, macs=60_000, weight_bytes=0,
        free_bytes=0, dram_bytes=0, bound_cycles=80, full_bound_cycles=90.0, full_bound_resource="compute",
        first_sample_cycles=300, cycles_per_sample=100.0, limit="unit",
    )  # fmt: skip
    return replace(run, **changes)


@st.composite
def some_runs(draw: st.DrawFn) -> list[SectionRun]:
    """Sections whose first sample takes a period or more, and whose DRAM traffic fits the period."""
    runs = []
    for _ in range(draw(st.integers(1, 4))):
        period = draw(st.floats(10, 5000))
        runs.append(
            run_with(
                repeats=draw(st.integers(1, 5)),
                samples=draw(st.integers(1, 20)),
                macs=draw(st.integers(0, 10**6)),
                weight_bytes=draw(st.integers(0, 10**8)),
                free_bytes=draw(st.integers(0, 10**8)),
                dram_bytes=draw(st.integers(0, int(RATE * period))),
                bound_cycles=(bound := draw(st.floats(1, period))),
                full_bound_cycles=draw(st.floats(bound, period)),
                first_sample_cycles=period * draw(st.floats(1, 10)),
                cycles_per_sample=period,
            )
        )
    return runs


def steady_cycles(runs: Sequence[SectionRun]) -> float:
    return sum(run.repeats * run.samples * run.cycles_per_sample for run in runs)


def test_an_example_by_hand() -> None:
    """Two sections, a batch of 10; 2000 cycles for a switch."""
    first = run_with(weight_bytes=1_024_000, free_bytes=512_000, dram_bytes=51_200)
    second = run_with(
        repeats=2, samples=5, macs=1000, weight_bytes=1_024_000, free_bytes=0, first_sample_cycles=50,
        cycles_per_sample=20.0, bound_cycles=20, full_bound_cycles=20.0,
    )  # fmt: skip
    time = network_time(SMALL, [first, second], 10)
    one, two = time.sections
    # 1,024,000 bytes take 1000 cycles, and nothing runs before; 2000 for the switch; 300 - 100 to fill.
    assert (one.switch, one.weights, one.fill, one.bound, one.data, one.congestion) == (200, 100, 20, 320, 40, 40)
    # DRAM is idle half of 10 * 4 periods of 100, enough for 2,048,000 bytes, but there is room for half of
    # the weights; under itself, the repeated section has no room. So 500 + 1000 cycles of loading.
    assert two.weight_bytes_ahead == 512_000
    assert (two.switch, two.weights, two.fill, two.bound, two.data, two.congestion) == (400, 150, 6, 200, 0, 0)
    assert time.cycles_per_input == 720 + 756
    assert time.milliseconds_per_input == pytest.approx(1476 / 1e6)
    assert time.inputs_per_second == pytest.approx(1e9 / 1476)
    # 32 compute units with 16 lanes of 6 stages; 4 * 60,000 + 2 * 5 * 1000 multiply-accumulates.
    assert SMALL.peak_macs_per_cycle == 3072
    assert time.share_of_peak == pytest.approx(250_000 / (3072 * 1476))
    assert one.macs_per_byte == 60_000 / (51_200 + 1_024_000 / 40)
    assert one.macs_per_cycle == 600
    assert one.whole_macs_per_cycle == 240_000 / 720


@given(runs=some_runs(), batch=st.integers(1, 1000))
def test_the_parts_add_up(runs: list[SectionRun], batch: int) -> None:
    time = network_time(SMALL, runs, batch)
    assert sum(time.part(name) for name in PARTS) == pytest.approx(time.cycles_per_input)
    for section in time.sections:
        assert sum(getattr(section, name) for name in PARTS) == pytest.approx(section.cycles_per_input)
        assert min(getattr(section, name) for name in PARTS) >= -1e-6
        assert section.weight_bytes_ahead <= section.run.repeats * section.run.weight_bytes
    assert time.sections[0].weights * batch >= runs[0].weight_bytes / RATE - 1e-6


@given(runs=some_runs(), batch=st.integers(1, 1000), more=st.integers(1, 1000))
def test_a_larger_batch_is_never_slower(runs: list[SectionRun], batch: int, more: int) -> None:
    cycles = [network_time(SMALL, runs, size).cycles_per_input for size in (batch, batch + more)]
    assert cycles[1] <= cycles[0] * (1 + 1e-9)


@given(runs=some_runs())
def test_an_endless_batch_takes_the_steady_time(runs: list[SectionRun]) -> None:
    time = network_time(SMALL, runs, 10**12)
    assert time.cycles_per_input == pytest.approx(steady_cycles(runs), rel=1e-6)
    assert sum(map(time.part, ("bound", "data", "congestion"))) == pytest.approx(steady_cycles(runs))


@given(runs=some_runs(), batch=st.integers(1, 100), room=st.integers(0, 10**8))
def test_more_room_and_a_faster_switch_are_never_slower(runs: list[SectionRun], batch: int, room: int) -> None:
    before = network_time(SMALL, runs, batch).cycles_per_input
    roomy = [replace(run, free_bytes=run.free_bytes + room) for run in runs]
    assert network_time(SMALL, roomy, batch).cycles_per_input <= before * (1 + 1e-9)
    assert network_time(replace(SMALL, switch_cycles=0), runs, batch).cycles_per_input <= before


def test_a_section_that_keeps_dram_busy_loads_nothing_ahead() -> None:
    busy = run_with(dram_bytes=100 * RATE, free_bytes=10**9)
    time = network_time(SMALL, [busy, run_with(weight_bytes=RATE)], 1)
    assert time.sections[1].weights == 1


def test_without_a_clock_there_are_no_milliseconds() -> None:
    time = network_time(replace(SMALL, clock_mhz=0), [run_with()], 1)
    assert (time.milliseconds_per_input, time.inputs_per_second) == (None, None)
    assert "time per input" not in time_facts(time)
    assert time_to_dict(time)["milliseconds_per_input"] is None


def test_what_was_not_measured_is_null_and_can_be_drawn() -> None:
    nothing = run_with(first_sample_cycles=math.nan, cycles_per_sample=math.nan, limit="unknown")
    time = network_time(SMALL, [run_with(weight_bytes=5), nothing, run_with(weight_bytes=5)], 2)
    told = json.dumps(time_to_dict(time), allow_nan=False)
    assert json.loads(told)["cycles_per_input"] is None
    assert time.sections[2].weight_bytes_ahead == 0
    assert set(time_figures(time, "n")) == {"time", "roofline", "energy"}


def test_dram_traffic_is_that_of_loads_and_stores() -> None:
    units = (port(), memory(), compute(7), memory(name="b"), port(name="store"))
    flows = (flow(0, 1, tokens=5), flow(1, 2, tokens=7), flow(2, 3, tokens=7), flow(3, 4, tokens=3))
    assert dram_bytes(SMALL, Netlist("n", "test", "small", units, flows)) == (5 + 3) * 64


@pytest.mark.parametrize(
    ("changes", "limit"),
    [
        ({}, "compute units"),
        ({"limit": "link"}, "compute units, then links"),
        ({"cycles_per_sample": 400.0, "limit": "read port"}, "congestion (read ports)"),
        ({"weight_bytes": 10**9}, "weights"),
        ({"bound_cycles": 1, "full_bound_cycles": 1.0, "cycles_per_sample": 1.0}, "switching"),
        ({"bound_cycles": 1, "full_bound_resource": "DRAM"}, "data (DRAM)"),
        ({"first_sample_cycles": 10**6}, "filling"),
    ],
)
def test_the_largest_part_is_what_limits(changes: dict[str, Any], limit: str) -> None:
    time = network_time(SMALL, [run_with(**changes)], 10)
    assert limit_of(time.sections[0]) == limit


def test_congestion_is_told_by_resource() -> None:
    runs = [run_with(limit="link"), run_with(limit="read port", samples=12), run_with(cycles_per_sample=90.0)]
    assert time_facts(network_time(SMALL, runs, 10**6))["most needed in congestion"] == "read ports 6.1%, links 2.0%"


def small_network() -> tuple[Fabric, NetworkTime]:
    overrides = ["workload=mha", "workload.rows=32", "workload.width=32", "workload.heads=2"]
    config = to_dataclass(SimulateConfig, compose_config("simulate", [*overrides, "fabric.columns=4", "fabric.rows=4"]))
    results = simulate_sections(config, config.lowered().sections)
    graph_macs = config.make_graph().total_macs
    time = time_of(config.fabric, results, config.batch)
    assert time.macs_per_input == graph_macs
    return config.fabric, time


def test_the_time_of_simulated_sections(tmp_path: Path) -> None:
    fabric, time = small_network()
    assert len(time.sections) > 1
    for section in time.sections:
        run = section.run
        assert 0 <= run.weight_bytes <= run.weight_bytes + run.free_bytes <= 8 * fabric.memory.capacity_bytes
        assert section.macs_per_cycle <= fabric.peak_macs_per_cycle
        assert section.macs_per_cycle <= run.macs / run.dram_bytes * fabric.dram_bytes_per_cycle * 1.05
        assert run.dram_bytes > 0
    assert 0 < time.share_of_peak < 1
    write_time(tmp_path, "small", time, "mha")
    with (tmp_path / "time.small.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert sum(float(row["cycles_per_input"]) for row in rows) == pytest.approx(time.cycles_per_input, rel=1e-4)
    assert [row["name"] for row in rows] == [section.run.name for section in time.sections]
    assert len(values_table(time).rows) == len(time.sections)
    assert {path.name for path in tmp_path.iterdir()} == {
        "time.small.csv", "time.small.png", "time.small.svg", "roofline.small.png", "roofline.small.svg",
        "energy.small.png", "energy.small.svg",
    }  # fmt: skip
