"""Recordings of units and links: what they add up to, and the file that Perfetto opens."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from placer.fabric import load_fabric
from placer.simulation import Limits, UnitTime, simulate_stack
from placer.simulation.recording import Recording, record, write_timeline
from tests.placer.hand_cases import compute, flow, memory, placed, port
from tests.placer.lowered_cases import SMALL, netlist_of, random_decisions
from tests.placer.random_cases import random_case


def by_state(recording: Recording, num_units: int) -> np.ndarray:
    cycles = np.zeros((num_units, 4), np.int64)
    units = recording.units
    np.add.at(cycles, (units.what, units.value), units.end - units.begin)
    return cycles


@pytest.mark.parametrize("skipped", [0, 3])
@pytest.mark.parametrize("seed", range(6))
def test_it_adds_up_to_what_is_measured(seed: int, skipped: int) -> None:
    fabric, netlist, decision = random_case(seed, deadlock_free=True)
    recording = record(fabric, netlist, decision, samples=4, skipped=skipped)
    limits = Limits(warmup_samples=1000, max_samples=skipped + 4, statistics_from_sample=skipped - 1)
    outcome = simulate_stack(fabric, netlist, decision, limits)
    assert recording.end == outcome.cycles_simulated[0]
    assert recording.end - recording.begin == outcome.counted_cycles[0]
    np.testing.assert_array_equal(by_state(recording, netlist.num_units), outcome.unit_time[0])
    moved = np.zeros(fabric.topology.num_links, np.int64)
    links = recording.links
    np.add.at(moved, links.what, links.value * (links.end - links.begin))
    np.testing.assert_array_equal(moved, outcome.link_vectors[0])
    assert [sample for _, sample in recording.samples] == list(range(skipped, skipped + 4))
    for spans in (recording.units, links):
        assert (spans.begin < spans.end).all()
        assert spans.begin.min() >= recording.begin and spans.end.max() <= recording.end


def test_a_busy_unit_is_one_span_per_sample() -> None:
    """A port feeds a unit of eight firings: once data flows, it is busy in every cycle."""
    units = (port(), compute(8), memory())
    flows = (flow(0, 1, tokens=1), flow(1, 2, tokens=1))
    fabric, netlist, decision = placed(load_fabric("small"), units, flows, [64, 0, 1])
    recording = record(fabric, netlist, decision, samples=3)
    own = recording.units.what == 1
    assert set(recording.units.value[own].tolist()) == {UnitTime.BUSY}
    lengths = recording.units.end[own] - recording.units.begin[own]
    assert lengths.max() == 8 and 3 <= own.sum() <= 4


def test_the_file_is_a_chrome_trace(tmp_path: Path) -> None:
    netlist = netlist_of("ffn", training=False)
    decision, path = random_decisions(netlist, 1, seed=0), tmp_path / "timeline.json.gz"
    recording = write_timeline(path, SMALL, netlist, decision, samples=1)
    document = json.loads(gzip.decompress(path.read_bytes()))
    assert document["otherData"]["note"] == "the whole window of 1 samples"
    spans = [event for event in document["traceEvents"] if event["ph"] == "X"]
    assert len(spans) == len(recording.units) + len(recording.links)
    assert all(recording.begin <= e["ts"] and e["ts"] + e["dur"] <= recording.end for e in spans)
    busy = sum(event["dur"] for event in spans if event["pid"] == 1 and event["name"] == "busy")
    assert busy == by_state(recording, netlist.num_units)[:, UnitTime.BUSY].sum()
    names = [e["args"]["name"] for e in document["traceEvents"] if e["name"] == "thread_name" and e["pid"] == 1]
    assert len(names) == netlist.num_units and any("ffn.norm" in name for name in names)


def test_too_much_to_tell_is_cut_and_said() -> None:
    netlist = netlist_of("ffn", training=False)
    recording = record(SMALL, netlist, random_decisions(netlist, 1, seed=0), samples=50, max_spans=500)
    assert recording.is_cut
    assert 0 < len(recording.units) + len(recording.links) < 1000
    assert recording.begin < recording.end
