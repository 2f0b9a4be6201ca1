"""`flow`: units, flows and lanes tell each other what they know, K times; the slowest decides.

Three kinds of nodes, as in network models of the RouteNet family: units u, flows f and lanes l
(virtual channels of links). Ends e are pairs (flow, target unit) that know x_e, how far they are.
Sums carry loads, maxima carry bottlenecks. Capital letters below are learned matrices.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import torch
from torch import Tensor, nn

from costmodel.encoding import FABRIC_FEATURES, NUM_STALLS, Batch, FeatureSchema
from costmodel.networks.output import Normaliser, Output, Readout
from costmodel.networks.relations import Relations, largest, pool, relations_of, total
from placer.base import InputError

NEAR = 2  # the column of `hop_columns` that tells of ends next to their source; all others rise with the hops
TYPICAL_TRIP = 16.0  # cycles of a round trip whose logarithm is 0 in `hop_columns`


class Pooling(Enum):
    """How the nodes of a decision become one row."""

    MEAN = "mean"
    MAX = "max"
    MEAN_MAX = "mean_max"  # both, side by side


@dataclass(frozen=True, slots=True)
class FlowConfig:
    """Size of the network, and what may be left out."""

    width: int = 48  # of units and flows
    lane_width: int = 32
    rounds: int = 3
    pooling: Pooling = Pooling.MEAN_MAX
    node_embedding: bool = True  # operation and stage of units
    edge_embedding: bool = True  # hops of ends, kinds of lanes
    annotations: bool = True  # work, sizes, rates
    lanes: bool = True  # False: flows know how far they go, not whom they meet
    stalls: bool = True  # also predict what units wait for
    rules: bool = False  # predict what is lost of the expert's estimate, which is an upper bound
    trust: bool = False  # with `rules`: learn how far to trust that estimate, decision by decision

    def __post_init__(self) -> None:
        for name, least, most in (("width", 4, 512), ("lane_width", 4, 512), ("rounds", 0, 16)):
            if not least <= getattr(self, name) <= most:
                raise InputError(f"model.{name}={getattr(self, name)}; allowed {least} to {most}")
        if self.trust and not self.rules:
            raise InputError("model.trust=true needs model.rules=true: there is nothing to trust")


class LaneUpdate(nn.Module):
    """What a lane learns in a round; lanes are many, so it is one layer.

    l <- norm(l + relu(A l + sum of B f + sum of C f' + sum of D l+ + sum of E l-))

    over the flows f that use the lane, the flows f' that use its link, and the lanes l+ and l- that
    its vectors go to (where queues come from) and come from.

    In: lanes [num_lanes, lane_width], flows [num_flows, width]. Out: [num_lanes, lane_width].
    """

    def __init__(self, width: int, lane_width: int) -> None:
        super().__init__()
        self.own = nn.Linear(lane_width, lane_width)
        self.flow = nn.Linear(width, lane_width, bias=False)
        self.link = nn.Linear(width, lane_width, bias=False)
        self.next = nn.Linear(lane_width, lane_width, bias=False)
        self.before = nn.Linear(lane_width, lane_width, bias=False)
        self.norm = nn.LayerNorm(lane_width)

    def forward(self, lane: Tensor, flow: Tensor, batch: Batch, edges: Relations) -> Tensor:
        hidden = self.own(lane)
        hidden += total(edges.flow_to_lane, self.flow(flow))
        hidden += total(edges.flow_to_link, self.link(flow))[batch.lane_link]
        hidden += total(edges.next_to_lane, self.next(lane))
        hidden += total(edges.before_to_lane, self.before(lane))
        result: Tensor = self.norm(lane + torch.relu_(hidden))
        return result


class FlowUpdate(nn.Module):
    """What a flow learns in a round.

    m_e = relu(T u_e + H x_e)
    f <- norm(f + O relu(A f + S u + E max of m_e + P sum of l + Q max of l))

    with its source u, its ends e, their target units u_e, and the lanes l of its route; without
    lanes (`FlowConfig.lanes`), P and Q are not there.

    In: flows [num_flows, width], units [num_units, width], lanes [num_lanes, lane_width] or None,
    x [num_ends, columns of hops]. Out: [num_flows, width].
    """

    def __init__(self, config: FlowConfig, num_hops: int) -> None:
        super().__init__()
        width = config.width
        self.own = nn.Linear(width, width)
        self.source = nn.Linear(width, width, bias=False)
        self.target = nn.Linear(width, width, bias=False)
        self.hops = nn.Linear(num_hops, width)
        self.ends = nn.Linear(width, width, bias=False)
        if config.lanes:
            self.route_sum = nn.Linear(config.lane_width, width, bias=False)
            self.route_max = nn.Linear(config.lane_width, width, bias=False)
        self.out = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(
        self, flow: Tensor, unit: Tensor, lane: Tensor | None, hops: Tensor, batch: Batch, edges: Relations
    ) -> Tensor:
        ends = torch.relu(self.target(unit)[batch.end_unit] + self.hops(hops))
        hidden = self.own(flow)
        hidden += self.source(unit)[batch.flow_source]
        hidden += self.ends(largest(edges.end_to_flow, ends))
        if lane is not None:
            hidden += self.route_sum(total(edges.lane_to_flow, lane))
            hidden += self.route_max(largest(edges.lane_to_flow, lane))
        result: Tensor = self.norm(flow + self.out(torch.relu(hidden)))
        return result


class UnitUpdate(nn.Module):
    """What a unit learns in a round.

    m_e = relu(F f_e + H x_e)
    u <- norm(u + O relu(A u + R sum of m_e + M max of m_e + sum of W f))

    over the ends e at the unit, whose flows f_e it reads, and the flows f that it writes.

    In: units [num_units, width], flows [num_flows, width], x [num_ends, columns of hops].
    Out: [num_units, width].
    """

    def __init__(self, width: int, num_hops: int) -> None:
        super().__init__()
        self.own = nn.Linear(width, width)
        self.flow = nn.Linear(width, width, bias=False)
        self.hops = nn.Linear(num_hops, width)
        self.reads_sum = nn.Linear(width, width, bias=False)
        self.reads_max = nn.Linear(width, width, bias=False)
        self.writes = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, unit: Tensor, flow: Tensor, hops: Tensor, batch: Batch, edges: Relations) -> Tensor:
        ends = torch.relu(self.flow(flow)[batch.end_flow] + self.hops(hops))
        hidden = self.own(unit)
        hidden += self.reads_sum(total(edges.end_to_unit, ends))
        hidden += self.reads_max(largest(edges.end_to_unit, ends))
        hidden += total(edges.flow_to_source, self.writes(flow))
        result: Tensor = self.norm(unit + self.out(torch.relu(hidden)))
        return result


class Round(nn.Module):
    """One exchange: first lanes learn, then flows, then units. In and out: rows of all three."""

    def __init__(self, config: FlowConfig, num_hops: int) -> None:
        super().__init__()
        self.lane = LaneUpdate(config.width, config.lane_width) if config.lanes else None
        self.flow = FlowUpdate(config, num_hops)
        self.unit = UnitUpdate(config.width, num_hops)

    def forward(
        self, unit: Tensor, flow: Tensor, lane: Tensor | None, hops: Tensor, batch: Batch, edges: Relations
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        if self.lane is not None:
            lane = self.lane(lane, flow, batch, edges)
        flow = self.flow(flow, unit, lane, hops, batch, edges)
        return self.unit(unit, flow, hops, batch, edges), flow, lane


class FlowNetwork(nn.Module):
    """Predicts log(throughput) of decisions from their units, flows and lanes.

    u^0 = MLP(facts of the unit) + embedding of its operation + embedding of its stage
    f^0 = MLP([facts of the flow, max of x_e over its ends])
    l^0 = linear([kind of the lane, log of its number of flows, constants of its kind])
    (u, f, l)^k = Round(u, f, l)^(k-1),  k = 1 .. K
    h   = [mean and max of u^K, mean and max of f^K, mean and max of l^K] over the decision
    log(throughput), log(sigma) = Readout(h)

    Both means and maxima, since the slowest resource decides. With `rules`, the logarithm of the expert's
    estimate is added, times what `trust` the readout has in it, and only what it leaves open is learned.
    Nothing depends on absolute positions, directions or the order of nodes. With no rounds at all it is
    an MLP without edges.

    In: a `Batch`. Out: `Output` with [num_decisions] predictions and, with `stalls`, a linear
    layer's [num_units, NUM_STALLS] shares of the time that units wait.
    """

    def __init__(self, config: FlowConfig, features: FeatureSchema = FABRIC_FEATURES) -> None:
        super().__init__()
        self.config, self.features = config, features
        width = config.width
        self.unit_normaliser = Normaliser(len(features.unit_columns))
        self.flow_normaliser = Normaliser(len(features.flow_columns))
        self.num_hops = 3 + bool(features.lane_columns)  # columns that tell how far an end is
        self.unit = _mlp(len(features.unit_columns), width)
        self.flow = _mlp(len(features.flow_columns) + self.num_hops, width)
        self.op = nn.Embedding(len(features.ops), width)
        self.stage = nn.Embedding(features.num_stages, width)
        self.lane = nn.Linear(features.lane_kinds + 1 + len(features.lane_columns), config.lane_width)
        for embedding in (self.op, self.stage):  # what training never shows stays neutral
            nn.init.zeros_(embedding.weight)
        self.rounds = nn.ModuleList(Round(config, self.num_hops) for _ in range(config.rounds))
        parts = 2 if config.pooling is Pooling.MEAN_MAX else 1
        pooled = parts * (2 * width + config.lane_width * config.lanes)
        self.readout = Readout(pooled, width, config.trust)
        self.stalls = nn.Linear(width, NUM_STALLS) if config.stalls else None

    def fit_normaliser(self, unit: Tensor, flow: Tensor) -> None:
        """Learn means and deviations from the rows of the training netlists."""
        self.unit_normaliser.fit(unit)
        self.flow_normaliser.fit(flow)

    def known(self, unit: Tensor, flow: Tensor) -> tuple[Tensor, Tensor]:
        """Return rows of units and flows as the network sees them; columns left out are 0."""
        unit, flow = self.unit_normaliser(unit), self.flow_normaliser(flow)
        if self.config.annotations:
            return unit, flow
        of_unit = self.features.is_fact(self.features.unit_columns)
        of_flow = self.features.is_fact(self.features.flow_columns)
        return unit * unit.new_tensor(of_unit), flow * flow.new_tensor(of_flow)

    def forward(self, batch: Batch) -> Output:
        edges = relations_of(batch)
        hops = self._hops(batch)
        unit, flow, lane = self._begin(batch, edges, hops)
        for exchange in self.rounds:
            unit, flow, lane = exchange(unit, flow, lane, hops, batch, edges)
        nodes = [(batch.num_units, unit), (batch.num_flows, flow)]
        if lane is not None:
            nodes.append((batch.num_lanes, lane))
        log_throughput, log_sigma, trust = self.readout(self._pool(nodes))
        if self.config.rules:
            log_throughput = log_throughput + trust * batch.log_rules
        stalls = None if self.stalls is None else self.stalls(unit)
        return Output(log_throughput, log_sigma, stalls)

    @property
    def reads_hardware(self) -> bool:
        """Tell whether constants of the fabric are among what it sees."""
        return bool(self.features.lane_columns) and self.config.annotations

    def hop_columns(self, hops: Tensor, hardware: Tensor) -> Tensor:
        """Return x_e [num_ends, num_hops] of ends `hops` links away, with the hardware of each [num_ends, columns].

        The last column is the logarithm of the cycles of a round trip.
        """
        hops = hops.float()[:, None]
        columns = [hops / 8, torch.log1p(hops), (hops <= 1).float()]
        if self.features.lane_columns:
            trip = torch.log((hardware[:, :1] + hops * hardware[:, 1:2]) / TYPICAL_TRIP)
            columns.append(trip if self.config.annotations else torch.zeros_like(trip))
        result = torch.cat(columns, dim=1)
        return result if self.config.edge_embedding else torch.zeros_like(result)

    def lane_constants(self, hardware: Tensor) -> Tensor:
        """Return the constants of each kind of lane [rows of hardware, lane_kinds, lane_columns]."""
        shape = len(hardware), self.features.lane_kinds, len(self.features.lane_columns)
        constants = hardware[:, 2:].reshape(shape)
        return constants if self.config.annotations else torch.zeros_like(constants)

    def _hops(self, batch: Batch) -> Tensor:
        """Return x_e, how far each end is [num_ends, num_hops]."""
        decision = _decisions_of(batch.num_flows)[batch.end_flow]
        return self.hop_columns(batch.end_hops, batch.hardware[decision])

    def _begin(self, batch: Batch, edges: Relations, hops: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return what each node knows by itself: u^0, f^0, l^0."""
        config = self.config
        unit_rows, flow_rows = self.known(batch.unit, batch.flow)
        unit = self.unit(unit_rows)
        if config.node_embedding:
            unit = unit + self.op(batch.unit_op) + self.stage(batch.unit_stage)
        flow = self.flow(torch.cat((flow_rows, largest(edges.end_to_flow, hops)), dim=1))
        if not config.lanes:
            return unit, flow, None
        sharing = torch.log(edges.flow_to_lane.in_degrees().float())[:, None]
        kind = nn.functional.one_hot(batch.lane_kind.long(), self.features.lane_kinds).float()
        constants = self.lane_constants(batch.hardware)[_decisions_of(batch.num_lanes), batch.lane_kind.long()]
        columns = torch.cat((kind, sharing, constants), dim=1)
        lane = self.lane(columns if config.edge_embedding else torch.zeros_like(columns))
        return unit, flow, lane

    def _pool(self, nodes: list[tuple[Tensor, Tensor]]) -> Tensor:
        """Return h [num_decisions, columns] from the sizes and rows of each kind of node."""
        wanted = {Pooling.MEAN: (0,), Pooling.MAX: (1,), Pooling.MEAN_MAX: (0, 1)}
        chosen = wanted[self.config.pooling]
        columns = [pool(sizes, rows)[k] for sizes, rows in nodes for k in chosen]
        return torch.cat(columns, dim=1)


def _decisions_of(sizes: Tensor) -> Tensor:
    """Return the number of the decision of each row, from the rows that each has."""
    return torch.repeat_interleave(torch.arange(len(sizes), device=sizes.device), sizes)


def _mlp(num_inputs: int, width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(num_inputs, width), nn.ReLU(), nn.Linear(width, width))
