"""Messages over relations: against index arithmetic in plain torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from costmodel.networks.relations import largest, mean, pool, relation, relations_of, total
from tests.costmodel.cases import batch_of, random_stack

SENDERS, RECEIVERS, WIDTH = 6, 5, 3


def random_edges(seed: int) -> tuple[Tensor, Tensor, Any]:
    """Some receivers get no message, some senders send several, also twice to one receiver."""
    rng = np.random.default_rng(seed)
    num_edges = int(rng.integers(0, 12))
    senders = torch.from_numpy(rng.integers(0, SENDERS, num_edges))
    receivers = torch.from_numpy(rng.integers(0, RECEIVERS - 1, num_edges))
    return senders, receivers, relation(senders, receivers, SENDERS, RECEIVERS)


def messages_of(seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """All values differ."""
    order = np.random.default_rng(seed).permutation(SENDERS * WIDTH).reshape(SENDERS, WIDTH)
    return torch.from_numpy(order / 3 - 4).to(dtype)


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1))
def test_sums_means_and_maxima_of_messages(seed: int) -> None:
    senders, receivers, edges = random_edges(seed)
    messages = messages_of(seed)
    zeros = torch.zeros(RECEIVERS, WIDTH)
    sums = zeros.index_add(0, receivers, messages[senders])
    count = torch.zeros(RECEIVERS).index_add(0, receivers, torch.ones(len(receivers)))[:, None]
    index = receivers[:, None].expand(-1, WIDTH)
    maxima = zeros.scatter_reduce(0, index, messages[senders], "amax", include_self=False)
    torch.testing.assert_close(total(edges, messages), sums)
    torch.testing.assert_close(mean(edges, messages), sums / count.clamp_min(1))
    torch.testing.assert_close(largest(edges, messages), maxima)
    assert not largest(edges, messages)[-1].any()  # the last receiver never has a message


@pytest.mark.slow
@settings(max_examples=10)
@given(st.integers(0, 2**32 - 1))
def test_gradients_of_messages_agree_with_differences(seed: int) -> None:
    _, _, edges = random_edges(seed)
    messages = messages_of(seed, torch.float64).requires_grad_()
    for combine in (total, mean, largest):
        if edges.num_edges():
            assert torch.autograd.gradcheck(lambda m, f=combine: f(edges, m), messages)


def test_the_largest_message_alone_gets_the_gradient() -> None:
    edges = relation(torch.tensor([0, 1, 2]), torch.tensor([0, 0, 2]), 3, 3)
    messages = torch.tensor([[1.0], [-5.0], [-7.0]], requires_grad=True)
    result = largest(edges, messages)
    assert result[:, 0].tolist() == [1.0, 0.0, -7.0]
    result.sum().backward()
    assert messages.grad is not None
    assert messages.grad[:, 0].tolist() == [1.0, 0.0, 1.0]


def test_without_any_message_nobody_gets_a_gradient() -> None:
    nobody = torch.zeros(0, dtype=torch.int64)
    messages = torch.ones(3, 2, requires_grad=True)
    result = largest(relation(nobody, nobody, 3, 4), messages)
    assert result.shape == (4, 2) and not result.any()
    assert not result.requires_grad


def test_messages_may_be_a_view_of_some_columns() -> None:
    edges = relation(torch.tensor([0, 1]), torch.tensor([1, 1]), 2, 2)
    left, right = torch.arange(8.0).reshape(2, 4).chunk(2, dim=1)
    for part in (left, right):
        torch.testing.assert_close(total(edges, part)[1], part.sum(dim=0))


@settings(max_examples=20)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.integers(0, 2**32 - 1))
def test_pooling_takes_the_rows_of_each_decision(sizes: list[int], seed: int) -> None:
    rows = torch.from_numpy(np.random.default_rng(seed).normal(size=(sum(sizes), WIDTH))).float()
    means, maxima = pool(torch.tensor(sizes), rows)
    for k, part in enumerate(torch.split(rows, sizes)):
        torch.testing.assert_close(means[k], part.mean(dim=0))
        torch.testing.assert_close(maxima[k], part.amax(dim=0))


def edges_of(graph: Any) -> list[tuple[int, int]]:
    senders, receivers = graph.edges()
    return sorted(zip(senders.tolist(), receivers.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(3))
def test_relations_are_the_columns_of_the_batch(seed: int) -> None:
    batch = batch_of(random_stack(seed), random_stack(seed + 10))
    edges = relations_of(batch)
    visits = list(zip(batch.visit_flow.tolist(), batch.visit_lane.tolist(), batch.visit_before.tolist(), strict=True))
    ends = list(enumerate(zip(batch.end_flow.tolist(), batch.end_unit.tolist(), strict=True)))
    assert edges_of(edges.flow_to_lane) == sorted((flow, lane) for flow, lane, _ in visits)
    assert edges_of(edges.lane_to_flow) == sorted((lane, flow) for flow, lane, _ in visits)
    going_on = [(lane, before) for _, lane, before in visits if before >= 0]
    assert edges_of(edges.next_to_lane) == sorted(going_on)
    assert edges_of(edges.before_to_lane) == sorted((b, a) for a, b in going_on)
    link_of = batch.lane_link.tolist()
    assert edges_of(edges.flow_to_link) == sorted((flow, link_of[lane]) for flow, lane, _ in visits)
    assert edges_of(edges.end_to_flow) == [(end, flow) for end, (flow, _) in ends]
    assert edges_of(edges.end_to_unit) == [(end, unit) for end, (_, unit) in ends]
    assert edges_of(edges.flow_to_source) == list(enumerate(batch.flow_source.tolist()))
