"""One search of active learning: a netlist, searched with a model, and labels of what it likes."""

from __future__ import annotations

import pickle
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from costmodel.dataset import Found, Phase
from costmodel.evaluation.comparison import Case
from costmodel.inference import LearnedCost
from placer.annealing import AnnealOptions, Elite, Schedule, StartJob, StartKind, Strategy, Task, search_once
from placer.base import Count, Settings
from placer.decision import Decisions, allowed_sites
from placer.simulation import Outcome, label_limits, simulate_stack


@dataclass(frozen=True, slots=True)
class SearchConfig(Settings):
    """How each netlist is searched in a round."""

    pool: int  # searches with the heuristic, of which the model chooses the start
    max_moves: int
    start_temperature: float
    end_temperature: float
    labels: Count  # placements that are simulated

    def options(self) -> AnnealOptions:
        return AnnealOptions(
            max_moves=self.max_moves,
            start_temperature=self.start_temperature,
            schedule=Schedule(end=self.end_temperature),
        )


@dataclass(frozen=True, slots=True)
class SearchJob:
    """A netlist to search with a model."""

    case: Case
    model: bytes  # pickled here: a pipe would share tensors by file descriptors, not send them
    config: SearchConfig
    seed: int

    def __str__(self) -> str:
        return f"netlist {self.case.name!r}, seed {self.seed}"


@dataclass(frozen=True, slots=True)
class Searched:
    """What the model liked best, first the favourite, and what it is worth."""

    found: list[Found]
    outcome: Outcome
    predicted: float  # of the favourite
    throughput: NDArray[np.float64]  # [found], simulated


def search_netlist(job: SearchJob) -> Searched:
    """Search one netlist and simulate what the model likes. Runs in a worker."""
    case, config, elite = job.case, job.config, Elite()
    cost = LearnedCost(case.fabric, pickle.loads(job.model))
    is_allowed = allowed_sites(case.fabric, case.netlist, None)
    task = Task(case.fabric, case.netlist, cost, is_allowed)
    strategy = Strategy(config.options(), StartKind.HEURISTIC, pool=config.pool)
    search_once(StartJob(task, strategy, 0, (job.seed,)), elite=elite)
    scores = cost.score(case.netlist, Decisions.concatenate(elite.decisions))
    order = np.argsort(-scores, kind="stable")[: config.labels]
    chosen = [elite.decisions[k] for k in order]
    stack = Decisions.concatenate(chosen)
    outcome = simulate_stack(case.fabric, case.netlist, stack, label_limits(case.netlist.bound_cycles))
    period = np.nan_to_num(outcome.cycles_per_sample, nan=np.inf)
    about = {"cost": "learned", "search": asdict(config), "seed": job.seed}
    found = [Found(decision, Phase.OPTIMAL, about) for decision in chosen]
    return Searched(found, outcome, float(scores[order[0]]), case.netlist.bound_cycles / period)
