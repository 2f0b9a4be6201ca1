"""Samples of a netlist: reproducible, labelled truthfully, from all phases."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from costmodel.dataset import NetlistSamples, Phase, generate
from costmodel.dataset.generate import PHASE_SHARE, SECTION_SHARE, SampleOptions, make_samples, phase_counts
from costmodel.dataset.tables import require_consistent
from placer.base import InputError
from placer.cost import HeuristicCost
from placer.decision.check import problems
from placer.fabric import load_fabric
from placer.graph.workloads import SECTION
from placer.netlist.lowering import draw_segment
from placer.simulation import PRECISE_LIMITS, simulate_stack

pytestmark = pytest.mark.slow

SMALL = load_fabric("small")
FEW = SampleOptions(sample_cycles=16, decisions=12)


@pytest.fixture(scope="module")
def samples() -> NetlistSamples:
    return make_samples(SMALL, "ffn", FEW, seed=5, netlist_id=3)


def test_every_decision_is_legal(samples: NetlistSamples) -> None:
    for k in range(len(samples.decisions)):
        assert not problems(SMALL, samples.netlist, samples.decisions, k)
    require_consistent(samples)


def test_labels_are_what_the_simulator_says(samples: NetlistSamples) -> None:
    outcome = simulate_stack(SMALL, samples.netlist, samples.decisions, PRECISE_LIMITS)
    assert np.array_equal(samples.labels.cycles_per_sample, outcome.cycles_per_sample)
    assert (samples.throughput > 0).all() and (samples.throughput <= 1).all()
    scores = HeuristicCost(SMALL).score(samples.netlist, samples.decisions)
    assert np.array_equal(samples.heuristic, scores)
    shares = samples.labels.unit_busy + samples.labels.unit_starved
    shares = shares + samples.labels.unit_blocked + samples.labels.unit_port_wait
    assert np.allclose(shares, 1, atol=1e-5)
    assert (samples.labels.busiest_link <= 1.01).all()


def test_phases_are_there_and_get_better(samples: NetlistSamples) -> None:
    assert len(samples.phase) == FEW.decisions and not samples.failures
    by_phase = {
        phase: np.mean([y for y, p in zip(samples.throughput, samples.phase, strict=True) if p == phase])
        for phase in set(samples.phase)
    }
    assert by_phase[Phase.OPTIMAL] > by_phase[Phase.RANDOM]
    assert by_phase[Phase.COLD] > by_phase[Phase.RANDOM]


def test_same_seed_same_samples_and_another_seed_others(samples: NetlistSamples) -> None:
    again = make_samples(SMALL, "ffn", FEW, seed=5, netlist_id=3)
    assert again.netlist == samples.netlist and again.search == samples.search
    assert np.array_equal(again.decisions.links, samples.decisions.links)
    assert np.array_equal(again.labels.cycles_per_sample, samples.labels.cycles_per_sample)
    other = make_samples(SMALL, "ffn", FEW, seed=5, netlist_id=7)
    assert other.netlist != samples.netlist


def test_sections_of_random_transformers_are_labelled_too() -> None:
    one, again = (draw_segment(SMALL, SECTION, 32, 2048, np.random.default_rng(23)) for _ in range(2))
    netlist = one.lowered(SMALL, one.plan).netlist
    assert again == one and one.about["family"] == netlist.family == SECTION
    samples = make_samples(SMALL, SECTION, SampleOptions(decisions=8), seed=1, netlist_id=0)
    require_consistent(samples)
    assert samples.origin.spec["width"] % samples.origin.spec["heads"] == 0
    assert len(samples.throughput) == 8


def test_a_pool_can_be_all_there_is() -> None:
    samples = make_samples(SMALL, "ffn", replace(FEW, decisions=4, pool=4), seed=5, netlist_id=8)
    require_consistent(samples)
    assert set(samples.phase) == {Phase.POOL} and samples.potential == samples.throughput.max()
    with pytest.raises(InputError, match="pool=5 of decisions=4"):
        replace(FEW, decisions=4, pool=5)


def test_short_labels_are_marked_by_their_fidelity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate, "LONG_SAMPLE_CYCLES", 1)
    options = replace(FEW, short_labels=True)
    full, short = (make_samples(SMALL, "ffn", some, seed=5, netlist_id=8) for some in (FEW, options))
    assert (full.labels.fidelity == 1).all()
    is_short = short.labels.fidelity < 1
    assert is_short.any() and not is_short[[phase is Phase.OPTIMAL for phase in short.phase]].any()
    require_consistent(short)


@pytest.mark.parametrize("shares", [PHASE_SHARE, SECTION_SHARE])
@pytest.mark.parametrize("decisions", [8, 16, 24, 100])
def test_phase_counts_add_up(decisions: int, shares: dict[Phase, float]) -> None:
    counts = phase_counts(decisions, shares)
    assert sum(counts.values()) == decisions
    assert sum(shares.values()) == pytest.approx(1)
    for phase, share in shares.items():
        assert abs(counts[phase] - share * decisions) < 1


@pytest.mark.parametrize("field", ["sample_cycles", "decisions"])
def test_options_out_of_range_are_refused(field: str) -> None:
    with pytest.raises(InputError, match=f"{field}=1; allowed"):
        replace(SampleOptions(), **{field: 1})  # type: ignore[arg-type]


def test_a_fabric_too_small_for_any_workload_is_explained() -> None:
    tiny = load_fabric("small", ["columns=2", "rows=2"])
    with pytest.raises(InputError, match=r"none of 64 random mha workloads .* does not fit"):
        make_samples(tiny, "mha", FEW, seed=0, netlist_id=0)
