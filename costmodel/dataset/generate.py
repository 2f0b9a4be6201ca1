"""Samples of one netlist: draw it, search it in many ways, label what was found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.dataset.records import ALONE, Labels, NetlistSamples, Origin, Phase
from costmodel.dataset.search import Explorer, Found
from placer.base import DoesNotFitError, InputError, source_key
from placer.cost import HeuristicCost
from placer.decision import Decisions, check
from placer.fabric import Fabric
from placer.graph.workloads import NETWORK_FAMILIES
from placer.netlist import Netlist
from placer.netlist.lowering import DrawnPlan, draw_plans, draw_segment
from placer.simulation import (
    LONG_SAMPLE_CYCLES,
    Outcome,
    Status,
    UnitTime,
    label_limits,
    simulate_short,
    simulate_stack,
)

MAX_DRAWS = 64  # of a netlist that fits
MAX_ATTEMPTS = 8  # to find a netlist with a decision that becomes steady
# Share of the decisions of a netlist by phase. Most lie near the optimum: there an annealer spends
# its time, and there models fail.
PHASE_SHARE = {
    Phase.RANDOM: 0.08,
    Phase.HOT: 0.04,
    Phase.MID: 0.06,
    Phase.COLD: 0.28,
    Phase.QUENCHED: 0.10,
    Phase.OPTIMAL: 0.44,
}
# Of sections of random networks. The rules are nearly right there, random searches far from
# the best: what a model must tell apart are results of good searches.
SECTION_SHARE = {
    Phase.RANDOM: 0.05,
    Phase.HOT: 0.0,
    Phase.MID: 0.05,
    Phase.COLD: 0.70,
    Phase.QUENCHED: 0.05,
    Phase.OPTIMAL: 0.15,
}
# Beside the results of a pool, which is near the optimum itself.
BESIDE_POOL_SHARE = {
    Phase.RANDOM: 0.08,
    Phase.HOT: 0.0,
    Phase.MID: 0.08,
    Phase.COLD: 0.20,
    Phase.QUENCHED: 0.07,
    Phase.OPTIMAL: 0.57,
}
_SEARCH_TAG = 0x5EA2  # keeps the seeds of searches apart from those of segments
NUM_WALKS = 4  # with the simulator in the loop, from the best of the other phases


@dataclass(frozen=True, slots=True)
class SampleOptions:
    """How the samples of a netlist are made."""

    sample_cycles: int = 32  # work per sample, in cycles, for which workload sizes are drawn
    decisions: int = 24  # per netlist
    short_labels: bool = False  # where samples are long, except for walks with the simulator in the loop
    max_cycles: int = 2048  # per sample of a section of a random network
    plans: int = 1  # netlists that are made of one segment, each laid out otherwise
    pool: int = 0  # decisions that are results of short anneals; the best is the potential of the netlist

    def __post_init__(self) -> None:
        for name, least in (("sample_cycles", 4), ("decisions", 4), ("max_cycles", 16), ("plans", 1), ("pool", 0)):
            if getattr(self, name) < least:
                raise InputError(f"{name}={getattr(self, name)}; allowed {least} or more")
        if self.pool > self.decisions:
            raise InputError(f"pool={self.pool} of decisions={self.decisions}; allowed: as many or fewer")


def code_version() -> str:
    """Return the hash of the code that rows depend on, and of no other."""
    return source_key(*(Path(__file__).with_name(f"{name}.py") for name in ("generate", "tables", "store")))


def make_samples(fabric: Fabric, family: str, options: SampleOptions, seed: int, netlist_id: int) -> NetlistSamples:
    """Make all samples of netlist number `netlist_id`, from nothing but the arguments.

    Netlists of one segment follow each other. One whose decisions all fail is drawn anew, and then
    is alone.
    """
    failures: list[str] = []
    segment, number = divmod(netlist_id, options.plans)
    seeds = [seed, netlist_id] if options.plans == 1 else [seed, segment, options.plans]
    for attempt in range(MAX_ATTEMPTS):
        rng = np.random.default_rng([*seeds, attempt] if attempt else seeds)
        plans, spec = _draw(fabric, family, options, rng, failures)
        if options.plans > 1:  # all of them were drawn from one generator
            rng = np.random.default_rng([*seeds, attempt, number, _SEARCH_TAG])
        origin = Origin((seed, netlist_id), spec, ALONE if attempt else segment, plans[number].samples)
        try:
            return _search(fabric, plans[number].netlist, origin, options, rng, failures)
        except InputError as error:
            failures.append(f"drawn anew: {error}")
    raise InputError(f"netlist {netlist_id}: {MAX_ATTEMPTS} draws without a decision that becomes steady: {failures}")


def _search(
    fabric: Fabric,
    netlist: Netlist,
    origin: Origin,
    options: SampleOptions,
    rng: np.random.Generator,
    failures: list[str],
) -> NetlistSamples:
    """Find decisions of a netlist and label them. Raises InputError when none becomes steady."""
    is_tuned = netlist.family in NETWORK_FAMILIES and not options.pool
    explorer = Explorer(fabric, netlist, rng, is_tuned)
    shares = BESIDE_POOL_SHARE if options.pool else SECTION_SHARE if is_tuned else PHASE_SHARE
    found = _anneal(explorer, phase_counts(options.decisions - options.pool, shares))
    found += [explorer.pool() for _ in range(options.pool)]
    outcome, fidelity = _simulate(fabric, netlist, found, options.short_labels)
    outcomes = [outcome]
    missing = options.decisions - len(found)  # an anneal may have skipped a phase
    cycles = np.nan_to_num(outcomes[0].cycles_per_sample, nan=np.inf)
    starts = [found[k].decision for k in np.argsort(cycles, kind="stable")[:NUM_WALKS]] if missing else []
    for number, start in enumerate(starts):
        try:
            near, labels = explorer.walk(start, (missing + number) // len(starts))
        except InputError as error:
            failures.append(f"simulator in the loop: {netlist.name}: {error}")
            continue
        found += near
        outcomes += labels
    check(fabric, netlist, Decisions.concatenate(f.decision for f in found))
    fidelity = np.concatenate([fidelity, np.ones(len(found) - len(fidelity), np.float32)])
    return label(fabric, netlist, origin, found, outcomes, failures, fidelity)


def _draw(
    fabric: Fabric, family: str, options: SampleOptions, rng: np.random.Generator, failures: list[str]
) -> tuple[list[DrawnPlan], dict[str, Any]]:
    """Draw a segment, and so many plans of it."""
    for _ in range(MAX_DRAWS):
        try:
            segment = draw_segment(fabric, family, options.sample_cycles, options.max_cycles, rng)
            return draw_plans(fabric, segment, options.plans, options.max_cycles, rng), segment.about
        except DoesNotFitError as error:
            failures.append(f"does not fit: {error}")
    raise InputError(
        f"none of {MAX_DRAWS} random {family} workloads of {options.sample_cycles} cycles per "
        f"sample fits the fabric {fabric.name}; the last reason: {failures[-1]}"
    )


def phase_counts(decisions: int, shares: dict[Phase, float]) -> dict[Phase, int]:
    """Return whole numbers in the proportion of `shares` that add up to `decisions`."""
    exact = {phase: share * decisions for phase, share in shares.items()}
    counts = {phase: int(value) for phase, value in exact.items()}
    by_rest = sorted(exact, key=lambda phase: counts[phase] - exact[phase])
    for phase in by_rest[: decisions - sum(counts.values())]:
        counts[phase] += 1
    return counts


def _anneal(explorer: Explorer, counts: dict[Phase, int]) -> list[Found]:
    """Return decisions of all phases but the last."""
    found = [explorer.random() for _ in range(counts[Phase.RANDOM])]
    for wanted in _anneals(counts):
        found += explorer.anneal(wanted)
    return found + [explorer.quench() for _ in range(counts[Phase.QUENCHED])]


def _anneals(counts: dict[Phase, int]) -> Iterator[list[Phase]]:
    """Yield the phases that each anneal is asked for: one cold each, the others in turn."""
    left = dict(counts)
    while any(left[phase] for phase in (Phase.HOT, Phase.MID, Phase.COLD)):
        wanted = [phase for phase in (Phase.HOT, Phase.MID, Phase.COLD) if left[phase] > 0]
        for phase in wanted:
            left[phase] -= 1
        yield wanted


def _simulate(
    fabric: Fabric, netlist: Netlist, found: list[Found], is_short: bool
) -> tuple[Outcome, NDArray[np.float32]]:
    """Return labels and their fidelity; those that do not settle shortly are simulated in full."""
    decisions, limits = Decisions.concatenate(f.decision for f in found), label_limits(netlist.bound_cycles)
    fidelity = np.ones(len(found), np.float32)
    if not is_short or netlist.bound_cycles < LONG_SAMPLE_CYCLES:
        return simulate_stack(fabric, netlist, decisions, limits), fidelity
    outcome = simulate_short(fabric, netlist, decisions)
    least = limits.warmup_samples + 2 * limits.window_samples + 1  # samples of a full label
    samples = outcome.cycles_simulated / outcome.cycles_per_sample
    for d in range(len(found)):
        if outcome.status[d] == Status.STEADY:
            fidelity[d] = min(1.0, samples[d] / least)
            continue
        full = simulate_stack(fabric, netlist, decisions[d], limits)
        for name in Outcome._fields:
            getattr(outcome, name)[d] = getattr(full, name)[0]
    return outcome, fidelity


def label(
    fabric: Fabric,
    netlist: Netlist,
    origin: Origin,
    found: list[Found],
    outcomes: list[Outcome],
    failures: list[str],
    fidelity: NDArray[np.float32] | None = None,
) -> NetlistSamples:
    """Return samples of the decisions that became steady; `failures` tells of the others.

    Without a fidelity [num_decisions] all labels are full ones.
    Raises InputError when there are none.
    """
    outcome = Outcome(*(np.concatenate(columns) for columns in zip(*outcomes, strict=True)))
    is_steady = outcome.status == Status.STEADY
    for k in np.flatnonzero(~is_steady):
        status = Status(int(outcome.status[k])).name.lower()
        failures.append(f"{status}: {netlist.name}, {found[k].phase.value} decision {k}")
    kept = np.flatnonzero(is_steady)
    if not len(kept):
        raise InputError(f"no decision of netlist {netlist.name} became steady: {failures}")
    decisions = Decisions.concatenate(found[k].decision for k in kept)
    counted = np.maximum(outcome.counted_cycles[kept], 1)
    time = (outcome.unit_time[kept] / counted[:, None, None]).astype(np.float32)
    utilisation = outcome.link_vectors[kept] / fabric.topology.link_width / counted[:, None]
    labels = Labels(
        cycles_per_sample=outcome.cycles_per_sample[kept],
        first_sample_cycles=outcome.first_sample_cycles[kept],
        cycles_simulated=outcome.cycles_simulated[kept],
        vector_hops=outcome.vector_hops[kept],
        unit_busy=time[:, :, UnitTime.BUSY],
        unit_starved=time[:, :, UnitTime.STARVED],
        unit_blocked=time[:, :, UnitTime.BLOCKED],
        unit_port_wait=time[:, :, UnitTime.PORT_WAIT],
        busiest_link=utilisation.max(axis=1).astype(np.float32),
        fidelity=np.ones(len(kept), np.float32) if fidelity is None else fidelity[kept],
    )
    phase = tuple(found[k].phase for k in kept)
    reached = netlist.bound_cycles / labels.cycles_per_sample
    return NetlistSamples(
        netlist_id=origin.seed[-1],
        origin=origin,
        fabric=fabric,
        netlist=netlist,
        potential=float(max((y for y, of in zip(reached, phase, strict=True) if of is Phase.POOL), default=0.0)),
        decisions=decisions,
        labels=labels,
        phase=phase,
        search=tuple(found[k].search for k in kept),
        heuristic=HeuristicCost(fabric).score(netlist, decisions),
        failures=tuple(failures),
    )
