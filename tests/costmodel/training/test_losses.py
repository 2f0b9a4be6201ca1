"""Losses: against loops by hand, and what they must not depend on."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from costmodel.encoding import Batch
from costmodel.networks import Output
from costmodel.training import LossConfig
from costmodel.training.losses import RankLoss, losses
from placer.base import InputError
from tests.costmodel.cases import batch_of, random_stack

PAIRWISE = LossConfig(rank_weight=1.0)
LISTWISE = LossConfig(rank_weight=1.0, rank=RankLoss.LISTWISE)
DIFFERENCES = LossConfig(rank_weight=1.0, rank=RankLoss.DIFFERENCES)
values = st.lists(
    st.tuples(
        st.integers(0, 2),  # graph
        st.sampled_from([-0.1, -0.15, -0.3, -0.5, -1.0]),  # measured, with ties
        st.floats(-2, -0.01),  # predicted
    ),
    min_size=1,
    max_size=9,
)
Rows = list[tuple[int, float, float]]


def columns(rows: Rows) -> tuple[Batch, Tensor]:
    """Labels as a batch has them, and predictions; in float64 to compare with loops."""
    graph, measured, predicted = zip(*rows, strict=True)
    batch = replace(
        batch_of(random_stack(0)), graph=torch.tensor(graph), log_throughput=torch.tensor(measured, dtype=torch.float64)
    )
    return batch, torch.tensor(predicted, dtype=torch.float64)


def parts_of(batch: Batch, predicted: Tensor, config: LossConfig, log_sigma: float = -2.0) -> dict[str, Tensor]:
    sigma = torch.full_like(predicted, log_sigma)
    return losses(Output(predicted, sigma, None), batch, config)


def rank_loss(batch: Batch, predicted: Tensor, config: LossConfig) -> float:
    return parts_of(batch, predicted, config)["rank"].item()


@settings(max_examples=40)
@given(values)
def test_pairwise_loss_by_loops(rows: Rows) -> None:
    terms = []
    for (g, z, p), (other_g, other_z, other_p) in permutations(rows, 2):
        if g == other_g and z > other_z:
            weight = min(1.0, (z - other_z) / PAIRWISE.margin)
            terms.append(weight * math.log1p(math.exp(-(p - other_p) / PAIRWISE.tau)))
    expected = sum(terms) / len(terms) if terms else 0.0
    assert rank_loss(*columns(rows), PAIRWISE) == pytest.approx(expected, rel=1e-6)


@settings(max_examples=40)
@given(values)
def test_listwise_loss_by_loops(rows: Rows) -> None:
    divergences = []
    for graph in {g for g, _, _ in rows}:
        lists = [[row[k] / LISTWISE.tau for row in rows if row[0] == graph] for k in (1, 2)]
        wanted, given_ = ([math.exp(x) / sum(map(math.exp, xs)) for x in xs] for xs in lists)
        divergences.append(sum(w * math.log(w / g) for w, g in zip(wanted, given_, strict=True)))
    expected = sum(divergences) / len(divergences)
    assert rank_loss(*columns(rows), LISTWISE) == pytest.approx(expected, rel=1e-6, abs=1e-9)


@settings(max_examples=25)
@given(values)
def test_loss_of_differences_by_loops(rows: Rows) -> None:
    terms, delta = [], DIFFERENCES.delta
    for (g, z, p), (other_g, other_z, other_p) in permutations(rows, 2):
        if g == other_g and z > other_z:
            error = abs((p - other_p) - (z - other_z))
            terms.append(0.5 * error**2 if error < delta else delta * (error - 0.5 * delta))
    expected = sum(terms) / len(terms) if terms else 0.0
    assert rank_loss(*columns(rows), DIFFERENCES) == pytest.approx(expected, rel=1e-6, abs=1e-9)


@settings(max_examples=25)
@given(values, st.sampled_from([PAIRWISE, LISTWISE, DIFFERENCES]), st.floats(-3, 3))
def test_rank_losses_see_differences_within_a_graph_only(rows: Rows, config: LossConfig, shift: float) -> None:
    batch, predicted = columns(rows)
    moved = predicted + shift * batch.graph
    expected = rank_loss(batch, predicted, config)
    assert rank_loss(batch, moved, config) == pytest.approx(expected, rel=1e-6, abs=1e-9)


@settings(max_examples=25)
@given(values)
def test_rank_losses_vanish_for_the_right_order(rows: Rows) -> None:
    batch, _ = columns(rows)
    far_apart = 100 * batch.log_throughput
    assert rank_loss(batch, far_apart, PAIRWISE) < 1e-9
    assert rank_loss(batch, batch.log_throughput, LISTWISE) == pytest.approx(0, abs=1e-9)
    assert rank_loss(batch, -far_apart, PAIRWISE) >= 0
    assert rank_loss(batch, -far_apart, LISTWISE) >= -1e-9


@pytest.mark.parametrize("config", [PAIRWISE, LISTWISE, DIFFERENCES])
@pytest.mark.parametrize(
    "rows",
    [
        [(0, -0.1, -0.4), (1, -0.2, -0.3)],  # one decision per graph
        [(0, -0.1, -0.4), (0, -0.1, -0.4)],  # all equal
        [(0, -0.1, -0.4)],
    ],
)
def test_nothing_to_compare_costs_nothing(rows: Rows, config: LossConfig) -> None:
    batch, predicted = columns(rows)
    predicted.requires_grad_()
    parts = parts_of(batch, predicted, config)
    assert parts["rank"].item() == pytest.approx(0, abs=1e-12)
    torch.stack(list(parts.values())).sum().backward()
    assert predicted.grad is not None and torch.isfinite(predicted.grad).all()


@pytest.mark.parametrize("config", [PAIRWISE, LISTWISE, DIFFERENCES])
def test_gradients_move_the_better_decision_up(config: LossConfig) -> None:
    batch, predicted = columns([(0, -0.1, -0.5), (0, -0.4, -0.5), (1, -0.2, -0.5)])
    predicted.requires_grad_()
    parts_of(batch, predicted, config)["rank"].backward()
    assert predicted.grad is not None
    better, worse, alone = predicted.grad.tolist()
    assert better < 0 < worse
    assert alone == 0


def test_regression_is_quadratic_near_and_linear_far() -> None:
    config = LossConfig(regression=1.0, delta=0.2, rank=RankLoss.NONE)
    batch, predicted = columns([(0, -0.5, -0.4), (0, -0.5, -1.5)])
    expected = (0.5 * 0.1**2 + 0.2 * (1.0 - 0.1)) / 2
    parts = parts_of(batch, predicted.requires_grad_(), config)
    assert parts.keys() == {"regression", "sigma"}
    assert parts["regression"].item() == pytest.approx(expected)
    parts["regression"].backward()
    assert predicted.grad is not None
    assert predicted.grad.tolist() == pytest.approx([0.1 / 2, -0.2 / 2])


def test_sigma_is_best_at_the_size_of_the_error() -> None:
    batch, predicted = columns([(0, -0.5, -0.4), (1, -0.3, -0.4)])
    predicted.requires_grad_()
    near = [parts_of(batch, predicted, PAIRWISE, math.log(sigma))["sigma"] for sigma in (0.05, 0.1, 0.2)]
    assert near[1] < near[0] and near[1] < near[2]
    assert not near[1].requires_grad  # predictions do not learn from it


def test_stalls_are_compared_where_they_are_predicted() -> None:
    batch = batch_of(random_stack(0))
    batch = replace(
        batch, log_throughput=torch.full((len(batch),), -0.5), unit_stalls=torch.zeros_like(batch.unit_stalls)
    )
    predicted = torch.full((len(batch),), -0.5)
    output = Output(predicted, predicted, torch.full_like(batch.unit_stalls, 0.5))
    parts = losses(output, batch, LossConfig(stalls=3.0))
    assert parts["stalls"].item() == pytest.approx(3 * 0.25)
    assert "stalls" not in losses(Output(predicted, predicted, None), batch, LossConfig())


def test_parts_are_weighted() -> None:
    batch, predicted = columns([(0, -0.1, -0.5), (0, -0.4, -0.3)])
    one = parts_of(batch, predicted, LossConfig(regression=1, rank_weight=1, sigma=1))
    two = parts_of(batch, predicted, LossConfig(regression=2, rank_weight=3, sigma=5))
    for name, factor in (("regression", 2), ("rank", 3), ("sigma", 5)):
        assert two[name].item() == pytest.approx(factor * one[name].item())


@pytest.mark.parametrize(
    "changes", [{"tau": 0.0}, {"margin": -1.0}, {"delta": math.nan}, {"regression": -1.0}, {"stalls": 1e9}]
)
def test_weights_that_make_no_sense_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"{next(iter(changes))}="):
        LossConfig(**changes)
