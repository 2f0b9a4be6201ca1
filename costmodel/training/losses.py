"""What training minimises: error of log(throughput), order within a graph, stalls of units, sigma.

With z = log throughput, p its prediction, per batch:

- regression: mean of huber(p - z) with `delta`;
- rank, pairwise: mean over pairs (a, b) of one graph with z_a > z_b of
  w softplus(-(p_a - p_b) / tau), w = min(1, (z_a - z_b) / margin): near-ties hardly count;
- rank, listwise: cross-entropy between softmax(z / tau) and softmax(p / tau) of each graph, minus
  its least value;
- rank, differences: mean over pairs (a, b) of one graph of huber((p_a - p_b) - (z_a - z_b)) with `delta`:
  an error that all of a graph share is free;
- stalls: mean square error of the share of time that units starve, are blocked, wait for a port;
- sigma: negative log likelihood of p - z with standard deviation sigma, p fixed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Annotated

import torch
from torch import Tensor
from torch.nn.functional import huber_loss, softplus

from costmodel.encoding import Batch
from costmodel.networks import Output
from placer.base import Positive, Settings, Within

Weight = Annotated[float, Within(0, 1e6)]


class RankLoss(Enum):
    """How decisions of one graph are compared."""

    NONE = "none"
    PAIRWISE = "pairwise"
    LISTWISE = "listwise"
    DIFFERENCES = "differences"


@dataclass(frozen=True, slots=True)
class LossConfig(Settings):
    """What `conf/loss/*.yaml` hold; weights are relative."""

    regression: Weight = 10.0
    delta: Positive = 0.2  # errors of log throughput above it count linearly
    rank: RankLoss = RankLoss.PAIRWISE
    rank_weight: Weight = 0.3
    tau: Positive = 0.05  # difference of log throughput that counts as told apart
    margin: Positive = 0.1  # pairs that differ by less count less
    stalls: Weight = 10.0
    sigma: Weight = 0.1


def losses(output: Output, batch: Batch, config: LossConfig) -> dict[str, Tensor]:
    """Return the weighted parts by name; what is minimised is their sum."""
    predicted, measured = output.log_throughput, batch.log_throughput
    parts = {
        "regression": config.regression * huber_loss(predicted, measured, delta=config.delta),
        "sigma": config.sigma * _likelihood(predicted.detach(), measured, output.log_sigma),
    }
    if output.stalls is not None:
        parts["stalls"] = config.stalls * ((output.stalls - batch.unit_stalls) ** 2).mean()
    if config.rank is RankLoss.PAIRWISE:
        parts["rank"] = config.rank_weight * _pairwise(predicted, measured, batch.graph, config)
    elif config.rank is RankLoss.LISTWISE:
        parts["rank"] = config.rank_weight * _listwise(predicted, measured, batch.graph, config)
    elif config.rank is RankLoss.DIFFERENCES:
        parts["rank"] = config.rank_weight * _differences(predicted, measured, batch.graph, config)
    return parts


def term_counts(batch: Batch, config: LossConfig) -> dict[str, int]:
    """Return how many terms each part of `losses` is the mean of."""
    same = batch.graph[:, None] == batch.graph[None, :]
    better = batch.log_throughput[:, None] > batch.log_throughput[None, :]
    counts = {name: len(batch) for name in ("regression", "sigma")}
    counts["stalls"] = batch.unit_stalls.numel()
    if config.rank in (RankLoss.PAIRWISE, RankLoss.DIFFERENCES):
        counts["rank"] = int((same & better).sum())
    elif config.rank is RankLoss.LISTWISE:
        counts["rank"] = len(torch.unique(batch.graph))
    return counts


def _likelihood(predicted: Tensor, measured: Tensor, log_sigma: Tensor) -> Tensor:
    return (log_sigma + 0.5 * ((predicted - measured) * torch.exp(-log_sigma)) ** 2).mean()


def _pairs(measured: Tensor, graph: Tensor) -> tuple[Tensor, Tensor]:
    """Return the better and the worse of all pairs of one graph that differ."""
    better, worse = torch.nonzero(
        (graph[:, None] == graph[None, :]) & (measured[:, None] > measured[None, :]), as_tuple=True
    )
    return better, worse


def _pairwise(predicted: Tensor, measured: Tensor, graph: Tensor, config: LossConfig) -> Tensor:
    better, worse = _pairs(measured, graph)
    if not len(better):
        return predicted.new_zeros(())
    weight = ((measured[better] - measured[worse]) / config.margin).clamp_max(1)
    wrong = softplus((predicted[worse] - predicted[better]) / config.tau)
    return (weight * wrong).mean()


def _differences(predicted: Tensor, measured: Tensor, graph: Tensor, config: LossConfig) -> Tensor:
    better, worse = _pairs(measured, graph)
    if not len(better):
        return predicted.new_zeros(())
    wanted = measured[better] - measured[worse]
    return huber_loss(predicted[better] - predicted[worse], wanted, delta=config.delta)


def _listwise(predicted: Tensor, measured: Tensor, graph: Tensor, config: LossConfig) -> Tensor:
    ids, inverse = torch.unique(graph, return_inverse=True)
    wanted = _log_softmax(measured / config.tau, inverse, len(ids))
    given = _log_softmax(predicted / config.tau, inverse, len(ids))
    return (torch.exp(wanted) * (wanted - given)).sum() / len(ids)


def _log_softmax(values: Tensor, group: Tensor, num_groups: int) -> Tensor:
    """Return the log of the softmax within each group [num_values]."""
    highest = values.new_full((num_groups,), -torch.inf)
    highest = highest.scatter_reduce(0, group, values.detach(), "amax")
    shifted = values - highest[group]
    sums = values.new_zeros(num_groups).index_add(0, group, torch.exp(shifted))
    return shifted - torch.log(sums)[group]
