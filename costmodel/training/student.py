"""A student: a small `flow` network that learns what a large one, its teacher, says of neighbours.

In a search most moves are refused. A student that tells the difference of two neighbours, one move
apart, finds most of these out at a fraction of the cost. Labels are not needed: the teacher gives
them. With t the teacher's log throughput and s the student's, a step over some groups of neighbours
minimises

    10 mean of huber(s - t) + 100 mean of huber((s - mean of s) - (t - mean of t))

with means in brackets over each group: differences within a group count most.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import Tensor
from torch.nn.functional import huber_loss

from costmodel.encoding import GraphSet, make_batch
from costmodel.networks import FlowConfig, FlowNetwork, build_network
from placer.base import Count, Fill, FloatArray, InputError, LongArray, Settings, SingleArray, Whole, Within

_FAR, _NEAR = 0.2, 0.05  # errors of log throughput above them count linearly: of a decision, in a group
_FAR_WEIGHT, _NEAR_WEIGHT = 10.0, 100.0
_RISE = 0.1  # share of the steps in which the learning rate rises


@dataclass(frozen=True, slots=True)
class StudentConfig(Settings):
    """What `conf/student/*.yaml` hold."""

    width: Annotated[int, Within(4, 512)] = 32
    lane_width: Annotated[int, Within(4, 512)] = 16
    rounds: Annotated[int, Within(0, 16)] = 1
    steps: Whole = 3000  # 0: no student
    learning_rate: Fill = 3e-3
    groups_per_batch: Count = 8
    netlists: Annotated[int, Within(2)] = 200
    walks: Count = 2
    stops: Count = 2
    moves: Count = 60
    neighbours: Annotated[int, Within(2)] = 12

    def network(self, teacher: FlowConfig) -> FlowConfig:
        """Return the network of a student; what its teacher starts from, it starts from."""
        return FlowConfig(
            self.width, self.lane_width, self.rounds, stalls=False, rules=teacher.rules, trust=teacher.trust
        )


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Groups of neighbours, and what the teacher says; all but `graphs` are [num_decisions]."""

    graphs: GraphSet
    log_throughput: SingleArray
    group: LongArray  # rising
    netlist: LongArray

    def groups(self, netlists: LongArray) -> list[LongArray]:
        """Return the decisions of each group of some netlists."""
        ids = np.flatnonzero(np.isin(self.netlist, netlists))
        cuts = np.flatnonzero(np.diff(self.group[ids])) + 1
        return np.split(ids, cuts)


def teach(
    teacher: FlowNetwork, neighbours: Neighbours, netlists: LongArray, config: StudentConfig, seed: int
) -> FlowNetwork:
    """Return a student that has learned from the neighbours of some netlists.

    Raises InputError when it learns nothing: a prediction is not finite.
    """
    student = build_network(config.network(teacher.config), seed, teacher.features)
    assert isinstance(student, FlowNetwork)
    student.unit_normaliser.load_state_dict(teacher.unit_normaliser.state_dict())
    student.flow_normaliser.load_state_dict(teacher.flow_normaliser.state_dict())
    groups, rng = neighbours.groups(netlists), np.random.default_rng(seed)
    optimiser = torch.optim.AdamW(student.parameters(), lr=config.learning_rate, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, max_lr=config.learning_rate, total_steps=config.steps + 1, pct_start=_RISE
    )
    student.train()
    for _ in range(config.steps):
        chosen = rng.choice(len(groups), min(config.groups_per_batch, len(groups)), replace=False)
        loss = _loss(student, neighbours, np.concatenate([groups[k] for k in chosen]))
        if not math.isfinite(loss.item()):
            raise InputError(f"the student diverged; try a lower student.learning_rate than {config.learning_rate}")
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(student.parameters(), 1.0)
        optimiser.step()
        schedule.step()
    return student.eval()


def _loss(student: FlowNetwork, neighbours: Neighbours, ids: LongArray) -> Tensor:
    said = student(make_batch(neighbours.graphs, ids)).log_throughput
    wanted = torch.from_numpy(neighbours.log_throughput[ids])
    group = torch.unique(torch.from_numpy(neighbours.group[ids]), return_inverse=True)[1]
    error = said - wanted
    size = torch.bincount(group)
    mean = error.new_zeros(len(size)).index_add(0, group, error) / size
    near = error - mean[group]
    return _FAR_WEIGHT * huber_loss(error, torch.zeros_like(error), delta=_FAR) + _NEAR_WEIGHT * huber_loss(
        near, torch.zeros_like(near), delta=_NEAR
    )


def ranks(student: FlowNetwork, neighbours: Neighbours, netlists: LongArray) -> FloatArray:
    """Return how well a student orders neighbours as its teacher does [num_netlists].

    It is the rank correlation within a group, as a mean over the groups of a netlist. A group that the
    teacher calls equal says nothing; a netlist of such groups alone gets NaN.
    """
    result = np.full(len(netlists), np.nan)
    for number, netlist in enumerate(netlists):
        found = []
        for ids in neighbours.groups(np.array([netlist])):
            with torch.inference_mode():
                said = student(make_batch(neighbours.graphs, ids)).log_throughput.numpy()
            wanted = neighbours.log_throughput[ids]
            if np.ptp(wanted) > 0:
                found.append(0.0 if np.ptp(said) == 0 else spearmanr(said, wanted).statistic)
        if found:
            result[number] = np.mean(found)
    return result
