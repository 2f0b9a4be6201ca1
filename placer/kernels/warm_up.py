"""Compile every engine once, on blocks and on convolutions, so that no timed run waits for it."""

from __future__ import annotations

from placer.kernels.engines import ENGINES, map_kernels
from placer.kernels.generate import generate
from placer.kernels.mapping_cost import SimulatorCost
from placer.kernels.problem import Problem
from placer.kernels.search import Search
from placer.kernels.truth_model import simulate_mapping


def warm_up() -> None:
    """Takes a few seconds if everything is in the cache, else a minute."""
    for preset in ("tiny", "tiny_convs"):
        problem = Problem(generate(preset))
        for engine in (*ENGINES, "auto"):  # the first run of auto spends its time on compiling
            mapping = map_kernels(Search(problem, time_limit=0.5), engine)
        simulate_mapping(problem, mapping.layout)
        map_kernels(Search(problem, time_limit=0.5, cost=SimulatorCost()), "auto")
