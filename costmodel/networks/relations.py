"""Who tells whom: the edges of a batch as DGL graphs, and sums and maxima over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from costmodel.encoding import Batch
from costmodel.networks.dgl_backend import dgl


@dataclass(frozen=True, slots=True)
class Relations:
    """Directed edges from senders to receivers. An end is a (flow, target) pair."""

    flow_to_lane: Any  # one edge per visit, as are the next four
    flow_to_link: Any
    lane_to_flow: Any
    next_to_lane: Any  # from the lanes that vectors go to
    before_to_lane: Any  # from the lanes that they come from
    end_to_flow: Any
    end_to_unit: Any
    flow_to_source: Any


def relations_of(batch: Batch) -> Relations:
    """Return the relations of a batch; this takes a few milliseconds."""
    num_units, num_flows, num_ends = len(batch.unit), len(batch.flow), len(batch.end_unit)
    num_lanes, num_links = len(batch.lane_kind), len(batch.link_from)
    goes_on = batch.visit_before >= 0
    lane, before = batch.visit_lane[goes_on], batch.visit_before[goes_on]
    device = batch.visit_lane.device
    ends = torch.arange(num_ends, device=device)
    return Relations(
        flow_to_lane=relation(batch.visit_flow, batch.visit_lane, num_flows, num_lanes),
        flow_to_link=relation(batch.visit_flow, batch.lane_link[batch.visit_lane], num_flows, num_links),
        lane_to_flow=relation(batch.visit_lane, batch.visit_flow, num_lanes, num_flows),
        next_to_lane=relation(lane, before, num_lanes, num_lanes),
        before_to_lane=relation(before, lane, num_lanes, num_lanes),
        end_to_flow=relation(ends, batch.end_flow, num_ends, num_flows),
        end_to_unit=relation(ends, batch.end_unit, num_ends, num_units),
        flow_to_source=relation(torch.arange(num_flows, device=device), batch.flow_source, num_flows, num_units),
    )


def relation(senders: Tensor, receivers: Tensor, num_senders: int, num_receivers: int) -> Any:
    """Return edges, of which the i-th leads from senders[i] to receivers[i]."""
    return dgl().heterograph(
        {("sender", "to", "receiver"): (senders.int(), receivers.int())},
        {"sender": num_senders, "receiver": num_receivers},
        idtype=torch.int32,
    )


def total(edges: Any, messages: Tensor) -> Tensor:
    """Return the sum of the messages [num_senders, width] to each receiver."""
    result: Tensor = dgl().ops.copy_u_sum(edges, messages.contiguous())
    return result


def mean(edges: Any, messages: Tensor) -> Tensor:
    """Return the mean of the messages to each receiver; 0 where there are none."""
    result: Tensor = dgl().ops.copy_u_mean(edges, messages.contiguous())
    return result


def largest(edges: Any, messages: Tensor) -> Tensor:
    """Return the largest message to each receiver, by column; 0 where there are none."""
    if not edges.num_edges():  # DGL would give the first sender a gradient
        return messages.new_zeros(edges.num_nodes("receiver"), messages.shape[1])
    result: Tensor = dgl().ops.copy_u_max(edges, messages.contiguous())
    return torch.where(torch.isinf(result), 0.0, result)  # DGL: -inf where there are none


def pool(sizes: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and largest of the rows of each decision, which follow each other."""
    mean_rows: Tensor = dgl().ops.segment_reduce(sizes, rows, "mean")
    largest_rows: Tensor = dgl().ops.segment_reduce(sizes, rows, "max")
    return mean_rows, largest_rows
