"""What is measured, with fixed work and fixed seeds: how good models, mappers, plans and labels are.

Searches end after a number of questions, moves or tries, never by a clock, so any machine finds the
same. Speeds are ratios of processor times within one run.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from scipy.stats import spearmanr

import placer
from costmodel.dataset import SampleOptions, make_samples
from costmodel.inference import LearnedCost
from costmodel.model import Model, shipped_file
from placer.base import FloatArray
from placer.cost import CostModel, HeuristicCost
from placer.decision import Decisions, random_sites
from placer.decision.routing import RoutingMethod, route
from placer.fabric import HELD_OUT_SEED, Fabric, draw_fabric, load_fabric
from placer.graph.workloads import FAMILIES, DecoderSpec, ModelSpec, VisionSpec, build
from placer.kernels.engines import Search, map_kernels
from placer.kernels.model import generate
from placer.kernels.sizing import Problem
from placer.netlist import Netlist, full_bound
from placer.netlist.lowering import draw_netlist, lower_sections
from placer.simulation import PRECISE_LIMITS, Limits, simulate_stack
from placer.simulation.reference import simulate_reference
from placer.stencil.model import INPUTS
from placer.stencil.search import Clock, map_volume
from placer.streaming.model import Budget, Device, load_program
from placer.streaming.search import anneal, list_schedule, make_problem

SAMPLE_CYCLES, PLACEMENTS, SEED = 32, 16, 20261118
MOVES = 2000  # of an annealed placement
QUESTIONS = {"resnet50": 300, "unet_wired": 300, "resnet50_convs": 300}  # to the clock, by kernel graph
STEPS = {"circle": 30, "box_big": 30, "small_sphere": 60}  # of the stencil search, by input
TRIES = 20_000  # of mappings of instructions
PROGRAMS = ("fft", "matrix_vector")
NETWORKS: tuple[ModelSpec | DecoderSpec | VisionSpec, ...] = (
    ModelSpec("bert_large", 1),
    ModelSpec("gpt2_xl", 1),
    DecoderSpec("llama3_8b", 1),
    VisionSpec("vit_large", 1),
    VisionSpec("resnet50", 4),
)
BRIEF = Limits(1, 1, tolerance=0.02, max_cycles=1500, max_samples=10)  # of the plain engine, which is slow
REPEATS = 3  # of what is timed; the fastest counts


@dataclass(frozen=True, slots=True)
class Measured:
    """A figure of today. A later one may be worse by `tolerance`, a share of the value."""

    name: str
    value: float
    tolerance: float
    better: Literal["higher", "lower"]


def model_figures() -> Iterator[Measured]:
    """Yield how well the model in the box, and rules, order placements of unseen netlists, as datasets hold them."""
    for name, fabric in (("small", load_fabric("small")), ("held-out fabric", draw_fabric(HELD_OUT_SEED, 0))):
        model = LearnedCost(fabric, Model.load(shipped_file()))
        ranks: dict[str, list[float]] = {"model": [], "rules": []}
        errors = list[FloatArray]()
        costs: dict[str, CostModel] = {"model": model, "rules": HeuristicCost(fabric)}
        for number, family in enumerate(FAMILIES):
            samples = make_samples(fabric, family, SampleOptions(decisions=PLACEMENTS), SEED, number)
            for who, cost in costs.items():
                scores = cost.score(samples.netlist, samples.decisions)
                ranks[who].append(float(spearmanr(scores, samples.throughput).statistic))
                if who == "model":
                    errors.append(np.abs(scores / samples.throughput - 1))
        yield Measured(f"rank of the model, {name}", float(np.mean(ranks["model"])), 0.02, "higher")
        yield Measured(f"rank of the rules, {name}", float(np.mean(ranks["rules"])), 0.02, "higher")
        yield Measured(f"error of the model, {name}", float(np.concatenate(errors).mean()), 0.1, "lower")


def _placements(fabric: Fabric) -> Iterator[tuple[Netlist, Decisions]]:
    """Yield netlists of all families, each with random placements."""
    for family in FAMILIES:
        netlist = draw_netlist(fabric, family, SAMPLE_CYCLES, SEED, 0)
        sites = random_sites(fabric, netlist, PLACEMENTS, SEED)
        yield netlist, route(fabric, netlist, sites, method=RoutingMethod.MIXED)


def label_figures() -> Iterator[Measured]:
    """Yield how far simulations of the default length are from precise ones."""
    fabric, errors = load_fabric("small"), list[FloatArray]()
    for netlist, decisions in _placements(fabric):
        usual = simulate_stack(fabric, netlist, decisions).cycles_per_sample
        precise = simulate_stack(fabric, netlist, decisions, PRECISE_LIMITS).cycles_per_sample
        errors.append(np.abs(usual / precise - 1))
    yield Measured(
        "error of default simulations, random placements", float(np.nanmean(np.concatenate(errors))), 0.25, "lower"
    )


def placement_figures() -> Iterator[Measured]:
    """Yield the share of the bound that placements reach after some moves."""
    for cost, workload in itertools.product(("heuristic", "learned"), ("mha", "ffn")):
        found = placer.place(
            workload, fabric="small", cost=cost, seconds=None, settings=(f"max_moves={MOVES}", "starts=1")
        )
        yield Measured(f"placed by {cost}, {workload}", found.share_of_bound, 0.02, "higher")


def plan_figures() -> Iterator[Measured]:
    """Yield the share of the peak that the bounds of default plans leave, one layer of each network."""
    fabric = load_fabric("large")
    for spec in NETWORKS:
        sections = lower_sections(fabric, build(spec))
        weights = [section.repeats * section.samples for section in sections]
        macs = sum(weight * section.macs for weight, section in zip(weights, sections, strict=True))
        cycles = sum(
            weight * full_bound(fabric, section.netlist).cycles
            for weight, section in zip(weights, sections, strict=True)
        )
        yield Measured(f"default plan, {spec.model}", macs / (cycles * fabric.peak_macs_per_cycle), 0.01, "higher")


def kernel_figures() -> Iterator[Measured]:
    """Yield scores of the kernel mapper."""
    for preset, questions in QUESTIONS.items():
        ticks = itertools.count()
        search = Search(Problem(generate(preset)), questions, clock=lambda ticks=ticks: float(next(ticks)))  # type: ignore[misc]
        yield Measured(f"kernels, {preset}", float(map_kernels(search, "auto").score.total), 0.005, "lower")


class _Steps(Clock):
    """A clock that ticks when it is asked."""

    def __init__(self, steps: int) -> None:
        super().__init__(1e9, 1)
        self._left = steps

    def has_time(self, seconds: float = 0.0) -> bool:
        self._left -= 1
        return self._left >= 0


def stencil_figures() -> Iterator[Measured]:
    """Yield scores of the stencil mapper."""
    for name, steps in STEPS.items():
        mapping = map_volume(INPUTS[name](), _Steps(steps), seed=0)
        yield Measured(f"stencil, {name}", float(mapping.score.total), 0.005, "higher")


def streaming_figures() -> Iterator[Measured]:
    """Yield cycles over the lower bound of two mappers of instructions."""
    for name in PROGRAMS:
        problem = make_problem(load_program(Path(f"data/inputs/streaming/{name}.json")), Device())
        for mapper, search in (("list", list_schedule), ("sa", anneal)):
            mapping = search(problem, Budget(3600.0, TRIES), 0).mapping
            assert mapping is not None
            yield Measured(f"streaming, {name}, {mapper}", mapping.cycles / problem.bounds.total, 0.01, "lower")


def speed_figures() -> Iterator[Measured]:
    """Yield how much faster the model and the compiled engine are than what they stand for."""
    fabric = load_fabric("small")
    netlist = draw_netlist(fabric, "mha", SAMPLE_CYCLES, SEED, 0)
    one, many = (route(fabric, netlist, random_sites(fabric, netlist, num, SEED)) for num in (1, PLACEMENTS))
    model = LearnedCost(fabric, Model.load(shipped_file()))
    simulated = _seconds(lambda: simulate_stack(fabric, netlist, many))
    scored = _seconds(lambda: model.score(netlist, many))
    plain = _seconds(
        lambda: simulate_reference(
            fabric, netlist, one, warmup_samples=BRIEF.warmup_samples, window_samples=BRIEF.window_samples,
            tolerance=BRIEF.tolerance, max_cycles=BRIEF.max_cycles, max_samples=BRIEF.max_samples,
        )
    )  # fmt: skip
    compiled = _seconds(lambda: simulate_stack(fabric, netlist, one, BRIEF))
    yield Measured("speed of scores over simulations", simulated / scored, 0.5, "higher")
    yield Measured("speed of the compiled engine over the plain one", plain / compiled, 0.5, "higher")


def _seconds(act: Callable[[], object]) -> float:
    """Return the least seconds of the processor, after a first time for compiling."""
    act()
    taken = []
    for _ in range(REPEATS):
        begin = time.process_time()
        act()
        taken.append(time.process_time() - begin)
    return max(1e-9, min(taken))


def size_figures() -> Iterator[Measured]:
    """Yield what is installed, without its dependencies."""
    root = Path(placer.__file__).parents[1]
    files = [path for name in ("placer", "costmodel") for path in (root / name).rglob("*") if path.is_file()]
    kept = [path for path in files if "__pycache__" not in path.parts]
    yield Measured("installed MB", sum(path.stat().st_size for path in kept) / 1e6, 0.1, "lower")


MEASURES: dict[str, Callable[[], Iterator[Measured]]] = {
    "model": model_figures,
    "labels": label_figures,
    "placements": placement_figures,
    "plans": plan_figures,
    "kernels": kernel_figures,
    "stencil": stencil_figures,
    "streaming": streaming_figures,
    "speed": speed_figures,
    "size": size_figures,
}
